"""Transfers by the DMA engines.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import dge_mode, engine, oob_mode
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.older import member, without_priority
from nki_lang.isa.table import TABLE

__all__ = ["dma_compute", "dma_copy", "dma_transpose"]
_DGE, _OOB = dge_mode, oob_mode
_COPY_03 = (oob_mode.error, dge_mode.unknown, engine.unknown, None)
_TRANSPOSE_03 = (dge_mode.unknown, oob_mode.error, None)


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: Any = None,
    oob_mode: Any = oob_mode.error,
    dge_mode: Any = dge_mode.unknown,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` to ``dst`` between HBM and SBUF, casting through float32 when the dtypes differ.

    ``src`` or ``dst`` may carry a scalar or vector offset (gather, scatter); ``oob_mode`` selects what
    an index outside the tensor does. Both hold the same number of elements."""
    if isinstance(priority, Enum):
        oob_mode, dge_mode, engine, name = without_priority(
            "dma_copy", (priority, oob_mode, dge_mode, engine, name), _COPY_03
        )
        priority = None
    if type(dge_mode) is not _DGE or type(oob_mode) is not _OOB:
        dge_mode, oob_mode = member(_DGE, dge_mode), member(_OOB, oob_mode)
    return issue(TABLE["dma_copy"], (dst, src, priority, oob_mode, dge_mode), engine, name)


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = dge_mode.unknown,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Transpose ``src`` into ``dst``: axes (1, 0), (2, 1, 0) or (3, 1, 2, 0) by rank.

    With a vector offset on ``src`` the rows are gathered first."""
    if isinstance(priority, Enum):
        dge_mode, oob_mode, name = without_priority(
            "dma_transpose", (priority, dge_mode, oob_mode, name), _TRANSPOSE_03
        )
        priority = None
    if type(dge_mode) is not _DGE or type(oob_mode) is not _OOB:
        dge_mode, oob_mode = member(_DGE, dge_mode), member(_OOB, oob_mode)
    return issue(
        TABLE["dma_transpose"], (dst, src, axes, priority, dge_mode, oob_mode), Engine.unknown, name
    )


def dma_compute(
    dst: NkiTensor,
    srcs: list[NkiTensor] | tuple[NkiTensor, ...],
    reduce_op: Any,
    scales: Any = None,
    unique_indices: Any = True,
    oob_mode: Any = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = sum(srcs)`` in the DMA engines, in float32; also read-modify-write by index."""
    return issue(
        TABLE["dma_compute"],
        (dst, srcs, reduce_op, scales, unique_indices, oob_mode),
        Engine.unknown,
        name,
    )
