"""Transfers by the DMA engines.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from nki_lang.frontend.operators import Operator
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
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` to ``dst`` between HBM and SBUF, casting through float32 when the dtypes differ.

    ``src`` or ``dst`` may carry a scalar or vector offset (gather, scatter); ``oob_mode`` selects what
    an index outside the tensor does. Both hold the same number of elements.

    Args:
        dst: tensor written, in SBUF or HBM.
        src: tensor read, in SBUF or HBM.
        priority: 0 to 3, on trn3 and later; None for the default.
        oob_mode: what an index outside its tensor does: error, or skip the row.
        dge_mode: who makes the DMA descriptors: unknown lets the compiler choose.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-SHAPE, NKI-DGE, NKI-PRIORITY.

    Rules:
        dst and src have the same number of elements (NKI-SHAPE).
        hwdge exists on trn2 and later (NKI-DGE).
        engine is sync or scalar and needs dge_mode=nisa.dge_mode.hwdge (NKI-DGE).
        a vector_offset needs dge_mode unknown or swdge (NKI-DGE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA or Scalar or Sync on trn1, trn2, trn3.
    Source: nisa.dma_copy (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; out a (128, 512) float32 tile::

        nisa.dma_copy(dst=out, src=x)
        nisa.dma_copy(dst=out[0:64, :], src=x[64:128, :])
    """
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
    axes: tuple[int, ...] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Transpose ``src`` into ``dst``: axes (1, 0), (2, 1, 0) or (3, 1, 2, 0) by rank.

    With a vector offset on ``src`` the rows are gathered first.

    Args:
        dst: tensor written, in SBUF or HBM.
        src: tensor read, in SBUF or HBM.
        axes: the new order of the dimensions: (1, 0), (2, 1, 0) or (3, 1, 2, 0) by rank; None
            for that.
        priority: 0 to 3, on trn3 and later; None for the default.
        dge_mode: who makes the DMA descriptors: unknown lets the compiler choose.
        oob_mode: what an index outside its tensor does: error, or skip the row.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-TRANSPOSE, NKI-DGE, NKI-OOB-MODE, NKI-PRIORITY.

    Rules:
        dst, src have the same dtype (NKI-DTYPE).
        axes are (1, 0), (2, 1, 0) or (3, 1, 2, 0) by the rank of src (NKI-TRANSPOSE).
        an indirect transpose reads 2-byte rows of at most 128 elements from HBM, a multiple of
            16 rows, by uint32 indices of 16 to 128 partitions, on trn2 and later
            (NKI-TRANSPOSE).
        hwdge exists on trn2 and later (NKI-DGE).
        a vector_offset needs dge_mode unknown or swdge (NKI-DGE).
        hwdge transposes 2-byte elements with src.shape[-1] <= 128; 2-D src has 16 rows, others
            1, 2, 4, 8 or 16 with src.shape[0] * src.shape[-2] a multiple of 16; swdge is for
            indirect transposes; dst is in SBUF (NKI-TRANSPOSE).
        oob_mode.skip is for operands with a runtime index (NKI-OOB-MODE).
        priority is 0 to 3, on trn3 and later (NKI-PRIORITY).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.dma_transpose (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        half = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
        turned = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=half, src=a[:, 0:128])
        nisa.dma_transpose(dst=turned, src=half)
    """
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
    reduce_op: Operator,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = sum(srcs)`` in the DMA engines, in float32; also read-modify-write by index.

    Args:
        dst: tensor written, in SBUF or HBM.
        srcs: tensors read, in SBUF or HBM.
        reduce_op: an operator of nki.language, such as nl.add.
        scales: one factor for each source; only 1.0 is supported.
        unique_indices: no row is addressed twice; True.
        oob_mode: what an index outside its tensor does: error, or skip the row.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-DMA-COMPUTE, NKI-OOB-MODE.

    Rules:
        reduce_op is nl.add, scales are 1.0, at most 16 sources of the size of dst, unique
            indices (NKI-DMA-COMPUTE).
        oob_mode.skip is for operands with a runtime index (NKI-OOB-MODE).

    Engines: DMA on trn1, trn2, trn3.
    Source: nisa.dma_compute (nki/api/nki/isa, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM; a and b (128, 512) float32 tiles in SBUF::

        total = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nisa.dma_compute(dst=total, srcs=[x, a], reduce_op=nl.add)
    """
    return issue(
        TABLE["dma_compute"],
        (dst, srcs, reduce_op, scales, unique_indices, oob_mode),
        Engine.unknown,
        name,
    )
