"""Random bits as XLA makes them: Threefry-2x32 and Philox-4x32 (Salmon et al., SC 2011).

How a state becomes counters, and words an array, is XLA's (``hlo/builder/lib/prng.cc``); the bits
are equal to those of its CPU backend, for which the default algorithm is Philox.
"""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value
from hlo_tools.types.element_types import BY_NUMBER

__all__ = ["halved", "philox", "threefry"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF

_THREEFRY = 1


@operation("rng-bit-generator")
def _bits(call: Call) -> Value:
    state = call.operands[0]
    shape = call.row.shape.tuple_shapes[1]
    element = BY_NUMBER[shape.element_type]
    is_threefry = call.row.rng_algorithm == _THREEFRY
    sizes = (2,) if is_threefry else (2, 3)
    dtype = element.dtype
    if (
        state.dtype != np.uint64
        or state.size not in sizes
        or dtype is None
        or not 8 <= element.bits <= 64
    ):
        raise call.fail("has a state or a result that XLA does not define", "HLO-RANDOM")
    extents = tuple(shape.dimensions)
    wide = element.bits == 64
    with np.errstate(over="ignore"):
        after, values = (_threefry_bits if is_threefry else _philox_bits)(state, extents, wide)
    return after, values.astype(f"u{dtype.itemsize}").view(dtype)


def _words(value: Array | int) -> tuple[Array, Array]:
    """Low and high word of 64-bit numbers."""
    number = np.asarray(value, np.uint64)
    low, high = number & np.uint64(_WORD), number >> np.uint64(32)
    return low.astype(np.uint32), high.astype(np.uint32)


def _joined(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


# -- Threefry -------------------------------------------------------------------------------------


def _threefry_bits(state: Array, extents: tuple[int, ...], wide: bool) -> tuple[Array, Array]:
    """The next state, and an array of 64-bit or 32-bit words."""
    split, shape = (0, extents) if wide else halved(extents)
    counters = state[1] + _numbers(shape)
    key0, key1 = (int(word) for word in _words(state[0]))
    first, second = threefry(key0, key1, *_words(counters))
    after = np.array([state[0], state[1] + np.uint64(counters.size)], np.uint64)
    if wide:
        return after, _joined(first, second)
    if not extents:
        return after, first.reshape(())
    paired = np.stack([first, second], split + 1)
    paired = paired.reshape((*shape[:split], 2 * shape[split], *shape[split + 1 :]))
    return after, np.take(paired, np.arange(extents[split]), split)


def halved(extents: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return the dimension to halve (the first even one, or the largest), and half the shape."""
    if not extents:
        return 0, (1,)
    even = [axis for axis, extent in enumerate(extents) if extent % 2 == 0]
    split = even[0] if even else extents.index(max(extents))
    return split, (*extents[:split], -(-extents[split] // 2), *extents[split + 1 :])


def _numbers(shape: tuple[int, ...]) -> Array:
    """0, 1, 2, ... in row-major order."""
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64).reshape(shape)


def threefry(key0: int, key1: int, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds, on arrays of counters."""
    keys = [np.uint32(key0), np.uint32(key1), np.uint32(key0 ^ key1 ^ _PARITY)]
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for four in range(5):
            for rotation in _ROTATIONS[four % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
                x1 = x1 ^ x0
            x0 = x0 + keys[(four + 1) % 3]
            x1 = x1 + keys[(four + 2) % 3] + np.uint32(four + 1)
    return x0, x1


# -- Philox ---------------------------------------------------------------------------------------


def _philox_bits(state: Array, extents: tuple[int, ...], wide: bool) -> tuple[Array, Array]:
    """The next state, and an array of 64-bit or 32-bit words."""
    count = int(np.prod(extents, dtype=np.int64))
    blocks = -(-count * (2 if wide else 1) // 4)
    low = (state[1] + np.arange(blocks + 1, dtype=np.uint64)).astype(np.uint64)
    top = state[2] if state.size == 3 else state[0]
    high = (top + (low < state[1]).astype(np.uint64)).astype(np.uint64)
    counters = [*_words(low[:-1]), *_words(high[:-1])]
    key0, key1 = (int(word) for word in _words(state[0]))
    random_words = np.stack(philox(key0, key1, counters), -1).reshape(-1)
    after = np.array([state[0], low[-1], high[-1]][: state.size], np.uint64)
    if wide:
        random_words = _joined(random_words[0::2], random_words[1::2])
    return after, random_words[:count].reshape(extents)


def philox(key0: int, key1: int, counters: list[Array]) -> list[Array]:
    """Philox-4x32 with 10 rounds, on arrays of counters (four words, the lowest first)."""
    x0, x1, x2, x3 = counters
    for _ in range(10):
        low0, high0 = _words(x0.astype(np.uint64) * np.uint64(_MULTIPLIERS[0]))
        low1, high1 = _words(x2.astype(np.uint64) * np.uint64(_MULTIPLIERS[1]))
        x0, x1, x2, x3 = high1 ^ x1 ^ np.uint32(key0), low1, high0 ^ x3 ^ np.uint32(key1), low0
        key0, key1 = (key0 + _STEPS[0]) & _WORD, (key1 + _STEPS[1]) & _WORD
    return [x0, x1, x2, x3]
