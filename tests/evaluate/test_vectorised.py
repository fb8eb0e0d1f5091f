"""Operations that are computed for all elements at once, against jaxlib; and the limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.evaluate import Evaluator, Limits, evaluate
from hlo_tools.evaluate.arguments import random_inputs
from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.evaluate.values import EvaluationError
from hlo_tools.ir.module import Module
from tests.evaluate.test_evaluate import module_of, run_jaxlib

HEAD = """HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
keep { x = f32[] parameter(0)
  ROOT y = f32[] parameter(1) }
mix { x = f32[] parameter(0)
  y = f32[] parameter(1)
  h = f32[] constant(0.5)
  s = f32[] multiply(x, h)
  ROOT r = f32[] add(s, y) }
called { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] call(x, y), to_apply=mix }
ge { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=GE }
less { x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(x, y), direction=LT }
down { x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(j, i), direction=LT }
total { x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(x, y), direction=GT, type=TOTALORDER }
bits { x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  a = s32[] bitcast-convert(x)
  b = s32[] bitcast-convert(y)
  ROOT r = pred[] compare(a, b), direction=GT }
most { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(v, w), direction=GE
  a = f32[] select(p, v, w)
  b = s32[] select(p, i, j)
  ROOT r = (f32[], s32[]) tuple(a, b) }
