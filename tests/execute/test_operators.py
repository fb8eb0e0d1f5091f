"""Operators and activation functions against torch and NumPy's own float64 functions."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

from nki_lang.ir import Engine
from nki_lang.semantics import ACTIVATIONS, ALU_OPS
from nki_lang.semantics.functions import erf
from nki_lang.semantics.numbers import convert, round_tfloat32
from tests.execute.handmade import perform

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 33), np.float32) * 3
Y = RNG.standard_normal((8, 33), np.float32) * 3
EDGES = np.array(
    [[0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3e38, 88.0, -104.0]], np.float32
)

F = torch.nn.functional
REFERENCE = {
    "copy": lambda x: x,
    "square": torch.square,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_apprx_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_apprx_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "tanh": torch.tanh,
    "softplus": lambda x: F.softplus(x, threshold=1e9),
    "mish": F.mish,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
    "arctan": torch.arctan,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sign": torch.sign,
    "abs": torch.abs,
    "negative": torch.neg,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "trunc": torch.trunc,
    "cos": torch.cos,
    "tan": torch.tan,
}
DERIVATIVES = {
    "gelu_dx": F.gelu,
    "gelu_apprx_sigmoid_dx": lambda x: x * torch.sigmoid(1.702 * x),
    "silu_dx": F.silu,
    "erf_dx": torch.erf,
}


def activated(name, x):
    dst = np.zeros_like(x)
    return perform(
        "activation",
        dst=dst,
        op=name,
        data=x,
        bias=None,
        scale=1.0,
        reduce_op=None,
        reduce_res=None,
        reduce_cmd="idle",
    )["dst"]


@pytest.mark.torch_xla
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_activation_functions(name):
    x = np.abs(X) + 0.01 if name in ("log", "sqrt", "rsqrt") else X
    expected = REFERENCE[name](torch.from_numpy(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(activated(name, x), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.torch_xla
@pytest.mark.parametrize("name", sorted(DERIVATIVES))
def test_activation_derivatives_against_autograd(name):
    x = torch.from_numpy(X.astype(np.float64)).requires_grad_()
    DERIVATIVES[name](x).sum().backward()
    np.testing.assert_allclose(activated(name, X), x.grad.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    "name", ["relu", "sigmoid", "tanh", "exp", "softplus", "silu", "gelu", "erf", "square"]
)
def test_activation_functions_at_the_edges(name):
    with np.errstate(over="ignore"):
        expected = REFERENCE[name](torch.from_numpy(EDGES.astype(np.float64))).numpy()
        expected = expected.astype(np.float32)
    actual = activated(name, EDGES)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    assert np.isnan(actual[0, 6])


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_apprx_tanh", "mish"])
def test_activations_end_at_a_negative_zero(name):
    x = np.array([[-1e30, -2147483904.0, -300.0, -0.0, 0.0]], np.float32)
    actual = activated(name, x)[0]
    assert not actual.any() and np.signbit(actual).tolist() == [True, True, True, True, False]
    assert np.isnan(activated(name, np.full((1, 1), -np.inf, np.float32))).all()  # -inf * 0


def test_every_activation_is_tested():
    assert set(ACTIVATIONS) == set(REFERENCE) | set(DERIVATIVES) | {"sin"}


def test_sin_extrapolates_outside_its_range():
    x = np.array([[9.0, -9.0, math.pi, 1.0, -3.0]], np.float32)
    actual = activated("sin", x)[0]
    assert actual[0] == pytest.approx(27.65, abs=0.01)
    assert actual[1] == pytest.approx(-27.65, abs=0.01)
    np.testing.assert_allclose(actual[2:], np.sin(x[0, 2:]), atol=1e-6)


def test_erf_is_exact_to_float32():
    x = np.concatenate([np.linspace(-7, 7, 20001), [1e-30, -1e-30, 0.0, 1e-8]]).astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in x])
    np.testing.assert_allclose(erf(x), exact, rtol=1e-7, atol=1e-38)


BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": lambda x, y: np.where(x > y, x, y),
    "minimum": lambda x, y: np.where(x < y, x, y),
    "abs_max": lambda x, y: np.where(abs(x) > abs(y), x, y),
    "abs_min": lambda x, y: np.where(abs(x) < abs(y), x, y),
    "equal": lambda x, y: 1.0 * (x == y),
    "not_equal": lambda x, y: 1.0 * (x != y),
    "less": lambda x, y: 1.0 * (x < y),
    "less_equal": lambda x, y: 1.0 * (x <= y),
    "greater": lambda x, y: 1.0 * (x > y),
    "greater_equal": lambda x, y: 1.0 * (x >= y),
    "logical_and": lambda x, y: 1.0 * ((x != 0) & (y != 0)),
    "logical_or": lambda x, y: 1.0 * ((x != 0) | (y != 0)),
    "logical_xor": lambda x, y: 1.0 * ((x != 0) ^ (y != 0)),
    "fmod": lambda x, y: x - y * np.trunc(x / y),
    "mod": lambda x, y: x - y * np.floor(x / y),
}


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "int8", "uint8", "int16"]
)
@pytest.mark.parametrize("name", sorted(set(BINARY) - {"fmod", "mod", "divide"}))
def test_binary_operators_of_every_type(name, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = convert(np.abs(X), kind)
    y = convert(np.abs(Y), kind)
    x[0, :5] = y[0, :5]
    actual = perform("tensor_tensor", dst=np.zeros(x.shape, np.float32), data1=x, data2=y, op=name)[
        "dst"
    ]
    expected = BINARY[name](x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["divide", "fmod", "mod"])
def test_division_and_remainders(name):
    actual = perform("tensor_tensor", dst=np.zeros_like(X), data1=X, data2=Y, op=name)["dst"]
    expected = BINARY[name](X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_power():
    actual = perform("tensor_tensor", dst=np.zeros_like(X), data1=np.abs(X), data2=Y, op="power")[
        "dst"
    ]
    np.testing.assert_allclose(
        actual, np.exp(Y.astype(np.float64) * np.log(np.abs(X).astype(np.float64))), rtol=1e-5
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_bit_operators_see_patterns(dtype):
    width = 8 * np.dtype(dtype).itemsize
    top = (1 << width) - 1
    x = RNG.integers(0, top, (4, 9), endpoint=True).astype(f"u{width // 8}")
    y = RNG.integers(0, width + 3, (4, 9)).astype(f"u{width // 8}")
    table = {
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "left_shift": lambda a, b: (a << b) & top if b < width else 0,
        "right_shift": lambda a, b: a >> b,
    }
    for name, function in table.items():
        out = perform(
            "tensor_tensor",
            dst=np.zeros(x.shape, dtype),
            data1=x.view(dtype),
            data2=y.view(dtype),
            op=name,
        )["dst"]
        expected = [
            [function(int(a), int(b)) for a, b in zip(r, s, strict=True)]
            for r, s in zip(x, y, strict=True)
        ]
        assert np.array_equal(out.view(f"u{width // 8}"), expected), name


def test_bit_operators_with_numbers():
    x = np.array([[-1, 5, 1 << 30]], np.int32)
    out = perform(
        "tensor_scalar",
        dst=np.zeros_like(x),
        data=x,
        op0="right_shift",
        operand0=28,
        reverse0=False,
        op1="bitwise_and",
        operand1=0xFFFFFFF7,
        reverse1=False,
    )["dst"]
    assert np.array_equal(out, [[15 & ~8, 0, 4]])
    flipped = perform(
        "tensor_scalar",
        dst=np.zeros_like(x),
        data=x,
        op0="invert",
        operand0=None,
        reverse0=False,
        op1=None,
        operand1=None,
        reverse1=False,
    )["dst"]
    assert np.array_equal(flipped, ~x)


def test_native_integers_on_gpsimd_and_float_on_vector():
    x = np.array([[2**24 + 1, -(2**31), 7]], np.int32)
    y = np.array([[2**24 + 2, 5, 9]], np.int32)
    exact = perform("tensor_tensor", dst=np.zeros_like(x), data1=x, data2=y, op="add")["dst"]
    assert np.array_equal(exact, x + y)
    rounded = perform(
        "tensor_tensor", engine=Engine.vector, dst=np.zeros_like(x), data1=x, data2=y, op="add"
    )["dst"]
    assert rounded[0, 0] == np.float32(2**24) + np.float32(2**24 + 2)
    unsigned = perform(
        "tensor_tensor",
        dst=np.zeros((1, 1), np.uint32),
        data1=np.array([[3]], np.uint32),
        data2=np.array([[5]], np.uint32),
        op="multiply",
    )["dst"]
    assert unsigned[0, 0] == 15


def test_unary_operators_of_tensor_scalar():
    table = {
        "abs": abs,
        "square": lambda x: x * x,
        "relu": lambda x: max(x, 0.0),
        "rsqrt": lambda x: x**-0.5,
        "reciprocal": lambda x: 1 / x,
        "logical_not": lambda x: float(x == 0),
    }
    x = np.abs(X) + 0.1
    for name, function in table.items():
        out = perform(
            "tensor_scalar",
            dst=np.zeros_like(x),
            data=x,
            op0=name,
            operand0=0.0,
            reverse0=False,
            op1=None,
            operand1=None,
            reverse1=False,
        )["dst"]
        np.testing.assert_allclose(out, np.vectorize(function)(x.astype(np.float64)), rtol=1e-6)


def test_every_operator_has_a_test():
    tested = set(BINARY) | {
        "power",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "invert",
        "abs",
        "square",
        "relu",
        "rsqrt",
        "reciprocal",
        "logical_not",
    }
    assert set(ALU_OPS) - tested == {"bypass", "average"}


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.int8, -128, 127),
        (np.uint8, 0, 255),
        (np.int16, -32768, 32767),
        (np.uint16, 0, 65535),
        (np.int32, -(2**31), 2**31 - 1),
        (np.uint32, 0, 2**32 - 1),
    ],
)
def test_floats_round_to_even_and_saturate_into_integers(dtype, low, high):
    value = np.array([0.5, 1.5, 2.5, -0.5, 3.49, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    actual = convert(value, np.dtype(dtype))
    assert actual.tolist() == [0, 2, 2, 0, 3, high, low, high, low, 0]


def test_small_floats_round_to_nearest_even():
    value = RNG.standard_normal(4096).astype(np.float32) * 100
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        name = str(dtype).removeprefix("torch.")
        ours = convert(value, np.dtype(getattr(ml_dtypes, name, name))).astype(np.float32)
        assert np.array_equal(ours, torch.from_numpy(value).to(dtype).float().numpy()), name


def test_tfloat32_keeps_ten_bits_of_mantissa():
    value = RNG.standard_normal(1000).astype(np.float32)
    rounded = value.copy()
    round_tfloat32(rounded)
    assert np.abs(rounded / value - 1).max() <= 2.0**-11
    assert (rounded.view(np.uint32) & 0x1FFF == 0).all()
    special = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    changed = special.copy()
    round_tfloat32(changed)
    np.testing.assert_array_equal(changed, special)


def test_integers_to_a_negative_power() -> None:
    power = ALU_OPS["power"].function
    x = np.array([2, -2, 1, -1, -1, 0, 3, 0], np.int32)
    y = np.array([-1, -3, -5, -2, -3, -1, 2, 0], np.int32)
    expected = [0, 0, 1, 1, -1, 2**31 - 1, 9, 1]
    assert power(x, y).tolist() == expected and power(x, y).dtype == np.int32
    out = np.empty(8, np.int32)
    assert power(x, y, out=out) is out and out.tolist() == expected
    wide = np.array([46341, 3], np.int32)
    powers = power(wide, np.array([2, -1], np.int32))
    assert powers.tolist() == [
        int(power(wide[:1], np.array([2], np.int32))[0]),
        0,
    ]  # it wraps around
