"""Gaps of results are reported before the kernel runs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff import runtime
from neff.compiler import compile_kernel
from nki_lang import jit
from nki_lang.analysis.gaps import gaps_of
from tests.compiler.kernels import doubled_by_halves, traced

X = np.ones((128, 64), np.float32)


def left_out(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out[:, 0:48], tile[:, 0:48])
    return out


def stored_whole(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:96, :], src=x[0:96, :])
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=second, src=tile)
    nisa.dma_copy(dst=out, src=second)
    return out


def never(x):
    return nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.shared_hbm)


def patched(x):
    """Stored whole, and what was missing is written afterwards."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:40], src=x[:, 0:40])
    nisa.dma_copy(dst=out, src=tile)
    nisa.dma_copy(dst=out[:, 40:64], src=x[:, 40:64])
    return out


def in_a_loop(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(2):
        tile = nl.load(x[:, nl.ds(i * 32, 32)])
        nisa.dma_copy(dst=out[:, nl.ds(i * 32, 32)], src=tile)
    return out


WRONG = {
    left_out: ("2048 of the 8192", "[0, 48]", np.arange(8192).reshape(128, 64)[:, 48:].ravel()),
    stored_whole: ("2048 of the 8192", "[96, 0]", np.arange(96 * 64, 8192)),
    never: ("8192 of the 8192", "[0, 0]", np.arange(8192)),
}


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_gaps_are_told_once_and_read_as_nan(kernel) -> None:
    count, first, where = WRONG[kernel]
    jitted = jit(kernel)
    with pytest.warns(UserWarning, match=r"\[NKI-UNWRITTEN\]") as caught:
        result = jitted(X)
    assert count in str(caught[0].message) and first in str(caught[0].message)
    if kernel is not never:
        assert caught[0].filename == __file__
    fresh = np.isnan(result) if result.dtype == np.float32 else result == -1
    np.testing.assert_array_equal(np.flatnonzero(fresh), where)
    assert (jitted(X)[~fresh] == 1).all()


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_gaps_are_told_of_a_neff(kernel) -> None:
    count, first, where = WRONG[kernel]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = compile_kernel(traced(kernel, (128, 64)))
    with pytest.warns(UserWarning, match=r"\[NEFF-UNWRITTEN\]") as caught:
        model = runtime.load(program)
    assert count in str(caught[0].message) and first in str(caught[0].message)
    (result,) = model.run({"x": X}).values()
    fresh = np.isnan(result) if result.dtype == np.float32 else result == -1
    np.testing.assert_array_equal(np.flatnonzero(fresh), where)


@pytest.mark.parametrize("kernel", [patched, in_a_loop], ids=lambda kernel: kernel.__name__)
def test_what_may_be_written_is_not_told(kernel) -> None:
    np.testing.assert_array_equal(jit(kernel)(X), X)
    (result,) = runtime.load(compile_kernel(traced(kernel, (128, 64)))).run({"x": X}).values()
    np.testing.assert_array_equal(result, X)


def test_cores_complete_each_other() -> None:
    kernel = traced(doubled_by_halves, (128, 64), grid=(2,))
    assert gaps_of(kernel.bodies, kernel.outputs, ["values"]) == []
    (gap,) = gaps_of(kernel.bodies[:1], kernel.outputs, ["values"])
    np.testing.assert_array_equal(gap.where, np.arange(64 * 64, 8192))
