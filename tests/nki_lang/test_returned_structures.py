"""The structures that kernels may return, and their form for callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang import klir
from nki_lang.base.errors import NkiValidationError
from nki_lang.kernel import deliver, jit, simulate, trace

A = np.arange(8, dtype=np.float32).reshape(2, 4)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Box:
    content: Any


def returning(shape):
    """A kernel that returns a, a + 1 and a + 2 as ``shape`` puts them together."""

    @jit
    def kernel(a):
        results = []
        for number in range(3):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a)
            nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=float(number))
            nisa.dma_copy(dst=out, src=x)
            results.append(out)
        return shape(*results)

    return kernel


def numbers(value):
    """The first element of each array, nested as they are."""
    if isinstance(value, tuple):
        return tuple(numbers(piece) for piece in value)
    return None if value is None else float(value[0, 0])


SHAPES = [
    (lambda a, b, c: (a, (b, c)), (0, (1, 2))),
    (lambda a, b, c: [a, [b], c], (0, (1,), 2)),
    (lambda a, b, c: ((a, b, c),), ((0, 1, 2),)),
    (lambda a, b, c: (a, None, (b, None), c), (0, None, (1, None), 2)),
    (lambda a, b, c: Pair(a, (b, c)), (0, (1, 2))),
    (lambda a, b, c: (a, b, c), (0, 1, 2)),
]


@pytest.mark.parametrize(("shape", "expected"), SHAPES)
def test_nested_results(shape, expected):
    kernel = returning(shape)
    assert numbers(simulate(kernel)(A)) == expected
    assert numbers(kernel(A)) == expected
    traced = trace(kernel, (A,))
    assert len(traced.outputs) == 3 and traced.returns_tuple
    again = klir.loads(*klir.dumps(traced))
    assert numbers(deliver(again, [A], [A, A + 1, A + 2])) == expected


@pytest.mark.parametrize(
    "shape",
    [lambda a, b, c: {"a": a, "b": b, "c": c}, lambda a, b, c: (a, Box(b)), lambda a, b, c: (a, 3)],
)
def test_other_structures_are_refused(shape):
    with pytest.raises(NkiValidationError, match="no dict, no object") as caught:
        trace(returning(shape), (A,))
    assert caught.value.code == "NKI-RETURN"
    with pytest.raises(NkiValidationError, match="no dict, no object"):
        simulate(returning(shape))(A)


def test_a_kernel_that_returns_none():
    @jit
    def kernel(a):
        nisa.dma_copy(dst=a[0], src=a[1])

    changed = A.copy()
    assert simulate(kernel)(changed) is None
    np.testing.assert_array_equal(changed[0], A[1])
