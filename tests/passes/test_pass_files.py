"""Passes of Python files in a pipeline's text."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.passes import Pipeline

FILE = '''
from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.passes import Pass


@dataclass(frozen=True, slots=True)
class Rename(Pass):
    """Give the root a name."""

    name: ClassVar[str] = "rename-root"

    to: str = "result"
    fails: bool = False

    def run(self, module):
        if self.fails:
            raise IndexError("at its end")
        module.entry.root.proto.name = self.to
        module.touch()
        return True


class Plain(Pass):
    name = "plain"

    def run(self, module):
        return False


@dataclass(frozen=True, slots=True)
class Nameless(Pass):
    def run(self, module):
        return False


number = 7
'''
TEXT = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team_passes.py").write_text(FILE)
    (tmp_path / "m.hlo").write_text(TEXT)
    return tmp_path


def test_a_pass_of_a_file_runs_with_its_arguments(folder: Path) -> None:
    for location in ("team_passes.py", str(folder / "team_passes.py")):
        words = ["opt", "-p", f"dce,{location}:Rename{{to=loss}},cse", "m.hlo", "-o", "o.hlo"]
        assert main([*words, "--verify-each"]) == 0
        assert hlo_tools.load("o.hlo").entry.root.name == "loss"
    module = hlo_tools.load("m.hlo")
    report = Pipeline.parse("team_passes.py:Rename").run(module)
    assert report.modified and report.steps[0].text == "rename-root"


WRONG = {
    "team_passes.py:Plain": ("HLO-PASS-BROKEN", "is not a dataclass"),
    "team_passes.py:Nameless": ("HLO-PASS-BROKEN", "has no name"),
    "team_passes.py:number": ("HLO-PASS-BROKEN", "is not a class derived from"),
    "team_passes.py:Renam": ("HLO-NO-NAME", "defines no 'Renam'"),
    "missing.py:Rename": ("HLO-NO-FILE", "no such file"),
    "team_passes.py:Rename{at=3}": ("HLO-PASS-ARGUMENT", "at is not an argument"),
    "team_passes.py": ("HLO-NO-PASS", "there is no pass 'team_passes.py'"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_pass_is_refused(text: str, folder: Path) -> None:
    code, message = WRONG[text]
    with pytest.raises(HloError) as caught:
        Pipeline.parse(text)
    assert caught.value.code == code and message in str(caught.value)


def test_a_pass_that_fails_is_named(folder: Path) -> None:
    with pytest.raises(HloError, match=r"HLO-PASS-FAILED.*IndexError: at its end"):
        Pipeline.parse("team_passes.py:Rename{fails}").run(hlo_tools.load("m.hlo"))
