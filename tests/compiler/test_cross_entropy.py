"""Losses of classes and their gradients: labels are compared and gathered in the pass over the logits."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler.record import Record
from tests.compiler.compiling import TARGETS, check

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
EDGE_NUMBERS = [-(2**31), -(2**24) - 1, -1, 0, 5, 6, 2**24, 2**24 + 1, 2**31 - 1]


def logits(rows: int, classes: int, seed: int) -> Array:
    values = np.random.default_rng((seed, rows, classes)).normal(size=(rows, classes)) * 3
    return values.astype(np.float32)


def labels(rows: int, classes: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, classes, rows).astype(np.int32)


def loss(x: Any, targets: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x), targets[:, None], axis=1).mean()


def loss_by_pairs(x: Any, targets: Any) -> Any:
    """The form of PyTorch's lowering: each index is a pair of row and class."""
    return -jax.nn.log_softmax(x)[jnp.arange(x.shape[0]), targets].sum()


def loss_by_one_hot(x: Any, targets: Any) -> Any:
    hot = jax.nn.one_hot(targets, x.shape[1])
    return -(hot * jax.nn.log_softmax(x)).sum(1).mean()


@pytest.mark.parametrize("function", [loss, loss_by_pairs, loss_by_one_hot])
@pytest.mark.parametrize(("rows", "classes"), [(64, 257), (150, 2500)])
def test_a_loss_and_its_gradient(function: Any, rows: int, classes: int) -> None:
    for seed, target in enumerate(TARGETS):
        arguments = logits(rows, classes, seed), labels(rows, classes, seed)
        check(jax.value_and_grad(function), *arguments, target=target, tolerance=1e-5)


def test_labels_beyond_the_classes() -> None:
    """JAX takes NaN for them, and their gradient is that of no element."""
    targets = np.array([*EDGE_NUMBERS, *range(64 - len(EDGE_NUMBERS))], np.int32)
    check(jax.value_and_grad(loss), logits(64, 40, 1), targets, tolerance=1e-5)


def test_no_array_of_the_classes_goes_to_memory_between_kernels() -> None:
    record = Record()
    arguments = logits(256, 1024, 2), labels(256, 1024, 2)
    check(jax.value_and_grad(loss), *arguments, tolerance=1e-5, record=record)
    stored = [value for unit in record.units for value in unit.stored]
    sizes = [value.nbytes for value in stored if "a result" not in value.why]
    assert max(sizes) < 256 * 1024


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_positions_are_compared_with_any_integer(name: str, dtype: Any) -> None:
    """Both sides of a comparison, with integers that float32 rounds."""
    compare = getattr(operator, name)
    numbers = np.resize(np.array(EDGE_NUMBERS).astype(dtype), 48)

    def function(x: Any) -> Any:
        positions = jax.lax.broadcasted_iota(dtype, (48, 70), 1)
        row = jnp.broadcast_to(x[:, None], (48, 70))
        return compare(row, positions), compare(positions, row), compare(x, dtype(2**24 - 1))

    for target in TARGETS:
        check(function, numbers, target=target)
        check(function, numbers[::-1].copy(), target=target)


@pytest.mark.parametrize(
    "pair", [(1.0, 0.0), (0.0, 1.0), (-0.0, 2.0), (-3.0, 0.0), (np.inf, 0.0), (1e30, 1e-30),
             (0.1, 0.3), (np.nan, 1.0), (-0.0, 0.0), (0.0, -0.0)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_choice_of_two_numbers_is_exact(pair: tuple[float, float], dtype: str) -> None:
    def function(x: Any) -> Any:
        first, second = (jnp.asarray(number, dtype) for number in pair)
        chosen = jnp.where(x > 0, first, second)
        return chosen, jnp.signbit(chosen)

    for seed in (1, 2):
        check(function, logits(40, 64, seed), tolerance=0)
