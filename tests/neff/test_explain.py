"""``nki-neff build --explain``: what it says is what the compiler did, and adds up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hlo_tools
import neff
from neff.cli import main
from neff.compiler.record import Record
from neff.profile.explanation import Explanation, explained

ATTENTION = """HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[256,64] parameter(0)
  y = f32[64,96] parameter(1)
  product = f32[256,96] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="model.py" source_line=7}
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  greatest = f32[256] reduce(product, low), dimensions={1}, to_apply=max
  wide = f32[256,96] broadcast(greatest), dimensions={0}
  less = f32[256,96] subtract(product, wide)
  power = f32[256,96] exponential(less), metadata={source_file="model.py" source_line=9}
  total = f32[256] reduce(power, zero), dimensions={1}, to_apply=sum
  totals = f32[256,96] broadcast(total), dimensions={0}
  soft = f32[256,96] divide(power, totals)
  turned = f32[96,256] transpose(soft), dimensions={1,0}
  ROOT gram = f32[96,96] dot(turned, soft), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""

SCAN = """HloModule loop
body { s = (s32[], f32[128,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[128,16] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  y = f32[128,16] tanh(x)
  ROOT t = (s32[], f32[128,16]) tuple(m, y) }
condition { s = (s32[], f32[128,16]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  most = s32[] constant(5000)
  ROOT c = pred[] compare(n, most), direction=LT }
ENTRY main { x = f32[128,16] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[128,16]) tuple(zero, x)
  end = (s32[], f32[128,16]) while(start), condition=condition, body=body
  ROOT y = f32[128,16] get-tuple-element(end), index=1 }"""


def explain(text: str, target: str = "trn2") -> Explanation:
    record = Record()
    module = hlo_tools.load(text.encode())
    program = neff.compile(module, target=target, record=record)
    again = neff.compile(module, target=target)
    assert str(program.subgraphs) == str(again.subgraphs)
    return explained(program, record)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("text", [ATTENTION, SCAN], ids=["attention", "scan"])
def test_costs_add_up_to_the_estimate(text: str, target: str) -> None:
    explanation = explain(text, target)
    total = sum(unit.path_ns for unit in explanation.units) + explanation.other_ns
    assert total == pytest.approx(explanation.estimate.total.value, rel=1e-6)
    assert -1 <= explanation.other_ns < 5_000
    assert [unit.path_ns for unit in explanation.units] == sorted(
        (unit.path_ns for unit in explanation.units), reverse=True
    )
    labels = [label for unit in explanation.units for label in unit.unit.labels]
    assert len(labels) == len(set(labels))


def test_units_have_their_instructions_and_lines() -> None:
    explanation = explain(ATTENTION)
    unit = next(unit for unit in explanation.units if "exponential" in unit.what)
    assert unit.unit.kind == "rows"
    assert unit.instructions == ["product", "greatest", "less", "power", "total", "soft"]
    assert unit.places == ["model.py:7", "model.py:9"]
    assert "function-and-sum" in unit.unit.idioms
    assert unit.nbytes >= 4 * (256 * 64 + 64 * 96 + 256 * 96)


def test_why_values_go_to_hbm() -> None:
    explanation = explain(ATTENTION)
    why = {stored.name: stored for unit in explanation.units for stored in unit.unit.stored}
    assert why["gram"].why == "it is a result of the module"
    assert "gram reads it" in why["soft"].why
    assert why["soft"].nbytes == 4 * 256 * 96
    assert (
        "loop"
        in {stored.name: stored.why for unit in explain(SCAN).units for stored in unit.unit.stored}[
            "y"
        ]
    )


def _document(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    assert main([str(word) for word in words]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, output = tmp_path / "m.hlo", tmp_path / "m.neff"
    file.write_text(ATTENTION)
    assert main(["build", str(file), "-t", "trn2", "-o", str(output), "--explain"]) == 0
    text = capsys.readouterr().out
    for text_part in (
        "units",
        "model.py:7",
        "function-and-sum",
        "gram reads it",
        "HLO instructions in",
    ):
        assert text_part in text
    document = _document(capsys, "build", file, "-t", "trn2", "-o", output, "--explain", "--json")
    explanation = document["explanation"]
    total_ns = sum(unit["path_ns"] for unit in explanation["units"]) + explanation["other_ns"]
    assert total_ns == pytest.approx(explanation["total_ns"], rel=1e-3)
    assert "explanation" not in _document(
        capsys, "build", file, "-t", "trn2", "-o", output, "--json"
    )


def test_several_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", ATTENTION), ("b", SCAN)):
        (tmp_path / f"{name}.hlo").write_text(text)
    document = _document(
        capsys, "build", tmp_path / "a.hlo", tmp_path / "b.hlo", "-t", "trn1", "-j", "1",
        "-o", tmp_path / "made", "--explain", "--json",
    )  # fmt: skip
    kinds = [
        {unit["kind"] for unit in build["explanation"]["units"]} for build in document["builds"]
    ]
    assert kinds[0] >= {"rows"}
    assert kinds[1] >= {"loop", "elementwise"}
