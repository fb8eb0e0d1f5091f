"""The Tensor Engine: products accumulated in float32 (isa stub, nc_matmul)."""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.table import semantics

__all__ = ["product"]

_F32 = np.dtype(np.float32)
_MAX_CONTIGUOUS_COLUMNS = 4
"""Columns; a vector times a matrix of up to three depends on the gaps between the matrix's rows."""


@semantics(updates=("dst",))
def nc_matmul(
    dst: Array,
    stationary: Array,
    moving: Array,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: object = (),
    tile_size: object = (),
    perf_mode: object = "none",
) -> None:
    """``dst = stationary.T @ moving``, or ``dst += ...`` when ``accumulate``.

    ``accumulate=None`` overwrites here; the caller that has the earlier writes resolves it
    (:mod:`nki_lang.ir.accumulation`).
    """
    if is_transpose and not accumulate:
        # Transpose mode moves bits: NaN and Inf survive (NeuronCore-v3 and later).
        transposed: Array = stationary.reshape(stationary.shape[0], -1).T
        exact = _is_identity(moving)
        store(dst, transposed.reshape(dst.shape) if exact else product(stationary, moving))
        return
    if not accumulate and dst.dtype == _F32 and dst.ndim == 2 and perf_mode == "none":
        left, right = _apart(_flat(stationary), _flat(moving))
        if right.shape[1] == dst.shape[1]:
            np.matmul(left.T, right, out=dst)
            return
    value = product(stationary, moving, double_row=perf_mode == "double_row").reshape(dst.shape)
    if accumulate and dst.dtype == _F32:
        np.add(dst, value, out=dst)
        return
    store(dst, single(dst) + value if accumulate else value)


def _flat(tile: Array) -> Array:
    """In float32 with one free axis; narrow ones in one piece, since BLAS sums them otherwise with gaps."""
    value = single(tile)
    if value.ndim != 2:
        value = value.reshape(value.shape[0], -1)
    return np.ascontiguousarray(value) if value.shape[1] <= _MAX_CONTIGUOUS_COLUMNS else value


def product(stationary: Array, moving: Array, *, double_row: bool = False) -> Array:
    """``stationary.T @ moving`` in float32, free axes flattened.

    With ``double_row`` the first free axis (of extent 2) is part of the contraction.
    """
    if double_row and stationary.ndim >= 3 and stationary.shape[1] == 2:
        rows = stationary.shape[0] * 2
        left, right = (single(operand).reshape(rows, -1) for operand in (stationary, moving))
    else:
        left, right = _flat(stationary), _flat(moving)
    left, right = _apart(left, right)
    return left.T @ right


def _apart(left: Array, right: Array) -> tuple[Array, Array]:
    """The operands in different memory: NumPy multiplies an array by itself transposed in another
    order of sums, and whether two tiles are one memory depends on the way of running."""
    same = left.shape == right.shape and np.may_share_memory(left, right)
    return left, right.copy() if same else right


def _is_identity(moving: Array) -> bool:
    flat = moving.reshape(moving.shape[0], -1)
    return flat.shape[0] == flat.shape[1] and np.array_equal(
        single(flat), np.eye(flat.shape[0], dtype=np.float32)
    )
