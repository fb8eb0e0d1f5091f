"""``tensor_scalar`` and ``tensor_tensor_scan`` against one Python number after the other."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.execute.handmade import perform

F = np.float32
OPS = {
    "add": lambda a, b: F(a + b),
    "subtract": lambda a, b: F(a - b),
    "multiply": lambda a, b: F(a * b),
    "maximum": max,
    "minimum": min,
    "less": lambda a, b: F(a < b),
    "not_equal": lambda a, b: F(a != b),
    "logical_xor": lambda a, b: F(bool(a) != bool(b)),
    "abs_max": lambda a, b: a if abs(a) > abs(b) else b,
}
DTYPES = [np.dtype(kind) for kind in (F, ml_dtypes.bfloat16, "f2", "i4", "u1", "i2")]
SHAPES = [(3, 5), (1, 7), (7, 3, 2), (5, 1)]
PAIRS = list(enumerate(itertools.product(OPS, OPS)))


def stored(value, dtype):
    """One float32 as the engines write it: nearest even, saturated in integers."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(round(float(value)), limits.min), limits.max)
    return F(value).astype(dtype)


def applied(op, left, right, reverse):
    return OPS[op](right, left) if reverse else OPS[op](left, right)


@pytest.mark.parametrize(("number", "ops"), PAIRS)
def test_two_operators(number, ops):
    rng = np.random.default_rng(number)
    source, target = DTYPES[number % 6], DTYPES[(number // 6) % 6]
    shape, reverse = SHAPES[number % 4], (bool(number & 1), bool(number & 2))
    data = np.abs(rng.standard_normal(shape) * 8).astype(source)
    vector, scalar = rng.standard_normal((shape[0], 1)).astype(F), F(rng.standard_normal())
    actual = perform(
        "tensor_scalar", dst=np.zeros(shape, target), data=data,
        op0=ops[0], operand0=vector, reverse0=reverse[0],
        op1=ops[1], operand1=float(scalar), reverse1=reverse[1],
    )["dst"]  # fmt: skip
    for location in np.ndindex(shape):
        first = applied(ops[0], F(data[location]), vector[location[0], 0], reverse[0])
        assert actual[location] == stored(applied(ops[1], first, scalar, reverse[1]), target)


@pytest.mark.parametrize(("number", "ops"), PAIRS)
def test_scan(number, ops):
    rng = np.random.default_rng(number)
    shape, reverse = SHAPES[number % 4], (bool(number & 1), bool(number & 2))
    data0 = np.abs(rng.standard_normal(shape) * 2).astype(DTYPES[number % 6])
    data1 = rng.standard_normal(shape).astype(F)
    initial = rng.standard_normal((shape[0], 1)).astype(F)
    actual = perform(
        "tensor_tensor_scan", dst=np.zeros(shape, F), data0=data0, data1=data1, initial=initial,
        op0=ops[0], reverse0=reverse[0], op1=ops[1], reverse1=reverse[1],
    )["dst"]  # fmt: skip
    for lane in range(shape[0]):
        state = initial[lane, 0]
        for location in np.ndindex(shape[1:]):
            first = applied(ops[0], F(data0[lane][location]), state, reverse[0])
            state = applied(ops[1], first, data1[lane][location], reverse[1])
            assert actual[lane][location] == state
