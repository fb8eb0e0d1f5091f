"""JAX's operations, family by family."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.suites.corpus.programs.table import program, values


@program
def convolutions() -> Any:
    def run(x: Any, w: Any, d: Any, t: Any) -> Any:
        names = ("NCHW", "OIHW", "NCHW")
        return (
            lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 1), dimension_numbers=names),
            lax.conv_general_dilated(x, d, (2, 1), ((1, 2), (0, 0)), feature_group_count=4, dimension_numbers=names),
            lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (0, 1)), lhs_dilation=(2, 2), dimension_numbers=names),
            lax.conv_general_dilated(x, t, (1, 1), "SAME", batch_group_count=2, dimension_numbers=names),
            lax.conv_transpose(x, w.swapaxes(0, 1), (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True),
        )  # fmt: skip

    return run, (values(2, 4, 7, 6), values(6, 4, 3, 2), values(8, 1, 2, 3), values(4, 4, 2, 2)), {}


@program
def recurrent() -> Any:
    def cell(state: Any, x: Any) -> Any:
        state = jnp.tanh(state @ values(4, 4) + x)
        return state, state.sum()

    return lambda xs: lax.scan(cell, jnp.zeros((2, 4)), xs, reverse=True), (values(6, 2, 4),), {}


@program
def loops() -> Any:
    def run(n: Any, x: Any) -> Any:
        a = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))
        b = lax.fori_loop(0, 5, lambda i, v: v.at[i].add(i * 2.0), x)
        c = lax.switch(n, [lambda v: v + 1, lambda v: v * 2, jnp.sin], x)
        d = lax.cond(n > 2, lambda v: v, lambda v: -v, x)
        return a, b, c, d, lax.associative_scan(jnp.add, x), lax.map(jnp.cos, x)

    return run, (np.int32(2), values(8)), {}


@program
def sorting() -> Any:
    def run(x: Any, i: Any) -> Any:
        return (
            jnp.sort(x, axis=0), jnp.argsort(x, axis=1), lax.top_k(x, 3), jnp.argmax(x, 1),
            lax.sort((i, x), dimension=1, num_keys=2), jnp.searchsorted(jnp.sort(x[0]), x[1]),
            jnp.median(x, axis=1), jnp.unique(i, size=4), jnp.percentile(x, 30.0),
        )  # fmt: skip

    return run, (values(4, 9), (np.arange(36).reshape(4, 9) % 5).astype(np.int32)), {}


@program
def indexing() -> Any:
    def run(x: Any, i: Any, u: Any) -> Any:
        return (
            x[i], x[:, i], x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), x.at[i, 1].mul(2.0),
            lax.dynamic_slice(x, (i[0], 1), (2, 3)), lax.dynamic_update_slice(x, u[:2, :3], (1, i[1])),
            jnp.take(x, i, axis=1, mode="clip"), jnp.roll(x, 2, 1), x[::-1, 1:5:2],
            jnp.pad(x, ((1, 2), (0, 0)), mode="reflect"), lax.pad(x, 9.0, ((1, -1, 2), (0, 0, 0))),
            jnp.repeat(x, 2, 1), jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x), jnp.diff(x),
            jax.ops.segment_sum(u, i, 4), jnp.bincount(i, length=5), jnp.tril(x), jnp.eye(3),
        )  # fmt: skip

    return run, (values(5, 6), np.array([0, 3, 3], np.int32), values(3, 6)), {}


@program
def random_numbers() -> Any:
    def run(key: Any) -> Any:
        keys = jax.random.split(key, 6)
        return (
            jax.random.uniform(keys[0], (5,)), jax.random.normal(keys[1], (3, 3)),
            jax.random.categorical(keys[2], jnp.ones((4, 5))), jax.random.permutation(keys[3], 7),
            jax.random.bits(keys[4], (3,), "uint8"), jax.random.gamma(keys[5], 2.0, (4,)),
            lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), (6,)),
        )  # fmt: skip

    return run, (jax.random.PRNGKey(3),), {}


@program
def fourier() -> Any:
    def run(x: Any, z: Any) -> Any:
        return (
            jnp.fft.fft(z), jnp.fft.ifft2(z), jnp.fft.rfft(x), jnp.fft.irfft(z), jnp.fft.fftshift(x),
            jnp.abs(z), jnp.angle(z), z.conj() * z, jnp.exp(z), lax.complex(x, x), jnp.sqrt(z),
        )  # fmt: skip

    return run, (values(4, 6), (values(4, 6) + 1j * values(4, 6)).astype(np.complex64)), {}


@program
def algebra() -> Any:
    def run(x: Any) -> Any:
        a = x @ x.T + 5 * jnp.eye(4)
        return (
            jnp.linalg.cholesky(a), jax.scipy.linalg.solve_triangular(a, x, lower=True),
            jnp.linalg.qr(a), jnp.linalg.det(a), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1],
            jnp.linalg.solve(a, x), jnp.trace(a), jnp.einsum("ij,jk,kl->il", a, a, x),
            lax.dot_general(a, a, (((0,), (1,)), ((), ())), precision=lax.Precision.HIGHEST),
        )  # fmt: skip

    return run, (values(4, 6),), {}


@program
def functions() -> Any:
    def run(x: Any, i: Any) -> Any:
        s = jax.scipy.special
        return (
            s.erf(x), s.erfinv(x), s.gammaln(x + 2), s.digamma(x + 2), s.gammainc(x + 2, x + 1),
            jnp.tan(x), jnp.arctanh(x), jnp.sinh(x), jnp.cbrt(x), jnp.nextafter(x, x + 1),
            lax.reduce_precision(x, 5, 7), jnp.round(x * 5), jnp.sign(x), lax.rsqrt(x * x + 1),
            lax.population_count(i), lax.clz(i), i // 3, i % 3, i << 2, i >> 1, ~i, i ** 3,
            lax.bitcast_convert_type(x, jnp.int32), lax.clamp(-0.1, x, 0.2), jnp.hypot(x, x),
            jnp.logaddexp(x, -x), jnp.arctan2(x, x + 1), jnp.isfinite(x / 0), jnp.float_power(x + 1, 2),
            x.astype(jnp.bfloat16) * 2, x.astype(jnp.float16).sum(), x.astype(jnp.int8), i.astype(bool),
            lax.reduce(x, 0.0, lambda a, b: a * 0.5 + b, (0,)), jnp.mod(x, 0.3), jax.nn.sigmoid(x),
        )  # fmt: skip

    return run, (values(12), np.arange(-6, 6, dtype=np.int32)), {}


@program
def small_types() -> Any:
    def run(x: Any) -> Any:
        kinds = [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16, jnp.float16, jnp.int4, jnp.uint4]
        return (
            *(x.astype(kind).astype(jnp.float32) + 1 for kind in kinds),
            lax.dot(x.astype(jnp.bfloat16), x.T.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
            jnp.array([1, -2, 3], jnp.int4) + jnp.int4(1), jnp.array([0.1, 3.0], jnp.float8_e4m3fn),
        )  # fmt: skip

    return run, (values(3, 4),), {}


@program
def derivatives() -> Any:
    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return jnp.sum(x**2)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * x, -1, 1),))

    @jax.checkpoint
    def deep(x: Any) -> Any:
        return jnp.sin(jnp.cos(x)).sum()

    def run(x: Any) -> Any:
        return (
            jax.grad(clipped)(x), jax.grad(deep)(x), jax.hessian(lambda v: jnp.sum(v**3))(x),
            jax.jvp(jnp.tanh, (x,), (x,)), jax.vmap(lambda v: v * jnp.ones(3))(x),
        )  # fmt: skip

    return run, (values(5),), {}
