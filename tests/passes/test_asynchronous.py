"""An asynchronous operation stays one operation, and its start and done stay together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.slicing import extract_slice, grow
from hlo_tools.verify import check

MODULE = """HloModule m
body {{ p = {given} parameter(0) ROOT r = {result} {operation} }}
ENTRY main {{ x = {given} parameter(0)
  s = (({given}), {result}, u32[]) async-start(x), calls=body
  ROOT d = {result} async-done(s) }}
"""
CASES = [
    ("f32[0,3]", "f32[0,3]", "abs(p)"),
    ("s32[300]", "s32[300]", "xor(p, p)"),
    ("s32[]", "s32[]", "subtract(p, p)"),
    ("f32[3,4]", "f32[3,3]", "dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    ("f32[2,3,2]", "f32[3,2,3,2]", "dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
]
PASSES = ["algebraic-simplification", "algebraic-simplification{fast=true}", "constant-folding",
          "dot-canonicalisation", "reshape-transpose-cleaning"]  # fmt: skip


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2])
def test_one_operation_stays_one(passes: str, case: tuple[str, str, str]) -> None:
    operand, result, operation = case
    module = hlo_tools.load(
        MODULE.format(given=operand, result=result, operation=operation).encode()
    )
    shape = module.entry.parameters[0].shape
    numbers = np.arange(np.prod(shape.dimensions)).reshape(shape.dimensions) * 3 - 7
    x = numbers.astype(shape.element.dtype)
    [expected] = evaluate(module, [x])
    Pipeline.parse(passes).run(module, verify_each=True)
    [actual] = evaluate(module, [x])
    assert np.array_equal(actual, expected)


def test_a_parameter_replaces_what_it_equals() -> None:
    module = hlo_tools.load(
        MODULE.format(given="f32[3]", result="f32[3]", operation="reshape(p)").encode()
    )
    Pipeline.parse("reshape-transpose-cleaning").run(module, verify_each=True)
    body = next(computation for computation in module.computations if computation.name == "body")
    assert body.is_asynchronous and not module.entry.is_asynchronous
    assert body.root is body.parameters[0]


CHAIN = """HloModule m
body { p = f32[3] parameter(0) ROOT r = f32[3] negate(p) }
ENTRY main { x = f32[3] parameter(0)
  a = f32[3] abs(x)
  s = ((f32[3]), f32[3], u32[]) async-start(a), calls=body
  u = ((f32[3]), f32[3], u32[]) async-update(s)
  d = f32[3] async-done(u)
  cs = (f32[3], f32[3], u32[]) copy-start(d)
  cd = f32[3] copy-done(cs)
  ROOT e = f32[3] exponential(cd) }
"""
NAMES = ["a", "s", "u", "d", "cs", "cd", "e"]
GIVEN = np.asarray([-1, 0, 2], np.float32)


@pytest.mark.parametrize("size", range(1, 8))
def test_what_is_outlined_together(size: int) -> None:
    for names in combinations(NAMES, size):
        module = hlo_tools.load(CHAIN.encode())
        pipeline = Pipeline.parse(f"outlining{{instructions={','.join(names)}}}")
        is_split = any(
            0 < len(group & {*names}) < len(group) for group in ({"s", "u", "d"}, {"cs", "cd"})
        )
        if is_split:
            with pytest.raises(HloError, match=r"belongs to it") as caught:
                pipeline.run(module)
            assert caught.value.code == "HLO-EDIT"
        elif NAMES.index(names[-1]) - NAMES.index(names[0]) == size - 1:
            pipeline.run(module, verify_each=True)
            [actual] = evaluate(module, [GIVEN])
            assert np.array_equal(actual, np.exp(-np.abs(GIVEN)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operands", range(3))
@pytest.mark.parametrize("users", range(3))
def test_what_is_cut_out_together(name: str, operands: int, users: int) -> None:
    start = hlo_tools.load(CHAIN.encode()).entry.find(name)
    extracted = extract_slice(grow([start], operands=operands, users=users), targets=[start])
    check(extracted.module)
    assert extracted.outputs and all(view.shape.dimensions == (3,) for view in extracted.outputs)
