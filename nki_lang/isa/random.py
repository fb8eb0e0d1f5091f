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
    """32 random bits per element, truncated to the dtype of ``dst``."""
    return issue(TABLE["rng"], (dst,), engine, name)


def dropout(
    dst: NkiTensor, data: NkiTensor, prob: float | NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Replace elements by zero with probability ``prob``."""
    return issue(TABLE["dropout"], (dst, data, prob), Engine.unknown, name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the generator of the vector engine."""
    return issue(TABLE["set_rng_seed"], (src_seeds,), Engine.unknown, name)


def rand_set_state(
    src_seeds: NkiTensor, engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Set the generator state of each lane (trn2)."""
    return issue(TABLE["rand_set_state"], (src_seeds,), engine, name)


def rand_get_state(
    dst: NkiTensor, engine: Engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Store the generator state of each lane (trn2)."""
    return issue(TABLE["rand_get_state"], (dst,), engine, name)


def rand2(
    dst: NkiTensor, min: float | NkiTensor, max: float | NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Uniform random numbers between ``min`` and ``max`` (trn3)."""
    return issue(TABLE["rand2"], (dst, min, max), Engine.unknown, name)
