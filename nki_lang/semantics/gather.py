"""Gathers within the on-chip memory, and arithmetic in the DMA engines."""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.table import semantics

__all__: list[str] = []


_GROUP_PARTITIONS = 16
"""Partitions that one core of the GpSimd Engine is connected to (isa stub, local_gather)."""


@semantics(updates=("dst",))
def local_gather(
    dst: Array,
    src_buffer: Array,
    index: Array,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
) -> None:
    """Each group of 16 partitions gathers by the indices that lie in those partitions.

    The indices of a group are read along the partitions first; each is the first of
    ``num_elem_per_idx`` elements along the flattened free axes.
    """
    source = src_buffer.reshape(src_buffer.shape[0], -1)
    _require_inside(np.array([num_elem_per_idx - 1]), source.shape[1], "src_buffer")
    lists = index.reshape(index.shape[0], -1)
    target = dst.reshape(dst.shape[0], -1)
    for start in range(0, len(source), _GROUP_PARTITIONS):
        lanes = slice(start, start + _GROUP_PARTITIONS)
        indices = lists[lanes].T.reshape(-1)[:num_valid_indices].astype(np.int64)
        columns = (indices[:, None] + np.arange(num_elem_per_idx)).reshape(-1)
        _require_inside(columns, source.shape[1], "src_buffer")
        target[lanes, : len(columns)] = source[lanes][:, columns]
    dst[...] = target.reshape(dst.shape)


@semantics(parallel=True)
def nc_n_gather(dst: Array, data: Array, indices: Array) -> None:
    """Each partition gathers from its own flattened free axes."""
    source = data.reshape(data.shape[0], -1)
    columns = indices.reshape(indices.shape[0], -1).astype(np.int64)
    _require_inside(columns, source.shape[1], "data")
    store(dst, np.take_along_axis(source, columns, axis=1))


def _require_inside(indices: Array, extent: int, operand: str) -> None:
    outside = (indices < 0) | (indices >= extent)
    if outside.any():
        worst = int(indices[outside].reshape(-1)[0])
        raise NkiExecutionError(
            f"index {worst} is outside of {operand}, which has {extent} elements",
            code="NKI-OUT-OF-BOUNDS",
            remedy="keep the indices within the elements of a partition",
        )


@semantics()
def dma_compute(
    dst: Array,
    srcs: tuple[Array, ...],
    reduce_op: str,
    scales: tuple[float, ...] | None = None,
    unique_indices: bool = True,
    oob_mode: str = "error",
) -> None:
    """``dst = srcs[0] * scales[0] <op> srcs[1] * scales[1] ...`` in float32."""
    operator = operator_of(reduce_op)
    factors = scales or (1.0,) * len(srcs)
    total: Array | None = None
    for source, factor in zip(srcs, factors, strict=True):
        value = single(source).reshape(dst.shape) * np.float32(factor)
        total = value if total is None else operator.function(total, value)
    assert total is not None
    store(dst, total)
