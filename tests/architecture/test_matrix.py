"""The matrix of environments that the project is tested with."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MATRIX = ROOT / ".ci" / "matrix.toml"


def run(folder: Path, matrix: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The script beside another description, away from the checkout's environments."""
    for name in ("scripts", ".ci"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "scripts" / "matrix.py", folder / "scripts")
    (folder / ".ci" / "matrix.toml").write_text(matrix)
    command = [sys.executable, "scripts/matrix.py", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_the_sets_are_extras_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matrix = tomllib.loads(MATRIX.read_text())
    for packages in matrix["sets"].values():
        extras = packages[0].removeprefix(".[").removesuffix("]").split(",")
        assert set(extras) <= set(project["optional-dependencies"])
    assert project["requires-python"] == f">={matrix['python'][0]}"


def test_a_python_that_is_not_there_is_left_out_and_named(tmp_path: Path) -> None:
    done = run(tmp_path, 'python = ["3.99"]\n[sets]\ncore = [".[dev]"]\n')
    assert done.returncode == 0, done.stderr
    assert "core on Python 3.99: left out: there is no Python 3.99 here" in done.stdout


def test_only_takes_the_cells_of_a_name(tmp_path: Path) -> None:
    matrix = 'python = ["3.98", "3.99"]\n[sets]\ncore = [".[dev]"]\n'
    done = run(tmp_path, matrix, "--only", "3.98")
    assert "3.98: left out" in done.stdout and "3.99" not in done.stdout


@pytest.mark.parametrize("words", [["--only", "no cell"], ["--only"]])
def test_wrong_words(tmp_path: Path, words: list[str]) -> None:
    done = run(tmp_path, MATRIX.read_text(), *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
