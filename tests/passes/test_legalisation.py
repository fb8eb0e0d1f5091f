"""Types that a target lacks, across computations and in what XLA's own passes write."""

from __future__ import annotations

import numpy as np

from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse


def legal(text: str, pipeline: str = "dtype-legalisation") -> Module:
    module = Module(parse(text))
    Pipeline.parse(pipeline).run(module, verify_each=True)
    return module


BITCAST = """
HloModule m
cast { y = f64[4] parameter(0)
  n = f64[4] negate(y)
  ROOT c = f64[2,2] bitcast(n) }
ENTRY main { x = f64[4] parameter(0)
  ROOT d = f64[2,2] fusion(x), kind=kLoop, calls=cast }
"""


def test_a_bitcast_of_one_type_gets_the_other_as_a_reshape_does() -> None:
    module = legal(BITCAST)
    assert str(module.computation("cast").root.shape) == "f32[2,2]{1,0}"
    [found] = evaluate(module, [np.arange(4.0)])
    assert found.dtype == np.float64 and found.tolist() == [[0, -1], [-2, -3]]


BITS = """
HloModule m
bits { x = f64[4] parameter(0)
  ROOT b = u64[4] bitcast-convert(x) }
ENTRY main { x = f64[4] parameter(0)
  c = u64[4] call(x), to_apply=bits
  n = u64[] constant(52)
  ns = u64[4] broadcast(n), dimensions={}
  ROOT e = u64[4] shift-right-logical(c, ns) }
"""


def test_a_root_whose_bits_matter_gives_callers_the_other_type() -> None:
    for boundary in ("keep", "change"):
        module = legal(BITS, f"dtype-legalisation{{boundary={boundary}}}")
        bits = module.computation("bits")
        assert str(bits.root.shape) == "u32[4]{0}" and bits.root.opcode == "convert"
        assert bits.root.operands[0].opcode == "bitcast-convert"


NARROWED = """
HloModule m
ENTRY main { i = s64[4] parameter(0)
  j = s64[4] add(i, i)
  k = s32[4] convert(j)
  ROOT l = s32[4] multiply(k, k) }
"""


def test_conversions_that_do_nothing_any_more_are_gone() -> None:
    module = legal(NARROWED, "dtype-legalisation{boundary=change}")
    assert [view.opcode for view in module.entry] == ["parameter", "add", "multiply"]
    [found] = evaluate(module, [np.arange(4, dtype=np.int32)])
    assert found.tolist() == [0, 4, 16, 36]
