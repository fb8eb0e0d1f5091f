"""The functions of nki.language on tiles against NumPy and the math library."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl
from tests.nki_lang.specimen import refused, tracing

RANDOM = np.random.default_rng(3)
A = RANDOM.standard_normal((16, 24)).astype(np.float32) * 3
B = RANDOM.standard_normal((16, 24)).astype(np.float32) + 0.1
POSITIVE = np.abs(A) + 0.5
INTS = RANDOM.integers(-50, 50, (16, 24)).astype(np.int32)
BITS = RANDOM.integers(0, 8, (16, 24)).astype(np.int32)


def run(function, *arrays, target="trn2", dtype=None):
    """The function on tiles, brought back to HBM."""

    def kernel(*tensors):
        tile = function(*(nl.load(tensor) for tensor in tensors))
        out = nl.ndarray(tile.shape, dtype or tile.dtype, nl.shared_hbm)
        if tile.buffer == nl.psum:
            copy = nl.ndarray(tile.shape, tile.dtype)
            nisa.tensor_copy(copy, tile)
            tile = copy
        nl.store(out, tile)
        return out

    return nki_lang.jit(kernel, platform_target=target)(*arrays)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    function, oracle = getattr(nl, name), BINARY[name]
    np.testing.assert_allclose(run(function, A, B), oracle(A, B), rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: function(x, 0.5), A), oracle(A, np.float32(0.5)), rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(run(lambda x: function(0.5, x), B), oracle(np.float32(0.5), B), rtol=1e-6)  # fmt: skip
    column = B[:, :1].copy()
    np.testing.assert_allclose(run(function, A, column), oracle(A, column), rtol=1e-6)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift"])
def test_bitwise(name):
    assert np.array_equal(run(getattr(nl, name), INTS, BITS), getattr(np, name)(INTS, BITS))


def test_shifts_and_inversion():
    unsigned = INTS.view(np.uint32)
    assert np.array_equal(run(nl.right_shift, unsigned, BITS.view(np.uint32)), unsigned >> BITS.view(np.uint32))  # fmt: skip
    assert np.array_equal(run(nl.invert, INTS), ~INTS)
    assert np.array_equal(run(nl.invert, unsigned), ~unsigned)
    with tracing(), refused("NKI-DTYPE"):
        nl.invert(nl.ndarray((4, 4), nl.float32))


def test_power():
    np.testing.assert_allclose(run(nl.power, POSITIVE, B), POSITIVE**B, rtol=2e-5)


@pytest.mark.parametrize("name", ["abs_max", "abs_min"])
def test_by_magnitude_on_trn3(name):
    pick_x = np.abs(A) > np.abs(B) if name == "abs_max" else np.abs(A) < np.abs(B)
    expected = np.where(pick_x, A, B)
    assert np.array_equal(run(getattr(nl, name), A, B, target="trn3"), expected)


def gelu(x):
    return np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(x)


UNARY = {
    "exp": (A, np.exp), "log": (POSITIVE, np.log), "sqrt": (POSITIVE, np.sqrt),
    "rsqrt": (POSITIVE, lambda x: 1 / np.sqrt(x)), "tanh": (A, np.tanh),
    "sigmoid": (A, lambda x: 1 / (1 + np.exp(-x))), "relu": (A, lambda x: np.maximum(x, 0)),
    "gelu": (A, gelu), "silu": (A, lambda x: x / (1 + np.exp(-x))),
    "softplus": (A, lambda x: np.log1p(np.exp(x))), "square": (A, np.square), "abs": (A, np.abs),
    "sign": (A, np.sign), "copy": (A, lambda x: x), "negative": (A, np.negative),
    "reciprocal": (POSITIVE, np.reciprocal), "erf": (A, np.vectorize(math.erf)),
    "sin": (A * 40, np.sin), "cos": (A * 40, np.cos), "tan": (B, np.tan),
    "arctan": (A * 5, np.arctan), "logical_not": (np.floor(B), np.logical_not),
    "floor": (A, np.floor), "ceil": (A, np.ceil), "trunc": (A, np.trunc),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    data, oracle = UNARY[name]
    expected = oracle(data.astype(np.float64))
    np.testing.assert_allclose(run(getattr(nl, name), data), expected, rtol=3e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_at_the_edges(name):
    edges = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 8388607.5, 8388608.0, -8388609.0, 3e9, -3e9,
             1e30, np.inf, -np.inf, np.nan]  # fmt: skip
    data = np.array([edges], np.float32)
    assert np.array_equal(run(getattr(nl, name), data), getattr(np, name)(data), equal_nan=True)


def test_remainders():
    x, y = INTS.astype(np.float32), np.full_like(A, 7)
    np.testing.assert_allclose(run(nl.fmod, x, y), np.fmod(x, y))
    np.testing.assert_allclose(run(nl.mod, x, y), np.mod(x, y))


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}
CUBE = RANDOM.standard_normal((8, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [2, -1, (1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    actual = run(lambda x: getattr(nl, name)(x, axis, keepdims=keepdims), CUBE)
    expected = REDUCTIONS[name](CUBE.astype(np.float64), axis=axis, keepdims=keepdims)
    if expected.ndim == 1:
        expected = expected[:, None]
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_products_variance_and_all():
    small = np.abs(CUBE) * 0.5 + 0.5
    np.testing.assert_allclose(run(lambda x: nl.prod(x, -1), small), small.prod(-1), rtol=1e-5)
    actual = run(lambda x: nl.var(x, (1, 2)), CUBE)
    np.testing.assert_allclose(actual, CUBE.var((1, 2), keepdims=True), rtol=1e-4)
    flags = (CUBE > -1.5).astype(np.float32)
    assert np.array_equal(run(lambda x: nl.all(x, -1), flags), flags.all(-1))


def test_softmax_and_rms_norm():
    powers = np.exp(A - A.max(-1, keepdims=True))
    np.testing.assert_allclose(run(nl.softmax, A), powers / powers.sum(-1, keepdims=True), rtol=2e-5)  # fmt: skip
    actual = run(lambda x, w: nl.rms_norm(x, w, axis=1, n=24), A, POSITIVE)
    expected = A / np.sqrt((A**2).mean(-1, keepdims=True) + 1e-6) * POSITIVE
    np.testing.assert_allclose(actual, expected, rtol=2e-5)


def test_where_takes_tiles_and_numbers():
    mask = (A > 0).astype(np.float32)
    assert np.array_equal(run(nl.where, mask, A, B), np.where(mask, A, B))
    assert np.array_equal(run(lambda c, x: nl.where(c, x, -1.0), mask, A), np.where(mask, A, -1))


def test_matmul_and_transpose():
    left = RANDOM.standard_normal((16, 32)).astype(np.float32)
    right = RANDOM.standard_normal((32, 40)).astype(np.float32)
    np.testing.assert_allclose(run(nl.matmul, left, right), left @ right, rtol=1e-4, atol=1e-5)
    actual = run(lambda x, y: nl.matmul(x, y, transpose_x=True), left.T.copy(), right)
    np.testing.assert_allclose(actual, left @ right, rtol=1e-4, atol=1e-5)
    assert np.array_equal(run(nl.transpose, left), left.T)


def test_shapes():
    column = A[:, :1].copy()
    assert np.array_equal(run(lambda x: nl.broadcast_to(x, (16, 9)), column), np.broadcast_to(column, (16, 9)))  # fmt: skip
    row = A[:1].copy()
    assert np.array_equal(run(lambda x: nl.broadcast_to(x, (7, 24)), row), np.broadcast_to(row, (7, 24)))  # fmt: skip
    with tracing(), refused("NKI-SHAPE"):
        nl.broadcast_to(nl.ndarray((4, 3), nl.float32), (4, 6))
    with tracing() as kernel:
        nl.broadcast_to(nl.ndarray((1, 6), nl.float32), (128, 6))
    assert [instruction.op for instruction in kernel.body] == ["dma_copy"]


def test_creation():
    def filled(x):
        total = nl.add(nl.full((16, 24), 2.5, nl.float32), nl.ones((16, 24), nl.float32))
        return nl.add(nl.add(total, nl.zeros_like(x)), nl.zeros((16, 24), nl.float32))

    assert np.array_equal(run(filled, A), np.full((16, 24), 3.5, np.float32))

    @nki_lang.jit
    def in_hbm(x):
        return nl.zeros((4, 4), nl.bfloat16, nl.shared_hbm), nl.full((2, 2), 7, nl.int32, nl.shared_hbm)  # fmt: skip

    zeros, sevens = in_hbm(A)
    assert not zeros.astype(np.float32).any() and (sevens == 7).all()
    with tracing():
        tile = nl.ndarray((4, 4), nl.bfloat16, nl.psum)
        assert nl.empty_like(tile).buffer == nl.psum
        assert nl.empty_like(tile, nl.float32, nl.sbuf).dtype == nl.float32
        assert nl.ndarray([1], nl.int32).shape == (1, 1)


def test_load_transpose2d():
    half = A.astype(np.float16)

    @nki_lang.jit
    def kernel(x):
        out = nl.ndarray((24, 16), nl.float32, nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x, nl.float32))
        return out

    assert np.array_equal(kernel(half), half.T.astype(np.float32))


def test_shapes_that_do_not_fit_are_refused():
    with tracing():
        a, b = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 5), nl.float32)
        with refused("NKI-SHAPE", "nl.add"):
            nl.add(a, b)
        with refused("NKI-OPERAND", "nl.exp"):
            nl.exp(nl.ndarray((4, 4), nl.float32, nl.shared_hbm))
        with refused("NKI-OPERAND"):
            nl.add(1, 2)


def test_where_one_stands():
    with tracing() as builder:
        assert (nl.program_id(), nl.num_programs(), nl.program_ndim()) == (0, 1, 0)
        with refused("NKI-GRID"):
            nl.program_id(1)
        builder.grid, builder.lnc, builder.core = (2,), 2, 1
        assert (nl.program_id(0), nl.num_programs(0), nl.program_ndim()) == (1, 2, 1)
    assert nl.is_hbm(nl.hbm) and nl.is_on_chip("psum") and nl.is_psum(nl.psum)
    assert nl.is_sbuf(nl.sbuf) and not nl.is_sbuf("hbm")


@pytest.mark.parametrize(("target", "usable"), [("trn1", 180224), ("trn2", 212984), ("trn3", 245752)])  # fmt: skip
def test_tile_sizes(target, usable):
    with tracing(target):
        assert nl.tile_size.sbuf_fmax_bytes == nl.tile_size.total_available_sbuf_size == usable
        assert nl.tile_size.sbuf_fmax == usable // 4 and nl.tile_size.psum_num_banks == 8
    assert type(nl.tile_size.pmax) is int and nl.tile_size.pmax == 128


def test_device_print_is_an_instruction():
    with tracing() as builder:
        nl.device_print("here", nl.ndarray((4, 4), nl.float32))
        assert builder.body[-1].op == "device_print"
        with refused("NKI-OPERAND"):
            nl.device_print(3, nl.ndarray((4, 4), nl.float32))


def test_dtypes_behave_as_kernels_expect():
    assert str(nl.bfloat16) == "bfloat16" and nl.bfloat16 == "bfloat16"
    assert nl.float32 == np.float32 and hash(nl.float32) == hash("float32")
    assert np.zeros(2, dtype=nl.bfloat16).dtype.name == "bfloat16"
    assert getattr(nl, str(nl.int8)) is nl.int8 and nl.bool is nl.bool_
    assert list(nl.range(3)) == [0, 1, 2] == list(nl.affine_range(3))
    assert list(nl.sequential_range(1, 7, 2)) == [1, 3, 5]
