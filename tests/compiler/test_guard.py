"""A bug of the compiler is reported as one, and never as a mistake of the module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hlo_tools
from neff.compiler import compile
from neff.compiler.lowering.tiles.task import Task
from neff.compiler.lowering.tiles.tracing import trace_task
from neff.errors import NeffCompileError
from nki_lang import language as nl
from nki_lang.base.targets import target_of

TEXT = b"HloModule m\nENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] add(a, a) }"

BROKEN = """
import sys
import neff.compiler.planned
def broken(*module):
    return {}["missing"]
sys.modules["neff.compiler.planned"].import_module = broken
from neff.cli import main
sys.exit(main())
"""


def _broken(*_: object) -> None:
    raise KeyError("missing")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["neff.compiler.planned"], "import_module", _broken)


def test_tests_see_the_exception_itself(broken: None) -> None:
    with pytest.raises(KeyError):
        compile(hlo_tools.load(TEXT), target="trn1")


def test_users_are_asked_to_report_it(broken: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    with pytest.raises(NeffCompileError, match="KeyError: 'missing'") as caught:
        compile(hlo_tools.load(TEXT), target="trn1")
    assert caught.value.code == "NEFF-INTERNAL"
    assert "report" in caught.value.remedy
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("debug", [False, True])
def test_the_command_shows_the_cause_when_asked(
    debug: bool, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    (tmp_path / "m.hlo").write_bytes(TEXT)
    environment = {**python_environment, "NKI_HLO_UNGUARDED": ""}
    command = [sys.executable, "-c", BROKEN, *(["--debug"] if debug else [])]
    done = subprocess.run(
        [*command, "build", str(tmp_path / "m.hlo"), "-o", str(tmp_path / "m.neff")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "error[NEFF-INTERNAL]" in done.stderr and "report" in done.stderr
    assert ("in broken" in done.stderr) == debug
    assert list(tmp_path.glob("*.neff")) == []


def test_a_lowering_that_breaks_a_rule_of_the_language_is_a_bug_of_the_compiler() -> None:
    def body(_: dict[str, object]) -> None:
        nl.ndarray((129, 4), nl.float32, nl.sbuf)

    task = Task("wide", [], [], body)
    with pytest.raises(NeffCompileError) as caught:
        trace_task(task, {}, target_of("trn2"))
    assert caught.value.code == "NEFF-LOWERING" and "report" in caught.value.remedy
