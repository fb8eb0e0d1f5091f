"""Floor division of floats on NEFFs: NumPy's and jaxlib's bits, though division is a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.evaluate import evaluate
from hlo_tools.trace import trace
from neff.compiler import compile
from tests.compiler.compiling import TARGETS, Array, lowered, run

FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16]


def edges() -> tuple[Array, Array]:
    """Every pair of numbers where a rounding, a scale or a special case begins."""
    powers = [
        0,
        12,
        22,
        23,
        24,
        31,
        62,
        63,
        64,
        126,
        127,
        -1,
        -60,
        -64,
        -65,
        -126,
        -127,
        -128,
        -149,
    ]
    values = [2.0**power for power in powers]
    values += [
        2.0**-126 * (1 - 2.0**-23),
        1e-40,
        3 * 2.0**-149,
        3.4028235e38,
        np.inf,
        np.nan,
        0,
        0.1,
    ]
    values += [
        1 / 3,
        0.3,
        3,
        5,
        7,
        1 - 2.0**-24,
        1 + 2.0**-23,
        2 - 2.0**-23,
        2.0**24 - 1,
        4097,
        1e9,
    ]
    sizes = np.array(values).astype(np.float32)
    signed = np.concatenate([sizes, -sizes])
    a, b = np.meshgrid(signed, signed)
    return a.reshape(-1).copy(), b.reshape(-1).copy()


def drawn(seed: int, count: int = 20_000) -> tuple[Array, Array]:
    """Quotients up to 2^60, any bits at all, and divisors near a power of two (quotients near ties)."""
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], (2, count))
    near = sign * np.exp2(rng.uniform([[-20], [-20]], [[40], [20]], (2, count)))
    bits = rng.integers(0, 2**32, (2, count), dtype=np.uint32).view(np.float32)
    large = np.exp2(rng.integers(0, 30, (2, count))) * rng.integers(2**23, 2**24, (2, count))
    large[1] = rng.integers(2**24 - 64, 2**24, count)
    a, b = np.concatenate([near.astype(np.float32), bits, large.astype(np.float32)], axis=1)
    return a, b


def assert_bits(actual: Array, expected: Array) -> None:
    """The same bits; NaN is NaN."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    kind = f"u{actual.dtype.itemsize}"
    lost = [np.isnan(array.astype(np.float32)) for array in (actual, expected)]
    np.testing.assert_array_equal(lost[0], lost[1])
    np.testing.assert_array_equal(actual.view(kind)[~lost[0]], expected.view(kind)[~lost[0]])


def against_numpy(
    function: Callable[..., Any], a: Array, b: Array, targets: tuple[str, ...] = TARGETS
) -> None:
    with np.errstate(all="ignore"):
        values = function(a.copy(), b)
    expected = values if isinstance(values, tuple) else (values,)
    module = trace(function, a, b).to_module()
    modes = [evaluate(module, [a, b])]
    modes += [run(compile(module, target=target), [a, b]) for target in targets]
    for results in modes:
        for result, reference in zip(results, expected, strict=True):
            assert_bits(result, np.asarray(reference))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pairs", [edges(), drawn(9)], ids=["edges", "drawn"])
def test_quotients_are_numpys(pairs: tuple[Array, Array], dtype: type) -> None:
    with np.errstate(all="ignore"):
        a, b = (pair.astype(dtype) for pair in pairs)
    against_numpy(lambda a, b: a // b, a, b)


def into(a: Array, b: Array) -> Any:
    """Floor division into the first argument, by name."""
    np.floor_divide(a, b, out=a)
    return a


def in_place(a: Array, b: Array) -> Any:
    a //= b
    return a


@pytest.mark.parametrize("function", [np.divmod, into, in_place])
def test_other_ways_to_write_it(function: Callable[..., Any]) -> None:
    a, b = drawn(10)
    against_numpy(lambda a, b: function(a, b), a, b, ("trn2",))


@pytest.mark.parametrize(
    "number", [3.0, -0.7, 1e-39, 0.0, -0.0, 8.0, 3e38, np.inf, -np.inf, np.nan]
)
def test_quotients_by_and_of_a_number(number: float) -> None:
    a, b = drawn(11, 2_000)
    value = np.float32(number)
    against_numpy(lambda a, b: (a // value, value // b), a, b, ("trn2",))


@pytest.mark.jax
def test_quotients_are_jaxlibs() -> None:
    """Where XLA:CPU takes no subnormal number for zero."""
    import jax
    import jax.numpy as jnp

    a, b = drawn(12)
    with np.errstate(all="ignore"):
        remainder, least = np.fmod(a, b), 2.0**-126
        near = [np.abs(array) for array in (a, b, remainder, np.abs(b) - np.abs(remainder))]
    is_normal = np.all([(array >= least) | (array == 0) for array in near], axis=0)
    a, b = a[is_normal], b[is_normal]
    (expected,) = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(jnp.floor_divide)(a, b))]
    module = lowered(jnp.floor_divide, a, b)
    for target in TARGETS:
        assert_bits(run(compile(module, target=target), [a, b])[0], expected)
