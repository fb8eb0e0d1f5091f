"""Sums over dimensions that others follow in memory, of random shapes, against jaxlib."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.record import Record
from tests.compiler.compiling import check, lowered, run, same

pytestmark = pytest.mark.jax


@hypothesis.given(
    st.lists(st.sampled_from((2, 5, 8, 33, 40, 130)), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from(("float32", "bfloat16", "float16")),
    st.sampled_from(("trn1", "trn2", "trn3")),
)
@hypothesis.settings(max_examples=14, deadline=None, derandomize=True)
def test_sums_across(shape: list[int], random: Any, dtype: str, target: str) -> None:
    hypothesis.assume(np.prod(shape) < 300_000)
    dims = tuple(random.sample(range(len(shape)), random.randrange(1, len(shape))))
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    if random.random() < 0.5:
        x.flat[3] = random.choice((np.inf, np.nan))
    tolerance = 5e-5 if dtype == "float32" else 0.05
    check(lambda x: x.sum(dims), x, tolerance=tolerance, target=target)


def test_means_of_images_and_groups_are_products() -> None:
    def means(x: Any) -> Any:
        groups = x.reshape(3, 11, 12, 8, 9)
        return x.mean((1, 2)), groups.mean((1, 2, 4))

    x = np.random.default_rng(0).standard_normal((3, 11, 12, 72)).astype(np.float32)
    check(means, x, tolerance=1e-5)
    record = Record()
    compile(lowered(means, x), target="trn2", record=record)
    assert "sum" in {kernel for unit in record.units for kernel in unit.kernels}


@hypothesis.given(
    st.sampled_from(((2048,), (4099,), (100_003,), (128, 300), (3, 50, 77), (129, 40), (9, 4096))),
    st.sampled_from(("float32", "bfloat16", "float16")),
    st.sampled_from(("trn1", "trn2", "trn3")),
    st.sampled_from((0.0, 1.5, None)),
    st.sampled_from((0.0, np.inf, np.nan)),
    st.booleans(),
)
@hypothesis.settings(max_examples=16, deadline=None, derandomize=True)
def test_sums_of_everything(
    shape: tuple[int, ...], dtype: str, target: str, start: float | None, odd: float, turned: bool
) -> None:
    def summed(x: Any, *first: Any) -> Any:
        x = x.T if turned else x
        (begin,) = first or (np.asarray(start, x.dtype),)
        return jax.lax.reduce(x, begin, jax.lax.add, tuple(range(x.ndim)))

    import jax

    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    x.flat[-1] += odd
    first = [np.asarray(3.0, dtype)] if start is None else []
    tolerance = 3e-4 if dtype == "float32" else 0.5
    program = compile(lowered(summed, x, *first), target=target)
    (actual,) = run(program, [x, *first])
    begin = 3.0 if start is None else start  # which jaxlib's CPU adds to each of its partial sums
    same(actual, np.asarray(x.astype(np.float64).sum() + begin).astype(dtype), tolerance)


def test_only_the_sum_of_everything_is_stored() -> None:
    x = np.random.default_rng(0).standard_normal(100_003).astype(np.float32)
    program = check(lambda x: x.sum(), x, tolerance=1e-3)
    assert {variable.kind for variable in program.variables.values()} == {"input", "output"}
