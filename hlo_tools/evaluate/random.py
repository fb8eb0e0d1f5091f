"""Random bits with a defined algorithm: Threefry-2x32 and Philox-4x32 as XLA counts them."""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value

__all__ = ["threefry"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@operation("rng-bit-generator")
def _bits(call: Call) -> Value:
    if call.row.rng_algorithm != 1:
        raise call.fail("uses an algorithm whose bits XLA leaves to the device", "HLO-RANDOM")
    state = call.operands[0]
    shape = call.row.shape.tuple_shapes[1]
    from hlo_tools.types.element_types import BY_NUMBER

    element = BY_NUMBER[shape.element_type]
    count = int(np.prod(list(shape.dimensions), dtype=np.int64))
    if element.bits > 64 or state.dtype != np.uint64 or element.dtype is None:
        raise call.fail("has a state or a result this does not cover", "HLO-RANDOM")
    words = count if element.bits <= 32 else 2 * count
    flat, after = _threefry_words(state, words)
    if element.bits == 64:
        pairs = flat.reshape(-1, 2).astype(np.uint64)
        values = pairs[:, 0] | pairs[:, 1] << np.uint64(32)
    else:
        values = flat[:count]
    return after, values.astype(f"u{element.dtype.itemsize}").view(element.dtype).reshape(
        tuple(shape.dimensions)
    )


def _threefry_words(state: Array, words: int) -> tuple[Array, Array]:
    key, counter = int(state[0]), int(state[1])
    blocks = -(-words // 2)
    numbers = (np.arange(blocks, dtype=np.uint64) + np.uint64(counter)).astype(np.uint64)
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (numbers >> np.uint64(32)).astype(np.uint32)
    first, second = threefry(key & 0xFFFFFFFF, key >> 32, low, high)
    after = np.array([key, (counter + blocks) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    return np.concatenate([first, second])[:words], after


def threefry(key0: int, key1: int, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), on arrays of counters."""
    keys = [np.uint32(key0), np.uint32(key1), np.uint32(key0 ^ key1 ^ 0x1BD11BDA)]
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for turn in range(5):
            for rotation in _ROTATIONS[turn % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
                x1 = x1 ^ x0
            x0 = x0 + keys[(turn + 1) % 3]
            x1 = x1 + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return x0, x1
