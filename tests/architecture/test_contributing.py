"""CONTRIBUTING.md names what is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:scripts|tests|docs|hlo_tools|nki_lang|neff)/[\w./]+)`", TEXT)))
PLACEHOLDER = re.compile(r"[A-Z]{4,}")
"""``FAMILY.py``, ``NAME.py``: the folder is there."""


@pytest.mark.parametrize("name", NAMED)
def test_the_file_is_there(name: str) -> None:
    named = PLACEHOLDER.search(name)
    assert (ROOT / (name[: named.start()].rpartition("/")[0] if named else name)).exists()


def test_the_options_of_test_are_those_of_its_help() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "test", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"^  (--\w+)", done.stdout, re.MULTILINE))
    assert options == {"--quick", "--night", "--light", "--matrix"}
    assert all(f"`scripts/test {option}`" in TEXT for option in options)


def test_the_hooks_are_those_of_check() -> None:
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    check = (ROOT / "scripts" / "check").read_text().replace('"$python"', ".venv/bin/python")
    for hook in hooks:
        words = hook.replace(" --force-exclude", "").split()
        assert " ".join(words[:4]) in check
