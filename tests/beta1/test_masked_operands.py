"""Products whose operands have masks of their own, and masks of extent 1."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lang import NkiError
from tests.beta1.test_language import RUNS, numbers


@nki.jit
def masked_product(left: Any, right: Any, depth: int, rows: int, columns: int) -> Any:
    """Masks of both operands, over their own axes, on indices beyond the tensors' ends."""
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    i_k, i_m = nl.arange(128)[:, None], nl.arange(64)[None, :]
    i_n = nl.arange(40)[None, :]
    stationary, moving = nl.load(left), nl.load(right)
    sums = nl.zeros((64, 40), nl.float32, buffer=nl.psum)
    for _ in nl.affine_range(2):
        sums += nisa.nc_matmul(
            stationary[i_k, i_m][i_m < rows][i_k < depth],
            moving[i_k, i_n][i_n < columns][True],
        )
    nl.store(result, nl.copy(sums[0:64, 0:32]))
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("depth", "rows", "columns"), [(128, 64, 32), (100, 40, 32), (128, 64, 7), (0, 64, 32)]
)
def test_a_product_of_masked_operands(run: str, depth: int, rows: int, columns: int) -> None:
    left, right = numbers(128, 64), numbers(128, 32, seed=1)
    expected = np.zeros((64, 32))
    wide = left[:depth, :rows].T.astype(np.float64) @ right[:depth, :columns]
    expected[:rows, :columns] = 2 * wide
    result = RUNS[run](masked_product, left, right, depth, rows, columns)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def _refused(body: Any) -> str:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        body(nl.load(x), nl.arange(64)[:, None], nl.arange(32)[None, :])
        return out

    with pytest.raises(NkiError) as raised:
        kernel.trace((numbers(64, 32),))
    return raised.value.code


def test_a_masked_operand_elsewhere_is_refused() -> None:
    """Its mask would be lost."""
    assert _refused(lambda tile, _, i_f: nl.exp(tile[i_f < 8])) == "NKI-OPERAND"
    assert _refused(lambda tile, _, i_f: nl.matmul(tile[i_f < 8], tile, True)) == "NKI-OPERAND"
    assert _refused(lambda tile, _, i_f: tile[i_f < 8][0:4]) == "NKI-BETA1-INDEX"
    joint: Any = lambda tile, i_p, i_f: nisa.nc_matmul(tile[i_f < i_p], tile)  # noqa: E731
    assert _refused(joint) == "NKI-BETA1-MASK"


@nki.jit
def masks_of_extent_one(x: Any, start: int) -> Any:
    """``nl.arange(1)`` varies along no axis: its condition is on the whole instruction."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_row, i_f = nl.arange(1)[:, None], nl.arange(x.shape[1])[None, :]
    i_p = nl.arange(x.shape[0])[:, None]
    tile = nl.load(x)
    tile[i_p, i_f] = nl.multiply(tile, 2.0, mask=start + i_row < 4)
    tile[i_p, i_f] = nl.add(tile, 1.0, mask=(i_f + 0 * i_p >= i_p) & (start + i_row < 4))
    nl.store(result, tile)
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("start", [3, 4])
def test_a_mask_of_extent_one(run: str, start: int) -> None:
    x = numbers(32, 32)
    p, f = np.mgrid[0:32, 0:32]
    expected = x if start >= 4 else x * 2 + (f >= p)
    np.testing.assert_array_equal(
        RUNS[run](masks_of_extent_one, x, start), expected.astype(np.float32)
    )


@nki.jit
def single_row(x: Any, row: int) -> Any:
    """``nl.arange(1)`` on the axis of the columns: one row number for all of them."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_row = row + nl.arange(1)[None, :]
    i_f = nl.arange(x.shape[1])[None, :]
    i_p, i_g = nl.mgrid[0:1, 0 : x.shape[1]]
    nl.store(result[i_p, i_g], nl.load(x[i_row, i_f], mask=i_row < x.shape[0]))
    for k in nl.affine_range(1, x.shape[0]):
        nl.store(result[k + i_p, i_g], nl.load(x[i_row - row + k, i_f]))
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("row", [0, 2])
def test_a_single_index_is_the_same_for_the_whole_axis(run: str, row: int) -> None:
    x = numbers(4, 6)
    expected = np.concatenate([x[row : row + 1], x[1:]])
    np.testing.assert_array_equal(RUNS[run](single_row, x, row), expected)


def test_a_mask_of_another_extent_is_refused() -> None:
    i_short = nl.arange(16)[None, :]
    assert _refused(lambda tile, *_: nl.exp(tile, mask=i_short < 4)) == "NKI-BETA1-MASK"
    i_more = nl.arange(16)[None, None, :]
    assert _refused(lambda tile, *_: nl.exp(tile, mask=i_more < 4)) == "NKI-BETA1-MASK"
