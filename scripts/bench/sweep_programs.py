"""The operations of ``build_sweep.py``: each a function of arrays, for any length and dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["DTYPES", "LENGTHS", "OPERATIONS", "Operation"]

LENGTHS = (128, 256, 512, 1000, 1016, 1024, 2048, 4096, 8192, 28000, 50257)
DTYPES = ("float32", "bfloat16")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the sweep.

    Attributes:
        name: of the operation.
        function: called with JAX, ``jax.numpy`` and the arrays.
        shapes: of the arrays, from the length.
        differentiable: has a gradient with respect to all arrays.
        longest: lengths beyond it are left out: work grows with the square of the length.
    """

    name: str
    function: Callable[..., Any]
    shapes: Callable[[int], tuple[Shape, ...]]
    differentiable: bool = True
    longest: int = 50257


def rows(count: int = 1, height: int = 192) -> Callable[[int], tuple[Shape, ...]]:
    """Arrays of ``height`` rows of the length."""
    return lambda length: ((height, length),) * count


def heads(queries: int, keys: int) -> Callable[[int], tuple[Shape, ...]]:
    """Queries, keys and values: (1, length, heads, 64)."""
    return lambda length: ((1, length, queries, 64), *((1, length, keys, 64),) * 2)


def row_and_vectors(vectors: int) -> Callable[[int], tuple[Shape, ...]]:
    return lambda length: ((192, length), *((length,),) * vectors)


