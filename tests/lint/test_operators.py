"""Rules on operations, beyond their golden texts."""

from __future__ import annotations

import pytest

import hlo_tools
from hlo_tools.lint import lint, selected
from hlo_tools.verify import Severity
from tests.lint.cases import load, module


def test_operator_that_is_only_unlisted_is_a_note() -> None:
    text = module("  x = f32[4] parameter(0)\n  ROOT y = f32[4] cbrt(x)")
    (hit,) = lint(load(text), target="trn2")
    assert (hit.code, hit.severity) == ("NCC_EVRF001", Severity.note)


@pytest.mark.parametrize(
    ("root", "message"),
    [("(f32[], s32[]) tuple(a, b)", "several arrays at once"), ("f32[] atan2(a, a)", "in atan2;")],
)
def test_reductions_beyond_the_list_say_how(root: str, message: str) -> None:
    several = root.startswith("(")
    result = "(f32[4], s32[4])" if several else "f32[4]"
    operands = "x, y, z, n" if several else "x, z"
    more = "c = f32[] parameter(2)\n d = s32[] parameter(3)" if several else ""
    second = "s32" if several else "f32"
    text = f"""HloModule m
f {{ a = f32[] parameter(0)
 b = {second}[] parameter(1)
 {more}
 ROOT r = {root} }}
ENTRY e {{ x = f32[4,8] parameter(0)
 y = s32[4,8] parameter(1)
 z = f32[] constant(0)
 n = s32[] constant(0)
 ROOT o = {result} reduce({operands}), dimensions={{1}}, to_apply=f }}
"""
    [finding] = lint(hlo_tools.load(text.encode()), target="trn2", rules=selected(["NCC_EUOC002"]))
    assert message in finding.message
