"""Programs of scientific computing: transforms, decompositions, solvers, sparse and complex data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.suites.corpus.programs.table import program, values


@program
def spectra() -> Any:
    def run(x: Any, z: Any) -> Any:
        step = jnp.fft.rfftn(x, axes=(0, 1, 2))
        return (
            jnp.fft.irfftn(step * jnp.exp(-jnp.abs(step)), s=x.shape), jnp.fft.fftn(z), jnp.fft.hfft(z),
            jnp.convolve(x[0, 0], x[1, 1], mode="full"), jax.scipy.signal.fftconvolve(x, x, mode="same"),
            jax.scipy.signal.stft(x.reshape(-1), nperseg=8)[2], jnp.fft.ifft(z, n=9, axis=0),
        )  # fmt: skip

    return run, (values(4, 4, 6), (values(4, 6) - 1j * values(4, 6)).astype(np.complex64)), {}


@program
def decompositions() -> Any:
    def run(x: Any) -> Any:
        a = x @ x.swapaxes(-1, -2) + 4 * jnp.eye(5)
        return (
            jnp.linalg.qr(x), jax.scipy.linalg.lu(a[0]), jnp.linalg.eigh(a), jnp.linalg.svd(x),
            jnp.linalg.pinv(x[0]), jnp.linalg.lstsq(x[0], a[0][:, 0])[0], jnp.linalg.slogdet(a),
            jax.scipy.linalg.expm(a[0] / 9), jnp.linalg.inv(a), jnp.linalg.matrix_power(a, 3),
            jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a[0]), True), x[0]),
            jnp.linalg.eigvals(x[0][:3, :3]), jnp.linalg.norm(x, axis=(1, 2)), jnp.kron(x[0], x[1]),
        )  # fmt: skip

    return run, (np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32),), {}


@program
def complex_numbers() -> Any:
    def run(z: Any, w: Any) -> Any:
        return (
            z @ w.T, jnp.einsum("ij,kj->ik", z, w.conj()), jnp.linalg.solve(z @ z.conj().T + 3 * jnp.eye(3), z),
            jnp.log(z), jnp.sin(z), jnp.tanh(z), z**2.5, z / w, jnp.cumsum(z, 1), jnp.sort(z, 1),
            z.real.astype(jnp.complex64), jnp.where(jnp.abs(z) > 0.3, z, w), jnp.prod(z, 0), z[::-1, 1],
            jax.grad(lambda v: jnp.abs(v @ w.T).sum(), holomorphic=False)(z), jnp.array([1 + 2j, -3j]),
        )  # fmt: skip

    z = (values(3, 4) + 1j * values(3, 4)[::-1] + 0.1).astype(np.complex64)
    return run, (z, z[:, ::-1].copy() - 0.7j), {}


@program
def double_precision() -> Any:
    def run(x: Any, i: Any, z: Any) -> Any:
        return (
            jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(4)), jnp.exp(x).sum(), i // 7, i * i, i << 33,
            z * z.conj(), jnp.fft.fft(z), x.astype(jnp.int64), jnp.sort(i), jax.random.normal(jax.random.PRNGKey(0), (3,)),
            lax.bitcast_convert_type(x, jnp.uint32), jax.scipy.special.erfinv(x / 2), i.astype(jnp.float64),
        )  # fmt: skip

    i = np.arange(-4, 4, dtype=np.int64) * 10**12
    return run, (values(4, 6, dtype=np.float64), i, values(4).astype(np.complex128)), {"x64": True}


@program
def differential_equation() -> Any:
    """An adaptive solver and its adjoint: loops in loops, of unknown length."""
    from jax.experimental.ode import odeint

    def run(y: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            states = odeint(
                lambda y, t, w: jnp.tanh(w @ y) - y * t, y, jnp.linspace(0.0, 1.0, 4), w
            )
            return (states**2).sum()

        return jax.value_and_grad(loss)(w)

    return run, (values(3), values(3, 3)), {}


@program
def minimisation() -> Any:
    from jax.scipy.optimize import minimize

    def run(x: Any) -> Any:
        def valley(x: Any) -> Any:
            return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

        minimum = minimize(valley, x, method="BFGS", options={"maxiter": 5})
        return minimum.x, minimum.fun, minimum.nit

    return run, (values(4),), {}


@program
def linear_solvers() -> Any:
    """Conjugate gradients and the like, with implicit derivatives."""

    def run(a: Any, b: Any) -> Any:
        s = jax.scipy.sparse.linalg
        a = a @ a.T + 3 * jnp.eye(6)
        return (
            s.cg(lambda v: a @ v, b)[0], s.bicgstab(a, b, maxiter=4)[0], s.gmres(a, b, maxiter=2)[0],
            jax.grad(lambda b: s.cg(lambda v: a @ v, b)[0].sum())(b),
            lax.linalg.tridiagonal_solve(b, b + 2, b, b[:, None]),
        )  # fmt: skip

    return run, (values(6, 6), values(6)), {}


@program
def sparse() -> Any:
    from jax.experimental import sparse as library

    def run(data: Any, locations: Any, x: Any) -> Any:
        matrix = library.BCOO((data, locations), shape=(5, 6))
        dense = jnp.where(x > 0, x, 0)
        again = library.BCOO.fromdense(dense, nse=12)
        return matrix @ x, matrix.T @ jnp.ones((5, 2)), matrix.todense(), again.sum(0).todense(), \
            (again @ dense.T), library.bcoo_reduce_sum(matrix, axes=(1,)).todense()  # fmt: skip

    positions = np.array([[0, 1], [1, 5], [3, 2], [4, 4]], np.int32)
    return run, (values(4), positions, values(6, 3)), {}


@program
def windows() -> Any:
    """Reductions over windows and their derivatives, reductions of several arrays."""

    def run(x: Any, i: Any) -> Any:
        def pool(x: Any, start: float, function: Any) -> Any:
            return lax.reduce_window(
                x, start, function, (1, 3, 2), (1, 2, 2), ((0, 0), (1, 1), (0, 1))
            )

        def both(a: Any, b: Any) -> Any:
            first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

        dilated = lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2), (1, 1, 1), "VALID", (1, 2, 1), (1, 2, 2)
        )
        return (
            pool(x, -jnp.inf, lax.max), pool(x, 0.0, lax.add), dilated, lax.cumlogsumexp(x, 1), lax.cummin(x, 2, reverse=True),
            jax.grad(lambda x: (pool(x, -jnp.inf, lax.max) ** 2).sum())(x),
            lax.reduce((x, i), (np.float32(-np.inf), np.int32(0)), both, (1,)),
            lax.reduce(x > 0, False, lax.bitwise_or, (2,)), lax.argmin(x, 1, jnp.int32), x.prod((0, 2)),
        )  # fmt: skip

    return run, (values(2, 7, 6), np.arange(84, dtype=np.int32).reshape(2, 7, 6)), {}


@program
def scatters() -> Any:
    """Gathers and scatters beyond rows: batches, windows, several results, every mode."""

    def run(x: Any, i: Any, u: Any) -> Any:
        picked = jax.vmap(lambda row, index: row[index])(x, i)
        return (
            picked, jax.vmap(lambda row, index, new: row.at[index].add(new))(x, i, u), x.at[i[0, 0], i[1]].min(-2.0),
            x.at[i, :2].set(7.0, mode="drop"), x.at[:, i[0]].get(mode="fill", fill_value=-1.0),
            x.at[i[0]].multiply(2.0, unique_indices=True), jnp.take_along_axis(x, i, 1),
            jnp.put_along_axis(x, i, u, 1, inplace=False), x.at[1:3, ::2].apply(jnp.sin),
            jax.vmap(lambda row, index: lax.dynamic_slice(row, (index,), (3,)))(x, i[:, 0]),
            jax.vmap(lambda row, index, new: lax.dynamic_update_slice(row, new, (index,)))(x, i[:, 1], u),
            jax.grad(lambda x: (x[i[0], i[1]] ** 2).sum())(x), x[np.array([True, False, True, True])],
        )  # fmt: skip

    return (
        run,
        (values(4, 6), np.array([[0, 5], [2, 2], [9, 1], [-1, 3]], np.int32), values(4, 2)),
        {},
    )


@program
def generators() -> Any:
    """Other generators and distributions."""

    def run(seed: Any) -> Any:
        key = jax.random.key(seed, impl="rbg")
        threefry_key = jax.random.key(seed, impl="threefry2x32")
        r = jax.random
        return (
            r.uniform(key, (5,)), r.normal(key, (2, 3), jnp.bfloat16), r.bits(key, (4,), "uint16"),
            r.poisson(threefry_key, 3.0, (4,)), r.dirichlet(threefry_key, jnp.ones(3)), r.beta(threefry_key, 1.0, 2.0, (3,)),
            r.truncated_normal(threefry_key, -1.0, 1.0, (4,)), r.choice(threefry_key, 9, (4,), replace=False),
            r.gumbel(threefry_key, (3,)), r.randint(threefry_key, (4,), -3, 9), r.orthogonal(threefry_key, 3),
            r.laplace(threefry_key, (3,)), r.multivariate_normal(threefry_key, jnp.zeros(2), jnp.eye(2)),
        )  # fmt: skip

    return run, (np.uint32(5),), {}
