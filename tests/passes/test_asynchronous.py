"""A pass leaves one operation in what runs asynchronously, whatever a rule would make of it."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline

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
    given, result, operation = case
    module = hlo_tools.load(MODULE.format(given=given, result=result, operation=operation).encode())
    shape = module.entry.parameters[0].shape
    numbers = np.arange(np.prod(shape.dimensions)).reshape(shape.dimensions) * 3 - 7
    x = numbers.astype(shape.element.dtype)
    [wanted] = evaluate(module, [x])
    Pipeline.parse(passes).run(module, verify_each=True)
    [found] = evaluate(module, [x])
    assert np.array_equal(found, wanted)


def test_a_parameter_replaces_what_it_equals() -> None:
    module = hlo_tools.load(
        MODULE.format(given="f32[3]", result="f32[3]", operation="reshape(p)").encode()
    )
    Pipeline.parse("reshape-transpose-cleaning").run(module, verify_each=True)
    body = next(one for one in module.computations if one.name == "body")
    assert body.is_asynchronous and not module.entry.is_asynchronous
    assert body.root is body.parameters[0]
