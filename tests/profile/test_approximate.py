"""Figures that are not exact say so: lines of fused units, and points above the roof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from neff import compile, write
from neff.cli import main
from neff.profile import by, profile_of, summary
from neff.profile.page import render_page
from neff.profile.roofline import Roof, RooflineRow
from neff.program import Program

LINES = """HloModule lines

ENTRY main {
  x = f32[128,128] parameter(0)
  y = f32[128,128] parameter(1)
  d = f32[128,128] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="f.py" source_line=6}
  ROOT s = f32[128,128] OPCODE(d, y), metadata={source_file="f.py" source_line=LINE}
}
"""


def program(opcode: str, line: int) -> Program:
    return compile(
        Module(parse(LINES.replace("OPCODE", opcode).replace("LINE", str(line)))), target="trn2"
    )


def approximate(program: Program, grouping: str) -> dict[str, bool]:
    return {share.name: share.is_approximate for share in by(profile_of(program), grouping)}


def test_a_unit_of_several_lines_is_approximate() -> None:
    """The product's time stands at line 7: the line and the instruction are not exact."""
    fused = program("subtract", 7)
    assert approximate(fused, "line") == {"f.py:7": True}
    assert approximate(fused, "op") == {"s": True}
    for grouping in ("kernel", "engine", "opcode"):
        assert set(approximate(fused, grouping).values()) == {False}
    assert approximate(program("subtract", 6), "line") == {"f.py:6": False}


def test_text_json_and_page_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fused, file = program("subtract", 7), tmp_path / "fused.neff"
    write(fused, file)
    (tmp_path / "f.py").write_text("\n" * 7)
    assert (
        main(["profile", str(file), "--roofline", "--source", "--source-root", str(tmp_path)]) == 0
    )
    out = capsys.readouterr().out
    assert "f.py:7 (approximate)" in out and "7~|" in out
    assert "approximate: the compiler fused" in out and "approximate: above the roof" in out
    document = summary(profile_of(fused))
    assert [row["approximate"] for row in document["by"]["line"]] == [True]
    assert {step["approximate"] for step in document["critical_path"]} == {True}
    assert main(["profile", str(file), "--roofline", "--json"]) == 0
    roofline = json.loads(capsys.readouterr().out)["profile"]["roofline"]
    assert [row["approximate"] for row in roofline["op"]] == [True]
    page = render_page([profile_of(fused)], root=tmp_path)
    assert page.count('"approximate":true') >= 3 and "APPROXIMATE_POINTS" in page


def test_a_point_above_the_roof_is_approximate() -> None:
    """1000 bytes at 10 bytes a nanosecond take 100 ns at least."""
    roof = Roof(half=4.0, full=1.0, bandwidth=10.0)
    exact, above = (RooflineRow("k", nbytes=1000, time_ns=time) for time in (100.0, 99.0))
    assert (exact.share(roof), exact.is_approximate(roof)) == (1.0, False)
    assert (above.share(roof), above.is_approximate(roof)) == (1.0, True)
    assert RooflineRow("k", flops=8, time_ns=1.0).is_approximate(roof)
