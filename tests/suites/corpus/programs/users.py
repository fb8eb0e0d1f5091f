"""Programs as they stand in people's code bases: language models, experts, decoding, solvers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.suites.corpus.programs.table import program, values


def rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def rotated(x: Any) -> Any:
    """Rotary positions; x is [batch, time, heads, width]."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 0.5 ** jnp.arange(half)
    sin, cos = jnp.sin(angles)[:, None].astype(x.dtype), jnp.cos(angles)[:, None].astype(x.dtype)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def grouped_attention(x: Any, w: Any) -> Any:
    """Four query heads over two of keys and values."""
    batch, time, _ = x.shape
    q = rotated((x @ w["q"]).reshape(batch, time, 4, 4))
    k, v = ((x @ w[name]).reshape(batch, time, 2, 4) for name in "kv")
    q = q.reshape(batch, time, 2, 2, 4)
    scores = jnp.einsum("btgrd,bsgd->bgrts", q, rotated(k), preferred_element_type=jnp.float32)
    mask = jnp.arange(time)[:, None] >= jnp.arange(time)
    weights = jax.nn.softmax(jnp.where(mask, scores / 2, -1e9)).astype(x.dtype)
    return jnp.einsum("bgrts,bsgd->btgrd", weights, v).reshape(batch, time, 16) @ w["o"]


def block(x: Any, w: Any, key: Any) -> Any:
    x = x + grouped_attention(rms_norm(x, w["norm"]), w)
    y = rms_norm(x, w["norm"])
    y = (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
    keep_mask = jax.random.bernoulli(key, 0.9, y.shape)
    return x + jnp.where(keep_mask, y / 0.9, 0).astype(x.dtype)


@program
def language_model() -> Any:
    """bf16 weights, a scan over rematerialised layers, Adam with clipping and decay."""

    def loss(params: Any, tokens: Any, key: Any) -> Any:
        checkpointed = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
        keys = jax.random.split(key, 3)
        x = params["embed"][tokens].astype(jnp.bfloat16)
        x, _ = lax.scan(lambda x, row: (checkpointed(x, *row), None), x, (params["layers"], keys))
        logits = (x @ params["embed"].T.astype(x.dtype)).astype(jnp.float32)
        targets = jax.nn.one_hot(tokens[:, 1:], 16)
        return -(jax.nn.log_softmax(logits[:, :-1]) * targets).sum(-1).mean()

    def step(params: Any, state: Any, tokens: Any, key: Any, count: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, tokens, key)
        norm = jnp.sqrt(sum((g.astype(jnp.float32) ** 2).sum() for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / norm).astype(g.dtype), grads)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state[0], grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state[1], grads)
        rate = 0.01 * jnp.minimum(count / 10, 1 / jnp.sqrt(count + 1.0))
        new = jax.tree.map(
            lambda p, m, v: (p - rate * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * p)).astype(p.dtype), params, m, v
        )  # fmt: skip
        return new, (m, v), value, norm

    sizes = {"q": (16, 16), "k": (16, 8), "v": (16, 8), "o": (16, 16), "norm": (16,),
             "gate": (16, 32), "up": (16, 32), "down": (32, 16)}  # fmt: skip
    layers = {name: values(3, *size, dtype=jnp.bfloat16) for name, size in sizes.items()}
    params = {"embed": values(16, 16), "layers": layers}
    zeros = jax.tree.map(np.zeros_like, params)
    tokens = (np.arange(12).reshape(2, 6) % 16).astype(np.int32)
    arguments = (params, (zeros, zeros), tokens, jax.random.PRNGKey(0), np.float32(3))
    return step, arguments, {"donate_argnums": (0, 1)}


