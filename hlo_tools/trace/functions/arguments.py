"""Arguments that functions share: axes, dtypes, ``out=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, TracedScalar, as_node, graph_of, kind_of, operand
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Node, Operand
from hlo_tools.trace.narrowing import tell_of_promotion
from hlo_tools.trace.promotion import promoted

__all__ = [
    "NO_VALUE",
    "arrays_of",
    "axes_of",
    "deliver",
    "nodes_of",
    "one_axis",
    "real_only",
    "traced",
    "unsupported",
    "write_out",
    "xp",
]


NO_VALUE: Any = getattr(np, "_NoValue")  # noqa: B009 - what NumPy itself hands on
"""An argument that was not given."""

xp: Any = np
"""NumPy for calls with traced arrays, of which NumPy's own type stubs know nothing."""


def traced(value: Operand, like: Operand = None) -> TracedArray:
    """``value`` as a traced array; a NumPy value becomes a constant of the graph of ``like``."""
    if isinstance(value, TracedArray):
        return value
    return TracedArray(as_node(value, graph_of((value, like))))


def one_axis(axis: Any, rank: int) -> int:
    """A dimension counted from the front.

    Raises:
        numpy.exceptions.AxisError: there is none.
    """
    return normalize_axis_index(int(axis), rank)


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front; all of them for None."""
    return tuple(range(rank)) if axis is None else normalize_axis_tuple(axis, rank)


def arrays_of(values: Sequence[Any]) -> list[Any]:
    """Operands as arrays: a Python number is one of 64 bits, as in NumPy."""
    return [value if isinstance(value, TracedArray) else np.asarray(value) for value in values]


def nodes_of(values: Sequence[Any], dtype: Any = None) -> list[Node]:
    """Operands, as :func:`arrays_of`, as nodes of one dtype, NumPy's promotion of theirs when none is
    given."""
    graph = graph_of(values)
    values = arrays_of(values)
    if dtype is None:
        kinds = tuple(kind_of(v) for v in values)
        dtype = promoted(kinds)
        tell_of_promotion(graph, kinds)
    wide = np.dtype(dtype)
    return [operand(value, graph, wide) for value in values]


def deliver(
    array: TracedArray, out: Any, casting: Any = "same_kind", *, broadcast: bool = False
) -> TracedArray:
    """The result, written into ``out`` when one is given (by itself or in a tuple).

    Raises:
        TypeError, ValueError: as NumPy, when it has another shape or a dtype that does not fit.
    """
    out = output_of(out)
    if out is None or out is Ellipsis:
        return array
    fits = np.broadcast_shapes(out.shape, array.shape) if broadcast else array.shape
    if out.shape != fits:
        raise ValueError(f"output array has shape {out.shape}, the result {array.shape}")
    write_out(out, array.node, casting)
    return out


def output_of(out: Operand) -> Operand:
    """Return ``out``, which NumPy also passes to ufuncs in a tuple."""
    return cast("tuple[Operand]", out)[0] if isinstance(out, tuple) else out


def write_out(out: Any, node: Node, casting: Any = "same_kind", what: str = "array data") -> None:
    """Write a result into an array that the caller gave."""
    if isinstance(out, TracedScalar) or not isinstance(out, (TracedArray, np.ndarray)):
        raise TypeError("return arrays must be of ArrayType")
    if not isinstance(out, TracedArray):
        raise refuse(
            "a traced value cannot be written into a NumPy array",
            code="HLO-TRACE-VALUE",
            remedy="create the output inside the function, or pass it as an argument",
        )
    if not np.can_cast(node.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast {what} from {node.dtype!r} to {out.dtype!r} with casting rule {casting!r}"
        )
    out.write(hlo.broadcast(hlo.convert(node, out.dtype), out.shape))


def unsupported(what: str, remedy: str) -> Exception:
    """The error for an argument that is not supported while tracing."""
    return refuse(what, code="HLO-TRACE-ARGUMENT", remedy=remedy)


def real_only(array: TracedArray, name: str) -> TracedArray:
    """The array, unless it is complex: HLO has no order of complex numbers."""
    if array.dtype.kind == "c":
        raise unsupported(f"{name} of complex numbers", "order by numpy.real or numpy.abs")
    return array
