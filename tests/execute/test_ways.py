"""One kernel gives the same values however it is run, and in every run."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.kernel import jit
from tests.execute.ways import every_way, run

RNG = np.random.default_rng(1)


def copied_out(tile, buffer=nl.shared_hbm):
    out = nl.ndarray(tile.shape, nl.float32, buffer)
    nisa.dma_copy(out, tile)
    return out


@jit
def doubled_in_private_memory(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    return copied_out(tile, nl.hbm)


@every_way
@pytest.mark.filterwarnings("ignore:.*private HBM")
def test_a_result_in_private_memory_is_new_in_every_call(mode):
    results = []
    for _ in range(3):
        x = RNG.standard_normal((8, 16), np.float32)
        results.append((run(mode, doubled_in_private_memory, x), x))
    for result, x in results:
        np.testing.assert_array_equal(result, 2 * x)


@jit
def rounded_by_a_view(x):
    fine = nl.load(x)
    coarse = nl.ndarray(x.shape, nl.tfloat32, nl.sbuf)
    out = nl.ndarray(x.shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(coarse, fine.view(nl.tfloat32))
    nisa.tensor_scalar(out, coarse, nl.multiply, 1.0)
    return copied_out(out)


@every_way
def test_a_copy_through_a_tfloat32_view_rounds(mode):
    for number in (1.2345678, -3.1415927):
        x = np.full((4, 8), number, np.float32)
        halves = (x.view(np.uint32).astype(np.uint64) + 0x1000) & 0xFFFFE000  # no ties here
        expected = halves.astype(np.uint32).view(np.float32)
        np.testing.assert_array_equal(run(mode, rounded_by_a_view, x), expected)


def _turns(count):
    return nisa.register_alloc(count)


@jit
def accumulated_over_turns(x):
    tile, total = nl.load(x), nl.ndarray((16, 16), nl.float32, nl.psum)
    copied = nl.ndarray((16, 16), nl.float32, nl.sbuf)

    def turn(_):
        nisa.nc_matmul(total, tile, tile)
        nisa.tensor_copy(copied, total)

    nl.fori_loop(0, _turns(3), turn)
    return copied_out(copied)


@jit
def accumulated_over_inner_and_outer_turns(x):
    tile, copied = nl.load(x), nl.zeros((16, 16), nl.float32, nl.sbuf)
    total = nl.ndarray((16, 16), nl.float32, nl.psum)

    def outer(_):
        nl.fori_loop(0, _turns(2), lambda _: nisa.nc_matmul(total, tile, tile) and None)
        nisa.tensor_tensor(copied, copied, total, nl.add)

    nl.fori_loop(0, _turns(3), outer)
    return copied_out(copied)


@jit
def started_anew_in_each_outer_turn(x):
    tile, copied = nl.load(x), nl.zeros((16, 16), nl.float32, nl.sbuf)

    def outer(_):
        total = nl.ndarray((16, 16), nl.float32, nl.psum)

        def inner(_):
            nisa.nc_matmul(total, tile, tile)
            nisa.tensor_tensor(copied, copied, total, nl.add)

        nl.fori_loop(0, _turns(2), inner)

    nl.fori_loop(0, _turns(3), outer)
    return copied_out(copied)


@jit
def fresh_in_each_turn(x):
    tile, copied = nl.load(x), nl.zeros((16, 16), nl.float32, nl.sbuf)

    def turn(_):
        total = nl.ndarray((16, 16), nl.float32, nl.psum)
        nisa.nc_matmul(total, tile, tile)
        nisa.tensor_tensor(copied, copied, total, nl.add)

    nl.fori_loop(0, _turns(3), turn)
    return copied_out(copied)


@jit
def halves_at_places_of_a_register(x):
    tile, total = nl.load(x), nl.ndarray((16, 32), nl.float32, nl.psum)
    copied = nl.ndarray((16, 32), nl.float32, nl.sbuf)

    def outer(_):
        def inner(half):
            location = total.ap([[32, 16], [1, 16]], scalar_offset=half * 16, indirect_dim=1)
            nisa.nc_matmul(location, tile, tile)

        nl.fori_loop(0, _turns(2), inner)
        nisa.tensor_copy(copied, total)

    nl.fori_loop(0, _turns(3), outer)
    return copied_out(copied)


@every_way
@pytest.mark.parametrize(
    ("kernel", "products"),
    [
        (accumulated_over_turns, 3),
        (accumulated_over_inner_and_outer_turns, 2 + 4 + 6),
        (started_anew_in_each_outer_turn, 3 * (1 + 2)),
        (fresh_in_each_turn, 3),
        (halves_at_places_of_a_register, 3),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_products_accumulate_since_their_tensor_was_made(mode, kernel, products):
    for _ in range(2):
        x = RNG.integers(-3, 4, (16, 16)).astype(np.float32)
        expected = products * (x.T @ x)
        result = run(mode, kernel, x)
        np.testing.assert_array_equal(result[:, :16], expected)
        np.testing.assert_array_equal(result[:, -16:], expected)


@jit
def tanh_twenty_times(x):
    tile = nl.load(x)
    for _ in range(20):
        nisa.activation(tile, nl.tanh, tile)
    return copied_out(tile)


@every_way
def test_threads_do_not_share_memory(mode):
    from concurrent.futures import ThreadPoolExecutor

    inputs = [RNG.standard_normal((128, 512), np.float32) for _ in range(16)]
    expected = [run(mode, tanh_twenty_times, x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda x: run(mode, tanh_twenty_times, x), inputs))
    for result, reference in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@jit
def halved(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
    return copied_out(tile)


@every_way
@pytest.mark.parametrize(
    "flush", [False, pytest.param(True, marks=pytest.mark.torch_xla)], ids=["", "flushing"]
)
def test_subnormal_numbers_are_kept(mode, flush):
    import sys

    inputs = [np.full((4, 8), x, np.float32) for x in (2e-38, 3e-39)]
    expected = [(x.astype(np.float64) / 2).astype(np.float32) for x in inputs]
    if flush:
        import torch

        torch.set_flush_denormal(True)
    try:
        result = [run(mode, halved, x) for x in inputs]
        flushes = float(np.float32(2e-38) * np.float32(0.5)) == 0
    finally:
        if flush:
            sys.modules["torch"].set_flush_denormal(False)
    assert flushes == flush  # the caller's own mode is as it was
    for values, exact in zip(result, expected, strict=True):
        np.testing.assert_array_equal(values.view(np.uint32), exact.view(np.uint32))
