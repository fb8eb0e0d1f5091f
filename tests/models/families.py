"""Families of models in plain JAX: graphs, windows of a picture, experts with a capacity, actor and
critic, a radiance field, beam search, sampled activations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.models.model import Model, normal, tokens

__all__ = [
    "actor_critic", "beam_search", "capacity", "graph_attention", "radiance", "sampled",
    "shifted_windows",
]  # fmt: skip


def _cross_entropy(logits: Any, labels: Any) -> Any:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.mean(chosen)


def _classifier(forward: Any, weights: Any, batch: Any) -> Model:
    return Model(
        forward, lambda w, batch: _cross_entropy(forward(w, batch), batch["out"]), weights, batch
    )


def graph_attention() -> Model:
    """Two rounds of messages along edges: weights from a softmax over each node's edges, then means."""
    nodes, edges, classes = 24, 60, 5
    weights = {
        "in": normal(1, 8, 16, scale=0.3), "edge": normal(2, 32, scale=0.3),
        "out": normal(3, 16, classes, scale=0.3),
    }  # fmt: skip

    def forward(w: Any, batch: Any) -> Any:
        source, target = batch["source"], batch["target"]
        x = batch["in"] @ w["in"]
        scores = jax.nn.leaky_relu(jnp.concatenate([x[source], x[target]], -1) @ w["edge"])
        largest = jax.ops.segment_max(scores, target, nodes)
        shares = jnp.exp(scores - jnp.where(jnp.isfinite(largest), largest, 0)[target])
        total = jax.ops.segment_sum(shares, target, nodes)
        mixed = (shares / (total[target] + 1e-9))[:, None] * x[source]
        x = jax.nn.elu(jax.ops.segment_sum(mixed, target, nodes))
        count = jax.ops.segment_sum(jnp.ones(edges), target, nodes)
        means = jax.ops.segment_sum(x[source], target, nodes) / jnp.maximum(count, 1)[:, None]
        return (x + means) @ w["out"]

    def batch(seed: int) -> dict[str, Any]:
        return {
            "in": normal(seed, nodes, 8), "source": tokens(seed + 1, nodes, edges),
            "target": tokens(seed + 2, nodes, edges), "out": tokens(seed + 3, classes, nodes),
        }  # fmt: skip

    return _classifier(forward, weights, batch)


