"""Sorting, choices at run time and operations that the engines lack, against jaxlib."""

from __future__ import annotations

import functools
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from neff.compiler import compile
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check, lowered, run, wide_types

pytestmark = pytest.mark.jax

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e-30]


def floats(seed: int, *shape: int) -> np.ndarray:
    """Numbers with ties and special values among them."""
    draw = np.random.default_rng(seed)
    values = np.round(draw.normal(size=shape), 1).astype(np.float32)
    flat = values.reshape(-1)
    positions = draw.integers(0, flat.size, max(1, flat.size // 6))
    flat[positions] = np.asarray(SPECIAL, np.float32)[positions % len(SPECIAL)]
    return values


def whole(dtype: str, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(len(dtype))
    if dtype in ("float32", "bfloat16", "float16"):
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        return floats(3, *shape).astype(kind)
    info = np.iinfo(dtype)
    return draw.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize(
    ("dtype", "target"),
    [
        *(("float32", target) for target in TARGETS),
        *((name, "trn2") for name in ("bfloat16", "float16", "int32", "uint32", "int8", "uint8")),
    ],
)
def test_sorting_of_each_type(dtype: str, target: str) -> None:
    x = whole(dtype, 3, 13)
    check(lambda x: (jnp.sort(x), jnp.argsort(x, descending=True)), x, target=target)


@hypothesis.given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 2), st.booleans()
)
@hypothesis.settings(max_examples=6, deadline=None)
def test_sorting_along_any_dimension(shape: list[int], dim: int, descending: bool) -> None:
    dim %= len(shape)
    x = floats(sum(shape), *shape)
    check(lambda x: jnp.sort(x, axis=dim, descending=descending), x)


def test_equal_keys_keep_their_order_and_carry_the_rest() -> None:
    keys = np.random.default_rng(0).integers(0, 3, (2, 21)).astype(np.int32)
    a, b = floats(1, 2, 21), np.arange(42, dtype=np.int32).reshape(2, 21)
    check(lambda *x: lax.sort(x, num_keys=1, is_stable=True), keys, a, b)
    check(lambda *x: lax.sort(x, num_keys=2), keys, b % 4, a)


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_of_many(target: str) -> None:
    x = floats(5, 4, 40)
    check(lambda x: lax.top_k(x, 5), x, target=target)
    check(lambda x: lax.top_k(x, 1), whole("int32", 4, 8), target=target)
    check(jnp.median, floats(2, 9)[~np.isnan(floats(2, 9))], target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [((2, 2), (2, 2), "VALID"), ((3, 3), (2, 2), "SAME"), ((3, 2), (1, 1), "SAME"), ((1, 4), (1, 3), "VALID")],
)  # fmt: skip
def test_gradients_of_maxima(window, stride, padding: str, target: str) -> None:
    x = np.round(np.random.default_rng(1).normal(size=(2, 7, 8, 3)), 1).astype(np.float32)

    def loss(x):
        sizes, steps = (1, *window, 1), (1, *stride, 1)
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, sizes, steps, padding)
        return (pooled * jnp.arange(pooled.size).reshape(pooled.shape)).sum()

    check(jax.grad(loss), x, target=target)


@pytest.mark.parametrize("chosen", [-3, 0, 1, 2, 9])
def test_a_branch_is_chosen_at_run_time(chosen: int) -> None:
    branches = [lambda x: (x + 1, x), lambda x: (x * 2, x - 1), lambda x: (-x, x * 0)]
    x = floats(1, 3, 5)
    check(lambda x, n: lax.switch(n, branches, x), x, np.int32(chosen))
    check(lambda x, n: lax.cond(n, *branches[:2], x), x, np.bool_(chosen > 0))


@pytest.mark.parametrize("dtype", ["uint32", "uint8", "uint16", "int8", "int16", "int32"])
def test_integer_division_of_each_type(dtype: str) -> None:
    info = np.iinfo(dtype)
    a = np.concatenate([whole(dtype, 40), np.array([0, 1, info.max, info.min], dtype)])
    b = whole(dtype, 44)
    b[:20] = np.arange(20) % 7
    b[40:] = [1, info.max, 1, info.max]
    keep = ~((a == info.min) & (b.astype(np.int64) == -1))  # overflows, undefined
    a, b = a[keep], b[keep]
    check(lambda a, b: (lax.div(a, b), lax.rem(a, b)), a, b)
    seven = np.asarray(7, dtype)
    check(lambda a: a + lax.div(seven, np.asarray(2, dtype)), a)  # known while compiling


