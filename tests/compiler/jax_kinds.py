"""Functions of the kinds that JAX's own tests run, with their arguments: name -> (function, arguments)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

__all__ = ["KINDS"]

Kind = tuple[Callable[..., Any], tuple[Any, ...]]


def _floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _integers(*shape: int, low: int = -50, high: int = 50, dtype: str = "int32") -> Any:
    return np.random.default_rng(high).integers(low, high, shape).astype(dtype)


X, Y, POSITIVE = _floats(4, 6), _floats(4, 6, seed=1), np.abs(_floats(3, 5, seed=2)) + 0.1
WHOLE, OTHER, INDICES = _integers(4, 6), _integers(4, 6, low=1, high=9), _integers(3, low=0, high=4)
UNIT, ROW, KEY = np.tanh(X), _floats(17, seed=3), np.array([7, 11], np.uint32)
BYTES, BOOLS = _integers(5, 3, low=0, high=250, dtype="uint8"), X > 0
SQUARE = _floats(5, 5, seed=4) + 5 * np.eye(5, dtype=np.float32)


def _counted(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, v: v * 0.5 + i, x)


def _scanned(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + v, c * v), x[0], x)


def _solved(x: Any, y: Any) -> Any:
    return lax.custom_linear_solve(lambda v: 4.0 * v, y, lambda f, b: b / 4.0, symmetric=True) + x


LAX: dict[str, Kind] = {
    "clamp": (lambda x: lax.clamp(-0.5, x, 0.5), (X,)),
    "shift": (lambda x, y: (lax.shift_left(x, y), lax.shift_right_logical(x, y)), (WHOLE, OTHER)),
    "population_count": (lax.population_count, (BYTES,)),
    "integer_pow": (lambda x: lax.integer_pow(x, -3), (POSITIVE,)),
    "integer_power": (lambda x: x**5, (OTHER,)),
    "rem": (lambda x, y: (lax.rem(x, y), lax.div(x, y)), (WHOLE, OTHER)),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), (X, Y)),
    "batched_dot": (lambda x: lax.batch_matmul(x[:, :, None], x[:, None]), (X,)),
    "conv": (
        lambda x, w: lax.conv(x, w, (2, 1), "SAME"),
        (_floats(2, 3, 7, 6), _floats(4, 3, 3, 2)),
    ),
    "pad": (lambda x: lax.pad(x, 1.0, ((1, 2, 1), (-1, 0, 0))), (X,)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)), (X, INDICES)),
    "dynamic_update": (
        lambda x, i: lax.dynamic_update_slice(x, x[:2] * 2, (i[0], 0)),
        (X, INDICES),
    ),
    "reduce_window": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME"),
        (X,),
    ),
    "cumulative": (lambda x: (lax.cumsum(x, 1), lax.cummax(x, 0), lax.cumprod(x, 1)), (X,)),
    "sort_keys": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), (X, WHOLE)),
    "top_k": (lambda x: lax.top_k(x, 3), (X,)),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (X,)),
    "argmax": (lambda x: (lax.argmax(x, 0, jnp.int32), lax.argmin(x, 1, jnp.int32)), (X,)),
}
NUMPY: dict[str, Kind] = {
    "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", x, y), (X, Y)),
    "tensordot": (lambda x, y: jnp.tensordot(x, y, 2), (X, Y)),
    "boolean": (lambda x: (jnp.any(x, 0), jnp.all(x), ~x, x ^ x[::-1]), (BOOLS,)),
    "where": (lambda c, x, y: jnp.where(c, x, y), (BOOLS, X, Y)),
    "take": (lambda x, i: (jnp.take(x, i, 0), x[i, i]), (X, INDICES)),
    "index_update": (lambda x, i: x.at[i, 1].add(2.0), (X, INDICES)),
    "index_multiply": (lambda x, i: x.at[i].multiply(3.0), (X, INDICES)),
    "statistics": (lambda x: (jnp.mean(x), jnp.var(x, 0), jnp.std(x, 1), jnp.ptp(x)), (X,)),
    "median": (lambda x: (jnp.median(x, 1), jnp.quantile(x, 0.3, axis=0)), (X,)),
    "floor_divide": (lambda x, y: (x // y, x % y, jnp.fmod(x, y)), (WHOLE, OTHER)),
    "float_mod": (lambda x, y: (jnp.fmod(x, y), jnp.copysign(x, y)), (X, Y)),
    "rounding": (lambda x: (jnp.rint(x), jnp.trunc(x), jnp.ceil(x), jnp.round(x, 1)), (3 * X,)),
    "logaddexp": (lambda x, y: (jnp.logaddexp(x, y), jnp.hypot(x, y)), (X, Y)),
    "trigonometry": (lambda x: (jnp.sinc(x), jnp.arctan2(x, 2.0), jnp.arccos(x)), (UNIT,)),
    "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), (ROW, _floats(5))),
    "histogram": (lambda x: jnp.bincount(x.ravel(), length=10), (OTHER,)),
    "convolve": (lambda x: jnp.convolve(x, x[:4], "same"), (ROW,)),
    "interp": (lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), (POSITIVE,)),
    "stacking": (
        lambda x, y: (jnp.roll(x, 2, 1), jnp.kron(x[:2, :2], y[:2, :2]), jnp.tril(x)),
        (X, Y),
    ),
    "nan": (lambda x: (jnp.nansum(x / (x > 0)), jnp.isnan(jnp.log(x))), (X,)),
    "half": (lambda x: (x.astype(jnp.bfloat16) * 3).astype(jnp.float16), (X,)),
    "bytes": (lambda x: (x + x, x * 3, x.astype(jnp.int8)), (BYTES,)),
}
REST: dict[str, Kind] = {
    "activations": (lambda x: (jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x)), (X,)),
    "softmax": (lambda x: (jax.nn.log_softmax(x), jax.nn.softmax(x, 0)), (X,)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (INDICES,)),
    "relu_slope": (jax.grad(lambda x: jax.nn.relu6(8 * x).sum()), (X,)),
    "attention": (lambda x: jax.nn.dot_product_attention(x, x, x), (_floats(1, 4, 2, 8),)),
    "fori_loop": (_counted, (X,)),
    "scan": (_scanned, (X,)),
    "scan_slope": (jax.grad(lambda x: _scanned(x)[1].sum()), (X,)),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), (X,)),
    "switch": (lambda i, x: lax.switch(i[0] % 3, [jnp.sin, jnp.cos, jnp.tanh], x), (INDICES, X)),
    "map": (lambda x: lax.map(lambda row: row @ row, x), (X,)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.maximum, x, axis=1), (X,)),
    "linear_solve": (_solved, (X, Y)),
    "bits": (lambda k: jax.random.bits(k, (5, 3)), (KEY,)),
    "uniform": (lambda k: (jax.random.uniform(k, (9,)), jax.random.split(k)), (KEY,)),
    "integers": (lambda k: jax.random.randint(k, (9,), -3, 12), (KEY,)),
    "permutation": (lambda k: jax.random.permutation(k, 12), (KEY,)),
    "normal": (lambda k: (jax.random.normal(k, (9,)), jax.random.gumbel(k, (5,))), (KEY,)),
    "outer": (
        lambda x: (jnp.outer(x[0], x[1]), jnp.vdot(x, x), jnp.cross(x[:, :3], x[:, 3:])),
        (X,),
    ),
    "norms": (lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, 1, 0)), (X,)),
    "matrix_power": (lambda x: (jnp.linalg.matrix_power(x, 3), jnp.trace(x)), (SQUARE / 8,)),
    "special": (lambda x: (jsp.special.erf(x), jsp.special.expit(x), jsp.special.ndtr(x)), (X,)),
    "gammaln": (lambda x: (jsp.special.gammaln(x), jsp.special.digamma(x)), (POSITIVE,)),
    "entropy": (lambda x: (jsp.special.xlogy(x, x), jsp.special.logsumexp(x, 1)), (POSITIVE,)),
    "densities": (lambda x: (jsp.stats.norm.logpdf(x), jsp.stats.cauchy.pdf(x)), (X,)),
    "convolve2d": (lambda x: jsp.signal.convolve2d(x, x[:2, :2], "valid"), (X,)),
}
COMPLEX: dict[str, Kind] = {
    "fft": (jnp.fft.fft, (X,)),
    "conjugate": (lambda x: jnp.conj(x + 1j), (X,)),
}

KINDS: dict[str, Kind] = LAX | NUMPY | REST | COMPLEX
