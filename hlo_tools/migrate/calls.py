"""Calls of value-returning functions as calls of today, with a tile as destination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import libcst as cst

from hlo_tools.migrate.call_tables import (
    BINARY,
    INSTRUCTIONS,
    RENAMED,
    SAME,
    UNARY_ACTIVATIONS,
    UNARY_COMPOSED,
    Instruction,
)
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import CallFact, PlainFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.masks import Narrowing, narrowing_of
from hlo_tools.migrate.source import dotted_name, text_of
from hlo_tools.migrate.subscripts import access_extents, appended, narrowed

__all__ = ["Call", "Destination", "call_of", "dtype_text", "issue", "place_result", "tile_call"]

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
        narrowing: what its mask leaves.
    """

    node: cst.BaseExpression
    function: str
    arguments: Mapping[str, cst.BaseExpression]
    facts: list[CallFact]
    narrowing: Narrowing

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
    for place, entry in enumerate(node.args):
        name = entry.keyword.value if entry.keyword is not None else facts[0].positional[place]
        arguments[name] = entry.value
    narrowing: Narrowing = {}
    if "mask" in arguments:
        if any(fact.is_joint for fact in facts):
            raise Unmigrated("NKI-M004", f"mask={text_of(arguments['mask'])}", "it leaves no single range",
                             "select with nisa.affine_select or nisa.tensor_copy_predicated")  # fmt: skip
        narrowing = narrowing_of(arguments["mask"], context)
        if any(fact.is_empty for fact in facts):
            context.guards.extend(f"{entry.count} > 0" for entry in narrowing.values())
    return Call(node, functions.pop(), arguments, facts, narrowing)


def dtype_text(name: str, context: Context) -> str:
    """Return the code of a dtype."""
    return f"{context.nl}.{'uint8' if name == 'bool' else name}"


def issue(text: str, context: Context) -> None:
    """Add an instruction before the statement, under the guards of its mask."""
    if context.guards:
        condition = " and ".join(f"({guard})" if " and " in guard or " or " in guard else guard
                                 for guard in dict.fromkeys(context.guards))  # fmt: skip
        text = f"if {condition}:\n    {text}"
        context.guards.clear()
    if text.startswith((f"{context.nisa}.", "if ")):
        context.needs_isa = True
    context.before.append(text)


# -- operands -------------------------------------------------------------------------------------


def _operand(call: Call, name: str, context: Context) -> str:
    """Return the code of an operand, with the ranges that the mask leaves."""
    node = call.arguments[name]
    text = context.text(node)
    if call.narrowing and context.tile(node) is not None:
        return narrowed(node, text, context, call.narrowing)
    return text


def _tile_operand(
    call: Call, name: str, shape: tuple[int, ...], like: str, context: Context
) -> str:
    """Return an operand whose free dimensions of extent 1 are repeated to a shape."""
    text = _operand(call, name, context)
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
    for axis, (have, want) in enumerate(zip(fact.shape, shape, strict=True)):
        if have != want:
            extent = f"{like}.shape[{axis}]" if like else str(want)
            text = f"{text}.broadcast({axis}, {extent})"
    return text


def _operator(call: Call, name: str, context: Context) -> str:
    node = call.arguments[name]
    names = {fact.name for fact in context.all_facts(node)
             if isinstance(fact, PlainFact) and fact.kind == "operator"}  # fmt: skip
    if len(names) == 1 and dotted_name(node).count("."):
        return f"{context.nl}.{names.pop()}"
    return context.text(node)


def _column(call: Call, name: str, bitwise: bool, context: Context) -> str:
    """Return a per-partition operand: two dimensions, float32 for arithmetic."""
    fact = context.tile(call.arguments[name])
    text = _operand(call, name, context)
    if fact is None:
        return text
    if len(fact.shape) > 2:
        text = f"{text}.reshape(({fact.shape[0]}, 1))"
    if fact.dtype != "float32" and not bitwise:
        text = f"{context.nl}.copy({text}, dtype={context.nl}.float32)"
    return text


# -- results --------------------------------------------------------------------------------------


