"""Copies and fills on chip.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.older import takes_dtype
from nki_lang.isa.table import TABLE

__all__ = ["memset", "nc_stream_shuffle", "tensor_copy", "tensor_copy_predicated"]


@takes_dtype
def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: Engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Copy a tile; bit exact on Vector and GpSimd when the dtypes agree, else through float32.

    Args:
        dst: tile written, in SBUF or PSUM.
        src: tile read, in SBUF or PSUM.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE, NKI-ENGINE.

    Rules:
        dst, src have the same partitions and the same elements per partition (NKI-SHAPE).
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).
        use nisa.activation(op=nl.copy) on trn1 (NKI-ENGINE).

    Engines: GpSimd or Scalar or Vector on trn1, trn2, trn3.
    Source: nisa.tensor_copy (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.tensor_copy(dst=out, src=a)
    """
    return issue(TABLE["tensor_copy"], (dst, src), engine, name)


def memset(
    dst: NkiTensor, value: float, engine: Engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Fill ``dst`` with a constant.

    Args:
        dst: tile written, in SBUF or PSUM.
        value: the number.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-VALUE, NKI-MEMSET.

    Rules:
        value is a number (NKI-VALUE).
        packed x4 tiles can only be set to 0 (NKI-MEMSET).
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).

    Engines: GpSimd or Vector on trn1, trn2, trn3.
    Source: nisa.memset (nki/api/nki/isa, NKI 0.6.0).

    Example, given out a (128, 512) float32 tile::

        nisa.memset(dst=out, value=0.0)
    """
    return issue(TABLE["memset"], (dst, value), engine, name)


def tensor_copy_predicated(
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` to ``dst`` where ``predicate`` is not zero, and leave the rest of ``dst``.

    Args:
        dst: tile read and written, in SBUF or PSUM.
        src: a number, or a tile read, in SBUF or PSUM.
        predicate: tile read, in SBUF or PSUM, of uint16, uint32, uint8.
        reverse_pred: select where the predicate is zero.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE, NKI-BOTH-PSUM.

    Rules:
        dst, src, predicate have the same partitions and the same elements per partition
            (NKI-SHAPE).
        dst, src have the same dtype (NKI-DTYPE).
        copy one of them to SBUF first (NKI-BOTH-PSUM).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.tensor_copy_predicated (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        mask = nl.ndarray(a.shape, nl.uint8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mask, data=a, op0=nl.greater, operand0=0.0)
        nisa.tensor_copy_predicated(dst=out, src=a, predicate=mask)
    """
    return issue(
        TABLE["tensor_copy_predicated"], (dst, src, predicate, reverse_pred), Engine.unknown, name
    )


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None = None
) -> NkiInstruction:
    """Move data between the partitions of each quadrant of 32 by ``shuffle_mask``.

    ``dst`` partition ``i`` takes ``src`` partition ``shuffle_mask[i]``; 255 leaves it as it is.

    Args:
        dst: tile read and written, in SBUF or PSUM.
        src: tile read, in SBUF or PSUM.
        shuffle_mask: 32 partitions to take from, each 0 to 31, or 255 to leave the partition as
            it is.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-SHUFFLE.

    Rules:
        dst, src have the same dtype (NKI-DTYPE).
        shuffle_mask has 32 integers, each 0 to 31 or 255 (NKI-SHUFFLE).
        src and dst have the same elements per partition; with up to 32 partitions they start at
            a multiple of 32, with up to 64 at 0 or 64, with more at 0 (NKI-SHUFFLE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.nc_stream_shuffle (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.nc_stream_shuffle(dst=out[0:32, :], src=a[0:32, :], shuffle_mask=[31 - i for i in range(32)])
    """
    return issue(TABLE["nc_stream_shuffle"], (dst, src, shuffle_mask), Engine.unknown, name)
