"""Types that a target lacks: results, refusals, callers, and what XLA's own passes write."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import PassError, Pipeline
from hlo_tools.text import parse
from tests.passes.running import entry_of, run

F4 = np.float32

WIDE = """
x = f64[4] parameter(0)
i = s64[4] parameter(1)
f = f64[4] convert(i)
m = f64[4] multiply(x, f)
j = s64[4] multiply(i, i)
p = pred[4] compare(j, i), direction=GT
s = f64[4] select(p, m, x)
ROOT out = (f64[4], s64[4]) tuple(s, j)
"""


@pytest.mark.parametrize("boundary", ["keep", "change"])
def test_narrow_types_compute_alike(boundary: str) -> None:
    module = entry_of(WIDE)
    x, i = np.array([0.5, -2, 1e3, 3]), np.array([1, -7, 40000, 0])
    expected = evaluate(module, [x, i])
    narrow = run(f"dtype-legalisation{{boundary={boundary}}}", entry_of(WIDE))
    inside = {view.shape.element.name for view in narrow.entry if view.opcode == "multiply"}
    assert inside == {"f32", "s32"}
    if boundary == "change":
        x, i = x.astype("f4"), i.astype("i4")
    for reference, result in zip(expected, evaluate(narrow, [x, i]), strict=True):
        assert (result.dtype == reference.dtype) == (boundary == "keep")
        np.testing.assert_allclose(reference, result, rtol=1e-6)
    assert not Pipeline.parse(f"dtype-legalisation{{boundary={boundary}}}").run(narrow).modified


def test_constants_beyond_32_bits_are_refused_or_saturated() -> None:
    body = "ROOT c = s64[3] constant({5000000000, 1, -9223372036854775808})"
    module = entry_of(body)
    before = module.to_bytes()
    with pytest.raises(
        PassError, match=r"%c holds 5000000000, which s32 cannot represent"
    ) as caught:
        Pipeline.parse("dtype-legalisation").run(module)
    assert caught.value.code == "HLO-PASS-LEGALISE"
    assert module.to_bytes() == before
    narrow = run("dtype-legalisation{saturate boundary=change}", module)
    assert narrow.entry.root.literal is not None
    assert narrow.entry.root.literal.numpy().tolist() == [2**31 - 1, 1, -(2**31)]


def test_custom_calls_keep_their_types() -> None:
    body = """
    x = s64[2] parameter(0)
    y = s64[2] add(x, x)
    ROOT c = s64[2] custom-call(y), custom_call_target="theirs"
    """
    narrow = run("dtype-legalisation", entry_of(body))
    call = narrow.entry.root
    assert call.opcode == "custom-call" and call.operands[0].opcode == "convert"
    assert call.shape == "s64[2]{0}" and call.operands[0].operands[0].shape == "s32[2]{0}"


SMALL_TYPES = ["s2", "s4", "u2", "u4", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "f8e3m4", "f8e8m0fnu",
         "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fn"]  # fmt: skip


@pytest.mark.parametrize("element", SMALL_TYPES)
def test_small_types_that_a_target_lacks_become_wider_ones(element: str) -> None:
    body = f"""
    x = {element}[2,2] parameter(0)
    c = {element}[] constant(1)
    b = {element}[2,2] broadcast(c), dimensions={{}}
    p = pred[2,2] parameter(1)
    s = {element}[2,2] select(p, x, b)
    t = {element}[2,2] transpose(s), dimensions={{1,0}}
    w = f32[2,2] convert(t)
    ROOT out = (f32[2,2], {element}[2,2]) tuple(w, t)
    """
    module = entry_of(body)
    dtype = module.entry.find("x").shape.dtype
    assert dtype is not None
    x = np.array([[1, 0.5], [1, 2]]).astype(dtype)
    x = np.abs(x.astype(F4)).astype(dtype)
    p = np.array([[True, False], [True, True]])
    expected = evaluate(module, [x, p])[0]
    legalised = run("dtype-legalisation", module)
    assert evaluate(legalised, [x, p])[0].tolist() == expected.tolist()
    assert legalised.entry.result_shape.tuple_shapes[1].element.name == element
    changed = run("dtype-legalisation{boundary=change}", entry_of(body))
    names = {view.shape.element.name for view in changed.entry if view.shape.is_array}
    assert names == {"f32", "pred", {"s": "s8", "u": "u8", "f": "bf16"}[element[0]]}
    wide = x.astype(F4).astype(changed.entry.find("x").shape.dtype)
    assert evaluate(changed, [wide, p])[0].tolist() == expected.tolist()
    assert "element_size" not in str(changed.proto)
    assert not Pipeline.parse("dtype-legalisation{boundary=change}").run(changed).modified


def test_trn3_has_the_8_bit_float_that_trn2_lacks() -> None:
    body = "x = f8e4m3fn[4] parameter(0)\ny = f8e4m3fn[4] reverse(x), dimensions={0}\nROOT z = f32[4] convert(y)"
    assert not Pipeline.parse("dtype-legalisation{target=trn3}").run(entry_of(body)).modified
    assert Pipeline.parse("dtype-legalisation{target=trn1}").run(entry_of(body)).modified


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_what_lint_says_of_types_is_gone_afterwards(target: str) -> None:
    from hlo_tools.lint import lint
    from hlo_tools.passes.dtype_legalisation import REPLACED

    rows = [
        f"p{n} = {name}[4] parameter({n})\nc{n} = {name}[4] copy(p{n})"
        for n, name in enumerate(name for name in REPLACED[target] if name != "c128")
    ]
    body = "\n".join(rows) + "\nROOT z = f32[] constant(0)"
    before = {hit.code for hit in lint(entry_of(body), target=target)}
    assert {"NCC_ESPP004", "NCC_ESPP047", "NCC_EVRF005"} <= before
    legal = run(f"dtype-legalisation{{target={target} boundary=change}}", entry_of(body))
    assert lint(legal, target=target) == []


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
    [actual] = evaluate(module, [np.arange(4.0)])
    assert actual.dtype == np.float64 and actual.tolist() == [[0, -1], [-2, -3]]


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
    [actual] = evaluate(module, [np.arange(4, dtype=np.int32)])
    assert actual.tolist() == [0, 4, 16, 36]