def shape_text(call: Call, row: Instruction | None, context: Context) -> str:
    """Return the code of the result's shape."""
    result = call.result
    like = row.shape if row is not None else ""
    for name in (like, *call.arguments):
        node = call.arguments.get(name)
        if node is None:
            continue
        fact = context.tile(node)
        if fact is not None and fact.shape == result.shape and name == like:
            return _shape_of(node, call, context)
    if row is not None and row.function == "nc_matmul":
        return _product_shape(call, context)
    return _literal_shape(call, context)


def _shape_of(node: cst.BaseExpression, call: Call, context: Context) -> str:
    extents = access_extents(node, context)
    if extents is not None:
        return f"({', '.join(extents)})"
    if call.narrowing and isinstance(node, cst.Call):
        return _literal_shape(call, context)
    return f"{context.text(node)}.shape"


def _product_shape(call: Call, context: Context) -> str:
    facts = [context.tile(call.arguments[name]) for name in ("stationary", "moving")]
    if any(fact is None or len(fact.shape) != 2 for fact in facts):
        return _literal_shape(call, context)
    extents: list[str] = []
    for name in ("stationary", "moving"):
        node = call.arguments[name]
        listed = access_extents(node, context)
        extents.append(listed[1] if listed is not None else f"{context.text(node)}.shape[1]")
    return f"({', '.join(extents)})"


def _literal_shape(call: Call, context: Context) -> str:
    shapes = {fact.result.shape for fact in call.facts if isinstance(fact.result, TileFact)}
    if len(shapes) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "its result has several shapes",
                         "allocate the result by hand: nl.ndarray(shape, dtype, buffer=...)")  # fmt: skip
    context.literals.add(context.source.line(call.node))
    return f"({', '.join(map(str, shapes.pop()))})"


def _result_dtype(call: Call, row: Instruction | None, context: Context) -> str:
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    like = call.arguments.get(row.dtype) if row is not None and row.dtype else None
    names = {fact.result.dtype for fact in call.facts if isinstance(fact.result, TileFact)}
    if like is not None and not isinstance(like, cst.Call):
        fact = context.tile(like)
        if fact is not None and {fact.dtype} == names:
            base = like.value if isinstance(like, cst.Subscript) else like
            if not isinstance(base, cst.Call) and context.tile(base) is not None:
                return f"{context.text(base)}.dtype"
    if len(names) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "its result has several types",
                         "write dtype= into the call")  # fmt: skip
    return dtype_text(names.pop(), context)


def _new_tile(call: Call, row: Instruction | None, stem: str, context: Context) -> Destination:
    result = call.result
    name = context.fresh(stem)
    memory = "" if result.buffer == "sbuf" else f", buffer={context.nl}.{result.buffer}"
    shape, dtype = shape_text(call, row, context), _result_dtype(call, row, context)
    context.before.append(f"{name} = {context.nl}.ndarray({shape}, dtype={dtype}{memory})")
    return Destination(None, name, result)


def _written(dst: Destination, call: Call, context: Context) -> str:
    """Return the code of the argument of the destination that the mask leaves."""
    if not call.narrowing:
        return dst.text
    if dst.node is None:
        return appended(dst.text, dst.fact, call.narrowing, call.node)
    return narrowed(dst.node, dst.text, context, call.narrowing)


def place_result(call: Call, stem: str, dst: Destination | None, context: Context) -> str:
    """Issue the call's instructions into the destination, or a new tile; return the tile's code.

    Raises:
        Unmigrated: the function has no counterpart, or its arguments none.
    """
    writer = _writer(call, context)
    if dst is not None and _can_write(call, dst):
        writer(call, dst, context)
        return dst.text
    row = INSTRUCTIONS.get(call.function) or _like_row(call)
    new = _new_tile(call, row, stem, context)
    writer(call, new, context)
    if dst is not None:
        _copy_into(dst, new, context)
    return new.text


def _like_row(call: Call) -> Instruction:
    """Return the row of a function of ``nl`` whose result is like its first tile."""
    short = call.function.partition(".")[2]
    return (
        Instruction(short, "src", "src")
        if "src" in call.arguments
        else Instruction(short, "x", "x")
    )


def _can_write(call: Call, dst: Destination) -> bool:
    """Return True if beta 1 lets the assignment redirect the call's instructions."""
    if dst.fact.shape != call.result.shape:
        return False
    if call.function in ("nl.matmul", "nisa.nc_matmul"):
        return dst.fact.buffer == "psum"
    if call.function in ("nl.load", "nl.load_transpose2d"):
        return dst.fact.buffer == "sbuf"
    return dst.fact.on_chip


