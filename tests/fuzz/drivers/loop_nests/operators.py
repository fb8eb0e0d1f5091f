"""The operators of ``Compute``: JAX text beside a NumPy meaning.

The meaning computes floats in float64, so that it is exact whatever the order of a sum. ``total``
bounds every partial sum of an operator that sums: while it stays below the integers that a dtype
holds, any order of the sum gives the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.drivers.loop_nests.nodes import Variable

__all__ = ["EXACT_INTEGERS", "KERNELS", "OPERATORS", "Operator"]

Array = np.ndarray[Any, Any]
Meaning = Callable[[Sequence[Any], Sequence[int], Variable], Any]

EXACT_INTEGERS = {"float32": 2**24, "bfloat16": 2**8}
"""The largest integer below which a float dtype holds every integer."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A row of the table.

    Attributes:
        text: JAX, with ``{0}`` for an operand, ``{p[0]}`` for a parameter, ``{shape}`` and
            ``{dtype}`` of the target.
        meaning: operands, parameters and the target -> the result.
        total: the same -> a bound of the partial sums; None when nothing is summed.
    """

    text: str
    meaning: Meaning
    total: Meaning | None = None


def _simple(text: str, function: Callable[..., Any]) -> Operator:
    return Operator(text, lambda arrays, p, target: function(*arrays))


def _call(name: str) -> Operator:
    count = getattr(np, name).nin
    text = f"jnp.{name}({', '.join(f'{{{number}}}' for number in range(count))})"
    return _simple(text, getattr(np, name))


def _wrapped(index: Any, extent: int) -> int:
    """A position with negative ones from the end."""
    return int(index) + extent if index < 0 else int(index)


def _clamped(index: Any, extent: int, size: int = 1) -> int:
    return min(max(_wrapped(index, extent), 0), extent - size)


def _take(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
    rows = np.clip(arrays[1], 0, arrays[0].shape[0] - 1)
    return arrays[0][rows]


def _updated(combine: Callable[[Any, Any], Any], axis: int) -> Meaning:
    """``x.at[i].set(v)`` and others of a row or a column; a position outside changes nothing."""

    def meaning(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
        result = np.moveaxis(arrays[0].copy(), axis, 0)
        row = _wrapped(arrays[1], result.shape[0])
        if 0 <= row < result.shape[0]:
            result[row] = combine(result[row], arrays[2])
        return np.moveaxis(result, 0, axis)

    return meaning


def _element(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
    result = arrays[0].copy()
    row, column = (_wrapped(arrays[1 + axis], result.shape[axis]) for axis in range(2))
    if 0 <= row < result.shape[0] and 0 <= column < result.shape[1]:
        result[row, column] = arrays[3]
    return result


def _scattered(function: Any, prepare: Callable[[Any], Any] = lambda array: array) -> Meaning:
    def meaning(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
        result = prepare(arrays[0]).copy()
        for position, row in enumerate(arrays[1]):
            row = _wrapped(row, result.shape[0])
            if 0 <= row < result.shape[0]:
                result[row] = function(result[row], prepare(arrays[2][position]))
        return result

    return meaning


def _window(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
    start = _clamped(arrays[1], arrays[0].shape[p[0]], p[1])
    return np.take(arrays[0], np.arange(start, start + p[1]), axis=p[0])


def _window_update(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
    result = np.moveaxis(arrays[0].copy(), p[0], 0)
    values = np.moveaxis(np.asarray(arrays[1]), p[0], 0)
    start = _clamped(arrays[2], result.shape[0], values.shape[0])
    result[start : start + values.shape[0]] = values
    return np.moveaxis(result, 0, p[0])


def _block_update(arrays: Sequence[Any], p: Sequence[int], target: Variable) -> Any:
    result = arrays[0].copy()
    location = tuple(
        slice(start, start + extent)
        for axis, extent in enumerate(arrays[1].shape)
        for start in [_clamped(arrays[2 + axis], result.shape[axis], extent)]
    )
    result[location] = arrays[1]
    return result


def _last(left: Any, right: Any) -> Any:
    return right


ROW_FORMS = {"set": _last, "add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}  # fmt: skip


def _row_updates() -> dict[str, Operator]:
    rows = {}
    for name, combine in ROW_FORMS.items():
        rows[f"row_{name}"] = Operator(f"{{0}}.at[{{1}}].{name}({{2}})", _updated(combine, 0))
        rows[f"column_{name}"] = Operator(f"{{0}}.at[:, {{1}}].{name}({{2}})", _updated(combine, 1))
    return rows


KERNELS = {
    "twice": ("nki_twice({0})", lambda x: x + x),
    "blend": ("nki_blend({0}, {1})", lambda x, y: 2 * x + y),
    "totals": ("nki_totals({0})", lambda x: x + x.sum(1, keepdims=True)),
    "shifted": ("nki_shifted({0})", lambda x: np.concatenate([x[:, -1:], x[:, :-1]], 1)),
}
"""NKI kernels of two-dimensional operands: the call, and its meaning."""


OPERATORS: dict[str, Operator] = {
    **{name: _call(name) for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "negative", "abs", "square",
        "bitwise_and", "bitwise_or", "bitwise_xor", "remainder", "floor_divide",
        "logical_and", "logical_or", "logical_not", "logical_xor", "sign",
    )},
    "less": _simple("({0} < {1})", np.less),
    "less_equal": _simple("({0} <= {1})", np.less_equal),
    "greater": _simple("({0} > {1})", np.greater),
    "equal": _simple("({0} == {1})", np.equal),
    "is_even": _simple("({0} % 2 == 0)", lambda x: x % 2 == 0),
    "where": _simple("jnp.where({0}, {1}, {2})", np.where),
    "cast": _simple("{0}.astype(jnp.{dtype}.dtype)", lambda x: x),
    "full": Operator("jnp.full({shape}, {0}, jnp.{dtype})", lambda a, p, t: np.full(t.shape, a[0])),
    "arange": Operator("jnp.arange({shape}[0], dtype=jnp.{dtype})", lambda a, p, t: np.arange(t.shape[0])),
    "broadcast": Operator("jnp.broadcast_to({0}, {shape})", lambda a, p, t: np.broadcast_to(a[0], t.shape)),
    "column_broadcast": Operator(
        "jnp.broadcast_to({0}[:, None], {shape})", lambda a, p, t: np.broadcast_to(a[0][:, None], t.shape)
    ),
    "sum": Operator("jnp.sum({0}, axis={p[0]})", lambda a, p, t: a[0].sum(p[0]), lambda a, p, t: np.abs(a[0]).sum(p[0])),
    "sum_all": Operator("jnp.sum({0})", lambda a, p, t: a[0].sum(), lambda a, p, t: np.abs(a[0]).sum()),
    "max": Operator("jnp.max({0}, axis={p[0]})", lambda a, p, t: a[0].max(p[0])),
    "max_all": _simple("jnp.max({0})", np.max),
    "min_all": _simple("jnp.min({0})", np.min),
    "any": _simple("jnp.any({0})", np.any),
    "all": _simple("jnp.all({0})", np.all),
    "argmax": _simple("jnp.argmax({0}).astype(jnp.int32)", np.argmax),
    "cumsum": Operator(
        "jnp.cumsum({0}, axis={p[0]})", lambda a, p, t: a[0].cumsum(p[0]),
        lambda a, p, t: np.abs(a[0]).cumsum(p[0]),
    ),
    "dot": Operator(
        "jnp.dot({0}, {1})", lambda a, p, t: a[0] @ a[1], lambda a, p, t: np.abs(a[0]) @ np.abs(a[1])
    ),
    "transpose": _simple("{0}.T", np.transpose),
    "flip": Operator("jnp.flip({0}, {p[0]})", lambda a, p, t: np.flip(a[0], p[0])),
    "roll": Operator("jnp.roll({0}, {p[1]}, {p[0]})", lambda a, p, t: np.roll(a[0], p[1], p[0])),
    "sort": Operator("jnp.sort({0}, axis={p[0]})", lambda a, p, t: np.sort(a[0], p[0])),
    "concatenate": Operator(
        "jnp.concatenate([{0}[{p[0]}:], {1}[:{p[0]}]])", lambda a, p, t: np.concatenate([a[0][p[0] :], a[1][: p[0]]])
    ),
    "index": _simple("{0}[{1}]", lambda x, i: x[_clamped(i, x.shape[0])]),
    "index_column": _simple("{0}[:, {1}]", lambda x, i: x[:, _clamped(i, x.shape[1])]),
    "index_static": Operator("{0}[{p[0]}]", lambda a, p, t: a[0][p[0]]),
    "take": Operator("jnp.take({0}, {1}, axis=0, mode='clip')", _take),
    "window": Operator("lax.dynamic_slice_in_dim({0}, {1}, {p[1]}, {p[0]})", _window),
    "window_update": Operator("lax.dynamic_update_slice_in_dim({0}, {1}, {2}, {p[0]})", _window_update),
    "block_update": Operator("lax.dynamic_update_slice({0}, {1}, ({2}, {3}))", _block_update),
    "element_set": Operator("{0}.at[{1}, {2}].set({3})", _element),
    "scatter_add": Operator("{0}.at[{1}].add({2})", _scattered(np.add), _scattered(np.add, np.abs)),
    "scatter_max": Operator("{0}.at[{1}].max({2})", _scattered(np.maximum)),
    **_row_updates(),
    **{name: _simple(text, meaning) for name, (text, meaning) in KERNELS.items()},
}  # fmt: skip
"""Every operator by name."""
