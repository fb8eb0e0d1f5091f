"""``python -m scripts.bench`` lists every program of its folder and runs the named one."""

from __future__ import annotations

import runpy
import sys

import pytest

from scripts.bench.__main__ import FOLDER, benchmarks, main, summary


def test_every_program_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    programs = {
        file
        for file in FOLDER.glob("*.py")
        if file.name != "__main__.py" and 'if __name__ == "__main__":' in file.read_text()
    }
    assert set(benchmarks().values()) == programs
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(benchmarks())
    summaries = [summary(file) for file in benchmarks().values()]
    assert all(summaries)
    assert [line.split(maxsplit=1)[1] for line in lines] == summaries


def test_the_named_program_runs_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(
        runpy, "run_module", lambda module, run_name: runs.append((module, run_name))
    )
    assert main(["start", "--runs", "1"]) == 0
    assert runs == [("scripts.bench.bench_start", "__main__")]
    assert sys.argv == [str(FOLDER / "bench_start.py"), "--runs", "1"]


def test_an_unknown_name_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scalling"]) == 2
    assert capsys.readouterr().err == "there is no benchmark 'scalling'; did you mean scaling?\n"
