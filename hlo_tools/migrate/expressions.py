"""Expressions of beta 1 kernels: which ones are rewritten, and how."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from hlo_tools.migrate import creation, grids
from hlo_tools.migrate.calls import Call, call_of
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.extents import GRID_AXES, is_stable, start_texts, total
from hlo_tools.migrate.facts import (
    BlocksFact,
    CallFact,
    GridFact,
    IndexFact,
    NumberFact,
    TileFact,
)
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.results import tile_call
from hlo_tools.migrate.source import dotted_name, parenthesized, parse, text_of
from hlo_tools.migrate.subscripts import rewritten_subscript

__all__ = ["applies", "as_call", "expression", "is_inlined", "simplified"]

LANGUAGE = "neuronxcc.nki.language"
MODULES = (f"{LANGUAGE}.", "neuronxcc.nki.isa.", "neuronxcc.nki.compiler.")

HARMLESS = frozenset({"affine_range", "sequential_range", "static_range", "ds", "nc", "spmd_dim"})
"""Functions that need no facts."""

_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "add", cst.Subtract: "subtract", cst.Multiply: "multiply", cst.Divide: "divide",
    cst.Modulo: "mod", cst.Power: "power", cst.BitAnd: "bitwise_and", cst.BitOr: "bitwise_or",
    cst.BitXor: "bitwise_xor", cst.LeftShift: "left_shift", cst.RightShift: "right_shift",
    cst.LessThan: "less", cst.LessThanEqual: "less_equal", cst.GreaterThan: "greater",
    cst.GreaterThanEqual: "greater_equal", cst.Equal: "equal", cst.NotEqual: "not_equal",
    cst.AddAssign: "add", cst.SubtractAssign: "subtract", cst.MultiplyAssign: "multiply",
    cst.DivideAssign: "divide",
}  # fmt: skip
"""Operators of Python on tiles, and the functions that they stand for."""

_UNARY: dict[type[cst.CSTNode], str] = {cst.Minus: "negative", cst.BitInvert: "invert"}

_ATTRIBUTES = {
    f"{LANGUAGE}.hbm": "{nl}.shared_hbm",
    f"{LANGUAGE}.fp32.min": "-3.4028234663852886e38",
    "neuronxcc.nki.isa.fp32.min": "-3.4028234663852886e38",
    f"{LANGUAGE}.bfp16.min": 'float("-inf")',
    **{
        f"neuronxcc.nki.{name}": "{nki}.jit"
        for name in ("trace", "baremetal", "benchmark", "profile")
    },
    "neuronxcc.nki.simulate_kernel": "{nki}.simulate",
}
"""Names that are gone, and what to write."""


def operator_function(operator: cst.CSTNode) -> str:
    """Return the function that an operator on tiles stands for.

    Raises:
        Unmigrated: there is none.
    """
    name = _OPERATORS.get(type(operator)) or _UNARY.get(type(operator))
    if name is None:
        raise Unmigrated("NKI-M002", f"the operator {text_of(operator).strip()}",
                         "tiles have no such operator", "compose it of functions of nl")  # fmt: skip
    return name


def applies(node: cst.BaseExpression, context: Context) -> bool:
    """Return True if an expression has a rewrite of its own."""
    if isinstance(node, cst.Call):
        return is_launch(node, context) or bool(context.calls(node)) or _is_unreached(node, context)
    if isinstance(node, cst.Subscript):
        return _is_special_subscript(node, context)
    if isinstance(node, cst.BinaryOperation):
        return _has_tile(context, node.left, node.right)
    if isinstance(node, cst.UnaryOperation):
        return _has_tile(context, node.expression)
    if isinstance(node, cst.Comparison):
        return len(node.comparisons) == 1 and _has_tile(
            context, node.left, node.comparisons[0].comparator
        )
    if isinstance(node, cst.Attribute):
        if context.source.resolved(node) in _ATTRIBUTES:
            return True
        return any(isinstance(fact, GridFact) for fact in _facts(node.value, context))
    if isinstance(node, cst.Name):
        return is_inlined(node.value, context) and any(
            isinstance(fact, IndexFact) for fact in _facts(node, context)
        )
    return False


def _facts(node: cst.BaseExpression, context: Context) -> set[object]:
    try:
        return set(context.all_facts(node))
    except KeyError:  # a node that a rewrite made
        return set()


def _has_tile(context: Context, *nodes: cst.BaseExpression) -> bool:
    return any(isinstance(fact, TileFact) for node in nodes for fact in _facts(node, context))


def _is_special_subscript(node: cst.Subscript, context: Context) -> bool:
    if context.source.resolved(node.value) == f"{LANGUAGE}.mgrid":
        return True
    return any(
        isinstance(fact, (TileFact, BlocksFact, IndexFact, GridFact))
        for fact in _facts(node.value, context)
    )


def _is_unreached(node: cst.Call, context: Context) -> bool:
    """Return True for a call of the language in a function that the run did not reach."""
    name = context.source.resolved(node.func)
    if name.startswith(MODULES) and name.rpartition(".")[2] in HARMLESS:
        return False
    return context.scope.parent is not None and name.startswith(MODULES)


def expression(node: cst.BaseExpression, context: Context) -> cst.BaseExpression:
    """Return the rewritten expression; instructions that it needs go before the statement."""
    changed = parse(_text(node, context))
    if node.lpar and not changed.lpar:
        return changed.with_changes(lpar=node.lpar, rpar=node.rpar)
    return changed


def _text(node: cst.BaseExpression, context: Context) -> str:
    if isinstance(node, cst.Name):
        return "0"
    if isinstance(node, cst.Attribute):
        template = _ATTRIBUTES.get(context.source.resolved(node))
        if template is not None:
            return template.format(nl=context.nl, nki=context.nki)
        return _grid_start(node, GRID_AXES.find(node.attr.value), context)
    if isinstance(node, cst.Subscript):
        return _subscript(node, context)
    if isinstance(node, cst.Call):
        return launched(node, context) or _call(node, context)
    call = as_call(node, context)
    assert call is not None
    return tile_call(call, "value", context)


def _grid_start(node: cst.BaseExpression, axis: int, context: Context) -> str:
    texts = start_texts(node, context.scope, context.source)
    text = texts[axis] if 0 <= axis < len(texts) else None
    if text is None or not is_stable(text, context.scope):
        raise Unmigrated("NKI-M003", text_of(node), "its range is not written in this function",
                         "write slices")  # fmt: skip
    return text


def _subscript(node: cst.Subscript, context: Context) -> str:
    facts = _facts(node.value, context)
    keys = [element.slice for element in node.slice]
    if context.source.resolved(node.value) == f"{LANGUAGE}.mgrid":
        starts = [
            "0" if key.lower is None else context.text(key.lower)
            for key in keys if isinstance(key, cst.Slice)
        ]  # fmt: skip
        return f"({', '.join(starts)}{',' if len(starts) == 1 else ''})"
    if any(isinstance(fact, GridFact) for fact in facts):
        key = keys[0]
        location = key.value if isinstance(key, cst.Index) else None
        axis = int(location.value) if isinstance(location, cst.Integer) else -1
        return _grid_start(node, axis, context)
    if any(isinstance(fact, IndexFact) for fact in facts):
        return context.text(node.value)
    return rewritten_subscript(node, context)


def as_call(node: cst.BaseExpression, context: Context) -> Call | None:
    """Return an operation on tiles as a call of the function of ``nl`` that it stands for."""
    if isinstance(node, cst.Call):
        return call_of(node, context) if context.calls(node) else None
    if isinstance(node, cst.BinaryOperation) and _has_tile(context, node.left, node.right):
        return _operation(node, operator_function(node.operator), (node.left, node.right), context)
    if isinstance(node, cst.UnaryOperation) and _has_tile(context, node.expression):
        return _operation(node, operator_function(node.operator), (node.expression,), context)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        target = node.comparisons[0]
        if _has_tile(context, node.left, target.comparator):
            return _operation(
                node, operator_function(target.operator), (node.left, target.comparator), context
            )
    return None


def _operation(
    node: cst.BaseExpression, name: str, operands: tuple[cst.BaseExpression, ...], context: Context
) -> Call:
    names: tuple[str, ...] = ("x", "y")
    arguments: dict[str, cst.BaseExpression] = dict(zip(names, operands, strict=False))
    results = sorted(context.tiles(node), key=repr)
    if not results:
        raise unreached(node)
    facts = [CallFact(f"nl.{name}", (), (), result) for result in results]
    return Call(node, f"nl.{name}", arguments, facts, {})


def unreached(node: cst.CSTNode) -> Unmigrated:
    """Return the refusal of code that the recorded run did not reach."""
    return Unmigrated("NKI-M001", text_of(node).strip().partition("\n")[0], "the recorded call did not reach it",
                      "give --arg values that reach it, or rewrite it by hand")  # fmt: skip


# -- launches -------------------------------------------------------------------------------------

_LAUNCHERS = frozenset(
    f"neuronxcc.nki.{name}" for name in ("jit", "trace", "baremetal", "benchmark", "profile")
)
_CORES = {f"{LANGUAGE}.nc", f"{LANGUAGE}.spmd_dim"}


def _function(node: cst.BaseExpression, context: Context) -> str:
    """Return the dotted name of a function, also through a variable of the module."""
    name = context.source.resolved(node)
    if isinstance(node, cst.Name) and name == node.value:
        value = context.scope.value_of(name)
        return "" if value is None else context.source.resolved(value)
    return name


def is_launch(node: cst.Call, context: Context) -> bool:
    """Return True for a call that launches a kernel or decorates one."""
    called = node.func
    if isinstance(called, cst.Subscript) and dotted_name(called.value) in context.grid_kernels:
        return True
    name = _function(called, context)
    return name in _LAUNCHERS or name == "neuronxcc.nki.simulate_kernel" or name in _CORES


def launched(node: cst.Call, context: Context) -> str | None:
    """Return what takes the place of a launch, None for a call that is none."""
    if not is_launch(node, context):
        return None
    on_grid = grids.launched_call(node, context)
    if on_grid is not None:
        return on_grid
    name = _function(node.func, context)
    arguments = [entry.with_changes(comma=cst.MaybeSentinel.DEFAULT) for entry in node.args]
    texts = [
        text_of(entry.with_changes(value=context.rewrite(entry.value))).strip()
        for entry in arguments
    ]
    if name in _CORES:
        return " * ".join(texts)
    if name in _LAUNCHERS:
        return (
            f"{context.nki}.jit({texts[0]})"
            if node.args and node.args[0].keyword is None
            else f"{context.nki}.jit"
        )
    kernel = node.args[0].value
    called = context.text(node.func)
    if isinstance(kernel, cst.Subscript) and dotted_name(kernel.value) in context.grid_kernels:
        texts = [
            dotted_name(kernel.value),
            *texts[1:],
            f"{grids.GRID}={grids.grid_text(kernel, context)}",
        ]
    return f"{called}({texts[0]})({', '.join(texts[1:])})"


# -- calls ----------------------------------------------------------------------------------------


def _call(node: cst.Call, context: Context) -> str:
    if not context.calls(node):
        raise unreached(node)
    call = call_of(node, context)
    special = _SPECIAL.get(call.function)
    if special is not None:
        return special(call, context)
    if isinstance(call.facts[0].result, TileFact):
        return tile_call(call, "tile", context)
    if call.function in (
        "tile.reshape",
        "tile.view",
        "nisa.get_nc_version",
        "nl.ds",
        "nl.device_print",
    ):
        return _as_written(call, context)
    raise Unmigrated("NKI-M002", call.function, "it has no counterpart that returns a value",
                     "rewrite it by hand")  # fmt: skip


def _as_written(call: Call, context: Context) -> str:
    node = call.node
    assert isinstance(node, cst.Call)
    arguments: list[str] = []
    for entry in node.args:
        keyword = f"{entry.keyword.value}=" if entry.keyword is not None else ""
        arguments.append(keyword + context.text(entry.value))
    called = node.func
    if isinstance(called, cst.Attribute) and call.function.startswith("tile."):
        return f"{context.text(called.value)}.{called.attr.value}({', '.join(arguments)})"
    return f"{text_of(called)}({', '.join(arguments)})"


def _receiver(call: Call, context: Context) -> tuple[cst.BaseExpression, str]:
    node = call.node
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return node.func.value, context.text(node.func.value)


def _arange(call: Call, context: Context) -> str:
    node = call.node
    assert isinstance(node, cst.Call)
    return "0" if len(node.args) < 2 else context.text(node.args[0].value)


def _range(call: Call, context: Context) -> str:
    node = call.node
    assert isinstance(node, cst.Call)
    return f"range({', '.join(context.text(entry.value) for entry in node.args)})"


def _extent(call: Call, context: Context) -> str:
    return context.text(call.arguments["extent"])


def _astype(call: Call, context: Context) -> str:
    node, _ = _receiver(call, context)
    return _cast(call, node, context)


def _static_cast(call: Call, context: Context) -> str:
    return _cast(call, call.arguments["input_data"], context)


def _cast(call: Call, node: cst.BaseExpression, context: Context) -> str:
    arguments = {"src": node, "dtype": call.arguments["dtype"]}
    return tile_call(Call(call.node, "nl.copy", arguments, call.facts, {}), "cast", context)


def _broadcast_method(call: Call, context: Context) -> str:
    node, tile = _receiver(call, context)
    return _broadcast(call, node, tile, context)


def _broadcast_function(call: Call, context: Context) -> str:
    node = call.arguments["src"]
    return _broadcast(call, node, context.text(node), context)


def _broadcast(call: Call, node: cst.BaseExpression, tile: str, context: Context) -> str:
    """Repeat free dimensions as a view, and partitions by a transfer, as beta 1 does."""
    fact, result = context.tile(node), call.result
    if fact is None:
        raise unreached(call.node)
    shape = context.text(call.arguments["shape"])
    if fact.shape[0] != result.shape[0] or not fact.on_chip:
        if len(fact.shape) != len(result.shape):
            raise Unmigrated(
                "NKI-M008", text_of(call.node), "the rank changes", "reshape the tile first"
            )
        return f"{context.nl}.broadcast_to({tile}, {shape})"
    if len(fact.shape) != len(result.shape):
        raise Unmigrated(
            "NKI-M008", text_of(call.node), "the rank changes", "reshape the tile first"
        )
    for axis, (have, expected) in enumerate(zip(fact.shape, result.shape, strict=True)):
        if have != expected:
            written = call.arguments["shape"]
            extent = str(expected)
            if isinstance(written, (cst.Tuple, cst.List)):
                extent = context.text(written.elements[axis].value)
            tile = f"{tile}.broadcast({axis}, {extent})"
    return tile


def _expand_method(call: Call, context: Context) -> str:
    _, tile = _receiver(call, context)
    return f"{tile}.expand_dim({context.text(call.arguments['axis'])})"


def _assert_shape(call: Call, context: Context) -> str:
    return _receiver(call, context)[1]


def _constant(call: Call, context: Context) -> str:
    value = parenthesized(context.text(call.arguments["constant"]))
    if call.has("dtype"):
        value = f"{value}.astype({_numpy_dtype(call, context)})"
    return f"{context.nl}.shared_constant({value})"


def _identity(call: Call, context: Context) -> str:
    return f"{context.nl}.shared_constant(np.eye({context.text(call.arguments['n'])}, dtype={_numpy_dtype(call, context)}))"


_MODULES_OF_DTYPES: dict[str, str] = dict.fromkeys(
    ("bfloat16", "float8_e4m3", "float8_e5m2"), "ml_dtypes"
)
"""Modules with the dtypes that NumPy lacks."""


def _numpy_dtype(call: Call, context: Context) -> str:
    name = call.result.dtype
    module = _MODULES_OF_DTYPES.get(name, "np")
    if name == "tfloat32":
        raise Unmigrated(
            "NKI-M002", text_of(call.node), f"NumPy has no {name}", "load float32 instead"
        )
    context.imports.add("import numpy as np" if module == "np" else "import ml_dtypes")
    return f"{module}.{name}"


def _program(call: Call, context: Context) -> str:
    assert isinstance(call.node, cst.Call)
    if call.function == "nl.num_programs" and not call.node.args:
        context.imports.add("import numpy as np")
    return grids.program_text(call.function, call.node.args, context)


_SPECIAL: dict[str, Callable[[Call, Context], str]] = {
    **dict.fromkeys(("nl.program_id", "nl.num_programs", "nl.program_ndim"), _program),
    "nl.arange": _arange,
    "nl.affine_range": _range,
    "nl.sequential_range": _range,
    "nl.static_range": _range,
    "nl.par_dim": _extent,
    "nl.shared_constant": _constant,
    "nl.shared_identity_matrix": _identity,
    "nl.static_cast": _static_cast,
    "nl.broadcast_to": _broadcast_function,
    "tile.astype": _astype,
    "tile.broadcast_to": _broadcast_method,
    "tile.expand_dims": _expand_method,
    "tile.assert_shape": _assert_shape,
    "tile.reshape": _as_written,
    "tile.view": _as_written,
    "nl.expand_dims": _as_written,
    **dict.fromkeys(
        ("nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.zeros_like", "nl.empty_like"),
        creation.created,
    ),
}
"""Calls with a rewrite of their own."""


# -- index expressions ----------------------------------------------------------------------------


def is_inlined(name: str, context: Context) -> bool:
    """Return True for a variable that holds an index expression which starts at 0.

    The variable goes away: ``i_p = nl.arange(128)[:, None]`` is ``0`` wherever it is used.
    """
    value = context.scope.value_of(name)
    if value is None or not context.scope.is_constant(name):
        return False
    texts = start_texts(value, context.scope, context.source)
    if not texts:
        return False
    if (
        isinstance(value, cst.Subscript)
        and dotted_name(value.value) == ""
        and _is_grid_element(value)
    ):
        return all(text == "0" for text in texts)
    try:
        facts = context.all_facts(value)
    except KeyError:
        return all(text == "0" for text in texts)
    return (
        bool(facts)
        and all(isinstance(fact, IndexFact) for fact in facts)
        and _starts_at_zero(value)
    )


def _is_grid_element(node: cst.Subscript) -> bool:
    return isinstance(node.value, cst.Subscript)


def _starts_at_zero(node: cst.BaseExpression) -> bool:
    """Return True for ``nl.arange(n)``, with or without axes added."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return isinstance(node, cst.Call) and len(node.args) == 1


