"""Rules on element types, beyond their golden texts: generations, places."""

from __future__ import annotations

import dataclasses

from hlo_tools.lint import lint
from nki_lang.base.targets import target_of
from tests.lint.cases import broken, codes, load, module


def test_f8e4m3fn_is_fine_on_trn3() -> None:
    assert codes(broken("NCC_EVRF051")[1], "trn3") == []


def test_f8e4m3_ends_after_trn3() -> None:
    text = broken("NCC_EVRF051")[1].replace("f8e4m3fn", "f8e4m3")
    later = dataclasses.replace(target_of("trn3"), generation=5)
    assert codes(text, "trn3") == []
    assert [hit.code for hit in lint(load(text), target=later)] == ["NCC_EVRF052"]


def test_types_are_reported_where_they_enter() -> None:
    text = module("""
  x = c64[4] parameter(0)
  y = c64[4] negate(x)
  ROOT z = c64[4] add(x, y)""")
    assert [hit.instruction for hit in lint(load(text), target="trn2")] == ["x"]