ENTRY e { z = f32[] constant(0)
  n = s32[] constant(-1)
"""

X, PLACES = "x = f32[4,5,6] parameter(0)\n", "i = s32[7,2] parameter(1)\n"
CASES = {
    "gather of windows": X + PLACES + "ROOT r = f32[7,2,6] gather(x, i), offset_dims={1,2}, "
    "collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,2,6}",
    "gather of columns": X + PLACES + "ROOT r = f32[4,7,3,2] gather(x, i), offset_dims={0,2,3}, "
    "collapsed_slice_dims={}, start_index_map={1,2}, index_vector_dim=1, slice_sizes={4,3,2}",
    "gather by batch": X + "i = s32[5,4,3] parameter(1)\nROOT r = f32[5,4,3,1] gather(x, i), "
    "offset_dims={3}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=3, "
    "operand_batching_dims={0}, start_indices_batching_dims={1}, slice_sizes={1,1,1}",
    "scatter that adds": X + PLACES + "u = f32[7,6] parameter(2)\nROOT r = f32[4,5,6] scatter(x, i, u), "
    "update_window_dims={1}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, "
    "index_vector_dim=1, to_apply=add",
    "scatter that overwrites": X + PLACES + "u = f32[7,2,2] parameter(2)\nROOT r = f32[4,5,6] scatter(x, i, u), "
    "update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, "
    "index_vector_dim=1, to_apply=keep",
    "scatter in order": X + PLACES + "u = f32[7] parameter(2)\nROOT r = f32[4,5,6] scatter(x, i, u), "
    "update_window_dims={}, inserted_window_dims={0,1,2}, scatter_dims_to_operand_dims={0,1}, "
    "index_vector_dim=1, to_apply=called",
    "sort with payload": X + "j = s32[4,5,6] parameter(1)\nROOT r = (f32[4,5,6], s32[4,5,6]) sort(x, j), "
    "dimensions={1}, is_stable=true, to_apply=less",
    "sort downwards": X + "j = s32[4,5,6] parameter(1)\n"
    "ROOT r = (f32[4,5,6], s32[4,5,6]) sort(x, j), dimensions={2}, is_stable=true, to_apply=down",
    "sort in total order": "x = f32[9] constant({nan,1,-0,inf,0,-nan,-inf,-1,0})\nj = s32[9] iota(), "
    "iota_dimension=0\nROOT r = (f32[9], s32[9]) sort(x, j), dimensions={0}, is_stable=true, to_apply=total",
    "sort by bits": "x = f32[300] parameter(0)\nj = s32[300] parameter(1)\n"
    "ROOT r = (f32[300], s32[300]) sort(x, j), dimensions={0}, is_stable=true, to_apply=bits",
    "largest with its place": X + "j = s32[4,5,6] parameter(1)\nm = f32[] constant(-inf)\n"
    "ROOT r = (f32[4], s32[4]) reduce(x, j, m, n), dimensions={1,2}, to_apply=most",
    "window of two values": X + "j = s32[4,5,6] parameter(1)\nm = f32[] constant(-inf)\n"
    "ROOT r = (f32[4,2,3], s32[4,2,3]) reduce-window(x, j, m, n), "
    "window={size=1x2x3 stride=1x2x2 pad=0_0x0_0x1_0}, to_apply=most",
    "select and scatter": X + "s = f32[4,3,2] parameter(1)\nROOT r = f32[4,5,6] select-and-scatter(x, s, z), "
    "window={size=1x2x3 stride=1x2x3 pad=0_0x1_0x0_0}, select=ge, scatter=add",
    "overlapping select and scatter": "x = f32[9] parameter(0)\ns = f32[7] parameter(1)\n"
    "ROOT r = f32[9] select-and-scatter(x, s, z), window={size=3}, select=ge, scatter=add",
    "convolution in groups": "x = f32[2,7,6,4] parameter(0)\nk = f32[3,2,2,6] parameter(1)\n"
    "ROOT r = f32[2,4,8,6] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x2_2 "
    "rhs_dilate=1x2 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=2",
    "convolution in batches": "x = f32[4,5,5,3] parameter(0)\nk = f32[2,2,3,6] parameter(1)\n"
    "ROOT r = f32[2,8,8,6] convolution(x, k), window={size=2x2 lhs_dilate=2x2}, "
    "dim_labels=b01f_01io->b01f, batch_group_count=2",
    "convolution of nothing spatial": "x = f32[4,3] parameter(0)\nk = f32[3,6] parameter(1)\n"
    "ROOT r = f32[4,6] convolution(x, k), dim_labels=bf_io->bf",
    "not positive definite": "x = f32[2,2,2] parameter(0)\nROOT r = f32[2,2,2] cholesky(x), lower=true",
}  # fmt: skip


def inputs_of(text: str) -> tuple[Module, list[np.ndarray[Any, Any]]]:
    module = module_of(f"{HEAD}{text} }}")
    random = np.random.default_rng(5)
    return module, [
        random.integers(-1, 6, parameter.shape.dimensions).astype(parameter.shape.dtype)
        if parameter.shape.element.kind == "int"
        else (random.integers(-8, 8, parameter.shape.dimensions) / 4).astype(np.float32)
        for parameter in module.entry.parameters
    ]


@pytest.mark.jax
@pytest.mark.parametrize("name", CASES)
def test_equals_jaxlib(name: str) -> None:
    module, inputs = inputs_of(CASES[name])
    for result, reference in zip(evaluate(module, inputs), run_jaxlib(module, inputs), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


def test_ragged_dot_by_rows_and_by_contraction() -> None:
    """XLA's CPU backend has none; a loop over the groups is the reference."""
    random = np.random.default_rng(2)
    x, w, v = (random.standard_normal(size) for size in ((7, 4), (3, 4, 5), (7, 5)))
    sizes = (2, 0, 4)
    text = (
        "x = f64[7,4] parameter(0)\nw = f64[3,4,5] parameter(1)\nv = f64[7,5] parameter(2)\n"
        "g = s64[3] constant({2,0,4})\n"
        "a = f64[7,5] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}\n"
        "b = f64[3,4,5] ragged-dot(x, v, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "lhs_ragged_dims={0}\nROOT r = (f64[7,5], f64[3,4,5]) tuple(a, b)"
    )
    rows, contracted = evaluate(module_of(f"{HEAD}{text} }}"), [x, w, v])
    expected, start = np.zeros((7, 5)), 0
    for group, size in enumerate(sizes):
        section = slice(start, start + size)
        expected[section] = x[section] @ w[group]
        np.testing.assert_allclose(contracted[group], x[section].T @ v[section])
        start += size
    np.testing.assert_allclose(rows, expected)


def test_a_million_elements_sort_scatter_and_reduce() -> None:
    """Element by element this took minutes."""
    size = 1_000_000
    text = (
        f"x = f32[{size}] parameter(0)\nj = s32[{size}] iota(), iota_dimension=0\n"
        f"s = (f32[{size}], s32[{size}]) sort(x, j), dimensions={{0}}, to_apply=less\n"
        f"a = f32[{size}] get-tuple-element(s), index=0\nb = s32[{size},1] reshape(j)\n"
        f"t = f32[{size}] scatter(a, b, x), update_window_dims={{}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mix\n"
        "m = f32[] constant(-inf)\n"
        "ROOT r = (f32[], s32[]) reduce(t, j, m, n), dimensions={0}, to_apply=most"
    )
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    value, location = evaluate(module_of(f"{HEAD}{text} }}"), [x])
    expected = np.sort(x) * np.float32(0.5) + x
    assert value == expected.max() and location == expected.argmax()


LOOP = """HloModule m
body { x = s32[] parameter(0)
  ROOT y = s32[] copy(x) }
condition { x = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
ENTRY e { x = s32[] constant(0)
  ROOT w = s32[] while(x), condition=condition, body=body }"""


def test_a_loop_without_end_is_told() -> None:
    with pytest.raises(HloError, match="never ends") as caught:
        evaluate(module_of(LOOP), [])
    assert caught.value.code == "HLO-EVALUATE" and caught.value.place == "%w"


def test_a_loop_whose_condition_looks_at_what_stays_never_ends() -> None:
    text = """HloModule m
condition { p = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=1
  zero = s32[] constant(0)
  ROOT less = pred[] compare(n, zero), direction=EQ }
body { p = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=INDEX
  b = s32[] add(a, a)
  ROOT t = (s32[], s32[]) tuple(b, n) }
ENTRY e { x = (s32[], s32[]) parameter(0)
  ROOT w = (s32[], s32[]) while(x), condition=condition, body=body }"""
    inputs = [(np.int32(1), np.int32(0))]
    with pytest.raises(HloError, match="never ends"):
        evaluate(module_of(text.replace("INDEX", "1")), inputs)
    assert evaluate(module_of(text.replace("INDEX", "0")), inputs) == [2, 1]


def test_a_loop_of_too_many_turns_is_told() -> None:
    text = LOOP.replace(
        "ROOT t = pred[] constant(true)",
        """n = s32[] constant(7)
  ROOT t = pred[] compare(x, n), direction=NE""",
    )
    with pytest.raises(HloError, match="elementary operations") as caught:
        Evaluator(module_of(text), limits=Limits(work=1e7)).run([])
    assert caught.value.code == "HLO-EVALUATE-LIMIT" and caught.value.place.startswith("%")


def test_a_value_too_large_for_memory_is_told() -> None:
    text = (
        "c = f32[] constant(1)\nb = f32[400000,400000] broadcast(c), dimensions={}\n"
        "ROOT r = f32[400000,400000] negate(b)"
    )
    with pytest.raises(HloError, match="bytes, more than") as caught:
        evaluate(module_of(f"HloModule m\nENTRY e {{ {text} }}"), [])
    assert caught.value.code == "HLO-EVALUATE-LIMIT"


def test_random_inputs_too_large_for_memory_are_told() -> None:
    module = module_of("HloModule m\nENTRY e { ROOT x = f32[100000000000000] parameter(0) }")
    with pytest.raises(HloError, match="the parameters take") as caught:
        random_inputs(module, 0)
    assert caught.value.code == "HLO-EVALUATE-LIMIT"


def test_a_dot_that_is_too_much_work_is_told_before_it_runs() -> None:
    text = (
        "c = f32[] constant(1)\nb = f32[20000,20000] broadcast(c), dimensions={}\n"
        "ROOT r = f32[20000,20000] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    with pytest.raises(HloError, match="they ran out at dot"):
        evaluate(module_of(f"HloModule m\nENTRY e {{ {text} }}"), [])


@pytest.mark.parametrize(
    "text",
    [
        "ROOT g = f32[8] all-gather(x), dimensions={0}, replica_groups={}",
        "ROOT g = f32[2] reduce-scatter(x), dimensions={0}, replica_groups={}, to_apply=add",
    ],
)
def test_collectives_that_join_devices_have_no_result_on_one(text: str) -> None:
    module = module_of(f"{HEAD}x = f32[4] parameter(0)\n{text} }}")
    with pytest.raises(HloError) as caught:
        evaluate(module, [np.zeros(4, np.float32)])
    assert caught.value.code == "HLO-COLLECTIVE"


def test_a_bitcast_to_another_size_is_refused() -> None:
    """The verifier does so only where layouts count, as XLA's."""
    module = module_of(
        "HloModule m\nENTRY e { x = bf16[4,4] parameter(0)\nROOT r = f32[4,4] bitcast(x) }"
    )
    with pytest.raises(HloError) as caught:
        evaluate(module, [np.zeros((4, 4), module.entry.parameters[0].shape.dtype)])
    assert caught.value.code == "HLO-EVALUATE" and caught.value.place == "%r"
    assert "makes 64 bytes of 32" in caught.value.message


def test_an_invalid_module_is_told_by_its_rule() -> None:
    proto = module_of(
        "HloModule m\nENTRY e { x = f32[4] parameter(0)\nROOT r = f32[4] sine(x) }"
    ).proto
    del proto.computations[0].instructions[1].operand_ids[:]
    with pytest.raises(HloVerifyError) as caught:
        evaluate(Module(proto), [np.zeros(4, np.float32)])
    assert "%e/%r" in caught.value.place


def _broken(_: object) -> None:
    raise KeyError("missing")


def test_an_operation_that_fails_is_a_bug_of_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("HloModule m\nENTRY e { x = f32[4] parameter(0)\nROOT r = f32[4] sine(x) }")
    monkeypatch.setitem(OPERATIONS, "sine", _broken)
    with pytest.raises(KeyError):  # suites and fuzzers see it as it is
        evaluate(module, [np.zeros(4, np.float32)])
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    with pytest.raises(EvaluationError, match="sine failed: KeyError: 'missing'") as caught:
        evaluate(module, [np.zeros(4, np.float32)])
    assert caught.value.code == "HLO-INTERNAL" and "report it" in caught.value.remedy


def test_a_custom_call_s_function_that_fails_is_named() -> None:
    module = module_of(
        "HloModule m\nENTRY e { x = f32[4] parameter(0)\n"
        'ROOT r = f32[4] custom-call(x), custom_call_target="mine" }'
    )

    def mine(row: object, operands: object) -> list[Any]:
        raise ValueError("on purpose")

    with pytest.raises(EvaluationError, match="'mine', whose function fails: ValueError") as caught:
        Evaluator(module, custom_calls={"mine": mine}).run([np.zeros(4, np.float32)])
    assert caught.value.code == "HLO-EVALUATE-FAILED" and caught.value.place == "%r"


@pytest.mark.parametrize("computation", ["less", "down"])
def test_a_sorted_dimension_without_elements(computation: str) -> None:
    inputs = [np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32)]
    text = (
        "x = f32[0,3] parameter(0)\ni = s32[0,3] parameter(1)\n"
        f"ROOT r = (f32[0,3], s32[0,3]) sort(x, i), dimensions={{0}}, to_apply={computation} }}"
    )
    module = module_of(HEAD + text)
    for ours, reference in zip(evaluate(module, inputs), run_jaxlib(module, inputs), strict=True):
        assert ours.shape == reference.shape and ours.dtype == reference.dtype
