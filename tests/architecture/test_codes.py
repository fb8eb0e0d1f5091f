"""Every code that the sources report is explained, and every explanation is of such a code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from hlo_tools.cli.shared.codes import codes, find

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("nki_lang", "hlo_tools", "neff")
CODE = re.compile(r"(?<![A-Z0-9-])(?:NKI|HLO|NEFF|PERF)(?:-[A-Z0-9]+)+(?![A-Z0-9-])")
WHOLE = re.compile(rf"{CODE.pattern}(?!.)|.*\[{CODE.pattern}\]", re.DOTALL)
FILES = sorted(file for package in PACKAGES for file in (ROOT / package / "codes").glob("*.toml"))
COMPOSED = {
    "HLO-KERNEL-OPERAND", "HLO-KERNEL-RESULT",
    "NEFF-INPUT", "NEFF-OUTPUT", "NEFF-SBUF", "NEFF-PSUM",
    *(f"{package}-{code}" for package in ("HLO", "NEFF")
      for code in ("INTERNAL", "IO", "MEMORY", "USAGE")),
}  # fmt: skip
"""Codes whose parts are joined while running: f"NEFF-{region.value.upper()}"."""
FAMILIES = {"HLO-V", "HLO-L", "NKI-STRICT"}
"""Beginnings of codes, where the text speaks of several."""


def reported(file: Path) -> Iterator[str]:
    """The codes in a file's strings; docstrings may speak of others."""
    tree = ast.parse(file.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):  # the beginning of a composed code
        if isinstance(node, ast.JoinedStr):
            skipped |= {
                id(piece) for piece, following in pairwise(node.values)
                if isinstance(following, ast.FormattedValue) and str(getattr(piece, "value", ""))[-1:] in "-0V"
            }  # fmt: skip
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in skipped else ""
        if isinstance(text, str) and WHOLE.match(text):
            yield from set(CODE.findall(text)) - FAMILIES


@cache
def sources() -> dict[str, str]:
    """Code -> the first file that reports it."""
    files = [path for folder in (*PACKAGES, "compat") for path in (ROOT / folder).rglob("*.py")]
    by_code = dict.fromkeys(COMPOSED, "composed while running")
    for file in sorted(files, reverse=True):
        by_code |= dict.fromkeys(reported(file), str(file.relative_to(ROOT)))
    return by_code


def test_every_code_is_explained() -> None:
    missing = [
        f"{code} ({file}): add to {file.partition('/')[0]}/codes/*.toml\n\n"
        f'[{code}]\ntitle = "what is wrong, in a few words"\nwhy = "What leads there."\n'
        f'remedy = "what to do, without a full stop"\ntest = "tests/FILE.py::test_that_reports_it"\n'
        for code, file in sorted(sources().items())
        if find(code) is None
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_explanations(file: Path) -> None:
    used = sources()
    rows = tomllib.loads(file.read_text())
    assert list(rows) == sorted(rows), "the codes of a file stand in order"
    for code, row in rows.items():
        assert code in used, f"no source reports {code}: remove it from {file.relative_to(ROOT)}"
        assert row.keys() <= {"title", "why", "remedy", "severity", "command", "test"}, code
        assert row["title"] and row["remedy"], code
        assert not row["title"].endswith(".") and not row["remedy"].endswith("."), code
        assert row.get("why", "A.").endswith("."), code
        assert "test" in row, f"{code}: name the test that leads to it in {file.name}"
        name, _, function = row["test"].partition("::")
        text = (ROOT / name).read_text() if (ROOT / name).is_file() else ""
        named = re.search(rf"{code}(?![A-Z0-9-])", text)
        assert named, f"{code}: no test {name} names it any more; name another in {file.name}"
        there = f"def {function}(" in text or not function
        assert there, f"{code}: {name} has no {function} any more; correct it in {file.name}"


def test_a_code_is_in_one_file() -> None:
    names = [code for file in FILES for code in tomllib.loads(file.read_text())]
    assert len(names) == len(set(names))


def test_no_text_speaks_of_a_code_that_does_not_exist() -> None:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    registered = codes()
    wrong = [
        f"{file.name}: {code}"
        for file in files
        for code in CODE.findall(file.read_text())
        if code not in registered and find(code) is None and code not in FAMILIES | {"NKI-ENG"}
    ]
    assert not wrong, wrong
