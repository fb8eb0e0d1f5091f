"""Texts recommend installations that exist: the checkout with one of its extras.

The distribution is not published, so ``pip install nki-hlo`` would fetch a stranger's package.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("nki_lang", "hlo_tools", "neff", "compat", "docs", "examples", "README.md", ".ci")
FROM_INDEX = re.compile(r"pip install(?: -\S+)* ['\"]?nki-hlo\b")
EXTRA = re.compile(r"""pip install (?:-e )?['"]?\.\[([\w,-]+)\]""")


def texts() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "--", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    suffixes = (".py", ".md", ".toml", ".yml")
    return {name: (ROOT / name).read_text() for name in listed if name.endswith(suffixes)}


def advice(text: str) -> tuple[list[str], set[str]]:
    """Return the installations from an index, and the extras of the checkout, that a text names."""
    extras = {name for names in EXTRA.findall(text) for name in names.split(",")}
    return FROM_INDEX.findall(text), extras


def test_nothing_is_installed_from_an_index_that_lacks_it() -> None:
    assert {name for name, text in texts().items() if advice(text)[0]} == set()


def test_every_recommended_extra_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recommended = {extra for text in texts().values() for extra in advice(text)[1]}
    assert {"jax", "profile", "s3", "dask"} <= recommended
    assert recommended <= set(project["optional-dependencies"])


@pytest.mark.parametrize(
    "text", ["pip install 'nki-hlo[jax]'", "pip install nki-hlo", "pip install --upgrade nki-hlo"]
)
def test_the_search_sees_the_forms(text: str) -> None:
    assert advice(text)[0] and not advice(text.replace("nki-hlo", "."))[0]