def _copy_into(dst: Destination, tile: Destination, context: Context) -> None:
    if dst.accumulates:
        issue(f"{context.nisa}.tensor_tensor(dst={dst.text}, data1={dst.text}, data2={tile.text},"
              f" op={context.nl}.add)", context)  # fmt: skip
    elif dst.fact.on_chip:
        issue(f"{context.nisa}.tensor_copy(dst={dst.text}, src={tile.text})", context)
    else:
        issue(f"{context.nisa}.dma_copy(dst={dst.text}, src={tile.text})", context)


_Writer = Callable[[Call, Destination, Context], None]


def _writer(call: Call, context: Context) -> _Writer:
    short = call.function.partition(".")[2]
    if call.function in WRITERS:
        return WRITERS[call.function]
    if call.function in INSTRUCTIONS:
        return _instruction
    if call.function.startswith("nl.") and short in UNARY_ACTIVATIONS:
        return _activation
    if call.function.startswith("nl.") and short in BINARY:
        return _binary
    if call.function.startswith("nl.") and (short in SAME or short in UNARY_COMPOSED):
        return _copied
    raise Unmigrated("NKI-M002", call.function, "it has no counterpart",
                     "compose it of instructions, nisa.*")  # fmt: skip


def _instruction(call: Call, dst: Destination, context: Context) -> None:
    row = INSTRUCTIONS[call.function]
    bitwise = any(
        isinstance(fact, PlainFact) and fact.name.startswith(("bitwise", "left_", "right_"))
        for name in row.operators if name in call.arguments
        for fact in context.all_facts(call.arguments[name])
    )  # fmt: skip
    result = call.result.shape
    like = row.shape if row.shape in call.arguments else ""
    parts = [f"dst={_written(dst, call, context)}"]
    for name in call.arguments:
        if name in WITHOUT_EFFECT or (not call.has(name) and name != "bias"):
            continue
        if name in row.operators:
            text = _operator(call, name, context)
        elif name in row.columns:
            text = _column(call, name, bitwise, context)
        elif name in row.tiles:
            text = _tile_operand(call, name, result, _like_text(call, like, context), context)
        else:
            text = _operand(call, name, context)
        parts.append(f"{RENAMED.get(name, name)}={_off_psum(call, name, text, context)}")
    if row.function == "nc_matmul":
        fact = dst.fact
        parts.append(f"accumulate={fact.is_filled or None if dst.accumulates else False}")
    issue(f"{context.nisa}.{row.function}({', '.join(parts)})", context)


def _like_text(call: Call, name: str, context: Context) -> str:
    node = call.arguments.get(name)
    return context.text(node) if isinstance(node, cst.Name) else ""


def _off_psum(call: Call, name: str, text: str, context: Context) -> str:
    """Copy an operand out of PSUM where the instruction cannot read it there."""
    row = INSTRUCTIONS[call.function]
    fact = context.tile(call.arguments[name])
    if fact is None or fact.buffer != "psum" or name not in row.not_psum:
        return text
    partner = row.not_psum[name]
    if partner:
        second = context.tile(call.arguments[partner])
        if second is None or second.buffer != "psum":
            return text
    return f"{context.nl}.copy({text})"


def _activation(call: Call, dst: Destination, context: Context) -> None:
    short = call.function.partition(".")[2]
    written = _written(dst, call, context)
    issue(f"{context.nisa}.activation(dst={written}, op={context.nl}.{short},"
          f" data={_operand(call, 'x', context)})", context)  # fmt: skip


