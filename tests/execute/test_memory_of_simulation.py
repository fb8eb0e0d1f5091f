"""The memory that the simulator keeps while a kernel runs."""

import tracemalloc

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute import simulate

A = np.arange(64, dtype=np.float32).reshape(8, 8)


def products(a, count):
    """``count`` sums of two products, each in a tile of PSUM at an address."""
    out = nl.ndarray((count, 8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    for iteration in range(count):
        total = nl.ndarray(
            (8, 8), dtype=nl.float32, buffer=nl.psum, address=(0, iteration % 8 * 2048)
        )
        for columns in slice(0, 4), slice(0, 8):  # the last four overwrite what was there
            nisa.nc_matmul(total[:, columns], x, x[:, columns])
        nisa.tensor_copy(dst=y, src=total)
        nisa.dma_copy(dst=out[iteration], src=y)
    return out


def test_tiles_at_an_address_leave_nothing_behind():
    simulate(products)(A, 8)
    tracemalloc.start()
    actual = simulate(products)(A, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    once = A.T @ A
    expected = np.where(np.arange(8) < 4, 2 * once, once)
    np.testing.assert_array_equal(actual, np.broadcast_to(expected, (100, 8, 8)))
    assert peak < 40 << 20