@pytest.mark.parametrize("dtype", ["uint32", "uint8", "int8", "int16", "int32"])
def test_counts_of_bits(dtype: str) -> None:
    x = np.concatenate([whole(dtype, 30), np.array([0, 1, np.iinfo(dtype).max], dtype)])
    check(lambda x: (lax.population_count(x), lax.clz(x)), x)


def test_angles() -> None:
    special = np.asarray([*SPECIAL, -1e-30, 3e38, -3e38], np.float32)
    y, x = (grid.ravel() for grid in np.meshgrid(special, special))
    check(jnp.arctan2, y, x)
    draw = np.random.default_rng(3).normal(size=(2, 500)).astype(np.float32)
    check(jnp.arctan2, *draw)


def test_angles_of_subnormals() -> None:
    """jaxlib takes subnormals as zeros; NumPy computes with them."""
    tiny = np.asarray([1e-40, -3e-42, 2e-38, 0.0, -0.0, 1.0, -1.0], np.float32)
    y, x = (grid.ravel() for grid in np.meshgrid(tiny, tiny))
    (actual,) = run(compile(lowered(jnp.arctan2, y, x), target="trn2"), [y, x])
    np.testing.assert_allclose(actual, np.arctan2(y, x), rtol=3e-7, atol=0)


def test_long_loops_of_little() -> None:
    x = floats(1, 300, 3)
    x[~np.isfinite(x)] = 0
    check(lambda x: lax.scan(lambda c, a: (0.5 * c + a, c.sum()), jnp.zeros(3), x), x)


def test_reductions_by_any_computation() -> None:
    x = np.random.default_rng(1).normal(size=(4, 11, 3)).astype(np.float32)
    check(lambda x: lax.cumlogsumexp(x, axis=1), x)

    def norm(a, b):
        return jnp.sqrt(a * a + b * b)

    check(lambda x: lax.reduce(x, np.float32(0), norm, (1,)), x)
    check(lambda x: lax.reduce(x, np.float32(0), norm, (0, 2)), x)

    def welford(left, right):
        (n, mean, spread), (m, middle, more) = left, right
        total = jnp.maximum(n + m, 1)
        shift = middle - mean
        return n + m, mean + shift * m / total, spread + more + shift**2 * n * m / total

    def moments(x):
        start = (np.float32(0), np.float32(0), np.float32(0))
        return lax.reduce((jnp.ones_like(x), x, jnp.zeros_like(x)), start, welford, (1,))

    check(moments, x, tolerance=1e-5)


def test_what_is_not_covered_is_named() -> None:
    x = np.ones((4, 4), np.float32)
    with pytest.raises(NeffCompileError, match="potrf") as caught:
        check(jnp.linalg.cholesky, x)
    assert caught.value.code == "NEFF-CUSTOM-CALL"


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_PHILOX", "RNG_THREE_FRY"])
@pytest.mark.parametrize("shape", [(3, 20), (7,), (1,)])
def test_random_bits(algorithm: str, shape: tuple[int, ...]) -> None:
    state = np.array([2**31 - 5, 678], np.uint64)
    with wide_types():
        kind = getattr(lax.RandomAlgorithm, algorithm)
        check(lambda k: lax.rng_bit_generator(k, shape, algorithm=kind), state)


@pytest.mark.parametrize("shape", [(390, 512), (70_001,)])
def test_dropout_has_jax_bits_in_interleaved_tiles(shape: tuple[int, ...]) -> None:
    def dropout(x: Any, seed: int) -> Any:
        mask = jax.random.bernoulli(jax.random.key(seed), 0.9, x.shape)
        return jnp.where(mask, x / 0.9, 0), jax.random.bits(jax.random.key(seed), (3, *x.shape))

    for seed, target, cores in ((3, "trn1", 1), (4, "trn2", 2), (5, "trn3", 1)):
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        options = CompileOptions(lnc=cores)
        check(functools.partial(dropout, seed=seed), x, target=target, options=options)
