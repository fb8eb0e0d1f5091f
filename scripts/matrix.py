"""The suite in an environment for each cell of .ci/matrix.toml: ``scripts/test --matrix``.

Usage: scripts/matrix.py [--only TEXT] [pytest arguments]. ``--only`` takes the cells with TEXT in
their name ("3.12", "jax-0.6"). A cell whose Python or packages the machine cannot get is left out
and listed. Environments stay in ``.venv-matrix``. Exit code 1: the tests of a cell failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venv-matrix"
NOTHING_TO_RUN = 5
"""pytest's exit code when a selection has no test in this environment."""


@dataclass(frozen=True, slots=True)
class Cell:
    python: str
    name: str
    packages: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} on Python {self.python}"


class LeftOut(Exception):
    """This machine cannot make a cell's environment."""


def cells() -> list[Cell]:
    described = tomllib.loads((ROOT / ".ci" / "matrix.toml").read_text())
    return [
        Cell(python, name, tuple(packages))
        for python in described["python"]
        for name, packages in described["sets"].items()
    ]


def interpreter(version: str) -> str:
    """A Python of that version: on the path, or one that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [*sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]
    if on_path := shutil.which(f"python{version}"):
        candidates.insert(0, Path(on_path))
    for candidate in candidates:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return str(candidate)
    raise LeftOut(f"there is no Python {version} here")


def environment(cell: Cell) -> Path:
    """The cell's Python, everything installed."""
    folder = ENVIRONMENTS / f"{cell.name}-py{cell.python}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter(cell.python), "-m", "venv", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "-e", *cell.packages], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise LeftOut((errors or ["pip failed"])[-1])
    return python


def run(cell: Cell, arguments: list[str]) -> str:
    """``passed``, ``failed``, or why the cell was left out."""
    print(f"== {cell}", flush=True)
    try:
        python = environment(cell)
    except LeftOut as reason:
        return f"left out: {reason}"
    done = subprocess.run([python, "-m", "pytest", *arguments], cwd=ROOT)
    return "passed" if done.returncode in (0, NOTHING_TO_RUN) else "failed"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("scripts/matrix.py", add_help=False, allow_abbrev=False)
    parser.add_argument("--only", default="", metavar="TEXT")
    options, for_pytest = parser.parse_known_args(arguments)
    chosen = [cell for cell in cells() if options.only in str(cell)]
    if not chosen:
        parser.error(f"no cell of .ci/matrix.toml has {options.only!r} in its name")
    results = {cell: run(cell, for_pytest) for cell in chosen}
    print("== results")
    for cell, result in results.items():
        print(f"{cell}: {result}")
    return int("failed" in results.values())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
