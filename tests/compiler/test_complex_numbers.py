"""Complex numbers as pairs of real arrays: every operation beside jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo_tools
from neff.compiler import compile
from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check, lowered, run

pytestmark = pytest.mark.jax

Function = Callable[..., Any]


def numbers(seed: int, *shape: int, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    components = rng.standard_normal((2, *shape)).astype(np.float32) * np.float32(scale)
    return (components[0] + 1j * components[1]).astype(np.complex64)


UNARY: dict[str, Function] = {
    "abs": jnp.abs, "angle": jnp.angle, "conj": jnp.conj, "cos": jnp.cos, "cosh": jnp.cosh,
    "exp": jnp.exp, "expm1": jnp.expm1, "imag": jnp.imag, "log": jnp.log, "log1p": jnp.log1p,
    "negate": jnp.negative, "real": jnp.real, "reciprocal": jnp.reciprocal, "rsqrt": lax.rsqrt,
    "sign": lax.sign, "sin": jnp.sin, "sinh": jnp.sinh, "sqrt": jnp.sqrt, "square": jnp.square,
    "tan": jnp.tan, "tanh": jnp.tanh, "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan,
    "asinh": jnp.arcsinh, "acosh": jnp.arccosh, "atanh": jnp.arctanh,
    "logistic": lambda z: lax.logistic(z), "isfinite": jnp.isfinite,
}  # fmt: skip
BINARY: dict[str, Function] = {
    "add": jnp.add, "divide": jnp.divide, "equal": lambda z, w: z == w * 1, "multiply": jnp.multiply,
    "not equal": lambda z, w: z != w, "power": jnp.power, "subtract": jnp.subtract,
    "with real": lambda z, w: z * w.real + 2.5, "where": lambda z, w: jnp.where(z.real > 0, z, w),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, seed: int) -> None:
    check(UNARY[name], numbers(seed, 5, 33), tolerance=2e-5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str, seed: int) -> None:
    check(BINARY[name], numbers(seed, 4, 20), numbers(seed + 9, 4, 20), tolerance=2e-5)


def _loop(z: Any) -> Any:
    def body(state: Any) -> Any:
        count, total, history = state
        total = total * (0.5 + 0.25j) + z
        return count + 1, total, history.at[count].set(total[0])

    start = (0, z, jnp.zeros(4, jnp.complex64))
    return lax.while_loop(lambda state: state[0] < 4, body, start)


def _branch(z: Any) -> Any:
    return lax.cond(z.real[0] > 0, lambda x: (x * 1j, x.real), lambda x: (x + 2, x.imag), z)


def _scanned(z: Any) -> Any:
    return lax.scan(lambda total, x: (total * x, total + x), z[0], z)


MOVEMENT: dict[str, Function] = {
    "branch": lambda z: _branch(z[0]),
    "broadcast": lambda z: jnp.broadcast_to(z, (3, *z.shape)) * 1j,
    "concatenate": lambda z: jnp.concatenate([z, z.conj()], 1),
    "constant": lambda z: z + np.arange(z.shape[1]) * np.complex64(1j),
    "convert": lambda z: z.real.astype(jnp.int32).astype(jnp.complex64) + z,
    "cumprod": lambda z: jnp.cumprod(z, 1), "cumsum": lambda z: jnp.cumsum(z, 1),
    "diagonal": jnp.diag, "dynamic slice": lambda z: lax.dynamic_slice(z, (1, 2), (2, 3)),
    "entry tuple": lambda z: (z, {"a": z.real, "b": (z * 2, z.imag)}),
    "gather": lambda z: z[jnp.asarray([2, 0, 1])], "iota": lambda z: z * lax.iota(jnp.complex64, 8),
    "loop": lambda z: _loop(z[0]), "matmul": lambda z: z @ z.T, "mean": lambda z: z.mean(1),
    "outer": lambda z: jnp.einsum("ij,kl->ikjl", z, z), "pad": lambda z: jnp.pad(z, 1, constant_values=2j),
    "product": lambda z: z.prod(1), "reshape": lambda z: z.reshape(-1, 3).T,
    "reverse": lambda z: z[::-1, ::2], "roll": lambda z: jnp.roll(z, 3, 1),
    "scalar": lambda z: z[0, 0] * z[1, 1], "scan": _scanned,
    "scatter": lambda z: z.at[jnp.asarray([0, 0, 2])].add(z[:3] * 1j),
    "scatter set": lambda z: z.at[jnp.asarray([1, 0])].set(z[2:4]), "sort": lambda z: jnp.sort(z, 1),
    "sum": lambda z: z.sum(), "sum of rows": lambda z: z.sum(0), "unchanged": lambda z: z,
    "update": lambda z: lax.dynamic_update_slice(z, z[:1, :2] * 2, (2, 3)), "variance": lambda z: z.var(0),
    "view": lambda z: z.real + z.imag, "zeros": lambda z: (jnp.zeros_like(z), z),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MOVEMENT)
def test_movement(name: str, seed: int) -> None:
    check(MOVEMENT[name], numbers(seed, 6, 8), tolerance=3e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", [1, 3])
def test_targets_and_levels(target: str, level: int) -> None:
    def layer(z: Any, w: Any) -> Any:
        return jnp.tanh(z @ w) / (1 + jnp.abs(z) ** 2) + jnp.exp(1j * z.real)

    options = CompileOptions(optlevel=level)
    check(
        layer, numbers(1, 24, 40), numbers(2, 40, 40, scale=0.2),
        target=target, options=options, tolerance=1e-4,
    )  # fmt: skip


def test_gradient() -> None:
    def loss(z: Any, w: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.fft.fft(z * w)) ** 2) + jnp.sum(jnp.log(1 + jnp.abs(z)))

    check(jax.grad(loss, argnums=(0, 1)), numbers(3, 4, 16), numbers(4, 4, 16), tolerance=2e-4)


def test_convolution() -> None:
    def convolve(z: Any, w: Any) -> Any:
        return lax.conv_general_dilated(z, w, (1,), "SAME")

    check(convolve, numbers(1, 2, 3, 20), numbers(2, 4, 3, 5), tolerance=5e-5)


SPECIAL = np.asarray([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-30, 1e30], np.float32)


@pytest.mark.parametrize(
    "name", ["abs", "exp", "log", "log1p", "sign", "sinh", "sqrt", "tanh", "divide", "power"]
)
def test_special_values(name: str) -> None:
    """Zero, infinite, tiny and huge parts give what jaxlib gives, NaN included."""
    z = np.zeros(64, np.complex64)
    z.real, z.imag = np.repeat(SPECIAL, 8), np.tile(SPECIAL, 8)
    function = (BINARY | UNARY)[name]
    arguments = [z, np.full(64, 2 + 1j, np.complex64)] if name in BINARY else [z]
    (actual,) = run(compile(lowered(function, *arguments), target="trn2"), arguments)
    reference = np.asarray(jax.jit(function)(*arguments))
    for component in (np.real, np.imag):
        np.testing.assert_allclose(component(actual), component(reference), rtol=2e-5, atol=1e-30)


LENGTHS = [1, 2, 7, 64, 127, 128, 130, 256, 300, 521, 1000, 1016, 1042, 2048, 4099, 8192]


@pytest.mark.parametrize("length", LENGTHS)
def test_transforms_of_any_length(length: int) -> None:
    z = numbers(length, 2, length)
    tolerance = 3e-6 * length**0.5 + 1e-5
    check(jnp.fft.fft, z, tolerance=tolerance)
    check(jnp.fft.irfft, jnp.fft.rfft(z.real), tolerance=tolerance)


TRANSFORMS: dict[str, Function] = {
    "fft2": jnp.fft.fft2, "fftn": jnp.fft.fftn, "hfft": jnp.fft.hfft, "ifft": jnp.fft.ifft,
    "ifft2": jnp.fft.ifft2, "irfft": jnp.fft.irfft, "irfft odd": lambda z: jnp.fft.irfft(z, 15),
    "irfft2": jnp.fft.irfft2, "over rows": lambda z: jnp.fft.fft(z, axis=0),
    "rfft": lambda z: jnp.fft.rfft(z.real), "rfft2": lambda z: jnp.fft.rfft2(z.real),
    "rfft odd": lambda z: jnp.fft.rfft(z.real, 7), "padded": lambda z: jnp.fft.fft(z, 20),
    "ihfft": lambda z: jnp.fft.ihfft(z.real), "shifted": lambda z: jnp.fft.fftshift(jnp.fft.fft(z)),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, seed: int) -> None:
    check(TRANSFORMS[name], numbers(seed, 3, 6, 9), tolerance=2e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_factors(lower: bool) -> None:
    a = numbers(3, 2, 5, 5)
    a = a @ a.conj().transpose(0, 2, 1) + 4 * np.eye(5, dtype=np.complex64)
    text = f"""HloModule m
