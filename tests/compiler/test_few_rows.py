"""A few long rows are cut into parts: cumulative sums, indices of extremes, greatest elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.timing import estimate
from tests.compiler.compiling import TARGETS, check, compile, lowered

pytestmark = pytest.mark.jax

ROW_SHAPES = {"one row": (1, 5000), "no parts of equal length": (3, 4099), "even": (2, 8192)}


def rows(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return jnp.asarray(np.round(values, 2), dtype)  # rounded, so that elements are equal


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ROW_SHAPES.values(), ids=ROW_SHAPES)
def test_cumulative_sums_and_extremes(shape: tuple[int, int], target: str) -> None:
    def all_kinds(x: Any) -> Any:
        return jnp.cumsum(x, -1), jax.lax.cumsum(x, 1, reverse=True), jax.lax.cummax(x, 1)

    for seed in (1, 2):
        check(all_kinds, rows(shape, seed), tolerance=1e-3, target=target)


def test_a_cumulative_sum_across_rows_and_in_bfloat16() -> None:
    for seed in (1, 2):
        check(lambda x: jnp.cumsum(x, 0), rows((5000, 3), seed), tolerance=1e-3)
        x = rows((2, 4200), seed, "bfloat16")
        check(lambda x: jnp.cumsum(x.astype(jnp.float32), 1).astype(x.dtype), x, tolerance=2e-2)


def test_what_is_no_number_reaches_the_elements_behind_it() -> None:
    x = (
        rows((2, 5000), 3)
        .at[0, 700]
        .set(jnp.inf)
        .at[0, 3000]
        .set(-jnp.inf)
        .at[1, 4999]
        .set(jnp.nan)
    )
    check(lambda x: (jnp.cumsum(x, 1), jax.lax.cummax(x, 1)), x, tolerance=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ROW_SHAPES.values(), ids=ROW_SHAPES)
def test_indices_of_extremes(shape: tuple[int, int], target: str) -> None:
    """The first of equal elements counts, and NaN is greater and less than any number."""
    for seed in (1, 2):
        x = rows(shape, seed)
        check(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1)), x, target=target)
    x = x.at[0, 4097].set(jnp.nan).at[0, 4098].set(jnp.nan)
    check(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1)), x, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ROW_SHAPES.values(), ids=ROW_SHAPES)
def test_greatest_elements(shape: tuple[int, int], target: str) -> None:
    """Equal elements come in the order of their indices."""
    for seed in (1, 2):
        check(lambda x: jax.lax.top_k(x, 20), rows(shape, seed), target=target)
    check(lambda x: jax.lax.top_k(-x, 9), rows(shape, 5, "bfloat16"), target=target)


@pytest.mark.parametrize(
    ("function", "shape", "microseconds"),
    [
        (lambda x: jnp.argmax(x, -1), (8, 50257), 100),
        (lambda x: jnp.cumsum(x, -1), (8, 1 << 17), 90),
        (lambda x: jax.lax.top_k(x, 50), (8, 50257), 200),
    ],
    ids=["argmax", "cumsum", "top 50"],
)
def test_all_partitions_work(function: Any, shape: tuple[int, int], microseconds: int) -> None:
    """The estimates were 250, 288 and 1439 microseconds when each row was on one partition."""
    module = lowered(function, jax.ShapeDtypeStruct(shape, np.float32))
    program = compile(module, target="trn2")
    assert estimate(program).total.value < microseconds * 1e3


@pytest.mark.parametrize("columns", [4103, 4223, 9001])
def test_parts_of_long_rows_overlap(columns: int) -> None:
    """Ties, NaN and infinities stand in elements of two parts, and in the last ones of a row."""
    for seed, rows in ((1, 5), (2, 16)):
        x = np.random.default_rng(seed).integers(0, 50, (rows, columns)).astype(np.float32)
        x[0, -1] = x[1, 33] = 99
        x[2, columns // 2] = x[2, -3] = np.nan
        x[3], x[4, 7] = -np.inf, np.inf
        check(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1)), x, tolerance=0)


def test_comparisons_with_a_value_of_each_row() -> None:
    for seed in (1, 2):
        x = np.random.default_rng(seed).integers(-4, 5, (40, 300)).astype(np.float32)
        x[0, 5], x[1, 6], x[2] = np.nan, np.inf, 0
        level = x[:, 3:4]
        check(
            lambda x, y: (x > y, x <= y, y < x, x == y, x != y, x != x, y >= x, jnp.isnan(x).sum(-1)),
            x, level, tolerance=0,
        )  # fmt: skip


def test_indices_of_extremes_along_any_dimension() -> None:
    for seed in (1, 2):
        x = np.random.default_rng(seed).integers(-9, 9, (70, 90)).astype(np.float32)
        x[0, -1], x[3, 5], x[3, 60], x[4], x[5, 7] = 99, np.nan, np.nan, -np.inf, np.inf
        check(
            lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1), jnp.argmax(x, 0), jnp.argmin(x, 0)), x,
            tolerance=0,
        )  # fmt: skip
        words = x[6:].astype(np.int32)
        check(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), words, tolerance=0)
