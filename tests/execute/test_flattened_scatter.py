"""Rows of a tensor that was reshaped are counted by the view, not by the storage."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError
from nki_lang.kernel import jit, simulate

WIDTH = 16


@jit
def scatter(values, places, by_method):
    """``out.flat[places] = values`` into a zeroed (rows, WIDTH) tensor."""
    rows = values.shape[0]
    out = nl.ndarray((rows, WIDTH), dtype=values.dtype, buffer=nl.shared_hbm)
    zero = nl.zeros((rows, WIDTH), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=zero)
    index, tile = nl.load(places), nl.load(values)
    flat = out.reshape((rows * WIDTH,))
    if by_method:
        there = out.reshape((rows * WIDTH, 1)).vector_select(0, index)
    else:
        there = flat.ap([[1, rows], [1, 1]], offset=0, vector_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=there, src=tile)
    return out


@pytest.mark.parametrize("run", [simulate, lambda kernel: kernel])
@pytest.mark.parametrize("by_method", [False, True])
def test_an_index_reaches_the_whole_flattened_tensor(run, by_method):
    values = np.arange(1, 9, dtype=np.float32).reshape(8, 1)
    positions = (np.arange(8) * (WIDTH + 1))[::-1].astype(np.int32).reshape(8, 1)
    expected = np.zeros(8 * WIDTH, np.float32)
    expected[positions[:, 0]] = values[:, 0]
    assert np.array_equal(run(scatter)(values, positions, by_method).ravel(), expected)


@pytest.mark.parametrize("by_method", [False, True])
def test_an_index_behind_the_flattened_tensor_is_refused(by_method):
    values = np.ones((2, 1), np.float32)
    positions = np.array([[0], [2 * WIDTH]], np.int32)
    with pytest.raises(NkiExecutionError) as error:
        simulate(scatter)(values, positions, by_method)
    assert error.value.code == "NKI-OUT-OF-BOUNDS"
    assert f"0 to {2 * WIDTH - 1}" in str(error.value)
