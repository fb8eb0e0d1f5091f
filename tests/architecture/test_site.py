"""The site: every page is on it, links lead somewhere, and Sphinx has nothing to warn of."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from scripts.site.__main__ import GROUPS
from scripts.site.pages import ROOT, code_pages, copied, markdown


def test_every_page_is_in_the_contents() -> None:
    listed = [name for names in GROUPS.values() for name in names.split()]
    pages = [name.removesuffix(".md") for name, _ in copied()]
    generated = ["api/index", "codes/index"]
    assert sorted([*listed, "index"]) == sorted(pages + generated)


def test_links_between_pages_lead_to_headings() -> None:
    pages = dict(copied())
    headings = {
        name: {_anchor(line) for line in text.splitlines() if line.startswith("#")}
        for name, text in pages.items()
    }
    wrong = [
        f"{name}: {target}#{anchor}"
        for name, text in pages.items()
        for target, anchor in re.findall(r"\]\(([\w.-]*\.md)?#([^)\s]+)\)", text)
        if anchor not in headings[target or name]
    ]
    assert not wrong, wrong


def _anchor(heading: str) -> str:
    """GitHub's anchor of a heading."""
    text = heading.lstrip("# ").lower().replace("`", "")
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def test_codes_have_pages() -> None:
    pages = dict(code_pages())
    assert "## NKI-CAPACITY" in pages["codes/nki.md"]
    assert "## NCC_EVRF004" in pages["codes/ncc.md"]


def test_docstrings_become_markdown() -> None:
    doc = "``f(x)`` of :class:`~a.B`.\n\nArgs:\n    x: a <tile>.\n        More.\n\nExample::\n\n    f(1)\n"
    lines = markdown(doc).splitlines()
    assert lines[0] == "`f(x)` of `a.B`."
    assert "**Args**" in lines and "- x: a \\<tile\\>." in lines and "f(1)" in lines


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if not all(map(importlib.util.find_spec, ("sphinx", "myst_parser", "furo"))):
        pytest.skip("needs the extra docs")
    command = [sys.executable, "-m", "scripts.site", str(tmp_path / "html")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "api" / "nki.isa.html").read_text()
    assert "tensor_scalar" in page and "from measured costs" in page
    assert (tmp_path / "html" / "_images" / "profile.png").exists()
    everything = "".join(file.read_text() for file in (tmp_path / "html").rglob("*.html"))
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', everything)
    assert (tmp_path / "html" / "searchindex.js").stat().st_size > 100_000
    # var: searchtools.js declares the same name where there is none yet
    assert "var Scorer = {" in (tmp_path / "html" / "_static" / "language_data.js").read_text()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    ("pasted", "query"),
    [
        ("error[NKI-PARTITION] k.py:5: a tile of shape (256, 512) in sbuf", "NKI-PARTITION"),
        (
            "nki_lang.base.errors.NkiTypeError: k.py:11: [NKI-ARITHMETIC] Python's -",
            "NKI-ARITHMETIC",
        ),
        ("m.hlo: warning[NCC_EVRF010] %r", "NCC_EVRF010"),
        ("warning[PERF-HBM-ROUND-TRIP] a.py:3", "PERF-HBM-ROUND-TRIP"),
        ("uninitialised reads of NKI kernels", "uninitialised reads of NKI kernels"),
    ],
)
def test_the_search_finds_pasted_errors(pasted: str, query: str) -> None:
    scorer = (ROOT / "scripts" / "site" / "scorer.js").read_text()
    address = f"http://site/search.html?{urlencode({'q': pasted})}"
    program = (
        f"var location = {{ href: {json.dumps(address)} }}, shown = location.href;"
        "var history = { replaceState: (state, title, url) => { shown = String(url); } };"
        f"{scorer}; console.log(new URL(shown).searchParams.get('q'));"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.rstrip("\n") == query, done.stderr
