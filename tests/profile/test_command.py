"""``nki-neff profile``: its text, documents and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neff import write
from neff.cli import main
from tests.profile.programs import line_of, matmul, softmax


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(softmax(), tmp_path / "softmax.neff")
    return tmp_path / "softmax.neff"


def test_text_by_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file)]) == 0
    out = capsys.readouterr().out
    assert "(estimated)" in out.splitlines()[0]
    assert f"programs.py:{line_of('nisa.reciprocal(')} " in out
    assert "critical path" in out
    assert "waits for DMA" in out


def test_source_has_the_cost_beside_each_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parent
    assert main(["profile", str(file), "--source", "--source-root", str(root)]) == 0
    line = line_of("nisa.reciprocal(")
    (row,) = [row for row in capsys.readouterr().out.splitlines() if f" {line} | " in row]
    own_time, path, number, *fields = row.split()
    assert float(own_time) > 0
    assert float(path) > 0
    assert (number, fields[1]) == (str(line), "nisa.reciprocal(dst=total,")


def test_source_that_is_not_there_is_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(file), "--source", "--source-root", str(tmp_path)]) == 0
    assert "programs.py is not below" in capsys.readouterr().err


def test_documents(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made" / "profile"
    words = ["profile", str(file), "-o", str(folder), "--what-if", "dma=2x", "--json"]
    assert main(words) == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {"summary.json", "events.json", "profile.perfetto-trace", "profile.html"}
    summary = json.loads((folder / "summary.json").read_text())
    assert json.loads(capsys.readouterr().out)["profile"] == summary
    assert summary["estimated"] is True
    assert summary["what_if"]["total_us"] < summary["total_us"]
    path_us = sum(row["path_us"] for row in summary["by"]["line"])
    assert path_us == pytest.approx(summary["total_us"], abs=0.05)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--by", "colour"], "NEFF-GROUPING"),
        (["--what-if", "dma"], "NEFF-WHAT-IF"),
        (["--set", "dma.wheels=3"], "NEFF-PARAMETER"),
    ],
)
def test_refusals(
    file: Path, words: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(file), *words]) == 2
    assert code in capsys.readouterr().err


def test_a_folder_that_is_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "-o", str(file)]) == 3
    assert "NEFF-WRITE" in capsys.readouterr().err


def test_a_comparison_names_what_changed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "older.neff"
    write(matmul(), older)
    assert main(["profile", str(file), "--compare", str(older), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["profile"]
    rows = document["comparison"]
    changes = [row["after_path_us"] - row["before_path_us"] for row in rows]
    assert [abs(change) for change in changes] == sorted(map(abs, changes), reverse=True)
    total = sum(row["after_path_us"] for row in rows)
    assert total == pytest.approx(document["total_us"], abs=0.01)
    assert main(["profile", str(file), "--compare", str(older)]) == 0
    table = capsys.readouterr().out.partition("before path µs")[2].splitlines()
    assert [line.split()[0] for line in table[1:] if line] == [
        *(row["line"] for row in rows), "total",
    ]  # fmt: skip


def test_equal_programs_have_no_change(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--compare", str(file), "--by", "engine"]) == 0
    (total,) = capsys.readouterr().out.partition("before path µs")[2].splitlines()[1:]
    assert total.split()[0] == "total" and total.split()[-1] == "+0.0%"
