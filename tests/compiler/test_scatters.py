"""Scatters that apply any elementwise computation, to one operand or several."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import check, oracle, run

pytestmark = pytest.mark.jax

_METHODS = ["add", "subtract", "multiply", "divide", "min", "max", "set"]
_INDICES = np.array([1, 3, 3, 9, -2, 0], np.int32)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("method", _METHODS)
@hypothesis.settings(max_examples=3, deadline=None, derandomize=True)
@hypothesis.given(rows=st.integers(1, 7), columns=st.sampled_from([1, 5, 129]))
def test_methods(method: str, rows: int, columns: int) -> None:
    update = _normal(6, columns) + 2
    check(
        lambda x, i, u: getattr(x.at[i], method)(u), _normal(rows, columns), _INDICES, update
    )  # fmt: skip


def test_computations_of_one_operand_and_other_types() -> None:
    check(lambda x, i: x.at[i].apply(jnp.sin), _normal(6, 5), _INDICES)
    check(lambda x, i, u: x.at[i].subtract(u), *_small(np.int8))
    check(lambda x, i, u: x.at[i].max(u), *_small(np.uint16))
    check(lambda x, i, u: x.at[i].set(u), *_small(np.bool_))


def _small(dtype: Any) -> tuple[Any, ...]:
    return (_normal(6, 5) * 30).astype(dtype), _INDICES, (_normal(6, 5) * 90).astype(dtype)


_SEVERAL = """HloModule several
both {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  s = f32[] add(a, c)
  m = s32[] maximum(b, d)
  ROOT t = (f32[], s32[]) tuple(s, m)
}
ENTRY main {
  x = f32[4,8] parameter(0)
  y = s32[4,8] parameter(1)
  i = s32[3,1] parameter(2)
  u = f32[3,8] parameter(3)
  v = s32[3,8] parameter(4)
  ROOT r = (f32[4,8], s32[4,8]) scatter(x, y, i, u, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both
}"""


def test_several_operands() -> None:
    module = hlo_tools.load(_SEVERAL.encode())
    indices = np.array([[1], [1], [7]], np.int32)
    whole = [(10 * _normal(*shape)).astype(np.int32) for shape in ((4, 8), (3, 8))]
    arrays = [_normal(4, 8), whole[0], indices, _normal(3, 8), whole[1]]
    found = run(compile(module, target="trn2"), arrays)
    for one, other in zip(found, oracle(module, arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