def layer_norm(jax: Any, jnp: Any, x: Any, gain: Any, bias: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain + bias


def rms_norm(jax: Any, jnp: Any, x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def batch_norm(jax: Any, jnp: Any, x: Any, gain: Any, bias: Any) -> Any:
    return (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5) * gain + bias


def group_norm(jax: Any, jnp: Any, x: Any) -> Any:
    grouped = x.reshape(x.shape[0], 8, -1)
    centered = grouped - grouped.mean(-1, keepdims=True)
    return (centered * jax.lax.rsqrt(grouped.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)


def cross_entropy(jax: Any, jnp: Any, logits: Any) -> Any:
    labels = jnp.arange(logits.shape[0]) * 7 % logits.shape[1]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean()


def rotary(jax: Any, jnp: Any, x: Any) -> Any:
    length, half = x.shape[1], x.shape[-1] // 2
    rates = 10000.0 ** (-jnp.arange(half) / half)
    angles = (jnp.arange(length)[:, None] * rates)[None, :, None, :]
    cosine, sine = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    low, high = x[..., :half], x[..., half:]
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)


def attention(causal: bool) -> Callable[..., Any]:
    return lambda jax, jnp, q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal)


def decode(jax: Any, jnp: Any, q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhd,blhd->bhl", q, k) * 0.125
    return jnp.einsum("bhl,blhd->bhd", jax.nn.softmax(scores), v)


def swiglu(jax: Any, jnp: Any, x: Any, gate: Any, up: Any, down: Any) -> Any:
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def embedding(jax: Any, jnp: Any, table: Any) -> Any:
    return table[jnp.arange(512) * 37 % table.shape[0]]


def dropout(jax: Any, jnp: Any, x: Any) -> Any:
    return jnp.where(jax.random.bernoulli(jax.random.key(3), 0.9, x.shape), x / 0.9, 0)


def depthwise(jax: Any, jnp: Any, x: Any, taps: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x, taps, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=64
    )


def convolution(jax: Any, jnp: Any, x: Any, taps: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x, taps, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")
    )


def pooled(jax: Any, jnp: Any, x: Any) -> Any:
    start = -jnp.inf
    return jax.lax.reduce_window(x, start, jax.lax.max, (1, 2), (1, 2), "VALID")


def scan(jax: Any, jnp: Any, x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = 0.9 * state + row
        return state, jnp.tanh(state)

    return jax.lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x)[1]


def one_hot_dispatch(jax: Any, jnp: Any, x: Any) -> Any:
    experts = jax.nn.one_hot(jnp.arange(x.shape[0]) % 8, 8, dtype=x.dtype)
    return jnp.einsum("te,td->etd", experts, x)


def plain(name: str) -> Callable[..., Any]:
    """A function of ``jax.numpy``, or of ``jax.nn`` where it lacks one."""
    return lambda jax, jnp, x: (getattr(jnp, name, None) or getattr(jax.nn, name))(x)


def over_rows(name: str) -> Callable[..., Any]:
    """A function of the last dimension."""
    return lambda jax, jnp, x: (getattr(jnp, name, None) or getattr(jax.nn, name))(x, axis=-1)


OPERATIONS: tuple[Operation, ...] = (
    *(Operation(name, plain(name), rows()) for name in (
        "exp", "tanh", "sin", "sigmoid", "gelu", "silu", "relu", "softplus", "square",
    )),
    *(Operation(name, over_rows(name), rows()) for name in (
        "sum", "mean", "max", "var", "softmax", "log_softmax", "logsumexp", "cumsum",
    )),
    *(Operation(name, over_rows(name), rows(), differentiable=False, longest=8192) for name in (
        "argmax", "sort", "argsort",
    )),
    Operation("column sum", lambda jax, jnp, x: x.sum(0), rows()),
    Operation("mean of squares", lambda jax, jnp, x: (x * x).mean(), rows()),
    Operation("top 8", lambda jax, jnp, x: jax.lax.top_k(x, 8), rows(), differentiable=False),
    Operation("layer norm", layer_norm, row_and_vectors(2)),
    Operation("rms norm", rms_norm, row_and_vectors(1)),
    Operation("batch norm", batch_norm, row_and_vectors(2)),
    Operation("group norm", group_norm, lambda length: ((192, length // 8 * 8),)),
    Operation("cross entropy", cross_entropy, rows()),
    Operation("rotary", rotary, lambda length: ((1, length, 4, 64),)),
    Operation("attention", attention(causal=False), heads(2, 2), longest=2048),
    Operation("causal attention", attention(causal=True), heads(2, 2), longest=2048),
    Operation("grouped attention", attention(causal=True), heads(4, 2), longest=1024),
    Operation("decode", decode, lambda length: ((2, 4, 64), *((2, length, 4, 64),) * 2),
              longest=8192),
    Operation("swiglu", swiglu, lambda length: (
        (256, 256), (256, length), (256, length), (length, 256)), longest=8192),
    Operation("logits", lambda jax, jnp, x, e: ((x @ e.T) ** 2).mean(),
              lambda length: ((256, 256), (length, 256))),
    Operation("long contraction", lambda jax, jnp, x, w: x @ w,
              lambda length: ((256, length), (length, 256))),
    Operation("matrix", lambda jax, jnp, x, w: jax.nn.relu(x @ w),
              lambda length: ((length, 256), (256, 512))),
    Operation("batched matrices", lambda jax, jnp, x, w: x @ w,
              lambda length: ((16, 128, length), (16, length, 64)), longest=8192),
    Operation("embedding", embedding, lambda length: ((length, 256),)),
    Operation("dropout", dropout, rows(), longest=8192),
    Operation("depthwise", depthwise, lambda length: ((1, 64, length), (64, 1, 3)), longest=8192),
    Operation("convolution", convolution, lambda length: ((1, 64, length), (64, 64, 3)),
              longest=8192),
    Operation("pooled", pooled, lambda length: ((192, length // 2 * 2),), longest=8192),
    Operation("scan", scan, lambda length: ((16, length),)),
    Operation("one-hot dispatch", one_hot_dispatch, lambda length: ((256, length),)),
    Operation("transposed", lambda jax, jnp, x: x.T + 1, rows()),
    Operation("concatenated", lambda jax, jnp, x, y: jnp.concatenate([x, y], 1), rows(2)),
    Operation("interleaved", lambda jax, jnp, x: x[:, ::2] * 2, rows()),
    Operation("padded", lambda jax, jnp, x: jnp.pad(x, ((1, 1), (2, 2))), rows()),
    Operation("flipped", lambda jax, jnp, x: x[:, ::-1], rows(), longest=8192),
    Operation("outer", lambda jax, jnp, x, y: jnp.outer(x, y),
              lambda length: ((length,), (256,))),
)  # fmt: skip
