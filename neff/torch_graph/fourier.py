"""Fourier transforms: HLO's ``fft``, one dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.graph import DType, Node
from neff.torch_graph.operator_call import OperatorCall, Row, Shape, axis_of

__all__ = ["FOURIER"]

NO_SCALE, ROOT_SCALE, FULL_SCALE = 0, 1, 2
"""PyTorch's numbers of a normalization: none, by the root of the length, by the length
(aten/src/ATen/native/SpectralOpsUtils.h)."""

_KINDS = {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3}


def _extents(node: Node) -> Shape:
    """The shape of an array."""
    return cast("Shape", node.shape)


def _transformed(node: Node, kind: str, axis: int, length: int) -> Node:
    """One dimension transformed; HLO transforms the last ones."""
    order = [n for n in range(len(_extents(node))) if n != axis] + [axis]
    last = hlo.transpose(node, order)
    extent = length // 2 + 1 if kind == "RFFT" else length
    dtype = np.dtype(np.float32 if kind == "IRFFT" else np.complex64)
    result = node.graph.emit(
        "fft", (*_extents(last)[:-1], extent), dtype, (last,), fft_type=_KINDS[kind],
        fft_length=(length,),
    )  # fmt: skip
    return hlo.transpose(result, [order.index(n) for n in range(len(order))])


def _scaled(
    call: OperatorCall, node: Node, count: int, normalization: int, is_inverse: bool
) -> Node:
    """The scale that PyTorch asks for; HLO's inverse transforms divide by the length."""
    scale = {NO_SCALE: 1.0, ROOT_SCALE: count**-0.5, FULL_SCALE: 1.0 / count}[normalization]
    factor = scale * count if is_inverse else scale
    if count == 1 or normalization == (FULL_SCALE if is_inverse else NO_SCALE):
        return node
    return hlo.elementwise(
        "multiply", node, call.full(factor, _extents(node), cast("DType", node.dtype))
    )


def _axes(call: OperatorCall, x: Node, dims: Sequence[int]) -> list[int]:
    axes = [axis_of(dim, len(_extents(x))) for dim in dims]
    if x.dtype in (np.dtype(np.float64), np.dtype(np.complex128)):
        raise call.refused("for 64-bit components: convert to float32 or complex64 before")
    return axes


def _complex_to_complex(
    call: OperatorCall, x: Node, dim: Sequence[int], normalization: int, forward: bool
) -> Node:
    axes = _axes(call, x, dim)
    if not math.prod(call.shape):
        return call.full(0)
    for axis in axes:
        x = _transformed(x, "FFT" if forward else "IFFT", axis, _extents(x)[axis])
    count = math.prod(_extents(x)[axis] for axis in axes)
    return _scaled(call, x, count, normalization, not forward)


def _real_to_complex(
    call: OperatorCall, x: Node, dim: Sequence[int], normalization: int, onesided: bool
) -> Node:
    """Forward; with ``onesided`` the last dimension has the half that determines the other."""
    if not onesided:
        x = call.node(x, call.dtype)
        return _complex_to_complex(call, x, dim, normalization, True)
    *leading, last = _axes(call, x, dim)
    if not math.prod(call.shape):
        return call.full(0)
    count = math.prod(_extents(x)[axis] for axis in (*leading, last))
    x = _transformed(x, "RFFT", last, _extents(x)[last])
    for axis in leading:
        x = _transformed(x, "FFT", axis, _extents(x)[axis])
    return _scaled(call, x, count, normalization, False)


def _complex_to_real(
    call: OperatorCall, x: Node, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Node:
    """Inverse, of the half of a spectrum whose other half is its conjugate."""
    *leading, last = _axes(call, x, dim)
    if not math.prod(call.shape):
        return call.full(0)
    if _extents(x)[last] != last_dim_size // 2 + 1:
        raise call.refused("for a spectrum of another length than that of its result")
    for axis in leading:
        x = _transformed(x, "IFFT", axis, _extents(x)[axis])
    x = _transformed(x, "IRFFT", last, last_dim_size)
    count = math.prod(_extents(x)[axis] for axis in (*leading, last))
    return _scaled(call, x, count, normalization, True)


def _unscaled(row: Row) -> Row:
    """A transform of prims, which has no normalization."""

    def unscaled(call: OperatorCall, x: Node, dim: Sequence[int], last: int) -> Node:
        node = row(call, x, dim, NO_SCALE, last)
        assert isinstance(node, Node)
        return node

    return unscaled


FOURIER: dict[str, Row] = {
    "aten._fft_c2c.default": _complex_to_complex,
    "aten._fft_c2r.default": _complex_to_real,
    "aten._fft_r2c.default": _real_to_complex,
    "prims.fft_c2c.default": _unscaled(_complex_to_complex),
    "prims.fft_c2r.default": _unscaled(_complex_to_real),
    "prims.fft_r2c.default": _unscaled(_real_to_complex),
}
"""Operator -> its lowering."""
