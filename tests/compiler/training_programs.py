"""Programs as training scripts have them, for the device's executors to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["PROGRAMS"]

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _normal(*shape: int) -> Any:
    draw = np.random.default_rng(sum(shape))
    return (0.3 * draw.normal(size=shape)).astype(np.float32)


def _integers(limit: int, *shape: int) -> Any:
    return np.random.default_rng(limit).integers(0, limit, shape).astype(np.int32)


def dropout_step(params: Any, x: Any, y: Any, key: Any) -> Any:
    """One step of gradient descent of a two-layer perceptron with dropout."""

    def loss(params: Any) -> Any:
        hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
        keep_mask = jax.random.bernoulli(key, 0.8, hidden.shape)
        hidden = jnp.where(keep_mask, hidden / 0.8, 0.0)
        return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)

    value, slopes = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)


def convolution_step(params: Any, images: Any, labels: Any) -> Any:
    """The same of a small network with a convolution and a maximum over windows."""

    def loss(params: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        features = lax.conv_general_dilated(
            images, params["kernel"], (1, 1), "SAME", dimension_numbers=dims
        )
        features = jax.nn.relu(features + params["bias"])
        window = (1, 2, 2, 1)
        pooled = lax.reduce_window(features, -jnp.inf, lax.max, window, window, "VALID")
        logits = pooled.reshape(images.shape[0], -1) @ params["dense"]
        scores = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))

    value, slopes = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)


def attention(params: Any, x: Any) -> Any:
    """Causal attention of several heads, and the gradient of its sum."""

    def output(params: Any) -> Any:
        batch, length, width = x.shape
        heads = 2
        q, k, v = (
            (x @ params[name]).reshape(batch, length, heads, width // heads).swapaxes(1, 2)
            for name in ("q", "k", "v")
        )
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width // heads)
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.einsum("bhqk,bhkd->bqhd", weights, v).reshape(batch, length, width)

    return output(params), jax.grad(lambda p: (output(p) ** 2).sum())(params)


def embedding_loss(table: Any, head: Any, tokens: Any, targets: Any) -> Any:
    """Cross entropy of the next token, with the gradient of the table."""

    def loss(table: Any, head: Any) -> Any:
        logits = table[tokens] @ head
        chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)

    return jax.value_and_grad(loss, argnums=(0, 1))(table, head)


def adam_step(weights: Any, slopes: Any, first: Any, second: Any, step: Any) -> Any:
    """One step of Adam with weight decay and a warm-up that is taken at run time."""
    step = step + 1
    rate = lax.cond(step < 10, lambda s: 1e-3 * s / 10, lambda s: 1e-3 + 0.0 * s, step * 1.0)
    first = 0.9 * first + 0.1 * slopes
    second = 0.999 * second + 0.001 * slopes**2
    scaled = (first / (1 - 0.9**step)) / (jnp.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights - rate * (scaled + 0.01 * weights), first, second, step


def sampling(logits: Any, key: Any) -> Any:
    """Tokens drawn from the eight likeliest, as generation does."""
    values, tokens = lax.top_k(logits, 8)
    picked = jax.random.categorical(key, values)
    return jnp.take_along_axis(tokens, picked[:, None], axis=1), jnp.argsort(logits, axis=1)


def recurrent(weights: Any, inputs: Any) -> Any:
    """A recurrent network over a sequence, with gradient."""

    def loss(weights: Any) -> Any:
        def turn(state: Any, x: Any) -> Any:
            state = jnp.tanh(state @ weights + x)
            return state, state.mean()

        state, means = lax.scan(turn, jnp.zeros(inputs.shape[1:]), inputs)
        return (state**2).sum() + means.sum()

    return jax.value_and_grad(loss)(weights)


_KEY = np.array([3, 14], np.uint32)
_DENSE = {"w1": _normal(12, 20), "b1": _normal(20), "w2": _normal(20, 4), "b2": _normal(4)}
_CONV = {"kernel": _normal(3, 3, 2, 4), "bias": _normal(4), "dense": _normal(64, 5)}
_HEADS = {name: _normal(16, 16 + 0) for name in ("q", "k", "v")}

PROGRAMS: dict[str, Program] = {
    "adam_step": (
        adam_step,
        (_normal(9, 7), _normal(7, 9).T.copy(), _normal(9, 7), _normal(9, 7) ** 2, np.int32(4)),
    ),
    "attention": (attention, (_HEADS, _normal(2, 10, 16))),
    "convolution_step": (convolution_step, (_CONV, _normal(3, 8, 8, 2), _integers(5, 3))),
    "dropout_step": (dropout_step, (_DENSE, _normal(6, 12), _normal(6, 4), _KEY)),
    "embedding_loss": (
        embedding_loss,
        (_normal(30, 8), _normal(8, 30), _integers(30, 2, 5), _integers(29, 2, 5)),
    ),
    "recurrent": (recurrent, (_normal(6, 6), _normal(12, 3, 6))),
    "sampling": (sampling, (_normal(4, 33), _KEY)),
}
"""Name -> the function and its arguments."""
