"""A model of the tests, and the three programs that are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["KINDS", "Model", "Program", "normal", "program_of", "tokens"]

KINDS = ("forward", "gradient", "step")
"""Programs of a model: its output; the loss with its gradient; one step of its optimiser."""

Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
"""A function of JAX, and its arguments from a seed."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model with random weights.

    Attributes:
        forward: (weights, batch) -> output.
        loss: (weights, batch) -> number.
        weights: a tree of arrays.
        batch: seed -> a tree of arrays.
        optimizer: name of one of optax's, with its arguments. Adam's first step divides a slope
            by its own size plus ``eps``: with the usual one, rounding errors become whole steps.
        tolerance: relative and absolute, of float32 results against jaxlib's.
    """

    forward: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Any]
    weights: Any
    batch: Callable[[int], Any]
    optimizer: tuple[str, dict[str, Any]] = ("adamw", {"learning_rate": 1e-2, "eps": 1e-2})
    tolerance: float = 1e-4


def program_of(model: Model, kind: str) -> Program:
    """One of the programs; arguments are NumPy arrays in trees."""
    import jax

    if kind == "forward":
        return model.forward, lambda seed: (model.weights, model.batch(seed))
    if kind == "gradient":
        return jax.value_and_grad(model.loss), lambda seed: (model.weights, model.batch(seed))
    import optax

    name, options = model.optimizer
    optimizer = getattr(optax, name)(**options)
    state = jax.tree.map(np.asarray, optimizer.init(model.weights))

    def step(weights: Any, state: Any, batch: Any) -> Any:
        loss, slopes = jax.value_and_grad(model.loss)(weights, batch)
        updates, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    return step, lambda seed: (model.weights, state, model.batch(seed))


def normal(seed: int, *shape: int, scale: float = 1.0) -> Any:
    """Random float32."""
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def tokens(seed: int, limit: int, *shape: int) -> Any:
    """Random int32 below a limit."""
    return np.random.default_rng(seed).integers(0, limit, shape).astype(np.int32)