def simplified(original: cst.BaseExpression, updated: cst.CSTNode, context: Context) -> cst.CSTNode:
    """Return an index expression without terms that are 0."""
    if not isinstance(updated, cst.BinaryOperation) or not isinstance(
        original, cst.BinaryOperation
    ):
        return updated
    if not any(isinstance(fact, (IndexFact,)) for fact in _facts(original, context)):
        return updated
    left, right = updated.left, updated.right
    if isinstance(updated.operator, cst.Add):
        term = right if _is_zero(left) else left if _is_zero(right) else None
    elif isinstance(updated.operator, cst.Subtract):
        term = left if _is_zero(right) else None
    elif isinstance(updated.operator, cst.Multiply):
        term = left if _is_zero(left) else right if _is_zero(right) else None
    else:
        term = None
    if term is None:
        numbers = [text_of(side) for side in (left, right)]
        if isinstance(updated.operator, cst.Add) and all(text.isdigit() for text in numbers):
            return cst.Integer(total(*numbers))
        return updated
    if isinstance(term, cst.BinaryOperation) and not term.lpar:
        return term.with_changes(lpar=updated.lpar, rpar=updated.rpar)
    return term


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "0"


def is_tile_value(node: cst.BaseExpression, context: Context) -> bool:
    """Return True if an expression is a tile."""
    return _has_tile(context, node)


def is_number_value(node: cst.BaseExpression, context: Context) -> bool:
    """Return True if an expression is a number in every recorded run."""
    facts = _facts(node, context)
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.UnaryOperation) and isinstance(
        node.expression, (cst.Integer, cst.Float)
    ):
        return True
    return bool(facts) and all(isinstance(fact, (NumberFact,)) for fact in facts)
