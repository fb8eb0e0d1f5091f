"""Completions of the shell: commands, options, and names from our tables and from the module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_tools.cli import main as nki_hlo
from hlo_tools.verify import RULES as VERIFIER
from neff.cli import main as nki_neff

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
        assert nki_hlo(["anything"]) == 0
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
@pytest.mark.parametrize("main", [nki_hlo, nki_neff])
def test_the_script_for_a_shell(
    main: Callable[[list[str]], int], shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"complete_{shell}" in script
    assert main([f"--show-completion={shell}"]) == 0
    assert capsys.readouterr().out == script


def test_a_shell_without_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert nki_hlo(["--show-completion", "tcsh"]) == 2
    assert "takes bash, zsh, fish" in capsys.readouterr().err


def test_the_named_shell_gets_the_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert nki_hlo(["--install-completion", "fish"]) == 0
    (script,) = tmp_path.rglob("*.fish")
    assert "complete_fish" in script.read_text()
    assert not (tmp_path / ".bashrc").exists()
