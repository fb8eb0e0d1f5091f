"""Pseudo-random numbers.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = ["dropout", "rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed"]


def rng(dst: NkiTensor, engine: Engine = engine.vector, name: str | None = None) -> NkiInstruction:
    """32 random bits per element, truncated to the dtype of ``dst``.

    Args:
        dst: tile written, in SBUF or PSUM, of int16, int32, int8, uint16, uint32, uint8.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION.

    Rules:
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).

    Engines: Vector on trn1; GpSimd or Vector on trn2, trn3.
    Source: nisa.rng (nki/api/nki/isa, NKI 0.6.0).

    Example::

        bits = nl.ndarray((128, 512), nl.uint32, buffer=nl.sbuf)
        nisa.rng(dst=bits)
    """
    return issue(TABLE["rng"], (dst,), engine, name)


def dropout(
    dst: NkiTensor, data: NkiTensor, prob: float | NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Replace elements by zero with probability ``prob``.

    Args:
        dst: tile written in SBUF or PSUM.
        data: tile read in SBUF or PSUM.
        prob: the probability of zero, 0 to 1: a number, or a tile read in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-DROPOUT.

    Rules:
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        dst, data have the same dtype (NKI-DTYPE).
        prob is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        prob is 0 to 1; a tile of it is floating point, float32 for integer data (NKI-DROPOUT).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.dropout (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.dropout(dst=out, data=a, prob=0.1)
    """
    return issue(TABLE["dropout"], (dst, data, prob), Engine.unknown, name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the generator of the vector engine.

    Args:
        src_seeds: tile read of one 32-bit value, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        src_seeds is one 32-bit value (NKI-SHAPE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.set_rng_seed (nki/api/nki/isa, NKI 0.6.0).

    Example::

        seed = nl.ndarray((1, 1), nl.uint32, buffer=nl.sbuf)
        nisa.memset(seed, 7)
        nisa.set_rng_seed(src_seeds=seed)
    """
    return issue(TABLE["set_rng_seed"], (src_seeds,), Engine.unknown, name)


def rand_set_state(
    src_seeds: NkiTensor, engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Set the generator state of each lane (trn2).

    Args:
        src_seeds: tile read with 6 elements in a partition for GpSimd, 24 for Vector, in SBUF,
            of uint32.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        the state has 6 elements per partition on GpSimd and 24 on Vector (NKI-SHAPE).

    Engines: GpSimd on trn2; GpSimd or Vector on trn3.
    Source: nisa.rand_set_state (nki/api/nki/isa, NKI 0.6.0).

    Example::

        state = nl.ndarray((128, 6), nl.uint32, buffer=nl.sbuf)
        nisa.memset(state, 7)
        nisa.rand_set_state(src_seeds=state)
    """
    return issue(TABLE["rand_set_state"], (src_seeds,), engine, name)


def rand_get_state(
    dst: NkiTensor, engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Store the generator state of each lane (trn2).

    Args:
        dst: tile written with 6 elements in a partition for GpSimd, 24 for Vector, in SBUF or
            PSUM, of uint32.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        the state has 6 elements per partition on GpSimd and 24 on Vector (NKI-SHAPE).
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).

    Engines: GpSimd on trn2; GpSimd or Vector on trn3.
    Source: nisa.rand_get_state (nki/api/nki/isa, NKI 0.6.0).

    Example::

        state = nl.ndarray((128, 6), nl.uint32, buffer=nl.sbuf)
        nisa.rand_get_state(dst=state)
    """
    return issue(TABLE["rand_get_state"], (dst,), engine, name)


def rand2(
    dst: NkiTensor, min: float | NkiTensor, max: float | NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Uniform random numbers between ``min`` and ``max`` (trn3).

    Args:
        dst: tile written, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int32, int8, tfloat32, uint16, uint32, uint8.
        min: a number, or a tile read, in SBUF or PSUM.
        max: a number, or a tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-VALUE,
            NKI-VECTOR-OPERAND.

    Rules:
        min is smaller than max (NKI-VALUE).
        min is a number or a tile of shape (dst.shape[0], 1) (NKI-VECTOR-OPERAND).
        max is a number or a tile of shape (dst.shape[0], 1) (NKI-VECTOR-OPERAND).

    Engines: Vector on trn3.
    Source: nisa.rand2 (nki/api/nki/isa, NKI 0.6.0).

    Example, given out a (128, 512) float32 tile::

        nisa.rand2(dst=out, min=0.0, max=1.0)
    """
    return issue(TABLE["rand2"], (dst, min, max), Engine.unknown, name)
