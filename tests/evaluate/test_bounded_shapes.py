"""Bounded dynamic shapes: arrays with fewer elements than their shapes state."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.evaluate import EvaluationError, evaluate
from hlo_tools.types.element_types import Array

GROWING_LOOP = """HloModule m
body {
  st = (s32[<=4,2]) parameter(0)
  buf = s32[<=4,2] get-tuple-element(st), index=0
  n = s32[] get-dimension-size(buf), dimensions={0}
  one = s32[] constant(1)
  n1 = s32[] add(n, one)
  nb = s32[<=4,2] set-dimension-size(buf, n1), dimensions={0}
  row = s32[1,2] broadcast(n), dimensions={}
  z = s32[] constant(0)
  nbb = s32[<=4,2] dynamic-update-slice(nb, row, n, z)
  ROOT t = (s32[<=4,2]) tuple(nbb)
}
condition {
  st = (s32[<=4,2]) parameter(0)
  buf = s32[<=4,2] get-tuple-element(st), index=0
  n = s32[] get-dimension-size(buf), dimensions={0}
  last = s32[] constant(LAST)
  ROOT lt = pred[] compare(n, last), direction=LT
}
add { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
ENTRY main {
  z = s32[] constant(0)
  bz = s32[4,2] broadcast(z), dimensions={}
  d = s32[<=4,2] set-dimension-size(bz, z), dimensions={0}
  t = (s32[<=4,2]) tuple(d)
  w = (s32[<=4,2]) while(t), condition=condition, body=body
  g = s32[<=4,2] get-tuple-element(w), index=0
  ROOT r = s32[2] reduce(g, z), dimensions={0}, to_apply=add
}"""


@pytest.mark.parametrize(("iterations", "total"), [(0, 0), (1, 0), (3, 3), (4, 6)])
def test_a_loop_grows_an_array_up_to_its_bound(iterations: int, total: int) -> None:
    module = load(GROWING_LOOP.replace("LAST", str(iterations)).encode())
    np.testing.assert_array_equal(evaluate(module, [])[0], [total, total])


def _run(body: str, *inputs: Array) -> Array:
    return evaluate(load(f"HloModule m\n{body}".encode()), list(inputs))[0]


def test_results_have_the_current_size() -> None:
    program = """ENTRY e { x = f32[5] parameter(0)
      n = s32[] parameter(1)
      d = f32[<=5] set-dimension-size(x, n), dimensions={0}
      ROOT s = f32[<=5] multiply(d, d) }"""
    for size in (0, 2, 5):
        x = np.arange(5, dtype=np.float32) + size
        np.testing.assert_array_equal(_run(program, x, np.int32(size)), x[:size] ** 2)


def test_an_input_may_be_smaller_than_its_bound() -> None:
    program = """ENTRY e { x = f32[<=5,2] parameter(0)
      ROOT t = f32[2,<=5] transpose(x), dimensions={1,0} }"""
    for size in (0, 3, 5):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        np.testing.assert_array_equal(_run(program, x), x.T)
    for wrong in (np.zeros((6, 2), np.float32), np.zeros((3, 1), np.float32)):
        with pytest.raises(EvaluationError, match="the input is") as refused:
            _run(program, wrong)
        assert refused.value.code == "HLO-INPUTS"


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (1, 4)])
def test_a_dynamic_reshape_has_the_extents_of_its_operands(sizes: tuple[int, int]) -> None:
    program = """ENTRY e { x = f32[<=6] parameter(0)
      m = s32[] parameter(1)
      n = s32[] parameter(2)
      ROOT r = f32[<=6,<=6] dynamic-reshape(x, m, n) }"""
    x = np.arange(sizes[0] * sizes[1], dtype=np.float32)
    result = _run(program, x, np.int32(sizes[0]), np.int32(sizes[1]))
    np.testing.assert_array_equal(result, x.reshape(sizes))
    with pytest.raises(EvaluationError, match="makes"):
        _run(program, x, np.int32(5), np.int32(1))


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("f32[2,<=5] broadcast(d), dimensions={1}", "fewer than its bound"),
        ("f32[<=7] pad(d, zero), padding=1_1", "fewer than its bound"),
        ("f32[<=5] add(d, x)", "current sizes differ"),
        ("f32[<=5] dynamic-update-slice(d, u, three)", "beyond the current size"),
    ],
)
def test_operations_that_need_the_full_size_are_refused(instruction: str, message: str) -> None:
    program = f"""ENTRY e {{ x = f32[5] parameter(0)
      u = f32[2] slice(x), slice={{[0:2]}}
      zero = f32[] constant(0)
      three = s32[] constant(3)
      d = f32[<=5] set-dimension-size(x, three), dimensions={{0}}
      ROOT r = {instruction} }}"""
    with pytest.raises(EvaluationError, match=message) as refused:
        _run(program, np.ones(5, np.float32))
    assert refused.value.code == "HLO-EVALUATE" and "r" in str(refused.value)


@pytest.mark.parametrize("size", [-1, 6])
def test_a_size_outside_the_bound_is_refused(size: int) -> None:
    program = """ENTRY e { x = f32[5] parameter(0)
      n = s32[] parameter(1)
      ROOT d = f32[<=5] set-dimension-size(x, n), dimensions={0} }"""
    with pytest.raises(EvaluationError, match="not between 0 and its bound 5"):
        _run(program, np.ones(5, np.float32), np.int32(size))


@pytest.mark.parametrize("marks", [[True], [True, False, True]])
def test_marks_that_do_not_fit_the_bounds_count_as_none(marks: list[bool]) -> None:
    module = load(
        b"HloModule m\nENTRY e { x = f32[4,2] parameter(0)\n ROOT y = f32[4,2] negate(x) }"
    )
    module.entry.parameters[0].proto.shape.is_dynamic_dimension[:] = marks
    module.touch()
    array = np.ones((4, 2), np.float32)
    np.testing.assert_array_equal(evaluate(module, [array])[0], -array)
    with pytest.raises(EvaluationError, match="the input is"):
        evaluate(module, [array[:3]])
