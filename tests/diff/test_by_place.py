"""Modules before and after optimisation, compared by source line and scope."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools import load
from hlo_tools.cli import main
from hlo_tools.diff.by_place import diff_places

BEFORE = """HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] exponential(x), metadata={op_name="f/g/exp" source_file="m.py" source_line=3}
  b = f32[8] divide(a, a), metadata={op_name="f/g/div" source_file="m.py" source_line=4}
  ROOT c = f32[8] add(b, x), metadata={op_name="f/h/add" source_file="m.py" source_line=5}
}
"""
AFTER = """HloModule m

fused {
  p = f32[8] parameter(0)
  a = f32[8] exponential(p), metadata={op_name="f/g/exp" source_file="m.py" source_line=3}
  n = f32[8] negate(a), metadata={op_name="f/g/div" source_file="m.py" source_line=4}
  e = f32[8] multiply(a, n), metadata={op_name="f/g/div" source_file="m.py" source_line=4}
  ROOT c = f32[8] add(e, p), metadata={op_name="f/h/add" source_file="m.py" source_line=5}
}

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] copy(x)
  ROOT f = f32[8] fusion(y), kind=kLoop, calls=fused, metadata={op_name="f/h/add" source_file="m.py" source_line=5}
}
"""


def test_only_lines_with_other_operations_differ() -> None:
    rows = diff_places(load(BEFORE.encode()), load(AFTER.encode()), "source")
    assert [(row.place, row.before == row.after) for row in rows] == [
        ("m.py:4", False), ("m.py:3", True), ("m.py:5", True)
    ]  # fmt: skip
    assert (rows[0].before, rows[0].after) == ({"divide": 1}, {"negate": 1, "multiply": 1})


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.hlo", tmp_path / "after.hlo"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    words = ["diff", str(before), str(after), "--by"]
    assert main([*words, "source"]) == 1
    text = capsys.readouterr().out
    assert "divide 1, multiply 0, negate 0" in text
    assert "1 source differs, 2 alike" in text
    assert main([*words, "scope", "--json", "--exit-zero"]) == 0
    positions = json.loads(capsys.readouterr().out)["places"]
    assert [row["place"] for row in positions] == ["f/g", "f/h"]
    assert main(["diff", str(before), str(before), "--by", "scope"]) == 0
    assert not capsys.readouterr().out
    assert main([*words, "line"]) == 2
    assert main([*words, "scope", "--format", "html"]) == 2


def test_a_notebook_shows_a_module() -> None:
    shown = load(BEFORE.replace("HloModule m", "HloModule m_lt").encode())._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<b>m_lt</b>: 1 computation, 4 instructions" in shown
    assert "<code>ROOT %c</code>" in shown and "m.py:3" in shown
    assert shown.count("<tr>") == 5
