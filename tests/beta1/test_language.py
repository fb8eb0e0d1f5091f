"""Kernels of NKI beta 1 against NumPy, interpreted and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki as current_nki
import nki.language as current_nl
import numpy as np
import pytest

from nki_lang import NkiError
from nki_lang.kernel import Kernel

RUNS: dict[str, Callable[..., Any]] = {
    "interpreted": nki.simulate_kernel,
    "traced": lambda kernel, *args: kernel(*args),
}


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@nki.jit
def add_rows(a: Any, b: Any) -> Any:
    """Tiles of 128 rows; a mask cuts the last one."""
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(a.shape[1])[None, :]
    for i in nl.affine_range((a.shape[0] + 127) // 128):
        inside = i * 128 + i_p < a.shape[0]
        left = nl.load(a[i * 128 + i_p, i_f], mask=inside)
        right = nl.load(b[i * 128 + i_p, i_f], mask=inside)
        nl.store(result[i * 128 + i_p, i_f], value=left + right, mask=inside)
    return result


@nki.jit
def tiled_product(lhsT: Any, rhs: Any) -> Any:
    """Accumulates over K in PSUM."""
    depth, rows = lhsT.shape
    columns = rhs.shape[1]
    result = nl.ndarray((rows, columns), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(rows // 128):
        sums = nl.zeros((128, columns), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(depth // 128):
            left = nl.load(lhsT[k * 128 : (k + 1) * 128, nl.ds(m * 128, 128)])
            right = nl.load(rhs[k * 128 : (k + 1) * 128, :])
            sums += nl.matmul(left, right, transpose_x=True)
        nl.store(result[m * 128 : (m + 1) * 128, :], nl.copy(sums, dtype=result.dtype))
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_masked_addition(run: str, seed: int) -> None:
    a, b = numbers(300, 64, seed=seed), numbers(300, 64, seed=seed + 10)
    np.testing.assert_array_equal(RUNS[run](add_rows, a, b), a + b)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_tiled_product(run: str, seed: int) -> None:
    a, b = numbers(256, 128, seed=seed), numbers(256, 256, seed=seed + 10)
    wide = a.T.astype(np.float64) @ b
    np.testing.assert_allclose(RUNS[run](tiled_product, a, b), wide, rtol=1e-4, atol=1e-4)


def test_a_product_is_added_where_it_accumulates() -> None:
    """``sums += nl.matmul(...)`` is one instruction: no product of its own, no addition."""
    text = tiled_product.lines(numbers(256, 128), numbers(256, 256))
    assert text.count("nc_matmul(") == text.count("accumulate=True") == 2
    assert "tensor_tensor(" not in text


@nki.jit
def blocks_and_grid(x: Any) -> Any:
    """One program a row of blocks; block dimensions are lists of tiles."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.program_id(0)
    tiles = nl.ndarray((x.shape[1], nl.par_dim(32), x.shape[3]), dtype=x.dtype)
    for j in nl.affine_range(x.shape[1]):
        tiles[j] = nl.load(x[row, j])
    for j in nl.affine_range(x.shape[1]):
        largest = nl.max(tiles[j], axis=[1], keepdims=True)
        nl.store(result[row, j], nl.subtract(tiles[j], largest) * (row + 1))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_blocks_and_a_grid(run: str) -> None:
    x = numbers(2, 3, 32, 16)
    factor = np.arange(1, 3, dtype=np.float32)[:, None, None, None]
    expected = (x - x.max(axis=3, keepdims=True)) * factor
    np.testing.assert_allclose(RUNS[run](blocks_and_grid[2], x), expected, rtol=1e-6)


