"""The JAX programs of ``bench_programs``: forward passes, training steps, scans and while loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A function with its arguments, and the ratio to jaxlib that the project aims at."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    aim: float


def _normal(*shape: int, seed: int = 0, scale: float = 0.1) -> Any:
    random = np.random.default_rng(seed + sum(shape))
    return (random.standard_normal(shape) * scale).astype(np.float32)


def _layers(count: int, width: int) -> list[dict[str, Any]]:
    return [
        {
            "qkv": _normal(width, 3 * width, seed=i, scale=0.05),
            "out": _normal(width, width, seed=i, scale=0.05),
            "up": _normal(width, 4 * width, seed=i, scale=0.05),
            "down": _normal(4 * width, width, seed=i, scale=0.05),
            "gain": np.ones(width, np.float32),
        }
        for i in range(count)
    ]


def _norm(x: Any, gain: Any) -> Any:
    import jax
    import jax.numpy as jnp

    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gain


def _transformer(layers: Any, x: Any, heads: int) -> Any:
    import jax
    import jax.numpy as jnp

    length, width = x.shape[-2:]
    for layer in layers:
        qkv = _norm(x, layer["gain"]) @ layer["qkv"]
        parts = [
            piece.reshape(*x.shape[:-1], heads, width // heads) for piece in jnp.split(qkv, 3, -1)
        ]
        score = jnp.einsum("...qhd,...khd->...hqk", parts[0], parts[1]) * (width // heads) ** -0.5
        score = jnp.where(jnp.tril(jnp.ones((length, length), bool)), score, -1e9)
        mixed = jnp.einsum("...hqk,...khd->...qhd", jax.nn.softmax(score), parts[2])
        x = x + mixed.reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(_norm(x, layer["gain"]) @ layer["up"]) @ layer["down"]
    return x


def forward() -> Case:
    """A forward pass of 12 transformer layers."""
    return Case(
        lambda layers, x: _transformer(layers, x, 12),
        (_layers(12, 768), _normal(128, 768, scale=1.0)),
        1.5,
    )


def gpt2_step() -> Case:
    """A training step (SGD with momentum) of a small GPT-2."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, tokens: Any) -> Any:
        x = weights["embed"][tokens[:, :-1]] + weights["place"]
        scores = _transformer(weights["layers"], x, 4) @ weights["embed"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(scores), tokens[:, 1:, None], -1)
        return -jnp.mean(picked)

    def step(weights: Any, velocity: Any, tokens: Any) -> Any:
        slopes = jax.grad(loss)(weights, tokens)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, slopes)
        return jax.tree.map(lambda w, v: w - 0.1 * v, weights, velocity), velocity

    weights = {"embed": _normal(256, 64), "place": _normal(32, 64), "layers": _layers(2, 64)}
    tokens = np.random.default_rng(1).integers(0, 256, (4, 33)).astype(np.int32)
    return Case(step, (weights, jax.tree.map(np.zeros_like, weights), tokens), 5)


def _lstm_loss(weights: Any, xs: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(x @ weights[0] + h @ weights[1] + weights[2], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((xs.shape[1], weights[1].shape[0]))
    (h, _), _ = jax.lax.scan(cell, (zero, zero), xs)
    return jnp.mean((h @ weights[3] - y) ** 2)


def lstm_step() -> Case:
    """A training step of an LSTM, 64 iterations of a scan forward and backward."""
    import jax

    def step(weights: Any, xs: Any, y: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(_lstm_loss)(weights, xs, y))

    weights = [_normal(32, 256), _normal(64, 256), _normal(256), _normal(64, 8)]
    return Case(step, (weights, _normal(64, 16, 32, scale=1.0), _normal(16, 8)), 5)


def mlp_step() -> Case:
    """A training step of a perceptron with two layers and Adam."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    def step(weights: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
        slopes = jax.grad(loss)(weights, x, y)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slopes)
        update = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + 1e-8), first, second)
        return jax.tree.map(lambda w, u: w - 0.001 * u, weights, update), first, second

    weights = [_normal(64, 128), _normal(128, 16)]
    zeros = jax.tree.map(np.zeros_like, weights)
    return Case(step, (weights, zeros, zeros, _normal(64, 64), _normal(64, 16)), 5)


def scan_rnn() -> Case:
    """A scan of 256 iterations with a product in each."""
    import jax
    import jax.numpy as jnp

    def run(weight: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ weight + x)
            return h, h

        return jax.lax.scan(cell, jnp.zeros(xs.shape[1:]), xs)

    return Case(run, (_normal(64, 64), _normal(256, 8, 64)), 10)


def scan_elementwise() -> Case:
    """A linear recurrence of 512 iterations over a tile."""
    import jax
    import jax.numpy as jnp

    def run(decay: Any, xs: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            state = decay * state + x
            return state, jnp.sum(state * x)

        return jax.lax.scan(cell, jnp.zeros_like(decay), xs)

    return Case(run, (_normal(64, 32, scale=0.5), _normal(512, 64, 32)), 10)


def while_newton() -> Case:
    """A while loop that ends when a residual is small."""
    import jax
    import jax.numpy as jnp

    def run(a: Any) -> Any:
        def going(state: Any) -> Any:
            return (jnp.max(jnp.abs(state[0] * state[0] - a)) > 1e-4) & (state[1] < 200)

        def body(state: Any) -> Any:
            x, count = state
            return x - 0.05 * (x * x - a) / x, count + 1

        return jax.lax.while_loop(going, body, (a + 1.0, 0))

    return Case(run, (np.abs(_normal(32, 64, scale=1.0)) + 1.0,), 10)


def fori_update() -> Case:
    """A counted loop that updates a row of a matrix in each of 256 iterations."""
    import jax

    def run(matrix: Any, row: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            line = jax.lax.dynamic_slice(state, (i, 0), (1, 128))
            return jax.lax.dynamic_update_slice(state, line * 0.5 + row, (i, 0))

        return jax.lax.fori_loop(0, 256, body, matrix)

    return Case(run, (_normal(256, 128), _normal(1, 128)), 10)


PROGRAMS: dict[str, Callable[[], Case]] = {
    "forward": forward,
    "gpt2_step": gpt2_step,
    "lstm_step": lstm_step,
    "mlp_step": mlp_step,
    "scan_rnn": scan_rnn,
    "scan_elementwise": scan_elementwise,
    "while_newton": while_newton,
    "fori_update": fori_update,
}
