"""Pseudo-random numbers: XORWOW, one generator (or four) for each lane.

The stubs name XORWOW for ``rand2`` and ``rand_set_state`` (6 words of state a lane on GpSimd, 24
on Vector). How the engine derives the lanes' states from one seed, how the four generators of
a Vector lane alternate, and the algorithm behind ``rng`` on the Vector Engine are not public;
here a seed is spread by a 32-bit mixing function, and the generators alternate element by
element. So streams are reproducible but not those of hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.ir.types import Engine
from nki_lang.semantics.numbers import per_partition, store
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__ = ["xorwow"]


_WEYL_INCREMENT = np.uint32(362437)
_STATE_WORDS = {"gpsimd": 6, "vector": 24}


def xorwow(state: Array, count: int) -> Array:
    """``count`` words of each lane; ``state`` (lanes, 6 * generators) advances in place.

    Marsaglia, "Xorshift RNGs" (2003), section 3.1.
    """
    lanes, words = state.shape
    generators = words // 6
    result = np.empty((count, lanes), np.uint32)
    parts: list[list[Any]] = [
        [state[:, 6 * g + w].copy() for w in range(6)] for g in range(generators)
    ]
    for step in range(count):
        words_of_generator = parts[step % generators]
        mixed = words_of_generator[0] ^ (words_of_generator[0] >> np.uint32(2))
        (
            words_of_generator[0],
            words_of_generator[1],
            words_of_generator[2],
            words_of_generator[3],
        ) = (
            words_of_generator[1],
            words_of_generator[2],
            words_of_generator[3],
            words_of_generator[4],
        )
        last = words_of_generator[3]
        words_of_generator[4] = (last ^ (last << np.uint32(4))) ^ (mixed ^ (mixed << np.uint32(1)))
        words_of_generator[5] = words_of_generator[5] + _WEYL_INCREMENT
        result[step] = words_of_generator[5] + words_of_generator[4]
    for g, words_of_generator in enumerate(parts):
        for w in range(6):
            state[:, 6 * g + w] = words_of_generator[w]
    return result.T


def _seeded(seed: int, lanes: int, words: int) -> Array:
    """States of all lanes from one seed (splitmix over 64 bits, upper half kept)."""
    index = np.arange(lanes * words, dtype=np.uint64) + np.uint64(1)
    z = np.uint64(seed & 0xFFFFFFFF) * np.uint64(0x9E3779B97F4A7C15) + index * np.uint64(
        0xBF58476D1CE4E5B9
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)
    return bits.reshape(lanes, words) | np.uint32(1)


def _generator(state: EngineState, engine: str) -> Array:
    """Return the state of an engine's lanes, seeded with 0 before the first use."""
    lane_states = state.random.get(engine)
    if lane_states is None:
        lane_states = _seeded(0, state.target.partitions, _STATE_WORDS[engine])
        state.random[engine] = lane_states
    return lane_states


def _name(engine: Engine) -> str:
    return "gpsimd" if engine is Engine.gpsimd else "vector"


def _words(state: EngineState, engine: str, shape: tuple[int, ...]) -> Array:
    lanes = shape[0] if shape else 1
    count = int(np.prod(shape[1:], dtype=np.int64))
    return xorwow(_generator(state, engine)[:lanes], count).reshape(shape)


def _unit(bits: Array) -> Array:
    """Uniform float32 in [0, 1): the upper 24 bits."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


@semantics()
def rng(dst: Array, state: EngineState, engine: Engine = Engine.vector) -> None:
    """32 random bits an element; narrow types keep the low ones."""
    bits = _words(state, _name(engine), dst.shape)
    dst[...] = bits.astype(f"u{dst.dtype.itemsize}").view(dst.dtype)


@semantics(parallel=True)
def rand2(dst: Array, min: object, max: object, state: EngineState) -> None:
    """Uniform numbers from ``min`` to ``max``."""
    value = _unit(_words(state, "vector", dst.shape))
    low, high = per_partition(min, value), per_partition(max, value)
    store(dst, low + (high - low) * value)


@semantics(elementwise=True)
def dropout(dst: Array, data: Array, prob: object, state: EngineState) -> None:
    """``data`` with each element replaced by 0 with probability ``prob``; nothing is scaled."""
    value = _unit(_words(state, "vector", data.shape))
    keeps = value >= per_partition(prob, value)
    store(dst, np.where(keeps, data, np.zeros((), data.dtype)))


@semantics("")
def set_rng_seed(src_seeds: Array, state: EngineState) -> None:
    """Seed the Vector Engine's generator with one 32-bit word."""
    seed = int(np.ascontiguousarray(src_seeds).view(np.uint32).reshape(-1)[0])
    state.random["vector"] = _seeded(seed, state.target.partitions, _STATE_WORDS["vector"])


@semantics("")
def rand_set_state(src_seeds: Array, state: EngineState, engine: Engine = Engine.gpsimd) -> None:
    """Set the generator of each lane."""
    name = _name(engine)
    words = _STATE_WORDS[name]
    seeds = src_seeds.reshape(src_seeds.shape[0], -1)
    if seeds.shape[1] != words:
        raise ValueError(f"the generator of {name} has {words} words a lane, not {seeds.shape[1]}")
    current = _generator(state, name)
    current[: len(seeds)] = seeds


@semantics()
def rand_get_state(dst: Array, state: EngineState, engine: Engine = Engine.gpsimd) -> None:
    """Store the generator of each lane."""
    lanes = _generator(state, _name(engine))[: dst.shape[0]]
    dst[...] = lanes.reshape(dst.shape)
