"""Training steps of models."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.suites.corpus.programs.table import program, values


@program
def mlp_step() -> Any:
    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w, b in weights:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x - y) ** 2)

    def step(weights: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loss)(weights, x, y)
        return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, grads)

    weights = [(values(16, 16), values(16)) for _ in range(3)]
    return step, (weights, values(8, 16), values(8, 16)), {"donate_argnums": (0,)}


def layer(x: Any, w: Any) -> Any:
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = (norm(x) @ w[name] for name in ("q", "k", "v"))
    split = lambda t: t.reshape(*t.shape[:2], 2, -1).swapaxes(1, 2)  # noqa: E731
    scores = jnp.einsum("bhqd,bhkd->bhqk", split(q), split(k)) / 2.0
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, split(v)).swapaxes(1, 2).reshape(x.shape)
    x = x + mixed @ w["o"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def transformer(layers: int, scanned: bool) -> Any:
    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens]
        if scanned:
            stacked = jax.tree_util.tree_map(lambda *parts: jnp.stack(parts), *params["layers"])
            x, _ = lax.scan(lambda x, w: (layer(x, w), None), x, stacked)
        else:
            for w in params["layers"]:
                x = layer(x, w)
        logits = x @ params["embed"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
        return -picked.mean()

    def step(params: Any, moments: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, tokens)
        moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
        params = jax.tree_util.tree_map(lambda p, m: p - 0.01 * m, params, moments)
        return params, moments, value

    sizes = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8), "up": (8, 16), "down": (16, 8)}
    layer_values = {name: values(*size) for name, size in sizes.items()}
    params = {"embed": values(13, 8), "layers": [dict(layer_values) for _ in range(layers)]}
    tokens = (np.arange(10).reshape(2, 5) % 13).astype(np.int32)
    moments = jax.tree_util.tree_map(np.zeros_like, params)
    return step, (params, moments, tokens), {"donate_argnums": (0, 1)}


@program
def transformer_step() -> Any:
    return transformer(2, scanned=False)


@program
def transformer_scanned() -> Any:
    return transformer(3, scanned=True)


@program
def transformer_large() -> Any:
    function, arguments, options = transformer(32, scanned=False)
    return function, arguments, {**options, "large": True}


@program
def conv_step() -> Any:
    def forward(weights: Any, x: Any) -> Any:
        for number, w in enumerate(weights[:-1]):
            x = lax.conv_general_dilated(
                x, w, (1 + number % 2,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.mean((1, 2)) @ weights[-1]

    def step(weights: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(lambda w: jnp.sum((forward(w, x) - y) ** 2))(weights)
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

    weights = [values(3, 3, 3, 4), values(3, 3, 4, 6), values(6, 5)]
    return step, (weights, values(2, 8, 8, 3), values(2, 5)), {}
