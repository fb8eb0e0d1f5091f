"""Calls of functions of beta 1: their arguments as code of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import REDUCED_PARAMETERS, CallFact, PlainFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.masks import Narrowing, narrowing_of
from hlo_tools.migrate.source import dotted_name, text_of
from hlo_tools.migrate.subscripts import appended, narrowed

__all__ = [
    "WITHOUT_EFFECT", "Call", "Destination", "call_of", "column_text", "copy_in_sbuf", "dtype_text", "issue", "like_text",
    "operand_text", "operator_text", "same_call", "tile_operand", "written_text",
]  # fmt: skip

WITHOUT_EFFECT = frozenset({"mask", "dtype", "name", "lazy_initialization"})
"""Parameters that rewrites take care of, or that have no effect."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A tile that a call writes.

    Attributes:
        node: the target of the assignment; None for a new tile.
        text: its code after the rewrite.
        fact: what it is.
        accumulates: the value is added to its content.
    """

    node: cst.BaseExpression | None
    text: str
    fact: TileFact
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of the language.

    Attributes:
        node: its code.
        function: as in a kernel: ``nl.load``.
        arguments: the expression of each parameter that is passed.
        facts: every recorded call.
        narrowing: the ranges that its mask leaves.
        guards: conditions under which it runs.
    """

    node: cst.BaseExpression
    function: str
    arguments: Mapping[str, cst.BaseExpression]
    facts: list[CallFact]
    narrowing: Narrowing
    guards: tuple[str, ...] = ()

    @property
    def is_masked(self) -> bool:
        """Return True if a mask leaves out elements, or the whole call."""
        return bool(self.narrowing or self.guards)

    @property
    def result(self) -> TileFact:
        """Fact of the result, a tile."""
        fact = self.facts[0].result
        if not isinstance(fact, TileFact):
            raise Unmigrated(
                "NKI-M002", text_of(self.node), "its result is no tile", "rewrite it by hand"
            )
        return fact

    def has(self, name: str) -> bool:
        """Return True if the parameter is passed and is not None."""
        node = self.arguments.get(name)
        return node is not None and text_of(node) != "None"


def call_of(node: cst.Call, context: Context) -> Call:
    """Return the call with its arguments by parameter.

    Raises:
        Unmigrated: the recorded calls disagree, or its arguments are not written out.
    """
    facts = sorted(context.calls(node), key=repr)
    functions = {fact.function for fact in facts}
    if len(functions) != 1:
        raise Unmigrated("NKI-M005", text_of(node), "it calls different functions",
                         "write one call for each function")  # fmt: skip
    if any(entry.star for entry in node.args):
        raise Unmigrated("NKI-M008", text_of(node), "its arguments are unpacked",
                         "write the arguments out")  # fmt: skip
    arguments: dict[str, cst.BaseExpression] = {}
    for location, entry in enumerate(node.args):
        name = entry.keyword.value if entry.keyword is not None else facts[0].positional[location]
        arguments[name] = entry.value
    narrowing: Narrowing = {}
    guards: list[str] = []
    if "mask" in arguments:
        if any(fact.is_joint for fact in facts):
            raise Unmigrated("NKI-M004", f"mask={text_of(arguments['mask'])}", "it leaves no single range",
                             "select with nisa.affine_select or nisa.tensor_copy_predicated")  # fmt: skip
        narrowing, guards = narrowing_of(arguments["mask"], context)
        if any(fact.is_empty for fact in facts):
            guards += [f"{entry.count} > 0" for entry in narrowing.values()]
    return Call(node, functions.pop(), arguments, facts, narrowing, tuple(guards))


def dtype_text(name: str, context: Context) -> str:
    """Return the code of a dtype."""
    return f"{context.nl}.{'uint8' if name == 'bool' else name}"


def issue(text: str, context: Context) -> None:
    """Add an instruction before the statement, under the guards of its mask."""
    if context.guards:
        condition = " and ".join(f"({guard})" if " and " in guard or " or " in guard else guard
                                 for guard in dict.fromkeys(context.guards))  # fmt: skip
        text = f"if {condition}:\n    {text}"
    if text.startswith((f"{context.nisa}.", "if ")):
        context.imports.add(f"import nki.isa as {context.nisa}")
    context.before.append(text)


def copy_in_sbuf(text: str, context: Context, dtype: str = "") -> str:
    """Add a copy of a tile in SBUF, in another type if one is given, and return its name."""
    name = context.fresh("moved")
    issue(f"{name} = {context.nl}.ndarray({text}.shape, dtype={dtype or f'{text}.dtype'})", context)
    issue(f"{context.nisa}.tensor_copy(dst={name}, src={text})", context)
    return name


# -- operands -------------------------------------------------------------------------------------


def operand_text(call: Call, name: str, context: Context) -> str:
    """Return the code of an operand, with the ranges that the mask leaves."""
    node = call.arguments[name]
    text = context.text(node)
    if call.narrowing and context.tile(node) is not None:
        return narrowed(node, text, context, call.narrowing)
    return text