def _binary(call: Call, dst: Destination, context: Context) -> None:
    short = call.function.partition(".")[2]
    operator = f"{context.nl}.{short}"
    written = _written(dst, call, context)
    shape = call.result.shape
    facts = {name: context.tile(call.arguments[name]) for name in ("x", "y")}
    for name, partner in (("y", "x"), ("x", "y")):
        fact, data = facts[name], facts[partner]
        is_column = (
            fact is not None and fact.dtype == "float32" and data is not None and data.shape == shape
            and fact.shape == (shape[0], *(1,) * (len(shape) - 1)) and data.shape != fact.shape
        )  # fmt: skip
        if data is not None and (fact is None or is_column):
            reverse = ", reverse0=True" if name == "x" else ""
            operand = _operand(call, name, context)
            if fact is not None and len(fact.shape) > 2:
                operand = f"{operand}.reshape(({fact.shape[0]}, 1))"
            issue(f"{context.nisa}.tensor_scalar(dst={written}, data={_operand(call, partner, context)},"
                  f" op0={operator}, operand0={operand}{reverse})", context)  # fmt: skip
            return
    like = next((_like_text(call, name, context) for name in ("x", "y")
                 if (fact := facts[name]) is not None and fact.shape == shape), "")  # fmt: skip
    left, right = (_tile_operand(call, name, shape, like, context) for name in ("x", "y"))
    if all(fact is not None and fact.buffer == "psum" for fact in facts.values()):
        left = f"{context.nl}.copy({left})"
    issue(
        f"{context.nisa}.tensor_tensor(dst={written}, data1={left}, data2={right}, op={operator})",
        context,
    )


def _copied(call: Call, dst: Destination, context: Context) -> None:
    """Compute a new tile by the function of the same name, and copy it."""
    dtype = f"{dst.text}.dtype" if dst.text.isidentifier() else dtype_text(dst.fact.dtype, context)
    text = same_call(call, dtype, context)
    issue(f"{context.nisa}.tensor_copy(dst={_written(dst, call, context)}, src={text})", context)


