"""Products of integers are exact, whatever their size; shapes are random, ragged ones too."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.compiler.compiling import Array, check

pytestmark = pytest.mark.jax

_TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
_few = hypothesis.settings(max_examples=4, deadline=None, derandomize=True)
_sizes = st.sampled_from([1, 3, 129, 300, 513])


def _integers(dtype: type[np.integer], *shape: int) -> Array:
    info = np.iinfo(dtype)
    draw = np.random.default_rng(sum(shape)).integers
    return draw(info.min, info.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", _TYPES)
@_few
@hypothesis.given(rows=st.integers(1, 9), depth=_sizes, columns=st.integers(1, 9))
def test_dot(dtype: type[np.integer], rows: int, depth: int, columns: int) -> None:
    check(jnp.matmul, _integers(dtype, rows, depth), _integers(dtype, depth, columns))


@pytest.mark.parametrize("depth", [3, 700])
def test_dot_into_a_larger_type(depth: int) -> None:
    for dtype in (np.int8, np.uint8, np.int16):
        check(
            lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
            _integers(dtype, 5, depth), _integers(dtype, depth, 4),
        )  # fmt: skip


def test_batches_and_windows() -> None:
    check(
        lambda a, b: jnp.einsum("bikl,bklj->jbi", a, b),
        _integers(np.int32, 2, 3, 4, 5), _integers(np.int32, 2, 4, 5, 3),
    )  # fmt: skip
    check(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 2), "SAME", rhs_dilation=(2, 1)),
        _integers(np.int16, 1, 3, 6, 7), _integers(np.int16, 4, 3, 3, 3),
    )  # fmt: skip


@_few
@hypothesis.given(
    groups=st.sampled_from([2, 3]), extent=st.integers(3, 6), per_group=st.integers(1, 2)
)
def test_batch_groups(groups: int, extent: int, per_group: int) -> None:
    draw = np.random.default_rng(extent).standard_normal
    image = draw((groups * per_group, 3, extent, extent)).astype(np.float32)
    kernel = draw((groups * 2, 3, 3, 3)).astype(np.float32)
    check(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", batch_group_count=groups),
        image, kernel, tolerance=1e-5,
    )  # fmt: skip


def test_gradient_of_grouped_convolution() -> None:
    draw = np.random.default_rng(1).standard_normal

    def loss(image: jax.Array, kernel: jax.Array) -> jax.Array:
        convolved = lax.conv_general_dilated(image, kernel, (2, 1), "SAME", feature_group_count=2)
        return (convolved * convolved).sum()

    image, kernel = (draw(shape).astype(np.float32) for shape in ((2, 4, 5, 6), (6, 2, 3, 3)))
    check(jax.grad(loss, (0, 1)), image, kernel, tolerance=1e-4)


@pytest.mark.parametrize("dtype", _TYPES)
def test_shifts_of_narrow_types(dtype: type[np.integer]) -> None:
    value, by = _integers(dtype, 40), np.arange(40).astype(dtype)
    check(
        lambda a, b: (
            lax.shift_left(a, b), lax.shift_right_logical(a, b), lax.shift_right_arithmetic(a, b)
        ),
        value, by,
    )  # fmt: skip
    check(lax.mulhi, value, value[::-1].copy())


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("result", [np.int32, np.int8])
def test_long_products_of_bytes_are_one_exact_kernel(
    dtype: type[np.integer], result: type[np.integer], target: str
) -> None:
    """Sums of extreme values reach 2^24 in a panel, and exceed it in the whole."""
    info = np.iinfo(dtype)
    extreme = np.full((130, 2200), info.min if info.min else info.max, dtype)
    for left in (extreme, _integers(dtype, 130, 2200)):
        right = _integers(dtype, 2200, 40)
        right[:, 0] = left[0]
        program = check(
            lambda a, b: lax.dot(a, b, preferred_element_type=result), left, right, target=target
        )  # fmt: skip
        assert program.metadata["statistics"]["kernels"] == 1


@pytest.mark.parametrize("wide", [np.int16, np.uint16, np.int32, np.uint32])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
def test_widened_bytes_are_multiplied_as_bytes(dtype: type[np.generic], wide: type) -> None:
    """Conversions to wider integers are left out, where the low bits of the result are the same."""
    draw = np.random.default_rng(3)
    low, high = (0, 2) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)

    def multiply(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        a, b = a.astype(wide), b.astype(wide)
        return a @ b, lax.dot(a, b, preferred_element_type=jnp.int32)

    for rows, depth in ((5, 300), (3, 1300)):
        left = draw.integers(low, high, (rows, depth)).astype(dtype)
        check(multiply, left, draw.integers(low, high, (depth, 4)).astype(dtype))
