"""A pass leaves no unused parameter in a fused computation, nor an operand for it."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.verify import check

NESTED = """HloModule m
inner { p = f32[0,3] parameter(0)
  q = f32[0,3] parameter(1)
  w = f32[2] parameter(2)
  d = f32[0,3] multiply(p, q)
  n = f32[2] negate(w)
  ROOT t = (f32[0,3], f32[2]) tuple(d, n) }
outer { a = f32[0,3] parameter(0)
  b = f32[2] parameter(1)
  m = f32[0,3] negate(a)
  z = (f32[0,3], f32[2]) fusion(a, m, b), kind=kLoop, calls=inner, output_to_operand_aliasing={{0}: (1, {}), {1}: (2, {})}
  g = f32[0,3] get-tuple-element(z), index=0
  h = f32[2] get-tuple-element(z), index=1
  ROOT r = (f32[0,3], f32[2]) tuple(g, h) }
ENTRY main { x = f32[0,3] parameter(0)
  y = f32[2] parameter(1)
  c = f32[0,3] exponential(x)
  ROOT z = (f32[0,3], f32[2]) fusion(c, y), kind=kLoop, calls=outer }
"""


@pytest.mark.parametrize(
    "passes", ["algebraic-simplification", "constant-folding,algebraic-simplification"]
)
def test_fusions_within_fusions_pass_what_is_used(passes: str) -> None:
    module = hlo_tools.load(NESTED.encode())
    arrays = [np.zeros((0, 3), np.float32), np.array([1.0, -2.0], np.float32)]
    Pipeline.parse(passes).run(module, verify_each=True)
    module = hlo_tools.load(module.to_bytes())
    check(module)
    inner = next(computation for computation in module.computations if computation.name == "inner")
    assert [parameter.name for parameter in inner.parameters] == ["w"]
    (fusion,) = module.callers_of(inner)
    ((alias,),) = (fusion.proto.output_operand_aliasing,)
    assert [operand.name for operand in fusion.operands] == ["b"] and alias.operand_index == 0
    assert [operand.name for operand in module.entry.root.operands] == ["y"]
    empty, negated = evaluate(module, arrays)
    assert empty.shape == (0, 3) and negated.tolist() == [-1.0, 2.0]
