"""Copies that exchange which dimension stands next in memory, of random shapes, against jaxlib."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.record import Record
from tests.compiler.compiling import check, lowered

pytestmark = pytest.mark.jax


def values(*shape: int) -> Any:
    return np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)


@hypothesis.given(
    st.lists(st.sampled_from((3, 17, 40, 130, 257)), min_size=2, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from(("alone", "fused", "cumulative")),
    st.sampled_from(("trn1", "trn2", "trn3")),
)
@hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
def test_transposed_operands(shape: list[int], random: Any, kind: str, target: str) -> None:
    from jax import lax

    hypothesis.assume(np.prod(shape) < 200_000)
    order = list(range(len(shape)))
    random.shuffle(order)
    axis = random.randrange(len(shape))

    def function(x: Any) -> Any:
        if kind == "cumulative":
            return lax.cumsum(x, axis, reverse=bool(axis))
        turned = x.transpose(order)
        return turned if kind == "alone" else (turned * 2, x + 1)

    x = values(*shape)
    if kind != "cumulative":
        x.flat[::97] = np.inf
        x.flat[::89] = np.nan
    check(function, x, tolerance=2e-5, target=target)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_transposed_operand_comes_by_blocks(dtype: str) -> None:
    import jax.numpy as jnp

    x = jnp.asarray(values(300, 200)).astype(dtype)

    def function(x: Any) -> Any:
        return x.T + 1

    program = compile(lowered(function, x), target="trn2")
    assert program.metadata["statistics"]["instructions"] < 100
    check(function, x)


def test_a_value_that_repeats_is_not_copied() -> None:
    def function(x: Any, y: Any) -> Any:
        return x * y[:, :, None]

    arguments = values(4, 260, 300), values(4, 260)
    record = Record()
    compile(lowered(function, *arguments), target="trn2", record=record)
    assert "transpose" not in {kernel for unit in record.units for kernel in unit.kernels}
    check(function, *arguments)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_images_with_channels_first(dtype: str, target: str) -> None:
    """Pixels in groups of neighbors, with and without a remainder, have JAX's elements."""
    import jax.numpy as jnp

    for height, width in ((24, 24), (16, 17), (7, 37)):
        x = jnp.asarray(values(2, height, width, 48)).astype(dtype)
        x = x.at[0, 0, 0, 0].set(jnp.nan).at[1, -1, -1, -1].set(-jnp.inf)
        check(lambda x: x.transpose(0, 3, 1, 2), x, target=target, tolerance=0)


def test_neighboring_rows_come_in_one_transfer() -> None:
    program = compile(
        lowered(lambda x: x.transpose(0, 3, 1, 2), values(4, 32, 32, 64)), target="trn2"
    )
    # for each image two banks of 512 pixels: a load, four transposes, a copy and a store
    assert program.metadata["statistics"]["instructions"] <= 4 * 2 * 7 + 8
