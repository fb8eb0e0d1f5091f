"""Protocols of Python and C on traced arrays: they work, or are refused at the user's line."""

from __future__ import annotations

import array
import copy
import ctypes
import functools
import hashlib
import heapq
import io
import math
import operator
import pickle
import random
import struct
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hlo_tools.trace import TraceError, trace
from tests.trace.running import same_memory

F32 = np.float32


def rng() -> Any:
    return np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(4,), (3, 2), (2, 2, 2)])
@pytest.mark.parametrize(
    "shuffle",
    [
        lambda a: rng().shuffle(a), lambda a: np.random.shuffle(a), lambda a: random.shuffle(a),
        lambda a: rng().permutation(a), lambda a: rng().permuted(a), lambda a: rng().choice(a),
        lambda a: rng().permuted(np.ones(a.shape), out=a), lambda a: rng().random(out=a),
        lambda a: random.Random(1).shuffle(a[::1]), lambda a: np.random.permutation(a),
        lambda a: list(map(a.__setitem__, [0, 1], map(a.__getitem__, [1, 0]))),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_shuffles_are_refused(shuffle: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    refused(shuffle, np.ones(shape, F32))


@functools.lru_cache
def cached(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    "function",
    [
        lambda a: bool(a[0]), lambda a: int(a[0]), lambda a: float(a[0]), lambda a: complex(a[0]),
        lambda a: operator.index(a[0]), lambda a: range(a[0]), lambda a: math.sqrt(a[0]),
        lambda a: 1 in a, lambda a: max(a), lambda a: sorted(a), lambda a: a.tolist(),
        lambda a: a[0].item(), lambda a: f"{a[0]:.2f}", lambda a: format(a[0], "f"),
        lambda a: hash(a), lambda a: {a[0]: 1}, lambda a: {a[0]}, lambda a: cached(a[0]),
        lambda a: pickle.dumps(a), lambda a: pickle.dumps(a[0]), lambda a: pickle.dumps([a], 2),
        lambda a: memoryview(a), lambda a: bytes(a), lambda a: bytearray(a), lambda a: a.tobytes(),
        lambda a: np.frombuffer(a, F32), lambda a: a.__array_interface__, lambda a: a.data,
        lambda a: a.__array_struct__, lambda a: a.ctypes, lambda a: a.tofile("x"),
        lambda a: (ctypes.c_float * 3).from_buffer(a), lambda a: struct.pack("f", a[0]),
        lambda a: array.array("f", a), lambda a: hashlib.sha256(a), lambda a: io.BytesIO().write(a),
        lambda a: np.save(io.BytesIO(), a), lambda a: np.asarray(a), lambda a: np.array([a[0]]),
        lambda a: a.base, lambda a: a.setflags(write=False), lambda a: a.resize(3), lambda a: a.dump("x"),
        lambda a: a.byteswap(), lambda a: a[0].is_integer(), lambda a: np.nditer(a),
        lambda a: heapq.nsmallest(1, a), lambda a: np.fromiter(a, F32),
    ],
)  # fmt: skip
def test_values_and_memory_are_refused(function: Callable[[Any], Any]) -> None:
    refused(function, np.ones(3, F32))


def refused(function: Callable[[Any], Any], *arrays: Any) -> None:
    with pytest.raises(TraceError) as caught:
        trace(function, *arrays)
    assert caught.value.code.startswith("HLO-TRACE-") and caught.value.remedy
    assert "test_protocols.py:" in caught.value.place


def test_a_foreign_byte_order_is_refused() -> None:
    foreign = np.ones(2, np.dtype(F32).newbyteorder())
    with pytest.raises(TraceError) as caught:
        trace(lambda a: a, foreign)
    assert caught.value.code == "HLO-TRACE-DTYPE" and "newbyteorder" in caught.value.remedy
    for function in (
        lambda a: a + foreign, lambda a: a.view(foreign.dtype), lambda a: a.astype(foreign.dtype),
        lambda a: np.zeros_like(a, foreign.dtype), lambda a: np.concatenate([a, foreign]),
    ):  # fmt: skip
        refused(function, np.ones(2, F32))


def test_protocols_that_work() -> None:
    def function(a: Any) -> Any:
        first, second, third = a
        operator.setitem(a, 0, second)
        operator.iadd(a, 1)
        a.__setitem__(1, a.__getitem__(2))
        listed = [*reversed(a)]
        return (
            first,
            third * 1,
            len(a),
            copy.copy(a),
            copy.deepcopy([a])[0],
            sum(a),
            *listed,
            *a.flat,
        )

    same_memory(lambda a: function(a)[3:], np.arange(6, dtype=F32).reshape(3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(lambda a: f"{a} {a!r}" and a * a.ndim, np.ones(3, F32))
