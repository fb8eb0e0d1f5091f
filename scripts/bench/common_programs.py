"""Programs of ``bench_quality.py --list common``: operations of models, as a user of JAX writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scripts.bench.quality_programs import Case

__all__ = ["COMMON_PROGRAMS"]

MAX_RATIO = 2.5
"""The goal for each of these programs on trn2."""


def case(name: str, dtype: str, shapes: tuple[tuple[int, ...], ...], define: Any) -> Case:
    """Return a program; ``define`` makes its function from JAX and ``jax.numpy``."""

    def make() -> tuple[Callable[..., Any], list[Any]]:
        import jax
        import jax.numpy as jnp

        specs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
        return define(jax, jnp), list(specs)

    return Case(name, MAX_RATIO, make)


def dropout(jax: Any, jnp: Any) -> Any:
    def run(x: Any) -> Any:
        mask = jax.random.bernoulli(jax.random.key(3), 0.9, x.shape)
        return jnp.where(mask, x / 0.9, 0)

    return run


def cross_entropy(jax: Any, jnp: Any) -> Any:
    def loss(logits: Any) -> Any:
        labels = jnp.arange(logits.shape[0]) * 7 % logits.shape[1]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -chosen.mean()

    return jax.value_and_grad(loss)


def pool_gradient(jax: Any, jnp: Any) -> Any:
    def pool(x: Any) -> Any:
        window, start = (1, 2, 2, 1), -jnp.inf
        return jax.lax.reduce_window(x, start, jax.lax.max, window, window, "VALID").sum()

    return jax.grad(pool)


def rotary(jax: Any, jnp: Any) -> Any:
    def run(x: Any, cosine: Any, sine: Any) -> Any:
        half = x.shape[-1] // 2
        low, high = x[..., :half], x[..., half:]
        turned = jnp.concatenate([-high, low], -1)
        return x * cosine[None, :, None] + turned * sine[None, :, None]

    return run


def dispatch(jax: Any, jnp: Any) -> Any:
    def run(x: Any) -> Any:
        experts = jax.nn.one_hot(jnp.arange(x.shape[0]) % 8, 8, dtype=x.dtype)
        return jnp.einsum("te,td->etd", experts, x)

    return run


def convolution(groups: int, stride: int) -> Any:
    def define(jax: Any, jnp: Any) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        return lambda x, kernel: jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=form, feature_group_count=groups
        )

    return define


def batch_norm(jax: Any, jnp: Any) -> Any:
    def run(x: Any, gain: Any, bias: Any) -> Any:
        return (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5) * gain + bias

    return run


def batch_norm_gradient(jax: Any, jnp: Any) -> Any:
    forward = batch_norm(jax, jnp)
    return lambda x, gain, bias: jax.vjp(forward, x, gain, bias)[1](x)


def layer_norm(jax: Any, jnp: Any) -> Any:
    def run(x: Any, gain: Any, bias: Any) -> Any:
        wide = x.astype(jnp.float32)
        centered = wide - wide.mean(-1, keepdims=True)
        scaled = centered * jax.lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5)
        return (scaled * gain + bias).astype(x.dtype)

    return run


def attention(jax: Any, jnp: Any) -> Any:
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)


def attention_gradient(jax: Any, jnp: Any) -> Any:
    forward = attention(jax, jnp)
    return lambda q, k, v, slope: jax.vjp(forward, q, k, v)[1](slope)


def decode(jax: Any, jnp: Any) -> Any:
    def run(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhd,blhd->bhl", q, k) * 0.125
        return jnp.einsum("bhl,blhd->bhd", jax.nn.softmax(scores), v)

    return run


def adam(jax: Any, jnp: Any) -> Any:
    def run(w: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8), m, v

    return run


F32, BF16 = "float32", "bfloat16"

COMMON_PROGRAMS = (
    case("softmax-32k", F32, ((512, 32000),), lambda jax, jnp: jax.nn.softmax),
    case("logsumexp-50k", F32, ((512, 50257),),
         lambda jax, jnp: lambda x: jax.nn.logsumexp(x, axis=-1)),
    case("cross-entropy", F32, ((1024, 32000),), cross_entropy),
    case("layer-norm-bf16", BF16, ((4096, 1024), (1024,), (1024,)), layer_norm),
    case("batch-norm", F32, ((4096, 1024), (1024,), (1024,)), batch_norm),
    case("batch-norm-gradient", F32, ((4096, 1024), (1024,), (1024,)), batch_norm_gradient),
    case("dropout", F32, ((4096, 1024),), dropout),
    case("cumsum-columns", F32, ((4096, 1024),), lambda jax, jnp: lambda x: jnp.cumsum(x, 0)),
    case("rotary-bf16", BF16, ((4, 1024, 16, 64), (1024, 64), (1024, 64)), rotary),
    case("dispatch", BF16, ((4096, 1024),), dispatch),
    case("nhwc-nchw", F32, ((32, 56, 56, 64),), lambda jax, jnp: lambda x: x.transpose(0, 3, 1, 2)),
    case("batched-products", BF16, ((512, 128, 64), (512, 64, 64)), lambda jax, jnp: jnp.matmul),
    case("int8-product", "int8", ((2048, 2048),) * 2, lambda jax, jnp: lambda x, y: jax.lax.dot(
        x, y, preferred_element_type=jnp.int32)),
    case("long-contraction", BF16, ((512, 28672), (28672, 4096)), lambda jax, jnp: jnp.matmul),
    case("depthwise", F32, ((1, 56, 56, 128), (3, 3, 1, 128)), convolution(128, 1)),
    case("stem", F32, ((8, 224, 224, 3), (7, 7, 3, 64)), convolution(1, 2)),
    case("conv-stride-2", F32, ((8, 56, 56, 64), (3, 3, 64, 128)), convolution(1, 2)),
    case("pool-gradient", F32, ((8, 112, 112, 64),), pool_gradient),
    case("causal-1000", BF16, ((1, 1000, 16, 64),) * 3, attention),
    case("causal-4096", BF16, ((1, 4096, 4, 64),) * 3, attention),
    case("causal-gradient-1000", BF16, ((1, 1000, 16, 64),) * 4, attention_gradient),
    case("causal-gradient-4096", BF16, ((1, 4096, 4, 64),) * 4, attention_gradient),
    case("grouped-gradient-2048", BF16, ((1, 2048, 8, 128), *((1, 2048, 2, 128),) * 2,
         (1, 2048, 8, 128)), attention_gradient),
    case("decode", BF16, ((4, 16, 64), *((4, 4096, 16, 64),) * 2), decode),
    case("adam", F32, ((4096, 1024),) * 4, adam),
    case("argmax-long-rows", F32, ((8, 50257),), lambda jax, jnp: lambda x: jnp.argmax(x, -1)),
    case("norm-long-row", F32, ((1, 1 << 20),),
         lambda jax, jnp: lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True))),
    case("cumsum-long-rows", F32, ((8, 1 << 17),), lambda jax, jnp: lambda x: jnp.cumsum(x, -1)),
    case("top-50-long-rows", F32, ((8, 50257),), lambda jax, jnp: lambda x: jax.lax.top_k(x, 50)),
    case("sort-rows", F32, ((512, 1024),), lambda jax, jnp: lambda x: jnp.sort(x, -1)),
)  # fmt: skip
