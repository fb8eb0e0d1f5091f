"""Pseudo-random numbers."""

import ml_dtypes
import numpy as np
import pytest

from nki_lang.execute import Memory
from nki_lang.ir import Engine
from tests.execute.handmade import perform

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) * 4).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_xorwow_is_marsaglias():
    words = np.array([[123456789, 362436069, 521288629, 88675123, 5783321, 6615241]], np.uint32)
    memory = Memory()
    perform("rand_set_state", engine=Engine.gpsimd, memory=memory, src_seeds=words)
    actual = perform("rng", engine=Engine.gpsimd, memory=memory, dst=np.zeros((1, 3), np.uint32))[
        "dst"
    ]
    x, y, z, w, v, d = (int(word) for word in words[0])
    for column in range(3):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4)) ^ (t ^ (t << 1))
        v &= 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        assert actual[0, column] == (d + v) & 0xFFFFFFFF


def test_streams_repeat_from_a_saved_state():
    memory = Memory()
    seed = np.array([[42]], np.uint32)
    perform("set_rng_seed", memory=memory, src_seeds=seed)
    first = perform("rng", engine=Engine.vector, memory=memory, dst=np.zeros((4, 9), np.uint32))[
        "dst"
    ].copy()
    state = perform(
        "rand_get_state", engine=Engine.vector, memory=memory, dst=np.zeros((128, 24), np.uint32)
    )["dst"].copy()
    more = perform("rand2", memory=memory, dst=zeros(4, 9), min=-1.0, max=3.0)["dst"].copy()
    perform("rand_set_state", engine=Engine.vector, memory=memory, src_seeds=state)
    again = perform("rand2", memory=memory, dst=zeros(4, 9), min=-1.0, max=3.0)["dst"]
    np.testing.assert_array_equal(more, again)
    second_memory = Memory()
    perform("set_rng_seed", memory=second_memory, src_seeds=seed)
    np.testing.assert_array_equal(
        perform("rng", engine=Engine.vector, memory=second_memory, dst=np.zeros((4, 9), np.uint32))[
            "dst"
        ],
        first,
    )
    assert len(np.unique(first)) == 36


def test_uniform_numbers():
    low, high = np.full((64, 1), -2, np.float32), np.full((64, 1), 6, np.float32)
    actual = perform("rand2", dst=zeros(64, 500), min=low, max=high)["dst"]
    assert actual.min() >= -2
    assert actual.max() <= 6
    assert actual.mean() == pytest.approx(2, abs=0.1)
    assert actual.std() == pytest.approx(8 / 12**0.5, abs=0.1)


def test_narrow_random_integers_keep_low_bits():
    first_memory, second_memory = Memory(), Memory()
    wide = perform(
        "rng", engine=Engine.vector, memory=first_memory, dst=np.zeros((4, 9), np.uint32)
    )["dst"]
    narrow = perform(
        "rng", engine=Engine.vector, memory=second_memory, dst=np.zeros((4, 9), np.uint8)
    )["dst"]
    np.testing.assert_array_equal(narrow, wide & 0xFF)