def shifted_windows() -> Model:
    """Attention inside windows of 4 by 4 patches, then inside shifted ones, and patches merged (Swin)."""
    width, heads = 16, 2
    squares = {name: normal(index, width, width, scale=0.25) for index, name in enumerate("qkvo")}
    weights = squares | {
        "patch": normal(9, 48, width, scale=0.2), "merge": normal(10, 4 * width, width, scale=0.2),
        "head": normal(11, width, 5, scale=0.3),
    }  # fmt: skip
    windows = np.zeros((8, 8), int)
    windows[6:] += 1
    windows[:, 6:] += 2
    windows = windows.reshape(2, 4, 2, 4).transpose(0, 2, 1, 3).reshape(4, 16)
    mask = np.where(windows[:, None] != windows[:, :, None], np.float32(-100), np.float32(0))

    def attended(w: Any, x: Any, shift: int) -> Any:
        moved = jnp.roll(x, (-shift, -shift), (1, 2))
        rows = moved.reshape(-1, 2, 4, 2, 4, width).transpose(0, 1, 3, 2, 4, 5)
        rows = rows.reshape(-1, 4, 16, width)
        q, k, v = ((rows @ w[name]).reshape(*rows.shape[:3], heads, -1) for name in "qkv")
        scores = jnp.einsum("bwqhd,bwkhd->bhwqk", q, k) / np.sqrt(width // heads)
        shares = jax.nn.softmax(scores + mask if shift else scores)
        mixed = jnp.einsum("bhwqk,bwkhd->bwqhd", shares, v).reshape(rows.shape) @ w["o"]
        back = mixed.reshape(-1, 2, 2, 4, 4, width).transpose(0, 1, 3, 2, 4, 5)
        return x + jnp.roll(back.reshape(x.shape), (shift, shift), (1, 2))

    def forward(w: Any, batch: Any) -> Any:
        patches = batch["in"].reshape(-1, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5)
        x = patches.reshape(-1, 8, 8, 48) @ w["patch"]
        x = attended(w, attended(w, x, 0), 2)
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return (jnp.concatenate(corners, -1) @ w["merge"]).mean((1, 2)) @ w["head"]

    def batch(seed: int) -> dict[str, Any]:
        return {"in": normal(seed, 2, 32, 32, 3), "out": tokens(seed + 1, 5, 2)}

    return _classifier(forward, weights, batch)


def capacity() -> Model:
    """Experts that take at most six tokens each, in the order of the tokens (GShard)."""
    experts, width, positions, count = 4, 16, 6, 16
    weights = {
        "router": normal(0, width, experts), "up": normal(1, experts, width, 32, scale=0.2),
        "down": normal(2, experts, 32, width, scale=0.2),
    }  # fmt: skip

    def forward(w: Any, batch: Any) -> Any:
        x = batch["in"]
        gates, chosen = lax.top_k(jax.nn.softmax(x @ w["router"]), 2)
        one_hot = jax.nn.one_hot(chosen, experts)
        position = jnp.cumsum(one_hot.reshape(-1, experts), 0).reshape(one_hot.shape) * one_hot - 1
        fits = (position < positions) & (position >= 0)
        rows = jax.nn.one_hot(jnp.where(fits, position, -1).astype(jnp.int32), positions)
        rows = rows * one_hot[..., None]
        inputs = jnp.einsum("tkec,td->ecd", rows, x)
        inner = jax.nn.gelu(jnp.einsum("ecd,edh->ech", inputs, w["up"]))
        back = jnp.einsum("ech,ehd->ecd", inner, w["down"])
        return jnp.einsum("ecd,tkec,tk->td", back, rows, gates)

    def loss(w: Any, batch: Any) -> Any:
        return (forward(w, batch) ** 2).mean()

    return Model(forward, loss, weights, lambda seed: {"in": normal(seed, count, width)})


def actor_critic() -> Model:
    """Proximal policy optimisation: advantages by a scan from the end, clipped ratios, entropy."""
    steps, games, choices = 10, 4, 3
    weights = {
        "in": normal(0, 6, 16, scale=0.3), "policy": normal(1, 16, choices, scale=0.3),
        "value": normal(2, 16, scale=0.3),
    }  # fmt: skip

    def forward(w: Any, batch: Any) -> Any:
        inner = jnp.tanh(batch["seen"] @ w["in"])
        return inner @ w["policy"], inner @ w["value"]

    def advantages(values: Any, batch: Any) -> Any:
        goes_on = 1 - batch["ended"].astype(jnp.float32)
        following = jnp.concatenate([values[1:], values[-1:]])
        surprise = batch["reward"] + 0.99 * following * goes_on - values

        def turn(later: Any, step: Any) -> Any:
            now = step[0] + 0.94 * step[1] * later
            return now, now

        sums = lax.scan(turn, jnp.zeros(games), (surprise, goes_on), reverse=True)[1]
        return lax.stop_gradient((sums - sums.mean()) / (sums.std() + 1e-8))

    def loss(w: Any, batch: Any) -> Any:
        logits, values = forward(w, batch)
        gain, scores = advantages(values, batch), jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(scores, batch["choice"][..., None], -1)[..., 0]
        ratio = jnp.exp(chosen - batch["score"])
        policy = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        error = (values - lax.stop_gradient(gain + values)) ** 2
        return 0.5 * error.mean() - policy + 0.01 * (jnp.exp(scores) * scores).sum(-1).mean()

    def batch(seed: int) -> dict[str, Any]:
        return {
            "seen": normal(seed, steps, games, 6), "reward": normal(seed + 1, steps, games),
            "ended": normal(seed + 2, steps, games) > 1,
            "choice": tokens(seed + 3, choices, steps, games),
            "score": -np.abs(normal(seed + 4, steps, games)),
        }  # fmt: skip

    return Model(forward, loss, weights, batch)


def radiance() -> Model:
    """Colours along rays: a positional encoding of sines, a small network, products of opacities."""
    weights = {"in": normal(0, 39, 32, scale=0.2), "out": normal(1, 32, 4, scale=0.2)}

    def forward(w: Any, batch: Any) -> Any:
        along = jnp.linspace(0, 1, 8)[:, None]
        points = batch["origin"][:, None] + batch["direction"][:, None] * along
        waves = [
            wave(points * (2.0**octave * np.pi))
            for octave in range(6)
            for wave in (jnp.sin, jnp.cos)
        ]
        out = jax.nn.relu(jnp.concatenate([points, *waves], -1) @ w["in"]) @ w["out"]
        opacity = 1 - jnp.exp(-jax.nn.softplus(out[..., 3]) / 8)
        passing = jnp.cumprod(1 - opacity + 1e-10, -1)
        passing = jnp.concatenate([jnp.ones_like(passing[:, :1]), passing[:, :-1]], -1)
        return ((opacity * passing)[..., None] * jax.nn.sigmoid(out[..., :3])).sum(1)

    def loss(w: Any, batch: Any) -> Any:
        return ((forward(w, batch) - 0.5) ** 2).mean()

    def batch(seed: int) -> dict[str, Any]:
        return {"origin": normal(seed, 16, 3), "direction": normal(seed + 1, 16, 3)}

    return Model(forward, loss, weights, batch, tolerance=1e-3)


def beam_search() -> Model:
    """The three best texts of six words, kept by a loop that reorders its state each turn."""
    words, width, rows, beams, length = 11, 8, 2, 3, 6
    weights = {
        "embed": normal(0, words, width), "turn": normal(1, width, width, scale=0.4),
        "out": normal(2, width, words),
    }  # fmt: skip

    def forward(w: Any, batch: Any) -> Any:
        def turn(number: Any, state: Any) -> Any:
            inner, scores, last, texts = state
            inner = jnp.tanh(inner @ w["turn"] + w["embed"][last])
            following = jax.nn.log_softmax(inner @ w["out"]) + scores[..., None]
            scores, positions = lax.top_k(following.reshape(rows, -1), beams)
            parent, last = positions // words, positions % words
            inner = jnp.take_along_axis(inner, parent[..., None], 1)
            texts = jnp.take_along_axis(texts, parent[..., None], 1).at[:, :, number].set(last)
            return inner, scores, last, texts

        start = jnp.tile(jnp.array([0.0, -1e9, -1e9]), (rows, 1))
        last = jnp.broadcast_to(batch["in"][:, None], (rows, beams))
        texts = jnp.zeros((rows, beams, length), jnp.int32)
        state = (jnp.zeros((rows, beams, width)), start, last, texts)
        _, scores, _, texts = lax.fori_loop(0, length, turn, state)
        return scores, texts

    def loss(w: Any, batch: Any) -> Any:
        return forward(w, batch)[0].sum()

    return Model(forward, loss, weights, lambda seed: {"in": tokens(seed, words, rows)})


def sampled() -> Model:
    """A recurrence whose dropout draws from a key that it splits each turn, and a sampled code."""
    weights = {
        "turn": normal(0, 8, 8, scale=0.3), "in": normal(1, 5, 8, scale=0.3),
        "code": normal(2, 8, 6, scale=0.3), "out": normal(3, 3, 5, scale=0.3),
    }  # fmt: skip

    def forward(w: Any, batch: Any) -> Any:
        def turn(state: Any, x: Any) -> Any:
            inner, key = state
            key, drawn = jax.random.split(key)
            keep_mask = jax.random.bernoulli(drawn, 0.8, inner.shape)
            inner = jnp.tanh(inner @ w["turn"] + x @ w["in"]) * keep_mask / 0.8
            return (inner, key), inner

        (_, key), inner = lax.scan(turn, (jnp.zeros((2, 8)), batch["key"]), batch["in"])
        mean, spread = jnp.split(inner @ w["code"], 2, -1)
        return (mean + jnp.exp(spread) * jax.random.normal(key, mean.shape)) @ w["out"]

    def loss(w: Any, batch: Any) -> Any:
        return ((forward(w, batch) - batch["in"]) ** 2).mean()

    def batch(seed: int) -> dict[str, Any]:
        return {"in": normal(seed, 7, 2, 5), "key": np.array([seed, 3], np.uint32)}

    return Model(forward, loss, weights, batch)
