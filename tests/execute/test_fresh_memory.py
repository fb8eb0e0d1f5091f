"""Unwritten memory reads as NaN, or as all bits set, on every call in every execution mode."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff import runtime
from neff.compiler import compile_kernel
from nki_lang import klir
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import load, simulate
from nki_lang.kernel import jit
from tests.execute.ways import every_way, run

RNG = np.random.default_rng(3)
TRACED = pytest.mark.parametrize(
    "mode",
    ["direct", "threads", "neff", pytest.param("jax", marks=pytest.mark.jax),
     pytest.param("torch", marks=pytest.mark.torch_xla)],
)  # fmt: skip
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*NKI-UNWRITTEN", "ignore:.*NEFF-UNWRITTEN",
    "ignore:.*NKI-UNINITIALISED", "ignore:.*NEFF-UNINITIALISED",
)  # fmt: skip


@jit
def half_of_a_tile(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    previous = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(previous, x)  # the memory that the next tile may get is not zero
    nisa.tensor_scalar(previous, previous, nl.add, 5.0)
    tile, sum_of_both = nl.ndarray(x.shape, x.dtype, nl.sbuf), nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_tensor(sum_of_both, tile, previous, nl.add)
    nisa.dma_copy(out, sum_of_both)
    return out


@TRACED
def test_arithmetic_on_what_was_not_written_is_no_number(mode):
    for _ in range(3):
        x = RNG.standard_normal((4, 8)).astype(np.float32)
        result = run(mode, half_of_a_tile, x)
        np.testing.assert_array_equal(result[:, :4], (x + (x + np.float32(5)))[:, :4])
        assert np.isnan(result[:, 4:]).all()


@jit
def half_of_integers(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile, copy = nl.ndarray(x.shape, x.dtype, nl.sbuf), nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(copy, tile, nl.bitwise_and, 0x7F)
    nisa.dma_copy(out, copy)
    return out


@TRACED
def test_integers_have_all_bits_set(mode):
    for dtype in (np.int32, np.uint8, np.int16):
        x = RNG.integers(0, 100, (4, 8)).astype(dtype)
        result = run(mode, half_of_integers, x)
        np.testing.assert_array_equal(result[:, :4], x[:, :4])
        np.testing.assert_array_equal(result[:, 4:], 0x7F)


@jit
def rows_of_a_register(x, row):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile, location = nl.ndarray((1, x.shape[1]), x.dtype, nl.sbuf), nisa.register_alloc()
    nisa.register_load(location, nl.load(row))
    nisa.dma_copy(tile, x[0:1])
    nisa.dma_copy(out.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=location), tile)
    return out


@TRACED
def test_results_that_are_written_at_run_time(mode):
    for row in (2, 0):
        x = RNG.standard_normal((4, 8)).astype(np.float32)
        result = run(mode, rows_of_a_register, x, np.array([[row]], np.int32))
        expected = np.full_like(x, np.nan)
        expected[row] = x[0]
        np.testing.assert_array_equal(result, expected)


@jit
def turns_of_a_loop(x, turns):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile, count = nl.ndarray(x.shape, x.dtype, nl.sbuf), nisa.register_alloc()
    nisa.register_load(count, nl.load(turns))
    nl.fori_loop(0, count, lambda _: nisa.dma_copy(tile, x) and None)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out


@TRACED
def test_a_loop_without_turns_writes_nothing(mode):
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    for iterations in (0, 2, 0):
        result = run(mode, turns_of_a_loop, x, np.array([[iterations]], np.int32))
        np.testing.assert_array_equal(result, 2 * x if iterations else np.full_like(x, np.nan))


def _turn(x, tile, copy, out, row):
    """Reads the tile, writes it, and stores what was read."""
    nisa.tensor_scalar(copy, tile, nl.add, 1.0)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out.ap([[x.shape[1], x.shape[0]], [1, x.shape[1]]], scalar_offset=row), copy)


@jit
def made_in_each_turn(x):
    out = nl.ndarray((3, *x.shape), x.dtype, nl.shared_hbm)

    def body(row):
        tile, copy = (nl.ndarray(x.shape, x.dtype, nl.sbuf) for _ in range(2))
        _turn(x, tile, copy, out, row)

    nl.fori_loop(0, 3, body)
    return out


@jit
def made_before_the_turns(x):
    out = nl.ndarray((3, *x.shape), x.dtype, nl.shared_hbm)
    tile, copy = (nl.ndarray(x.shape, x.dtype, nl.sbuf) for _ in range(2))
    nl.fori_loop(0, 3, lambda row: _turn(x, tile, copy, out, row))
    return out


@jit
def made_in_turns_of_an_outer_loop(x):
    out = nl.ndarray((2, 3, *x.shape), x.dtype, nl.shared_hbm)

    def outer(number):
        tile, copy = (nl.ndarray(x.shape, x.dtype, nl.sbuf) for _ in range(2))
        nl.fori_loop(0, 3, lambda row: _turn(x, tile, copy, out[0], row))
        nl.fori_loop(0, 1, lambda _: nisa.dma_copy(out[1, 0], x) and None)

    nl.fori_loop(0, 2, outer)
    return out


def _hbm_turn(x, scratch, out, row):
    """Reads the scratch, writes it, and stores what was read."""
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, scratch)
    _turn(x, tile, nl.ndarray(x.shape, x.dtype, nl.sbuf), out, row)
    nisa.dma_copy(scratch, x)


def _hbm_in_each_turn(x, buffer):
    out = nl.ndarray((3, *x.shape), x.dtype, nl.shared_hbm)
    nl.fori_loop(0, 3, lambda row: _hbm_turn(x, nl.ndarray(x.shape, x.dtype, buffer), out, row))
    return out


@jit
def private_hbm_in_each_turn(x):
    return _hbm_in_each_turn(x, nl.private_hbm)


@jit
def shared_hbm_in_each_turn(x):
    return _hbm_in_each_turn(x, nl.shared_hbm)


@jit
def hbm_before_the_turns(x):
    out = nl.ndarray((3, *x.shape), x.dtype, nl.shared_hbm)
    scratch = nl.ndarray(x.shape, x.dtype, nl.hbm)
    nl.fori_loop(0, 3, lambda row: _hbm_turn(x, scratch, out, row))
    return out


@jit
def hbm_in_turns_of_an_outer_loop(x):
    out = nl.ndarray((2, 3, *x.shape), x.dtype, nl.shared_hbm)

    def outer(number):
        scratch = nl.ndarray(x.shape, x.dtype, nl.hbm)
        nl.fori_loop(0, 3, lambda row: _hbm_turn(x, scratch, out[0], row))
        nl.fori_loop(0, 1, lambda _: nisa.dma_copy(out[1, 0], x) and None)

    nl.fori_loop(0, 2, outer)
    return out


_KEPT_TURNS = [False, True, True]
TURNS = {
    private_hbm_in_each_turn: [False] * 3,
    shared_hbm_in_each_turn: [False] * 3,
    hbm_before_the_turns: _KEPT_TURNS,
    hbm_in_turns_of_an_outer_loop: _KEPT_TURNS,
    made_in_each_turn: [False] * 3,
    made_before_the_turns: _KEPT_TURNS,
    made_in_turns_of_an_outer_loop: _KEPT_TURNS,
}
"""Kernel -> in which turns of the loop the tile or scratch holds what the turn before wrote."""


@TRACED
@pytest.mark.parametrize("kernel", TURNS, ids=lambda kernel: kernel.__name__)
def test_a_tile_lives_as_long_as_the_turn_that_made_it(mode, kernel):
    for _ in range(2):
        x = RNG.standard_normal((4, 8)).astype(np.float32)
        result = run(mode, kernel, x).reshape(-1, 3, 4, 8)[0]
        for row, is_kept in zip(result, TURNS[kernel], strict=True):
            np.testing.assert_array_equal(row, x + 1 if is_kept else np.full_like(x, np.nan))


@pytest.mark.parametrize("kernel", TURNS, ids=lambda kernel: kernel.__name__)
def test_a_tile_of_a_turn_by_address(kernel):
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    loaded = runtime.load(compile_kernel(kernel.trace((x,))), by_address=True)
    for _ in range(2):
        (result,) = loaded.run({"x": x}).values()
        np.testing.assert_array_equal(result, run("direct", kernel, x))


def test_a_kernel_file_keeps_what_a_tile_lives_through():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    for kernel in TURNS:
        files = klir.dumps(kernel.trace((x,)))
        (result,) = load(klir.loads(*files)).run([x])
        np.testing.assert_array_equal(result, run("direct", kernel, x))


@jit
def rows_of_each_turn(x):
    """Each turn writes one row of scratch of its own, and keeps all of it."""
    out = nl.ndarray((4, *x.shape), x.dtype, nl.shared_hbm)
    width = x.shape[1]

    def body(row):
        scratch = nl.ndarray(x.shape, x.dtype, nl.hbm)
        tile = nl.load(x)
        nisa.dma_copy(
            scratch.ap([[width, 1], [1, width]], scalar_offset=row),
            tile.ap([[width, 1], [1, width]], offset=0),
        )
        nisa.dma_copy(out.ap([[width, 4], [1, width]], scalar_offset=row), scratch)

    nl.fori_loop(0, 4, body)
    return out


@TRACED
def test_what_other_turns_wrote_into_scratch_is_gone(mode):
    x = RNG.standard_normal((4, 5)).astype(np.float32)
    result = run(mode, rows_of_each_turn, x)
    expected = np.full((4, 4, 5), np.nan, np.float32)
    expected[np.arange(4), np.arange(4)] = x[0]
    np.testing.assert_array_equal(result, expected)


@jit
def result_of_the_last_turn(x, count):
    """The result is made anew in each turn, which writes one row of it."""
    results, iterations = [], nisa.register_alloc()
    nisa.register_load(iterations, nl.load(count))

    def body(row):
        results[:] = [nl.ndarray(x.shape, x.dtype, nl.shared_hbm)]
        row_of = results[0].ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=row)
        nisa.dma_copy(row_of, x[0:1])

    nl.fori_loop(0, iterations, body)
    return results[0]


@every_way
def test_a_result_that_was_made_in_a_loop_is_that_of_the_last_turn(mode):
    for count in (1, 4):
        x = RNG.standard_normal((4, 5)).astype(np.float32)
        result = run(mode, result_of_the_last_turn, x, np.array([[count]], np.int32))
        expected = np.full_like(x, np.nan)
        expected[count - 1] = x[0]
        np.testing.assert_array_equal(result, expected)


@jit
def second_turn_reads_the_first(x):
    out = nl.ndarray((2, *x.shape), x.dtype, nl.shared_hbm)
    width = x.shape[1]

    def body(row):
        scratch, tile = nl.ndarray(x.shape, x.dtype, nl.hbm), nl.load(x)
        nisa.dma_copy(
            scratch.ap([[width, 1], [1, width]], scalar_offset=row),
            tile.ap([[width, 1], [1, width]], offset=0),
        )
        nisa.dma_copy(out.ap([[width, 1], [1, width]], scalar_offset=row), scratch[0:1])

    nl.fori_loop(0, 2, body)
    return out


def test_the_check_forgets_what_the_turn_before_wrote():
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        simulate(second_turn_reads_the_first)(x)
    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED"):
        load(second_turn_reads_the_first.trace((x,)), check=True).run([x])


@jit(platform_target="trn3")
def scales_of_a_tile(x):
    out = nl.ndarray((64, 4), nl.uint8, nl.shared_hbm)
    packed = nl.ndarray((64, 4), nl.float8_e5m2_x4, nl.sbuf)
    scales = nl.ndarray((64, 4), nl.uint8, nl.sbuf)
    nisa.quantize_mx(src=nl.load(x), dst=packed, dst_scale=scales)
    nisa.dma_copy(out, scales)
    return out


@every_way
def test_rows_of_a_scale_tile_that_nobody_writes_are_zero(mode):
    for exponent in (0, 3):
        x = np.full((64, 16), 2.0**exponent, ml_dtypes.bfloat16)
        result = run(mode, scales_of_a_tile, x)
        written = [32 * quadrant + row for quadrant in range(2) for row in range(4)]
        assert (result[written] == result[0, 0]).all()
        assert result[0, 0] != 0
        np.testing.assert_array_equal(np.delete(result, written, axis=0), 0)
