"""Arguments that share memory, that cannot be written, and that are written without being returned."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiError
from nki_lang.execute import simulate
from nki_lang.execute.hosts import overlaps_itself
from nki_lang.kernel import jit
from tests.execute.ways import WAYS, every_way


@jit
def written_and_read(x, y):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray((2, 6), x.dtype, nl.sbuf)
    nisa.dma_copy(tile, y[0:2])
    nisa.dma_copy(x[1:3], tile)
    nisa.dma_copy(out, y)
    return out, x


def numbers():
    return np.arange(24, dtype=np.float32).reshape(4, 6)


@every_way
@pytest.mark.filterwarnings("ignore:.*NKI-RACE")  # simulate warns that the two are one memory
@pytest.mark.parametrize("selection", [slice(0, 4), slice(0, 8, 2)], ids=["whole", "strided"])
def test_each_argument_is_an_array_of_its_own(mode, selection):
    for start in (0, 100):
        x = np.repeat(numbers() + start, 2, axis=0)[selection]
        before = np.array(x)
        result = [np.asarray(value) for value in WAYS[mode](written_and_read, (x, x))]
        after = np.array(before)
        after[1:3] = before[0:2]
        np.testing.assert_array_equal(result[0], before)
        np.testing.assert_array_equal(result[1], after)
        if mode in ("simulate", "direct", "neff"):
            np.testing.assert_array_equal(x, after)


@jit
def both_written(x, y):
    for argument in (x, y):
        tile = nl.load(argument)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(argument, tile)
    return x, y


@pytest.mark.parametrize("mode", ["simulate", "direct", "neff"])
def test_two_results_in_one_memory_are_refused(mode):
    x = numbers()
    with pytest.raises(NkiError, match="share memory") as caught:
        WAYS[mode](both_written, (x, x))
    assert caught.value.code == "NKI-SHARED"
    np.testing.assert_array_equal(x, numbers())
    left, right = x[:, :3], x[:, 3:]
    WAYS[mode](both_written, (left, right))
    np.testing.assert_array_equal(x, numbers() + 1)


@pytest.mark.parametrize("mode", ["simulate", "direct", "neff"])
@pytest.mark.parametrize("steps", [(0, 4), (4, 4), (8, 3)])
def test_an_array_that_overlaps_itself_is_refused(mode, steps):
    memory = np.arange(64, dtype=np.float32)
    x = np.lib.stride_tricks.as_strided(memory, (4, 6), steps)
    with pytest.raises(NkiError, match="elements share memory") as caught:
        WAYS[mode](increased, (x,))
    assert caught.value.code == "NKI-SHARED"
    np.testing.assert_array_equal(memory, np.arange(64))


def test_which_arrays_overlap_themselves():
    memory = np.zeros(4000, np.float32)
    strided = np.lib.stride_tricks.as_strided
    for array in (memory, memory[::-2], memory.reshape(40, 100).T, memory[:0], memory[0:1],
                  strided(memory, (3, 2), (8, 12)), strided(memory, (1, 4), (0, 4))):  # fmt: skip
        assert not overlaps_itself(array)
    for shape, steps in (((3, 4), (8, 4)), ((2,), (0,)), ((4, 4), (12, 8)), ((3,), (2,))):
        assert overlaps_itself(strided(memory, shape, steps))


@jit
def increased(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, 100.0)
    nl.store(x, tile)
    return x


@pytest.mark.parametrize("mode", ["simulate", "direct", "neff"])
def test_a_read_only_array_is_refused(mode):
    x = numbers()
    x.flags.writeable = False
    with pytest.raises(NkiError, match="argument 'x', but the array is read-only") as caught:
        WAYS[mode](increased, (x,))
    assert caught.value.code == "NKI-READ-ONLY"
    np.testing.assert_array_equal(x, numbers())


@jit
def noted_in_an_argument(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(x, tile)
    return out


@pytest.mark.jax
def test_jax_refuses_what_it_would_lose():
    import jax

    y = jax.numpy.zeros((2, 2))
    for call in (jax.jit(lambda a: noted_in_an_argument(a)), noted_in_an_argument,
                 simulate(noted_in_an_argument)):  # fmt: skip
        with pytest.raises(NkiError, match="writes its argument x and does not return") as caught:
            call(y)
        assert caught.value.code == "NKI-WRITE-LOST"


@pytest.mark.parametrize("mode", ["simulate", "direct", "neff"])
def test_numpy_arrays_get_what_is_not_returned(mode):
    x = numbers()
    np.testing.assert_array_equal(WAYS[mode](noted_in_an_argument, (x,)), numbers())
    np.testing.assert_array_equal(x, numbers() + 1)


@jit
def all_written(a, b, c, d, e, f):
    for argument in (f, e, d, c, b, a):
        tile = nl.load(argument)
        nl.store(argument, tile)
    return a


@pytest.mark.parametrize("mode", ["simulate", "direct"])
def test_the_first_two_in_one_memory_are_named(mode):
    with pytest.raises(NkiError, match="arguments 'a' and 'b', which share"):
        WAYS[mode](all_written, (numbers(),) * 6)