ENTRY e {{ a = c64[2,5,5] parameter(0)
  ROOT f = c64[2,5,5] cholesky(a), lower={str(lower).lower()} }}"""
    (factor,) = run(compile(hlo_tools.load(text.encode()), target="trn2"), [a])
    expected = np.linalg.cholesky(a)
    factor = np.tril(factor) if lower else np.triu(factor).conj().transpose(0, 2, 1)
    np.testing.assert_allclose(factor, expected, atol=2e-5)


@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(
    ("lower", "unit"), [(True, False), (True, True), (False, True), (False, False)]
)
def test_triangular_systems(operation: str, left: bool, lower: bool, unit: bool) -> None:
    a = numbers(4, 2, 4, 4) + 3 * np.eye(4, dtype=np.complex64)
    b = numbers(5, 2, *((4, 3) if left else (3, 4)))
    shape = ",".join(map(str, b.shape))
    text = f"""HloModule m
ENTRY e {{ a = c64[2,4,4] parameter(0)
  b = c64[{shape}] parameter(1)
  ROOT x = c64[{shape}] triangular-solve(a, b), left_side={str(left).lower()},
    lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={operation} }}"""
    (x,) = run(compile(hlo_tools.load(text.encode()), target="trn2"), [a, b])
    matrix = np.tril(a) if lower else np.triu(a)
    if unit:
        index = np.arange(4)
        matrix[:, index, index] = 1
    matrix = {
        "NO_TRANSPOSE": matrix, "TRANSPOSE": matrix.transpose(0, 2, 1),
        "ADJOINT": matrix.conj().transpose(0, 2, 1),
    }[operation]  # fmt: skip
    np.testing.assert_allclose(matrix @ x if left else x @ matrix, b, atol=3e-5)
