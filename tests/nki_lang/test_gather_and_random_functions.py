"""Functions of the language that no other test runs, with numbers."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute import simulate
from nki_lang.kernel import jit

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(("rows", "columns", "count"), [(128, 64, 8), (16, 33, 1), (4, 5, 20)])
def test_gather_flattened(target, rows, columns, count):
    from nki_lang.base.targets import target_of

    @jit
    def kernel(data, indices):
        out = nl.ndarray((rows, count), dtype=data.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.gather_flattened(nl.load(data), nl.load(indices)))
        return out

    data = RANDOM.standard_normal((rows, columns)).astype(np.float32)
    indices = RANDOM.integers(0, columns, (rows, count)).astype(np.uint32)
    actual = simulate(kernel, target=target_of(target))(data, indices)
    assert np.array_equal(actual, data[np.arange(rows)[:, None], indices])


def drawn(seed, second_seed):
    @jit
    def kernel(first, second):
        out = nl.ndarray((2, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        for location, value in enumerate((first, second)):
            nl.random_seed(nl.load(value))
            nl.store(out[location], nl.rand((128, 64), dtype=nl.float32))
        return out

    seeds = [np.array([[value]], np.int32) for value in (seed, second_seed)]
    return simulate(kernel)(*seeds)


def test_seeds_repeat_and_differ():
    same, different = drawn(7, 7), drawn(7, 8)
    assert np.array_equal(same[0], same[1])
    assert np.array_equal(same[0], different[0])
    assert (different[0] != different[1]).mean() > 0.99


def test_rand_is_uniform():
    values = drawn(1, 2).ravel()
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02
    assert abs(values.var() - 1 / 12) < 0.01


def test_static_range_and_versions():
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        iterations = []
        for i in nl.static_range(1, 6, 2):
            iterations.append(i)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(i))
        assert iterations == [1, 3, 5] and all(type(i) is int for i in iterations)
        assert nisa.get_nc_version() == nisa.nc_version.gen3
        assert nisa.get_nc_version() >= 3 > nisa.nc_version.gen2
        nl.store(out, tile)
        return out

    from nki_lang.base.targets import target_of

    x = np.ones((4, 8), np.float32)
    assert np.array_equal(simulate(kernel, target=target_of("trn2"))(x), x + 9)
