"""Completions of the shell: commands, options, and names from our tables and from the module."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools.cli import main
from hlo_tools.verify import RULES as VERIFIER

TEXT = """
HloModule m
helper {
  p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p)
}
ENTRY main {
  first = f32[4] parameter(0)
  second = f32[4] call(first), to_apply=helper
  ROOT fifth = f32[4] sine(second)
}
"""


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return bash's completions of the last word of a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(TEXT)
    (tmp_path / "bad.hlo").write_bytes(b"\x00\xff no module")

    def run(line: str) -> list[str]:
        monkeypatch.setenv("_NKI_HLO_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        capsys.readouterr()
        assert main(["anything"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.split()

    return run


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("nki-hlo di", ["diff"]),
        ("nki-hlo opt --list -p ren", ["rename", "renumber"]),
        ("nki-hlo opt m.hlo -p dce,ren", ["dce,rename", "dce,renumber"]),
        ("nki-hlo explain NCC_EVRF00", ["NCC_EVRF001", "NCC_EVRF004", "NCC_EVRF005", "NCC_EVRF006",
                                     "NCC_EVRF007", "NCC_EVRF009"]),
        ("nki-hlo explain NKI-KLIR", ["NKI-KLIR-DTYPE", "NKI-KLIR-NAME", "NKI-KLIR-OPERAND",
                                      "NKI-KLIR-RANGE"]),
        ("nki-hlo explain HLO-V02", [code for code in VERIFIER if code.startswith("HLO-V02")]),
        ("nki-hlo lint m.hlo --ignore NCC,HLO-L00", [f"NCC,HLO-L00{n}" for n in range(1, 7)]),
        ("nki-hlo lint m.hlo --target trn", ["trn1", "trn2", "trn3"]),
        ("nki-hlo lint m.hlo --format j", ["json", "junit"]),
        ("nki-hlo diff a b --ignore lay", ["layout"]),
        ("nki-hlo slice m.hlo -i f", ["first", "fifth"]),
        ("nki-hlo slice m.hlo -i %f", ["%first", "%fifth"]),
        ("nki-hlo graph m.hlo -c h", ["helper"]),
        ("nki-hlo show m.hlo --opcode ", ["call", "negate", "parameter", "sine"]),
        ("nki-hlo slice bad.hlo -i f", []),
        ("nki-hlo slice none.hlo -i f", []),
    ],
)  # fmt: skip
def test_completion(complete, line: str, completions: list[str]) -> None:
    assert complete(line) == completions


def test_the_script_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", "bash"]) == 0
    assert "complete_bash" in capsys.readouterr().out
