"""The programs of ``bench_quality.py``, as a user of JAX writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PROGRAMS", "Case"]


@dataclass(frozen=True)
class Case:
    """One program: what makes its function and arguments, and the largest ratio allowed on trn2."""

    name: str
    max_ratio: float
    make: Callable[[], tuple[Callable[..., Any], list[Any]]]


def _of(dtype: str, *shape: int) -> Any:
    import jax

    return jax.ShapeDtypeStruct(shape, dtype)


def _on_rows(function: Callable[[Any, Any], Callable[..., Any]], *vectors: int) -> Any:
    """A function of rows: 4096 x 1024 in fp32, and so many vectors of 1024."""

    def make() -> Any:
        import jax
        import jax.numpy as jnp

        more = [_of("float32", 1024)] * sum(vectors)
        return function(jax, jnp), [_of("float32", 4096, 1024), *more]

    return make


def _layer_norm(jax: Any, jnp: Any) -> Any:
    def run(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - jnp.mean(x, -1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain + bias

    return run


def _rms_norm(jax: Any, jnp: Any) -> Any:
    def run(x: Any, gain: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain

    return run


def _matmul() -> Any:
    import jax.numpy as jnp

    return jnp.matmul, [_of("bfloat16", 2048, 2048)] * 2


def _mlp(dtype: str) -> Any:
    """One step of gradient descent: 512 rows, 1024 -> 4096 -> 1024."""

    def make() -> Any:
        import jax
        import jax.numpy as jnp

        def loss(weights: Any, x: Any, y: Any) -> Any:
            up, bias, down = weights
            hidden = jax.nn.relu(x @ up + bias)
            return jnp.mean(((hidden @ down) - y).astype("float32") ** 2)

        def step(weights: Any, x: Any, y: Any) -> Any:
            value, slopes = jax.value_and_grad(loss)(weights, x, y)
            return value, jax.tree.map(lambda w, g: w - w.dtype.type(0.01) * g, weights, slopes)

        weights = (_of(dtype, 1024, 4096), _of(dtype, 4096), _of(dtype, 4096, 1024))
        return step, [weights, _of(dtype, 512, 1024), _of(dtype, 512, 1024)]

    return make


def _attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """Heads, positions, width."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("hqd,hkd->hqk", q, k) * (q.shape[-1] ** -0.5)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


def _attention(dtype: str) -> Any:
    return lambda: (_attend, [_of(dtype, 16, 1024, 64)] * 3)


_WIDTH, _HEADS, _LENGTH = 1024, 16, 512


def _normalise(x: Any, gain: Any) -> Any:
    import jax
    import jax.numpy as jnp

    wide = x.astype("float32")
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return (wide * scale).astype(x.dtype) * gain


def _layer(weights: Any, x: Any) -> Any:
    """A decoder layer without a batch: (positions, width)."""
    import jax

    gain, qkv, out, gain2, up, down = weights
    parts = (_normalise(x, gain) @ qkv).reshape(_LENGTH, 3, _HEADS, -1)
    q, k, v = (parts[:, number].transpose(1, 0, 2) for number in range(3))
    mixed = _attend(q, k, v, causal=True).transpose(1, 0, 2).reshape(x.shape)
    x = x + mixed @ out
    return x + jax.nn.gelu(_normalise(x, gain2) @ up) @ down


def _layer_arguments() -> tuple[Any, Any]:
    shapes = [
        (_WIDTH,), (_WIDTH, 3 * _WIDTH), (_WIDTH, _WIDTH), (_WIDTH,), (_WIDTH, 4 * _WIDTH),
        (4 * _WIDTH, _WIDTH),
    ]  # fmt: skip
    return tuple(_of("bfloat16", *shape) for shape in shapes), _of("bfloat16", _LENGTH, _WIDTH)


def _decoder() -> Any:
    return _layer, list(_layer_arguments())


def _decoder_training() -> Any:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((_layer(weights, x) - y).astype("float32") ** 2)

    def step(weights: Any, x: Any, y: Any) -> Any:
        slopes = jax.grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - w.dtype.type(0.01) * g, weights, slopes)

    weights, x = _layer_arguments()
    return step, [weights, x, x]


def _scan() -> Any:
    """256 turns, each of which stacks a row."""
    import jax
    import jax.numpy as jnp

    def turn(state: Any, x: Any) -> Any:
        state = jnp.tanh(state * 0.9 + x)
        return state, state

    def run(state: Any, xs: Any) -> Any:
        return jax.lax.scan(turn, state, xs)

    return run, [_of("float32", 128, 512), _of("float32", 256, 128, 512)]


def _convolution() -> Any:
    import jax

    def run(x: Any, kernel: Any) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)

    return run, [_of("float32", 1, 56, 56, 64), _of("float32", 3, 3, 64, 64)]


def _sum() -> Any:
    import jax.numpy as jnp

    return jnp.sum, [_of("float32", 4 * 1024 * 1024)]


PROGRAMS = (
    Case("matmul", 1.15, _matmul),
    Case("mlp", 1.6, _mlp("bfloat16")),
    Case("mlp-f32", 1.6, _mlp("float32")),
    Case("softmax", 1.4, _on_rows(lambda jax, jnp: jax.nn.softmax)),
    Case("layer-norm", 1.4, _on_rows(_layer_norm, 2)),
    Case("rms-norm", 1.4, _on_rows(_rms_norm, 1)),
    Case("gelu", 1.3, _on_rows(lambda jax, jnp: jax.nn.gelu)),
    Case("gelu-erf", 1.3, _on_rows(lambda jax, jnp: lambda x: jax.nn.gelu(x, approximate=False))),
    Case("silu", 1.3, _on_rows(lambda jax, jnp: jax.nn.silu)),
    Case("sum", 1.3, _sum),
    Case("attention", 1.8, _attention("bfloat16")),
    Case("attention-f32", 1.8, _attention("float32")),
    Case("decoder", 2, _decoder),
    Case("decoder-training", 2.5, _decoder_training),
    Case("cumsum", 10, _on_rows(lambda jax, jnp: lambda x: jnp.cumsum(x, -1))),
    Case("top-8", 10, _on_rows(lambda jax, jnp: lambda x: jax.lax.top_k(x, 8))),
    Case("scan", 3, _scan),
    Case("conv", 3, _convolution),
)