@program
def experts() -> Any:
    """Top-2 routing: tokens are sorted by expert, multiplied in groups and put back."""

    def forward(w: Any, x: Any) -> Any:
        gates, chosen = lax.top_k(jax.nn.softmax(x @ w["router"]), 2)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        sizes = jnp.bincount(flat, length=4).astype(jnp.int32)
        rows = x[order // 2]
        hidden = jax.nn.relu(lax.ragged_dot(rows, w["up"], sizes))
        out = lax.ragged_dot(hidden, w["down"], sizes) * gates.reshape(-1)[order][:, None]
        load = (jax.nn.one_hot(chosen, 4).mean((0, 1)) ** 2).sum()
        return jnp.zeros_like(x).at[order // 2].add(out), load

    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            y, load = forward(w, x)
            return ((y - x) ** 2).mean() + 0.1 * load

        return jax.value_and_grad(loss)(w)

    w = {"router": values(8, 4), "up": values(4, 8, 16), "down": values(4, 16, 8)}
    return step, (w, values(10, 8)), {}


@program
def capacity_experts() -> Any:
    """Routing by one-hot masks and a capacity, without sorting."""

    def run(x: Any, router: Any, w: Any) -> Any:
        weights = jax.nn.softmax(x @ router)
        mask = jax.nn.one_hot(weights.argmax(-1), 4, dtype=jnp.int32)
        position = jnp.cumsum(mask, axis=0) * mask - 1
        capacity_mask = mask * (position < 3)
        dispatch = (
            jax.nn.one_hot(jnp.where(capacity_mask > 0, position, -1), 3) * capacity_mask[..., None]
        )
        rows = jnp.einsum("td,tec->ecd", x, dispatch)
        out = jnp.einsum("ecd,edf->ecf", rows, w)
        return jnp.einsum("ecf,tec,te->tf", out, dispatch, weights)

    return run, (values(10, 8), values(8, 4), values(4, 8, 8)), {}


@program
def decoding() -> Any:
    """Sampling with a cache until every row has ended; nobody knows when."""

    def run(cache: Any, first: Any, w: Any, key: Any) -> Any:
        def attend(cache: Any, token: Any, position: Any) -> Any:
            x = w["embed"][token]
            k, v = (lax.dynamic_update_slice(c, (x @ w[n])[:, None], (0, position, 0))
                    for c, n in zip(cache, "kv", strict=True))  # fmt: skip
            scores = jnp.einsum("bd,bsd->bs", x @ w["q"], k)
            scores = jnp.where(jnp.arange(12) <= position, scores, -jnp.inf)
            return (k, v), jnp.einsum("bs,bsd->bd", jax.nn.softmax(scores), v) @ w["embed"].T

        def body(state: Any) -> Any:
            position, cache, token, out, ended, key = state
            cache, logits = attend(cache, token, position)
            key, now = jax.random.split(key)
            best = lax.top_k(logits, 3)[0][:, -1:]
            token = jax.random.categorical(now, jnp.where(logits < best, -1e9, logits))
            token = jnp.where(ended, 0, token).astype(jnp.int32)
            return (
                position + 1,
                cache,
                token,
                out.at[:, position].set(token),
                ended | (token == 0),
                key,
            )

        def running(state: Any) -> Any:
            return (state[0] < 12) & ~state[4].all()

        out, ended = jnp.zeros((2, 12), jnp.int32), jnp.zeros(2, bool)
        return lax.while_loop(running, body, (0, cache, first, out, ended, key))

    w = {"embed": values(10, 8), "q": values(8, 8), "k": values(8, 8), "v": values(8, 8)}
    cache = (np.zeros((2, 12, 8), np.float32), np.zeros((2, 12, 8), np.float32))
    return run, (cache, np.array([1, 2], np.int32), w, jax.random.PRNGKey(1)), {}


@program
def beam_search() -> Any:
    def run(scores: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            total, history = state
            best, best_index = lax.top_k((total[:, None] + row).reshape(-1), 3)
            history = jnp.roll(history[best_index // 5], -1, axis=1).at[:, -1].set(best_index % 5)
            return (best, history), best[0]

        return lax.scan(step, (jnp.zeros(3), jnp.zeros((3, 4), jnp.int32)), scores)

    return run, (values(6, 3, 5),), {}


@program
def quantised() -> Any:
    """int8, int4 and fp8 products with scales."""

    def run(x: Any, w: Any) -> Any:
        def rounded(t: Any, axis: int) -> Any:
            scale = jnp.abs(t).max(axis, keepdims=True) / 127 + 1e-6
            return jnp.clip(jnp.round(t / scale), -127, 127).astype(jnp.int8), scale

        (a, sa), (b, sb) = rounded(x, 1), rounded(w, 0)
        quantized = lax.dot(a, b, preferred_element_type=jnp.int32).astype(jnp.float32) * sa * sb
        four = jnp.clip(jnp.round(w * 7), -8, 7).astype(jnp.int4)
        groups = four.reshape(4, 4, 8).astype(jnp.bfloat16) * jnp.bfloat16(0.125)
        weight_only = x.astype(jnp.bfloat16) @ groups.reshape(16, 8)
        small = [(t * 8).astype(k) for t, k in ((x, jnp.float8_e4m3fn), (w, jnp.float8_e5m2))]
        scaled = lax.dot(*small, preferred_element_type=jnp.float32) / 64
        return quantized, weight_only, scaled, four, *small

    return run, (values(6, 16), values(16, 8)), {}


@program
def denoiser() -> Any:
    """A small U-net with group norm, resizing and attention over pixels, and its gradient."""

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def norm(x: Any) -> Any:
        y = x.reshape(*x.shape[:3], 2, -1)
        y = (y - y.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(
            y.var((1, 2, 4), keepdims=True) + 1e-5
        )
        return y.reshape(x.shape)

    def forward(w: Any, x: Any, time: Any) -> Any:
        waves = jnp.sin(time[:, None] * 2.0 ** jnp.arange(4))
        a = jax.nn.swish(norm(conv(x, w["in"]))) + (waves @ w["time"])[:, None, None]
        b = jax.nn.swish(norm(conv(a, w["down"], 2)))
        flat = b.reshape(b.shape[0], -1, 4)
        mixed = jax.nn.softmax(flat @ flat.swapaxes(1, 2)) @ flat
        b = jax.image.resize(b + mixed.reshape(b.shape), (*a.shape[:3], 4), "nearest")
        return conv(jnp.concatenate([a, b], -1), w["out"]) + jax.image.resize(x, x.shape, "linear")

    def step(w: Any, x: Any, time: Any) -> Any:
        return jax.grad(lambda w: ((forward(w, x, time) - x) ** 2).mean())(w)

    w = {"in": values(3, 3, 2, 4), "down": values(3, 3, 4, 4), "time": values(4, 4),
         "out": values(3, 3, 8, 2)}  # fmt: skip
    return step, (w, values(2, 6, 6, 2), values(2)), {}


@program
def message_passing() -> Any:
    """A graph network: gather, softmax by segment, scatter."""

    def run(nodes: Any, senders: Any, receivers: Any, w: Any) -> Any:
        for _ in range(2):
            messages = jnp.tanh(jnp.concatenate([nodes[senders], nodes[receivers]], -1) @ w)
            scores = messages.sum(-1)
            top = jax.ops.segment_max(scores, receivers, 5)
            weight = jnp.exp(scores - top[receivers])
            total = jax.ops.segment_sum(weight, receivers, 5)
            nodes = nodes + jax.ops.segment_sum(
                messages * (weight / total[receivers])[:, None], receivers, 5
            )
        return nodes, jax.ops.segment_prod(scores, receivers, 5)

    edges = np.array([0, 1, 2, 3, 4, 0, 2], np.int32), np.array([1, 2, 3, 4, 0, 2, 0], np.int32)
    return run, (values(5, 3), *edges, values(6, 3)), {}


@program
def updated_in_place() -> Any:
    """Donated buffers, one changed by slices within a scan, one handed through."""

    def run(state: Any, table: Any, rows: Any) -> Any:
        def write(table: Any, row: Any) -> Any:
            row_index, value = row
            old = lax.dynamic_slice(table, (row_index, 0), (1, 4))
            return lax.dynamic_update_slice(table, old + value, (row_index, 0)), old

        table, old = lax.scan(write, table, (rows, values(3, 1, 4)))
        return {"count": state["count"] + 1, "kept": state["kept"]}, table, old

    state = {"count": np.int32(0), "kept": values(4)}
    return run, (state, values(6, 4), np.array([1, 7, 1], np.int32)), {"donate_argnums": (0, 1)}