def tile_operand(call: Call, name: str, shape: tuple[int, ...], like: str, context: Context) -> str:
    """Return an operand whose free dimensions of extent 1 are repeated to a shape."""
    text = operand_text(call, name, context)
    fact = context.tile(call.arguments[name])
    if fact is None or fact.shape == shape:
        return text
    if len(fact.shape) != len(shape):
        raise Unmigrated("NKI-M008", text_of(call.arguments[name]), f"its shape {fact.shape} is not {shape}",
                         "give it the shape with reshape")  # fmt: skip
    if fact.shape[0] != shape[0]:
        shape_of_both = f"({', '.join(map(str, shape))})"
        context.literals.add(context.source.line(call.node))
        return f"{context.nl}.broadcast_to({text}, {shape_of_both})"
    for axis, (have, expected) in enumerate(zip(fact.shape, shape, strict=True)):
        if have != expected:
            extent = f"{like}.shape[{axis}]" if like else str(expected)
            text = f"{text}.broadcast({axis}, {extent})"
    return text


def operator_text(call: Call, name: str, context: Context) -> str:
    """Return the code of an operator: ``nl.add``, also for ``np.add``.

    Raises:
        Unmigrated: NKI-M008; a variable holds a function of NumPy.
    """
    node = call.arguments[name]
    facts = {
        fact for fact in context.all_facts(node)
        if isinstance(fact, PlainFact) and fact.kind.endswith("operator")
    }  # fmt: skip
    if len(facts) == 1 and "." in dotted_name(node):
        return f"{context.nl}.{facts.pop().name}"
    if any(fact.kind == "numpy_operator" for fact in facts):
        raise Unmigrated("NKI-M008", f"{name}={text_of(node)}", "the variable holds a function of NumPy",
                         "pass a function of nl, such as nl.add")  # fmt: skip
    return context.text(node)


def column_text(call: Call, name: str, bitwise: bool, context: Context) -> str:
    """Return a per-partition operand: two dimensions, float32 for arithmetic."""
    fact = context.tile(call.arguments[name])
    text = operand_text(call, name, context)
    if fact is None:
        return text
    if len(fact.shape) > 2:
        text = f"{text}.reshape(({fact.shape[0]}, 1))"
    if fact.dtype != "float32" and not bitwise:
        text = copy_in_sbuf(text, context, f"{context.nl}.float32")
    return text


def like_text(call: Call, name: str, context: Context) -> str:
    node = call.arguments.get(name)
    return context.text(node) if isinstance(node, cst.Name) else ""


def written_text(dst: Destination, call: Call, context: Context) -> str:
    """Return the code of the elements of the destination that the mask leaves."""
    narrowing = call.narrowing
    if not narrowing:
        return dst.text
    reduced = REDUCED_PARAMETERS.get(call.function, "")
    if reduced:
        fact = context.tile(call.arguments[reduced])
        if fact is None or (len(fact.shape), len(dst.fact.shape)) != (2, 2):
            raise Unmigrated("NKI-M004", text_of(call.node), "a masked reduction of more than two dimensions",
                             "shorten the slices of the operand")  # fmt: skip
        narrowing = {
            axis: entry for axis, entry in narrowing.items() if axis == -2
        }  # the partitions
    if dst.node is None:
        return appended(dst.text, dst.fact, narrowing, call.node)
    return narrowed(dst.node, dst.text, context, narrowing)


# -- functions that keep their name ---------------------------------------------------------------


def same_call(call: Call, dtype: str, context: Context) -> str:
    """Return the code of a call of the function of the same name."""
    short = call.function.partition(".")[2]
    parts: list[str] = []
    for name in call.arguments:
        if name in WITHOUT_EFFECT or not call.has(name):
            continue
        parts.append(f"{name}={operand_text(call, name, context)}")
    if dtype and short not in ("matmul",):
        parts.append(f"dtype={dtype}")
    if short in REDUCTIONS:
        parts = _trailing(call, parts, context)
    for location, name in enumerate(("x", "y")):
        if location < len(parts):
            parts[location] = parts[location].removeprefix(f"{name}=").removeprefix("src=")
    return f"{context.nl}.{short}({', '.join(parts)})"


REDUCTIONS = frozenset({"sum", "max", "min", "prod", "mean", "all"})
"""Functions that reduce the last axes only; beta 1 reduced any."""


def _trailing(call: Call, parts: list[str], context: Context) -> list[str]:
    """Return the arguments of a reduction with the reduced axes moved to the end."""
    tile = context.tile(call.arguments["x"])
    axes = _axes_of(call.arguments["axis"], 0 if tile is None else len(tile.shape))
    if tile is None or axes is None:
        return parts
    rank = len(tile.shape)
    kept_axes = [axis for axis in range(rank) if axis not in axes]
    if kept_axes + axes == list(range(rank)):
        return parts
    if call.has("keepdims"):
        raise Unmigrated("NKI-M008", text_of(call.node), "keepdims with axes that are not the last",
                         "permute the tile, reduce, and reshape the result")  # fmt: skip
    order = ", ".join(map(str, kept_axes + axes))
    last = ", ".join(str(axis) for axis in range(len(kept_axes), rank))
    changed = {"x": f"x={operand_text(call, 'x', context)}.permute(({order}))",
               "axis": f"axis=({last}{',' if len(axes) == 1 else ''})"}  # fmt: skip
    return [changed.get(argument.partition("=")[0], argument) for argument in parts]


def _axes_of(node: cst.BaseExpression, rank: int) -> list[int] | None:
    """Return the axes that are written out, sorted, None for an expression."""
    entries = (
        [element.value for element in node.elements]
        if isinstance(node, (cst.List, cst.Tuple))
        else [node]
    )
    axes: list[int] = []
    for entry in entries:
        text = text_of(entry).replace(" ", "")
        if not text.lstrip("-").isdigit():
            return None
        axes.append(int(text) % max(rank, 1))
    return sorted(axes)
