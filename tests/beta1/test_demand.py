"""Kernels whose tiles fit on chip only if loops are fused, as the vendor's compiler may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from neff import write
from neff.compiler import compile_kernel
from neff.runtime import load
from nki_lang import NkiError, execute, klir
from tests.beta1.test_language import numbers

ROW_COUNT, COLUMN_COUNT, BLOCK_COUNT = 128, 8192, 7


@nki.jit(platform_target="trn2")
def loads_then_sums(x: Any) -> Any:
    """Load every block, then scale every block in place, then store each: 7 * 32 KiB."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((x.shape[0], nl.par_dim(ROW_COUNT), COLUMN_COUNT), dtype=x.dtype)
    for i in nl.affine_range(x.shape[0]):
        tiles[i] = nl.load(x[i])
    for i in nl.affine_range(x.shape[0]):
        tiles[i] *= 2.0
        tiles[i] += i
    for i in nl.affine_range(x.shape[0]):
        nl.store(result[i], tiles[i])
    return result


def expected_of(x: Any) -> Any:
    return x * 2 + np.arange(len(x), dtype=np.float32)[:, None, None]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_kernel_that_fits_in_demand_order(seed: int, tmp_path: Path) -> None:
    x = numbers(BLOCK_COUNT, ROW_COUNT, COLUMN_COUNT, seed=seed)
    expected = expected_of(x)
    np.testing.assert_array_equal(nki.simulate_kernel(loads_then_sums, x), expected)
    np.testing.assert_array_equal(loads_then_sums(x), expected)
    traced = loads_then_sums.trace((x,))
    operations = [entry.op for entry in traced.instructions()]
    assert operations == ["dma_copy", "tensor_scalar", "tensor_scalar", "dma_copy"] * BLOCK_COUNT
    klir.write(traced, tmp_path / "kernel.klir")
    (result,) = execute.load(klir.read(tmp_path / "kernel.klir")).run([x])
    np.testing.assert_array_equal(result, expected)
    write(compile_kernel(traced), tmp_path / "kernel.neff")
    (result,) = load(tmp_path / "kernel.neff").run({"x": x}).values()
    np.testing.assert_array_equal(result, expected)


def test_a_kernel_that_fits_keeps_the_order_of_its_source() -> None:
    operations = [
        entry.op
        for entry in loads_then_sums.trace((numbers(2, ROW_COUNT, COLUMN_COUNT),)).instructions()
    ]
    assert operations == ["dma_copy"] * 2 + ["tensor_scalar"] * 4 + ["dma_copy"] * 2


def test_a_kernel_that_fits_in_no_order_is_refused() -> None:
    @nki.jit(platform_target="trn2")
    def kernel(x: Any) -> Any:
        """Needs all blocks for each result."""
        result = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((x.shape[0], nl.par_dim(ROW_COUNT), COLUMN_COUNT), dtype=x.dtype)
        total = nl.zeros((ROW_COUNT, COLUMN_COUNT), x.dtype)
        for i in nl.affine_range(x.shape[0]):
            tiles[i] = nl.load(x[i])
            total += tiles[i]
        for i in nl.affine_range(x.shape[0]):
            nl.store(result, tiles[i] / total)
        return result

    with pytest.raises(NkiError) as raised:
        kernel.trace((numbers(BLOCK_COUNT, ROW_COUNT, COLUMN_COUNT),))
    assert raised.value.code == "NKI-CAPACITY"


@nki.jit(platform_target="trn2")
def ordered(x: Any) -> Any:
    """A block is read, overwritten and read again; one result depends on the seed's order."""
    result = nl.ndarray((x.shape[0], 2, *x.shape[1:]), dtype=x.dtype, buffer=nl.shared_hbm)
    draws = nl.ndarray((x.shape[0], ROW_COUNT, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    scratch = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.private_hbm)
    tiles = nl.ndarray((x.shape[0], nl.par_dim(ROW_COUNT), COLUMN_COUNT), dtype=x.dtype)
    doubled = nl.ndarray((x.shape[0], nl.par_dim(ROW_COUNT), COLUMN_COUNT), dtype=x.dtype)
    numbers_drawn = nl.ndarray((x.shape[0], nl.par_dim(ROW_COUNT), 8), dtype=nl.float32)
    for i in nl.affine_range(x.shape[0]):
        tiles[i] = nl.load(x[i])
        nl.random_seed(i)
        numbers_drawn[i] = nl.rand((ROW_COUNT, 8))
    for i in nl.sequential_range(x.shape[0]):
        doubled[i] = tiles[i] + tiles[i]
        tiles[i] = nisa.memset((ROW_COUNT, COLUMN_COUNT), i, x.dtype)
        nl.store(scratch, doubled[i])
        nl.store(result[i, 0], nl.load(scratch))
        nl.store(result[i, 1], tiles[i])
    for i in nl.affine_range(x.shape[0]):
        nl.store(draws[x.shape[0] - 1 - i], numbers_drawn[x.shape[0] - 1 - i])
    return result, draws


def test_demand_order_keeps_what_depends_on_order() -> None:
    """Writes after reads, tensors in HBM that are reused, and random numbers."""
    x = numbers(BLOCK_COUNT, ROW_COUNT, COLUMN_COUNT)
    result, draws = ordered(x)
    np.testing.assert_array_equal(result[:, 0], 2 * x)
    for i in range(BLOCK_COUNT):
        assert (result[i, 1] == i).all()
    _, interpreted = nki.simulate_kernel(ordered, x)
    np.testing.assert_array_equal(draws, interpreted)