def same_call(call: Call, dtype: str, context: Context) -> str:
    """Return the code of a call of the function of the same name."""
    short = call.function.partition(".")[2]
    parts: list[str] = []
    for name in call.arguments:
        if name in WITHOUT_EFFECT or not call.has(name):
            continue
        parts.append(f"{RENAMED.get(name, name)}={_operand(call, name, context)}")
    if dtype and short not in ("matmul",):
        parts.append(f"dtype={dtype}")
    if short in REDUCTIONS:
        parts = _trailing(call, parts, context)
    for place, name in enumerate(("x", "y")):
        if place < len(parts):
            parts[place] = parts[place].removeprefix(f"{name}=").removeprefix("src=")
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
    changed = {"x": f"x={_operand(call, 'x', context)}.permute(({order}))",
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


def _load(call: Call, dst: Destination, context: Context) -> None:
    mode = f", oob_mode={context.text(call.arguments['mode'])}" if call.has("mode") else ""
    issue(f"{context.nisa}.dma_copy(dst={_written(dst, call, context)},"
          f" src={_operand(call, 'src', context)}{mode})", context)  # fmt: skip


def _load_transposed(call: Call, dst: Destination, context: Context) -> None:
    if call.narrowing:
        raise Unmigrated("NKI-M004", text_of(call.node), "the mask counts the axes of the transpose",
                         "shorten the slices of the source")  # fmt: skip
    issue(
        f"{context.nisa}.dma_transpose(dst={dst.text}, src={_operand(call, 'src', context)})",
        context,
    )


def _tensor_copy(call: Call, dst: Destination, context: Context) -> None:
    engine = f", engine={context.text(call.arguments['engine'])}" if call.has("engine") else ""
    name = "src" if "src" in call.arguments else "x"
    issue(f"{context.nisa}.tensor_copy(dst={_written(dst, call, context)},"
          f" src={_operand(call, name, context)}{engine})", context)  # fmt: skip


def _reciprocal(call: Call, dst: Destination, context: Context) -> None:
    issue(f"{context.nisa}.reciprocal(dst={_written(dst, call, context)},"
          f" data={_operand(call, 'x', context)})", context)  # fmt: skip


def _negative(call: Call, dst: Destination, context: Context) -> None:
    issue(f"{context.nisa}.tensor_scalar(dst={_written(dst, call, context)},"
          f" data={_operand(call, 'x', context)}, op0={context.nl}.multiply, operand0=-1.0)", context)  # fmt: skip


def _matmul(call: Call, dst: Destination, context: Context) -> None:
    transposed = call.arguments.get("transpose_x")
    x = _operand(call, "x", context)
    y = _operand(call, "y", context)
    for name, text in (("x", x), ("y", y)):
        fact = context.tile(call.arguments[name])
        if fact is not None and fact.buffer == "psum":
            x, y = (
                (f"{context.nl}.copy({text})", y)
                if name == "x"
                else (x, f"{context.nl}.copy({text})")
            )
    kinds = [
        fact.dtype
        for name in ("x", "y")
        if (fact := context.tile(call.arguments[name])) is not None
    ]
    if transposed is None or text_of(transposed) == "False":
        x = f"{context.nl}.copy({context.nl}.transpose({x}))"
    elif text_of(transposed) != "True":
        raise Unmigrated(
            "NKI-M008", text_of(call.node), "transpose_x is no literal", "write nisa.nc_matmul"
        )
    if kinds[0] != kinds[1] and "float32" in kinds:
        wide = f"dtype={context.nl}.float32"
        x, y = (
            (x, f"{context.nl}.copy({y}, {wide})")
            if kinds[0] == "float32"
            else (f"{context.nl}.copy({x}, {wide})", y)
        )
    accumulate = dst.fact.is_filled or None if dst.accumulates else False
    issue(f"{context.nisa}.nc_matmul(dst={_written(dst, call, context)}, stationary={x},"
          f" moving={y}, accumulate={accumulate})", context)  # fmt: skip


def _memset(call: Call, dst: Destination, context: Context) -> None:
    issue(
        f"{context.nisa}.memset(dst={dst.text}, value={context.text(call.arguments['value'])})",
        context,
    )


def _transposed(call: Call, dst: Destination, context: Context) -> None:
    if call.narrowing:
        raise Unmigrated("NKI-M004", text_of(call.node), "the mask counts the axes of the transpose",
                         "shorten the slices of the source")  # fmt: skip
    x = _operand(call, "x", context)
    issue(f"{context.nisa}.tensor_copy(dst={dst.text}, src={context.nl}.transpose({x}))", context)


WRITERS: dict[str, _Writer] = {
    "nl.load": _load,
    "nl.load_transpose2d": _load_transposed,
    "nl.copy": _tensor_copy,
    "nl.reciprocal": _reciprocal,
    "nl.negative": _negative,
    "nl.matmul": _matmul,
    "nl.transpose": _transposed,
    "nisa.memset": _memset,
}


def tile_call(call: Call, stem: str, context: Context) -> str:
    """Return the code of a call whose value is used: of today's function of the same name, or the
    name of a new tile that instructions before the statement fill."""  # fmt: skip
    short = call.function.partition(".")[2]
    if (
        call.function in ("nl.load", "nl.load_transpose2d")
        and not call.narrowing
        and not call.has("mode")
    ):
        dtype = context.text(call.arguments["dtype"]) if call.has("dtype") else ""
        fact = context.tile(call.arguments["src"])
        if fact is not None and len(fact.shape) > 1:
            return same_call(call, dtype, context)
    is_language = call.function.startswith("nl.") and not call.narrowing
    if is_language and short in BINARY and _is_plain_binary(call, context):
        return same_call(call, _written_dtype(call, context), context)
    if is_language and (short in UNARY_ACTIVATIONS or short in UNARY_COMPOSED or short in SAME):
        return same_call(call, _same_dtype(call, context), context)
    return place_result(call, stem, None, context)


def _is_plain_binary(call: Call, context: Context) -> bool:
    """Return True if today's function takes the operands as they are."""
    facts = [context.tile(call.arguments[name]) for name in ("x", "y")]
    shape = call.result.shape
    column = (shape[0], *(1,) * (len(shape) - 1))
    return all(fact is None or fact.shape in (shape, column) for fact in facts) and any(
        fact is not None and fact.shape == shape for fact in facts
    )


def _written_dtype(call: Call, context: Context) -> str:
    """Return dtype= where the promoted type is not that of the tile which today's function takes."""
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    shape = call.result.shape
    for name in ("x", "y"):
        fact = context.tile(call.arguments[name])
        if fact is not None and fact.shape == shape:
            names = {
                entry.result.dtype for entry in call.facts if isinstance(entry.result, TileFact)
            }
            same = {fact.dtype} == names
            return "" if same else _result_dtype(call, None, context)
    return _result_dtype(call, None, context)


def _same_dtype(call: Call, context: Context) -> str:
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    name = next(iter(call.arguments))
    fact = context.tile(call.arguments[name])
    return (
        ""
        if fact is not None and fact.dtype == call.result.dtype
        else _result_dtype(call, None, context)
    )