@nki.jit
def masked_update(x: Any) -> Any:
    """A mask over two axes keeps the rest of an existing tile."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:64, 0:64]
    tile = nl.load(x)
    tile[i_p, i_f] = nl.multiply(tile[i_p, i_f], 2.0, mask=(i_f <= i_p) & (i_p >= 5))
    nl.store(result, tile)
    return result


@pytest.mark.parametrize("run", RUNS)
def test_a_mask_over_two_axes(run: str) -> None:
    x = numbers(64, 64)
    rows, columns = np.mgrid[0:64, 0:64]
    expected = np.where((columns <= rows) & (rows >= 5), x * 2, x)
    np.testing.assert_array_equal(RUNS[run](masked_update, x), expected)


@nki.jit
def promoted(x: Any, y: Any) -> Any:
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    assert (left * 1.5).dtype == np.float32
    assert (left + right).dtype == np.float32
    assert nl.less(left, right).dtype == np.uint8
    nl.store(result, nl.where(left < right, left * 1.5, right))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_types_are_promoted(run: str) -> None:
    x = numbers(32, 16).astype(np.float16)
    y = numbers(32, 16, seed=1).astype(nl.bfloat16)
    wide, narrow = x.astype(np.float32), y.astype(np.float32)
    expected = np.where(wide < narrow, wide * np.float32(1.5), narrow)
    np.testing.assert_array_equal(RUNS[run](promoted, x, y), expected)


@nki.jit
def returns_in_a_loop(x: Any) -> Any:
    """As the vendor's documentation has it: the body is traced for every row of tiles."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(x.shape[1])[None, :]
    for p in nl.affine_range((x.shape[0] + 127) // 128):
        i_p = p * 128 + nl.arange(128)[:, None]
        tile = nl.load(x[i_p, i_f], mask=(i_p < x.shape[0]))
        nl.store(result[i_p, i_f], nl.exp(tile), mask=i_p < x.shape[0] and i_f >= 0)
        return result
    return None


@pytest.mark.parametrize("run", RUNS)
def test_return_in_a_loop_takes_effect_after_it(run: str) -> None:
    x = numbers(300, 16)
    np.testing.assert_allclose(RUNS[run](returns_in_a_loop, x), np.exp(x), rtol=1e-5)


@nki.jit
def gathers_and_scatters(table: Any, rows: Any, values: Any) -> Any:
    """Indirect rows; equal rows are all added."""
    picked = nl.ndarray((32, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    nl.store(sums, nl.load(table))
    indices = nl.load(rows)
    i_p, i_f = nl.mgrid[0:32, 0 : table.shape[1]]
    nl.store(picked, nl.load(table[indices[i_p, 0], i_f]))
    nl.atomic_rmw(sums[indices, i_f], value=nl.load(values), op=np.add)
    return picked, sums


@pytest.mark.parametrize("run", RUNS)
def test_indirect_rows(run: str) -> None:
    table, values = numbers(64, 16), numbers(32, 16, seed=1)
    rows = np.random.default_rng(2).integers(0, 8, (32, 1)).astype(np.int32)
    picked, sums = RUNS[run](gathers_and_scatters, table, rows, values)
    np.testing.assert_array_equal(picked, table[rows[:, 0]])
    expected = table.copy()
    np.add.at(expected, rows[:, 0], values)
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)


@nki.jit
def quotients(x: Any) -> Any:
    result = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    assert (tile / 8).dtype == nl.float32
    nl.store(result, nl.floor(tile / 8, dtype=nl.int32))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_a_quotient_of_integers_is_no_integer(run: str) -> None:
    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    np.testing.assert_array_equal(RUNS[run](quotients, x), x // 8)


@nki.jit
def masked_mean(x: Any) -> Any:
    result = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0 : x.shape[0], 0 : x.shape[1]]
    nl.store(result, nl.mean(nl.load(x[i_p, i_f]), axis=[1], mask=i_f < 5))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_a_masked_mean_counts_what_the_mask_leaves(run: str) -> None:
    x = numbers(16, 12)
    expected = x[:, :5].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(RUNS[run](masked_mean, x), expected, rtol=1e-5, atol=1e-6)


@nki.jit
def across_ranks(x: Any) -> Any:
    """Two shapes of the same elements, row by row of each partition."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    flat = nl.load(x)
    folded = nl.ndarray((x.shape[0], 4, x.shape[1] // 4), dtype=x.dtype)
    folded[...] = flat
    nl.store(result, nisa.tensor_tensor(flat, folded, op=np.add))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_the_same_elements_in_another_shape(run: str) -> None:
    x = numbers(16, 32)
    np.testing.assert_array_equal(RUNS[run](across_ranks, x), x + x)


def test_shapes_that_do_not_fit_are_refused() -> None:
    def assigned(x: Any) -> Any:
        folded = nl.ndarray((128, 4, 8), dtype=x.dtype)
        folded[...] = nl.load(x)

    def turned(x: Any) -> Any:
        first = nl.ndarray((128, 4, 16), dtype=x.dtype)
        first[...] = nl.load(x)
        second = nl.ndarray((128, 16, 4), dtype=x.dtype)
        second[...] = nl.copy(first)

    assert refused(assigned) == "NKI-SHAPE"
    assert refused(turned) == "NKI-SHAPE"


@nki.jit
def rows_apart(x: Any) -> Any:
    """Engines start at partitions 0, 32, 64 and 96; others go through a transfer."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for row in nl.static_range(3):
        tile[row, :] = nl.multiply(tile[row + 3, :], row + 1.0)
    tile[5, 2] = 7
    nl.store(result, tile)
    return result


@pytest.mark.parametrize("run", RUNS)
def test_rows_at_any_partition(run: str) -> None:
    x = numbers(8, 4)
    expected = x.copy()
    expected[:3] = x[3:6] * np.arange(1, 4, dtype=np.float32)[:, None]
    expected[5, 2] = 7
    np.testing.assert_array_equal(RUNS[run](rows_apart, x), expected)


def refused(body: Callable[[Any], Any], shape: tuple[int, ...] = (128, 64)) -> str:
    """The code of the error that a kernel of this body raises when traced, at its line."""

    def kernel(x: Any) -> Any:
        body(x)
        return x

    with pytest.raises(NkiError) as caught:
        nki.jit(kernel).trace((np.zeros(shape, np.float32),))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    return caught.value.code


def test_an_access_out_of_bounds_needs_a_mask() -> None:
    i_p, i_f = nl.mgrid[0:128, 0:64]
    assert refused(lambda x: nl.load(x[64 + i_p, i_f])) == "NKI-BETA1-BOUNDS"
    assert refused(lambda x: nl.load(x[64:192, :])) == "NKI-BETA1-BOUNDS"


def test_wrong_indices_are_refused() -> None:
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    assert refused(lambda x: nl.load(x[i_p, 0:64])) == "NKI-BETA1-INDEX"
    assert refused(lambda x: nl.load(x[nl.arange(128), 0])) == "NKI-BETA1-INDEX"
    assert refused(lambda x: nl.exp(nl.load(x)[i_f, i_f])) == "NKI-BETA1-INDEX"
    assert refused(lambda x: x[i_p, i_f // 2]) == "NKI-BETA1-INDEX"


def test_wrong_masks_are_refused() -> None:
    i_p, i_f = nl.mgrid[0:128, 0:64]

    def wrongly_joined(x: Any) -> Any:
        inside = (i_p < 64) and (i_f < 32)
        nl.load(x[i_p, i_f], mask=inside)

    assert refused(wrongly_joined) == "NKI-BETA1-MASK"
    assert refused(lambda x: nl.load(x[i_p, i_f], mask=i_p)) == "NKI-BETA1-MASK"


def test_mixing_the_languages_is_refused() -> None:
    assert refused(lambda x: current_nl.exp(nl.load(x))) in ("NKI-BETA1-MIXED", "NKI-OPERAND")

    def kernel(x: Any) -> Any:
        nl.load(x)

    with pytest.raises(NkiError, match="NKI-BETA1-MIXED"):
        current_nki.jit(kernel).trace((np.zeros((8, 8), np.float32),))


def test_a_masked_shuffle_is_refused() -> None:
    i_p, _ = nl.mgrid[0:32, 0:64]

    def body(x: Any) -> Any:
        tile = nl.load(x)
        nisa.nc_stream_shuffle(tile, tile, list(range(32)), mask=i_p < 8)

    assert refused(body, (32, 64)) == "NKI-BETA1-UNSUPPORTED"


def test_a_kernel_is_a_kernel() -> None:
    """So frameworks, files and reports take it as any other."""
    assert isinstance(add_rows, Kernel)
    assert "dma_copy" in add_rows.lines(numbers(128, 8), numbers(128, 8))


def test_a_dtype_that_the_written_tile_does_not_have_is_refused() -> None:
    def predicated(x: Any, dtype: Any) -> None:
        source = nl.load(x)
        target = nl.zeros((128, 64), nl.float32)
        nisa.tensor_copy_predicated(src=source, dst=target, predicate=source > 0, dtype=dtype)

    assert refused(lambda x: predicated(x, nl.bfloat16)) == "NKI-BETA1-UNSUPPORTED"

    def folded(x: Any) -> None:
        total = nl.zeros((128, 64), nl.float32)
        total[...] = nl.loop_reduce(nl.load(x), nl.add, [0], dtype=nl.bfloat16)

    assert refused(folded) == "NKI-BETA1-UNSUPPORTED"

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        predicated(x, nl.float32)
        nl.store(out, nl.load(x))
        return out

    x = np.ones((128, 64), np.float32)
    np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(kernel), x), x)


@nki.jit
def padded_blocks(x: Any) -> Any:
    """Blocks of ``nl.zeros`` are used first by an assignment to a part of each."""
    result = nl.ndarray((2, 32, 10), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = nl.zeros((2, nl.par_dim(32), 10), dtype=x.dtype)
    i_p, i_f = nl.arange(32)[:, None], nl.arange(8)[None, :]
    for i in nl.affine_range(2):
        blocks[i, i_p, i_f + 1] = nl.load(x[i])
    for i in nl.affine_range(2):
        nl.store(result[i], blocks[i])
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_assignment_to_a_part_of_a_filled_block_keeps_the_rest(run: str, seed: int) -> None:
    x = numbers(2, 32, 8, seed=seed)
    np.testing.assert_array_equal(RUNS[run](padded_blocks, x), np.pad(x, ((0, 0), (0, 0), (1, 1))))


@nki.jit
def numbers_in_loops(x: Any, start: int) -> Any:
    """``address`` counts as in a body that is traced once; ``static_range`` is Python's loop."""
    result = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    address, steps, scale = start, 0, 1.0
    for i in nl.affine_range(2):
        address += 16
        for _ in nl.sequential_range(3):
            address += 1
            scale = scale * 2.0
        tile = nl.load(x)
        tile += address  # a tile of this body
        nl.store(result[i], tile)
    for _ in nl.static_range(3):
        steps += 1
    nl.store(result[2], nl.load(x) * scale)
    nl.store(result[3], nl.load(x) + (address + 1000 * steps))
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("start", [0, 5])
def test_a_number_that_a_loop_changes_has_the_value_of_one_pass(run: str, start: int) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    once = x + (start + 17)
    expected = np.stack([once, once, x * 2, x + (start + 17 + 3000)])
    np.testing.assert_array_equal(RUNS[run](numbers_in_loops, x, start), expected)


def test_a_counter_places_tiles_as_a_body_that_is_traced_once() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        result = nl.ndarray((100, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        address = 0
        for i in nl.affine_range(100):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=address))
            address += x.shape[1] * 4
            tile[...] = nl.load(x)
            nl.store(result[i], tile)
        return result

    x = numbers(128, 1024)
    np.testing.assert_array_equal(kernel(x), np.broadcast_to(x, (100, *x.shape)))


@nki.jit
def folded_products(left: Any, right: Any) -> Any:
    """The products of a loop are float32; ``dtype`` names the type of the tile they add up in."""
    result = nl.ndarray((64, 32), dtype=nl.float16, buffer=nl.shared_hbm)
    total = nl.zeros((64, 32), nl.float16)
    for k in nl.affine_range(2):
        rows = nl.ds(k * 128, 128)
        product = nl.matmul(nl.load(left[rows, :]), nl.load(right[rows, :]), transpose_x=True)
        total[...] = nl.loop_reduce(product, op=np.add, loop_indices=[k], dtype=nl.float16)
    nl.store(result, total)
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_loop_reduce_rounds_to_the_tile_that_it_is_assigned_to(run: str, seed: int) -> None:
    left = np.random.default_rng(seed).integers(-3, 4, (256, 64)).astype(np.float16)
    right = np.random.default_rng(seed + 9).integers(-3, 4, (256, 32)).astype(np.float16)
    expected = left.T.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(RUNS[run](folded_products, left, right), expected)
