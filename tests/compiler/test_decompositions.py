"""Triangular systems and factors of matrices beside jaxlib's and NumPy's."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import oracle, run

pytestmark = pytest.mark.jax

_few = hypothesis.settings(max_examples=5, deadline=None, derandomize=True)
_truth = st.booleans()


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _module(body: str) -> hlo_tools.Module:
    return hlo_tools.load(f"HloModule m\nENTRY e {{\n{body}\n}}".encode())


def _shape(*extents: int) -> str:
    return f"f32[{','.join(map(str, extents))}]"


@_few
@hypothesis.given(
    extent=st.integers(1, 20), columns=st.integers(1, 5), count=st.integers(1, 3), left=_truth,
    lower=_truth, unit=_truth, transposed=_truth,
)  # fmt: skip
def test_triangular_systems(
    extent: int, columns: int, count: int, left: bool, lower: bool, unit: bool, transposed: bool
) -> None:
    sides = _shape(count, *((extent, columns) if left else (columns, extent)))
    options = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    how = "TRANSPOSE" if transposed else "NO_TRANSPOSE"
    module = _module(f"""
      a = {_shape(count, extent, extent)} parameter(0)
      b = {sides} parameter(1)
      ROOT x = {sides} triangular-solve(a, b), {options}, transpose_a={how}""")
    matrix = _normal(count, extent, extent) / np.float32(np.sqrt(extent)) + 3 * np.eye(extent)
    right = _normal(count, *((extent, columns) if left else (columns, extent)))
    arrays = [matrix.astype(np.float32), right]
    (actual,) = run(compile(module, target="trn2"), arrays)
    np.testing.assert_allclose(actual, oracle(module, arrays)[0], rtol=2e-5, atol=2e-5)


@_few
@hypothesis.given(extent=st.integers(1, 24), count=st.integers(1, 2), lower=_truth)
def test_cholesky(extent: int, count: int, lower: bool) -> None:
    kind = _shape(count, extent, extent)
    module = _module(f"a = {kind} parameter(0)\nROOT l = {kind} cholesky(a), lower={lower}".replace(
        "True", "true").replace("False", "false"))  # fmt: skip
    factor = _normal(count, extent, extent)
    matrix = factor @ factor.transpose(0, 2, 1) + extent * np.eye(extent, dtype=np.float32)
    (actual,) = run(compile(module, target="trn2"), [matrix])
    expected = np.linalg.cholesky(matrix.astype(np.float64))
    expected = expected if lower else expected.transpose(0, 2, 1)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_what_is_not_positive_definite_is_nan() -> None:
    module = _module("a = f32[3,3] parameter(0)\nROOT l = f32[3,3] cholesky(a), lower=true")
    (actual,) = run(compile(module, target="trn1"), [-np.eye(3, dtype=np.float32)])
    assert np.isnan(actual).all()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (6, 3), (3, 6)])
def test_qr(rows: int, columns: int) -> None:
    """The vectors and factors of reflections, and the product that they stand for."""
    count = min(rows, columns)
    kind = _shape(2, rows, columns)
    module = _module(f"""
      a = {kind} parameter(0)
      q = ({kind}, {_shape(2, count)}) custom-call(a), custom_call_target="Qr"
      r = {kind} get-tuple-element(q), index=0
      t = {_shape(2, count)} get-tuple-element(q), index=1
      c = {_shape(2, rows, count)} slice(r), slice={{[0:2], [0:{rows}], [0:{count}]}}
      p = {_shape(2, rows, count)} custom-call(c, t), custom_call_target="ProductOfElementaryHouseholderReflectors"
      ROOT o = ({kind}, {_shape(2, rows, count)}) tuple(r, p)""")
    matrix = _normal(2, rows, columns)
    packed, factor = run(compile(module, target="trn2"), [matrix])
    upper = np.triu(packed)[:, :count]
    np.testing.assert_allclose(factor @ upper, matrix, rtol=1e-4, atol=1e-5)
    identity = np.broadcast_to(np.eye(count), (2, count, count))
    np.testing.assert_allclose(factor.transpose(0, 2, 1) @ factor, identity, atol=1e-5)
    expected = np.linalg.qr(matrix.astype(np.float64))[1]
    np.testing.assert_allclose(np.abs(upper), np.abs(expected), rtol=1e-4, atol=1e-5)


FUNCTIONS: dict[str, Any] = {
    "determinant": np.linalg.det,
    "inverse": np.linalg.inv,
    "solution": lambda a: np.linalg.solve(a, a[:, :, :3]),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_lu_factors(name: str, seed: int) -> None:
    """JAX writes LU in HLO where it has no LAPACK, as on the device."""
    functions: dict[str, Any] = {
        "determinant": jnp.linalg.det,
        "inverse": jnp.linalg.inv,
        "solution": lambda a: jnp.linalg.solve(a, a[:, :, :3]),
    }
    a = np.random.default_rng(seed).normal(size=(2, 6, 6)).astype(np.float32)
    traced = jax.jit(functions[name]).trace(a)
    text = traced.lower(lowering_platforms=("neuron",)).compiler_ir("hlo")
    module = hlo_tools.load(text.as_serialized_hlo_module_proto())
    (actual,) = run(compile(module, target="trn2"), [a])
    np.testing.assert_allclose(actual, FUNCTIONS[name](a), rtol=2e-3, atol=2e-4)
