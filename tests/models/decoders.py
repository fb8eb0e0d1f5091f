"""Decoders in plain JAX: Llama with rotary embedding and a cache of keys and values, Mixtral, mamba."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.models.model import Model, normal, tokens

__all__ = ["llama", "llama_generation", "mamba", "mixtral"]

WIDTH, HEADS, GROUPS, LENGTH, VOCABULARY = 32, 4, 2, 16, 61
HEAD = WIDTH // HEADS


def _rms(x: Any, gain: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def _rotated(x: Any, positions: Any) -> Any:
    """Rotary embedding of (batch, length, heads, size); positions are (length,)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] / 10000 ** (jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    low, high = x[..., :half], x[..., half:]
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)


def _attended(query: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Attention whose heads share keys and values in groups."""
    keys, values = (jnp.repeat(heads, HEADS // GROUPS, axis=2) for heads in (keys, values))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, keys) / np.sqrt(HEAD)
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, values)
    return mixed.reshape(*mixed.shape[:2], WIDTH)


def _projected(w: Any, x: Any, positions: Any) -> tuple[Any, Any, Any]:
    """Rotated queries and keys, and values."""
    batch, length, _ = x.shape
    query = (x @ w["q"]).reshape(batch, length, HEADS, HEAD)
    key, value = ((x @ w[name]).reshape(batch, length, GROUPS, HEAD) for name in "kv")
    return _rotated(query, positions), _rotated(key, positions), value


def _gated(w: Any, x: Any) -> Any:
    return (jax.nn.silu(x @ w["gate"]) * (x @ w["up"])) @ w["down"]


def _next_token(logits: Any, targets: Any) -> Any:
    scores = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(scores, targets[..., None], -1))


def _matrices(seed: int, **shapes: tuple[int, ...]) -> dict[str, Any]:
    return {
        name: normal(seed + number, *shape, scale=shape[-2] ** -0.5)
        for number, (name, shape) in enumerate(shapes.items())
    }


def _attention_weights(seed: int) -> dict[str, Any]:
    small = GROUPS * HEAD
    matrices = _matrices(
        seed, q=(WIDTH, WIDTH), k=(WIDTH, small), v=(WIDTH, small), o=(WIDTH, WIDTH)
    )
    return matrices | {"n1": 1 + normal(seed + 20, WIDTH, scale=0.1), "n2": np.ones(WIDTH, "f4")}


def _stack(layers: Any) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *layers)


def _language_batch(seed: int) -> dict[str, Any]:
    return {
        "in": tokens(seed, VOCABULARY, 2, LENGTH),
        "out": tokens(seed + 1, VOCABULARY, 2, LENGTH),
    }


def _decoder(layer: Any) -> Any:
    """A whole decoder: embedding, layers one after another, norm, the tied head."""

    def forward(w: Any, batch: Any) -> Any:
        x = w["embed"][batch["in"]]
        positions, mask = jnp.arange(LENGTH), jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        for layer_weights in w["layers"]:
            h = _rms(x, layer_weights["n1"])
            x = x + _attended(*_projected(layer_weights, h, positions), mask) @ layer_weights["o"]
            x = x + layer(layer_weights, _rms(x, layer_weights["n2"]))
        return _rms(x, w["norm"]) @ w["embed"].T

    return forward


def _decoder_model(layer: Any, layers: list[Any], **options: Any) -> Model:
    forward = _decoder(layer)
    weights = {
        "embed": normal(5, VOCABULARY, WIDTH),
        "layers": layers,
        "norm": np.ones(WIDTH, "f4"),
    }

    def loss(w: Any, batch: Any) -> Any:
        return _next_token(forward(w, batch), batch["out"])

    return Model(forward, loss, weights, _language_batch, **options)


def _llama_layer(seed: int) -> dict[str, Any]:
    gated = _matrices(seed + 40, gate=(WIDTH, 48), up=(WIDTH, 48), down=(48, WIDTH))
    return _attention_weights(seed) | gated


def llama() -> Model:
    """Two layers: RMS norm, rotary embedding, grouped heads, gated SiLU."""
    return _decoder_model(_gated, [_llama_layer(seed) for seed in (100, 200)])


def llama_generation() -> Model:
    """Greedy decoding: a prompt fills the cache, then tokens are drawn one by one.

    The cache is written with ``dynamic_update_slice`` at a position known only at run time.
    """
    base = llama()
    count, prompt = 5, 6

    def advance(w: Any, caches: Any, word: Any, position: Any) -> tuple[Any, Any]:
        x = w["embed"][word]
        mask, new_caches = jnp.arange(LENGTH) < position + word.shape[1], []
        if word.shape[1] > 1:
            mask = mask & jnp.tril(jnp.ones((word.shape[1], LENGTH), bool))
        for layer_weights, (keys, values) in zip(w["layers"], caches, strict=True):
            positions = position + jnp.arange(word.shape[1])
            query, key, value = _projected(layer_weights, _rms(x, layer_weights["n1"]), positions)
            keys = lax.dynamic_update_slice(keys, key, (0, position, 0, 0))
            values = lax.dynamic_update_slice(values, value, (0, position, 0, 0))
            x = x + _attended(query, keys, values, mask) @ layer_weights["o"]
            x = x + _gated(layer_weights, _rms(x, layer_weights["n2"]))
            new_caches.append((keys, values))
        return _rms(x[:, -1:], w["norm"]) @ w["embed"].T, new_caches

    def forward(w: Any, batch: Any) -> Any:
        empty = jnp.zeros((2, LENGTH, GROUPS, HEAD))
        caches = [(empty, empty)] * len(w["layers"])
        logits, caches = advance(w, caches, batch["in"][:, :prompt], jnp.int32(0))

        def turn(carry: Any, _: Any) -> Any:
            caches, logits, position = carry
            word = jnp.argmax(logits, -1).astype(jnp.int32)
            logits, caches = advance(w, caches, word, position)
            return (caches, logits, position + 1), (word[:, 0], logits[:, 0])

        start = (caches, logits, jnp.int32(prompt))
        return lax.scan(turn, start, None, length=count)[1]

    def loss(w: Any, batch: Any) -> Any:
        words, logits = forward(w, batch)
        return _next_token(logits, words)

    return Model(forward, loss, base.weights, base.batch)


def mixtral() -> Model:
    """Two layers whose tokens each go through two of four gated experts, by their gate's weights."""
    experts, expert_count = 4, 2

    def layer(w: Any, x: Any) -> Any:
        flat = x.reshape(-1, WIDTH)
        values, chosen = lax.top_k(flat @ w["router"], expert_count)
        shares = jax.nn.softmax(values, -1)
        gates = (jax.nn.one_hot(chosen, experts) * shares[..., None]).sum(1)
        inner = jax.nn.silu(jnp.einsum("td,edf->etf", flat, w["gate"]))
        inner = inner * jnp.einsum("td,edf->etf", flat, w["up"])
        out = jnp.einsum("etf,efd->etd", inner, w["down"])
        return jnp.einsum("etd,te->td", out, gates).reshape(x.shape)

    def weights(seed: int) -> dict[str, Any]:
        shapes = {"gate": (experts, WIDTH, 24), "up": (experts, WIDTH, 24)}
        matrices = _matrices(seed, router=(WIDTH, experts), **shapes, down=(experts, 24, WIDTH))
        return _attention_weights(seed) | matrices

    return _decoder_model(layer, [weights(300), weights(400)])


def mamba() -> Model:
    """A selective state space: a causal convolution by channel, then a scan with gates from data."""
    inner, states, taps, rank = 48, 8, 4, 4

    def layer(w: Any, x: Any) -> Any:
        x, gate = jnp.split(x @ w["in"], 2, -1)
        x = jax.nn.silu(
            lax.conv_general_dilated(
                x, w["conv"], (1,), [(taps - 1, 0)], dimension_numbers=("NWC", "WIO", "NWC"),
                feature_group_count=inner,
            )
        )  # fmt: skip
        steps, b, c = jnp.split(x @ w["select"], [rank, rank + states], -1)
        steps = jax.nn.softplus(steps @ w["steps"])
        decay = jnp.exp(steps[..., None] * -jnp.exp(w["a"]))
        added = (steps * x)[..., None] * b[:, :, None, :]

        def joined(left: Any, right: Any) -> Any:
            return left[0] * right[0], right[0] * left[1] + right[1]

        _, states_of = lax.associative_scan(joined, (decay, added), axis=1)
        y = jnp.einsum("blds,bls->bld", states_of, c) + w["d"] * x
        return (y * jax.nn.silu(gate)) @ w["out"]

    def weights(seed: int) -> dict[str, Any]:
        matrices = _matrices(
            seed, **{"in": (WIDTH, 2 * inner)}, conv=(taps, 1, inner), steps=(rank, inner),
            select=(inner, rank + 2 * states), out=(inner, WIDTH),
        )  # fmt: skip
        decay = np.log(np.broadcast_to(np.arange(1, states + 1, dtype="f4"), (inner, states)))
        return matrices | {"a": decay.copy(), "d": np.ones(inner, "f4"), "n": np.ones(WIDTH, "f4")}

    def forward(w: Any, batch: Any) -> Any:
        x = w["embed"][batch["in"]]
        for layer_weights in w["layers"]:
            x = x + layer(layer_weights, _rms(x, layer_weights["n"]))
        return x @ w["embed"].T

    def loss(w: Any, batch: Any) -> Any:
        return _next_token(forward(w, batch), batch["out"])

    layers = [weights(500), weights(600)]
    return Model(
        forward, loss, {"embed": normal(6, VOCABULARY, WIDTH), "layers": layers}, _language_batch
    )
