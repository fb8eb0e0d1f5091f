"""``nisa.iota`` and ``nisa.affine_select``: index expressions as patterns."""

from __future__ import annotations

import libcst as cst

from hlo_tools.migrate.calls import Call, Destination, copy_in_sbuf, issue, operand_text
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.extents import axis_texts, difference
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.masks import difference_steps
from hlo_tools.migrate.source import text_of

__all__ = ["affine_select", "iota", "iota_shape"]

_OPERATORS: dict[type[cst.BaseCompOp], str] = {
    cst.LessThan: "less", cst.LessThanEqual: "less_equal", cst.GreaterThan: "greater",
    cst.GreaterThanEqual: "greater_equal", cst.Equal: "equal", cst.NotEqual: "not_equal",
}  # fmt: skip


def _refuse_mask(call: Call) -> None:
    if call.narrowing:
        raise Unmigrated("NKI-M004", text_of(call.node), f"{call.function} has a mask",
                         "shorten the slices of its destination")  # fmt: skip


def iota_shape(call: Call, context: Context) -> str:
    """Return the code of the shape of a tile of index values."""
    return f"({', '.join(_extents(call, context))})"


def _extents(call: Call, context: Context) -> list[str]:
    """Return the extents of an index expression."""
    node = call.arguments["expr"]
    fact = context.index(node)
    if fact is None:
        raise Unmigrated(
            "NKI-M003", text_of(node), "it is no index expression", "write the pattern"
        )
    texts = axis_texts(node, context.scope, context.source)
    texts = [None] * (len(fact.shape) - len(texts)) + texts
    return [
        text if text is not None else context.constant({extent}, call.node, text_of(node))
        for text, extent in zip(texts, fact.shape, strict=True)
    ]


def iota(call: Call, dst: Destination, context: Context) -> None:
    """Fill a tile with the values of an index expression."""
    _refuse_mask(call)
    node = call.arguments["expr"]
    fact = context.index(node)
    extents = _extents(call, context)
    assert fact is not None
    pattern = ", ".join(
        f"[{step}, {extent}]" for step, extent in zip(fact.steps[1:], extents[1:], strict=True)
    )
    issue(f"{context.nisa}.iota(dst={dst.text}, pattern=[{pattern}], offset={context.text(node)},"
          f" channel_multiplier={fact.steps[0]})", context)  # fmt: skip


def affine_select(call: Call, dst: Destination, context: Context) -> None:
    """Select where a comparison of index expressions holds."""
    _refuse_mask(call)
    predicate = call.arguments["pred"]
    if isinstance(predicate, cst.Name):
        predicate = context.scope.value_of(predicate.value) or predicate
    if not isinstance(predicate, cst.Comparison) or len(predicate.comparisons) != 1:
        raise Unmigrated("NKI-M004", text_of(predicate), "it joins several comparisons",
                         "select once for each of them")  # fmt: skip
    left, right = predicate.left, predicate.comparisons[0].comparator
    operator = _OPERATORS.get(type(predicate.comparisons[0].operator))
    shape = call.result.shape
    steps = difference_steps(left, right, context)
    if operator is None or any(-axis > len(shape) for axis in steps):
        raise Unmigrated(
            "NKI-M004", text_of(predicate), "it is no comparison", "compare index expressions"
        )
    along = [steps.get(axis, 0) for axis in range(-len(shape), 0)]
    tile = call.arguments["on_true_tile"]
    data = operand_text(call, "on_true_tile", context)
    fact = context.tile(tile)
    if fact is not None and fact.buffer == "psum":
        data = copy_in_sbuf(data, context)
    pattern = ", ".join(
        f"[{step}, {dst.text}.shape[{axis}]]" for axis, step in enumerate(along) if axis
    )
    offset = difference(context.text(left), context.text(right))
    issue(f"{context.nisa}.affine_select(dst={dst.text}, pattern=[{pattern}], channel_multiplier={along[0]},"
          f" on_true_tile={data}, on_false_value={context.text(call.arguments['on_false_value'])},"
          f" cmp_op={context.nl}.{operator}, offset={offset})", context)  # fmt: skip
