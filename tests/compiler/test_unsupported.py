"""Each kind of program that is refused has a code, and the table in the documentation has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from neff.compiler.unsupported import UNSUPPORTED, unsupported_table
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from tests.compiler.compiling import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler.md"

_TURNS = """
less { p = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(a, b), direction=LT }
next { p = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1
  c = s32[] add(a, a)
  ROOT t = (s32[], s32[]) tuple(c, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
repeated { a = s32[] parameter(0)
  b = s32[] parameter(1)
  s = (s32[], s32[]) tuple(a, b)
  w = (s32[], s32[]) while(s), condition=less, body=next
  ROOT r = s32[] get-tuple-element(w), index=0 }
"""

_KINDS = {
    "NEFF-COMPLEX": 'x = c64[2,2] parameter(0)\n ROOT r = c64[2,2] custom-call(x), custom_call_target="TopK"',
    "NEFF-F64": "x = f64[2] parameter(0)\n ROOT r = f64[2] add(x, x)",
    "NEFF-DTYPE": "x = f4e2m1fn[2] parameter(0)\n ROOT r = f4e2m1fn[2] add(x, x)",
    "NEFF-INT64": "x = s64[2] parameter(0)\n ROOT r = s64[2] mulhi(x, x)",
    "NEFF-DYNAMIC": "x = f32[4] parameter(0)\n n = s32[] parameter(1)\n"
    "ROOT r = f32[<=4] set-dimension-size(x, n), dimensions={0}",
    "NEFF-LOOP": "x = s32[4] parameter(0)\n zero = s32[] constant(0)\n"
    "ROOT r = s32[] reduce(x, zero), dimensions={0}, to_apply=repeated",
    "NEFF-CUSTOM-CALL": 'x = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(x), custom_call_target="Foreign"',
    "NEFF-HOST": "x = f32[2] parameter(0)\n t = token[] after-all()\n"
    "o = token[] outfeed(x, t), outfeed_shape=f32[2]\n ROOT r = f32[2] negate(x)",
    "NEFF-COLLECTIVE": "x = f32[2] parameter(0)\n ROOT r = f32[2] all-reduce(x), to_apply=sum",
    "NEFF-SIZE": "x = f32[1100,1100] parameter(0)\n ROOT r = f32[1100,1100] cholesky(x), lower=true",
    "NEFF-RNG": "a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    "ROOT r = f32[4] rng(a, b), distribution=rng_uniform",
    "NEFF-OP": "x = s32[2] parameter(0)\n ROOT r = s32[2] power(x, x)",
}


def _module(body: str) -> hlo_tools.Module:
    return hlo_tools.load(f"HloModule m\n{_TURNS}\nENTRY e {{\n{body}\n}}".encode())


def test_there_is_a_module_of_each_kind() -> None:
    assert set(_KINDS) == set(UNSUPPORTED)


@pytest.mark.parametrize("code", _KINDS)
def test_the_code_is_that_of_the_kind(code: str) -> None:
    with pytest.raises(NeffCompileError) as caught:
        compile(_module(_KINDS[code]), target="trn2")
    assert caught.value.code == code
    assert caught.value.remedy and caught.value.place


def test_what_nothing_reads_is_not_compiled() -> None:
    dead = """x = f32[2] parameter(0)
      c = c64[2] complex(x, x)
      i = s32[] parameter(1)
      s = (s32[], s32[]) tuple(i, i)
      w = (s32[], s32[]) while(s), condition=less, body=next
      k = f32[2] custom-call(x), custom_call_target="Foreign"
      ROOT r = f32[2] negate(x)"""
    x = np.ones(2, np.float32)
    (actual,) = run(compile(_module(dead), target="trn1"), [x, np.int32(3)])
    np.testing.assert_array_equal(actual, -x)


def test_float64_is_computed_in_float32_on_request() -> None:
    body = """x = f64[3] parameter(0)
      h = f64[] constant(0.5)
      b = f64[3] broadcast(h), dimensions={}
      m = f64[3] multiply(x, b)
      p = pred[3] compare(m, x), direction=LT
      ROOT r = (f64[3], pred[3]) tuple(m, p)"""
    x = np.array([1.0, -2.5, 3e-5])
    options = CompileOptions(downcast_f64=True)
    half, less = run(compile(_module(body), target="trn2", options=options), [x])
    np.testing.assert_allclose(half, x / 2, rtol=1e-7)
    np.testing.assert_array_equal(less.view(np.bool_), x / 2 < x)


@pytest.mark.parametrize(("source", "target"), [("s32", "f64"), ("f64", "s32"), ("f64", "s8")])
def test_conversions_that_float32_would_round_are_refused(source: str, target: str) -> None:
    body = f"x = {source}[2] parameter(0)\n ROOT r = {target}[2] convert(x)"
    with pytest.raises(NeffCompileError) as caught:
        compile(_module(body), target="trn2")
    assert caught.value.code == "NEFF-F64"


def test_the_table_in_the_documentation_is_the_codes(update_golden: bool) -> None:
    begin, end = "<!-- unsupported: begin -->\n", "<!-- unsupported: end -->"
    text = PAGE.read_text()
    before, _, tail = text.partition(begin)
    inside, _, after = tail.partition(end)
    expected = unsupported_table() + "\n"
    if update_golden:
        PAGE.write_text(before + begin + expected + end + after)
        return
    assert inside == expected


def test_a_callback_of_a_framework_is_a_transfer_to_the_host() -> None:
    module = _module(
        "x = f32[2] parameter(0)\n"
        'ROOT r = f32[2] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"'
    )
    with pytest.raises(NeffCompileError, match="calls Python while the program runs") as refused:
        compile(module, target="trn2")
    assert refused.value.code == "NEFF-HOST"
