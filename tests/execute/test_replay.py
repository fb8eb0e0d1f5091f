"""Repeated simulated calls are replayed, and nothing but their speed tells."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute import replay
from nki_lang.kernel import jit, simulate

SCALE = 3.0
TRACED_SHAPES = []


@pytest.fixture(autouse=True)
def records(monkeypatch):
    fresh = replay.Records()
    monkeypatch.setattr("nki_lang.execute.eager.RECORDS", fresh)
    monkeypatch.setattr("sys.gettrace", lambda: None)  # coverage measures other tests
    monkeypatch.setattr("sys.monitoring", None, raising=False)
    return fresh


def scaled(tile):
    return nl.multiply(tile, SCALE)


@jit
def scaled_sine(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for half in range(2):
        columns = slice(half * 4, half * 4 + 4)
        nl.store(out[:, columns], nl.sin(scaled(nl.load(x[:, columns]))))
    return out


@jit
def rotated(x):
    word = nl.load(x)
    high = nl.left_shift(word, 7, dtype=nl.uint32)
    low = nl.right_shift(word, 25, dtype=nl.uint32)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.bitwise_xor(nl.bitwise_or(high, low), 0x9E3779B9, dtype=nl.uint32))
    return out


def values(seed, shape=(4, 8)):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def count(records):
    return len(records._records)


def test_replays_compute_on_their_own_arguments(records):
    results = [simulate(scaled_sine)(values(seed)) for seed in range(5)]
    assert count(records) == 1
    for seed, result in enumerate(results):  # earlier results keep their values
        np.testing.assert_allclose(result, np.sin(3 * values(seed)), atol=1e-5)


def test_bits(records):
    for seed in range(4):
        x = np.random.default_rng(seed).integers(0, 2**32, (8, 5), np.uint32)
        expected = np.bitwise_xor(np.bitwise_or(x << 7, x >> 25), 0x9E3779B9)
        assert np.array_equal(simulate(rotated)(x), expected)
    assert count(records) == 1


def test_shapes_types_and_frameworks_have_records_of_their_own(records):
    for shape in [(4, 8), (6, 8)] * 3:
        result = simulate(scaled_sine)(values(1, shape))
        np.testing.assert_allclose(result, np.sin(3 * values(1, shape)), atol=1e-5)
    for seed in range(3):
        tensor = torch.from_numpy(values(seed))
        result = simulate(scaled_sine)(tensor)
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, torch.sin(3 * tensor), atol=1e-5, rtol=0)
    assert count(records) == 3


def test_a_changed_global_is_read_again(monkeypatch):
    for scale in (3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 3.0):
        monkeypatch.setitem(scaled.__globals__, "SCALE", scale)
        result = simulate(scaled_sine)(values(0))
        np.testing.assert_allclose(result, np.sin(scale * values(0)), atol=1e-5)


@jit
def product(x, y):
    """Two products accumulate in PSUM, then another one overwrites it."""
    left, right = nl.load(x), nl.load(y)
    psum = nl.ndarray((x.shape[1], y.shape[1]), nl.float32, nl.psum)
    out = nl.ndarray((2, x.shape[1], y.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.nc_matmul(psum, left, right)
    nisa.nc_matmul(psum, left, right)
    nl.store(out[0], nl.copy(psum))
    nisa.nc_matmul(psum, left, right, accumulate=False)
    nl.store(out[1], nl.copy(psum))
    return out


def test_products(records):
    for seed in range(4):
        x, y = values(seed, (16, 8)), values(seed + 9, (16, 12))
        result = simulate(product)(x, y)
        np.testing.assert_allclose(result[1], x.T @ y, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(result[0], 2 * (x.T @ y), rtol=1e-4, atol=1e-4)
    assert count(records) == 1


@jit
def scattered(x, rows):
    """Rows that are written twice keep the last value only by chance: values decide the finding."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    index = nl.load(rows)
    nisa.dma_copy(out.vector_select(0, index), nl.load(x))
    return out


def test_findings_that_depend_on_values_are_reported(records):
    for step in (1, 1, 1, 0):
        rows = (np.arange(4) * step).astype(np.int32)[:, None]
        run = simulate(scattered)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(values(0), rows)
        assert bool(run.report.findings) == (step == 0)
    assert count(records) == 0


@jit
def printing(x):
    print("called")
    return scaled_sine.func(x)


@jit
def noting(x):
    TRACED_SHAPES.append(x.shape)
    return scaled_sine.func(x)


@jit
def drawing(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), float(np.random.random())))
    return out


@jit
def in_place(x):
    nl.store(x, scaled(nl.load(x)))
    return x


@jit
def deciding(x):
    tile = nl.load(x)
    register = nisa.register_alloc(0)
    counted = nl.load(x, dtype=nl.int32)
    nisa.register_load(register, counted[0:1, 0:1])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, float(int(register))))
    return out


@jit
def partly_read(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(tile, 2.0))
    return out


@pytest.mark.parametrize("kernel", [printing, noting])
def test_effects_happen_at_every_call(kernel, records, capsys):
    TRACED_SHAPES.clear()
    for _ in range(4):
        simulate(kernel)(values(0))
    assert len(TRACED_SHAPES) + capsys.readouterr().out.count("called") == 4
    assert count(records) == 0


def test_random_numbers_of_python_are_drawn_at_every_call(records):
    assert len({simulate(drawing)(values(0)).tobytes() for _ in range(4)}) == 4
    assert count(records) == 0


def test_arguments_are_written_at_every_call(records):
    for seed in range(4):
        array = values(seed)
        assert simulate(in_place)(array) is array
        np.testing.assert_allclose(array, 3 * values(seed), rtol=1e-6)
    assert count(records) == 0


def test_python_that_reads_a_value_is_interpreted(records):
    for factor in (2, 3, 4, 5):
        x = np.full((1, 4), factor, np.float32)
        assert np.array_equal(simulate(deciding)(x), x * factor)
    assert count(records) == 0


def test_errors_are_raised_at_every_call(records):
    for _ in range(4):
        with pytest.raises(Exception, match="NKI-UNINITIALISED"):
            simulate(partly_read)(values(0))
    assert count(records) == 0


def test_warnings_are_given_at_every_call(records):
    @jit
    def warned(x):
        tile = nl.load(x)
        assert tile.shape[0] <= nl.tile_size.pmax
        return scaled_sine.func(x)

    counts = []
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            simulate(warned)(values(0))
        counts.append(len(caught))
    assert len(set(counts)) == 1


def test_a_debugger_sees_every_call(records, monkeypatch):
    monkeypatch.setattr("sys.gettrace", lambda: print)
    for seed in range(4):
        simulate(scaled_sine)(values(seed))
    assert count(records) == 0


def test_a_debugger_of_newer_pythons_sees_every_call(records, monkeypatch):
    tools = SimpleNamespace(get_tool=lambda number: "debugpy" if number == 0 else None)
    monkeypatch.setattr("sys.monitoring", tools, raising=False)
    for seed in range(4):
        simulate(scaled_sine)(values(seed))
    assert count(records) == 0


def test_records_make_room_for_new_ones(records, monkeypatch):
    simulate(scaled_sine)(values(0))
    simulate(scaled_sine)(values(0))
    steps = len(next(iter(records._records.values())).steps)
    monkeypatch.setattr(replay, "MAX_STEPS", 2 * steps)
    for rows in (2, 3, 5):
        for _ in range(3):
            simulate(scaled_sine)(values(0, (rows, 8)))
    assert count(records) == 2
