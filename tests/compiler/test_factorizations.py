"""Eigenvectors and singular vectors by Jacobi's rotations, beside NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler import compile
from tests.compiler.compiling import TARGETS, lowered, run

pytestmark = pytest.mark.jax


def matrices(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def outputs(function: Any, *arrays: Any, target: str = "trn2") -> list[Any]:
    return run(compile(lowered(function, *arrays), target=target), arrays)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("extent", [1, 2, 5, 24])
def test_eigenvectors(extent: int, seed: int) -> None:
    a = matrices(seed, 2, extent, extent)
    a = a + a.transpose(0, 2, 1)
    values, vectors = outputs(jnp.linalg.eigh, a)
    expected = np.linalg.eigvalsh(a.astype(np.float64))
    np.testing.assert_allclose(values, expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None, :], atol=3e-5 * extent**0.5)
    identity = np.eye(extent, dtype=np.float32)[None]
    np.testing.assert_allclose(vectors.transpose(0, 2, 1) @ vectors, identity + 0 * a, atol=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read(lower: bool) -> None:
    a = matrices(3, 6, 6)
    values, _ = outputs(
        lambda a: jnp.linalg.eigh(a, "L" if lower else "U", symmetrize_input=False), a
    )
    expected = np.linalg.eigvalsh(a.astype(np.float64), "L" if lower else "U")
    np.testing.assert_allclose(values, expected, atol=1e-5)


@pytest.mark.parametrize("matrix", ["zero", "diagonal", "equal", "huge", "tiny"])
def test_eigenvectors_of_special_matrices(matrix: str) -> None:
    a = {
        "zero": np.zeros((5, 5)), "diagonal": np.diag([3.0, -1, 2, 0, 7]), "equal": np.ones((5, 5)),
        "huge": np.ones((5, 5)) * 1e30 + np.eye(5) * 1e30, "tiny": np.eye(5) * 1e-30,
    }[matrix].astype(np.float32)  # fmt: skip
    values, vectors = outputs(jnp.linalg.eigh, a)
    expected = np.linalg.eigvalsh(a.astype(np.float64))
    scale = max(float(np.abs(a).max()), 1e-37)
    np.testing.assert_allclose(values / scale, expected / scale, atol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-5)


def test_not_a_number_stays_one() -> None:
    values, _ = outputs(jnp.linalg.eigh, np.full((4, 4), np.nan, np.float32))
    assert np.isnan(values).all()


@pytest.mark.parametrize("rank", [1, 9])
@pytest.mark.parametrize(
    ("rows", "columns", "full"),
    [
        (4, 4, True),
        (6, 3, True),
        (3, 6, True),
        (7, 4, False),
        (4, 7, False),
        (1, 3, True),
        (15, 9, False),
    ],
)
def test_singular_vectors(rows: int, columns: int, full: bool, rank: int) -> None:
    a = matrices(rows * columns, 2, rows, columns)
    if rank == 1:
        a = a[:, :, :1] * a[:, :1, :]
    left, values, right = outputs(lambda a: jnp.linalg.svd(a, full_matrices=full), a)
    expected = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    count = min(rows, columns)
    np.testing.assert_allclose(values, expected, atol=1e-5)
    np.testing.assert_allclose(
        (left[:, :, :count] * values[:, None]) @ right[:, :count], a, atol=2e-5
    )
    for basis in (left.transpose(0, 2, 1), right):
        identity = np.broadcast_to(np.eye(basis.shape[1]), (2, basis.shape[1], basis.shape[1]))
        np.testing.assert_allclose(basis @ basis.transpose(0, 2, 1), identity, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_factors(target: str) -> None:
    a = matrices(5, 6, 4)
    functions: dict[Any, Any] = {
        jnp.linalg.pinv: np.linalg.pinv, jnp.linalg.cond: np.linalg.cond,
        jnp.linalg.matrix_rank: np.linalg.matrix_rank,
        (lambda a: jnp.linalg.norm(a, 2)): lambda a: np.linalg.norm(a, 2),
        (lambda a: jnp.linalg.svd(a, compute_uv=False)): lambda a: np.linalg.svd(a, compute_uv=False),
    }  # fmt: skip
    for function, reference in functions.items():
        (actual,) = outputs(function, a, target=target)
        np.testing.assert_allclose(actual, reference(a), rtol=2e-4, atol=1e-5)
