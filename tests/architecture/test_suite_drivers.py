"""Drivers that read what others published: the API index of the documentation, trnsci's suites."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.api_index.reading import documented_entries
from tests.suites.trnsci_tests import results_of

ROOT = Path(__file__).resolve().parents[2]

STUB = """
class engine(Enum):
    tensor = 1
    warp = 2
def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id=0, name=None): ...
def tensor_scalar(dst, data, op0, operand0, scale=2): ...
def core_barrier(data, cores, engine=engine.vector, name=None): ...
def warp(dst, src): ...
def _private(x): ...
"""
SUMMARY = """nki.language
============

.. currentmodule:: nki.language

.. autosummary::
   :toctree: generated
   :nosignatures:

   ndarray
   warped

Other text
"""
PAGE = """<dl><dt class="sig sig-object py" id="nki.language.tiles"><span>nki.language.tiles</span>
<span>(</span><em>source</em>, <em>*</em>, <em>tile_shape=None</em>)</dt></dl>
<dl><dt class="sig sig-object py" id="nki.language.zeros"><span>nki.language.zeros(shape, dtype=
&lt;class 'x.float32'&gt;)</span></dt></dl><dt class="sig" id="numpy.zeros">numpy.zeros(a)</dt>
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    stub = tmp_path / "nki" / "api" / "nki" / "isa" / "__init__.py"
    stub.parent.mkdir(parents=True)
    stub.write_text(STUB)
    (tmp_path / "nki" / "api" / "nki.language.rst").write_text(SUMMARY)
    (tmp_path / "page.html").write_text(PAGE)
    return tmp_path


def test_the_index_is_read_from_stubs_summaries_and_pages(index: Path) -> None:
    entries = documented_entries(index)
    assert {name for name in entries if name.startswith("nki.isa.")} == {
        "nki.isa.engine", "nki.isa.engine.tensor", "nki.isa.engine.warp", "nki.isa.sendrecv",
        "nki.isa.core_barrier", "nki.isa.tensor_scalar", "nki.isa.warp",
    }  # fmt: skip
    assert {name for name in entries if name.startswith("nki.language.")} == {
        "nki.language.ndarray", "nki.language.tiles", "nki.language.warped", "nki.language.zeros",
    }  # fmt: skip
    assert "numpy.zeros" not in entries
    tiles = entries["nki.language.tiles"].parameters
    assert tiles is not None
    assert [(p.name, p.default, p.keyword_only) for p in tiles] == [
        ("source", None, False), ("tile_shape", "None", True),
    ]  # fmt: skip


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_differences_from_the_index_are_listed(index: Path, tmp_path: Path) -> None:
    report = tmp_path / "differences.json"
    done = run("scripts.api_differences", str(index), "--json", str(report))
    rows = {(row["name"], row["kind"]) for row in json.loads(report.read_text())}
    assert done.returncode == 1, done.stderr
    assert rows == {
        ("nki.isa.core_barrier(engine)", "default"),
        ("nki.isa.engine.warp", "missing"),
        ("nki.isa.sendrecv", "parameters"),
        ("nki.isa.tensor_scalar", "parameters"),
        ("nki.isa.warp", "missing"),
        ("nki.language.warped", "missing"),
        ("nki.language.zeros", "parameters"),
    }
    (index / "page.html").write_text("<p>no signature</p>")
    for folder in ("api", "."):
        empty = index / "empty" / folder
        empty.mkdir(parents=True, exist_ok=True)
    assert run("scripts.api_differences", str(index / "empty")).returncode == 2


LOG = """\
collecting ... collected 9 items / 4 deselected / 5 selected

tests/test_nki_sim.py::TestGemm::test_parity[2, 3] PASSED [ 20%]
tests/test_nki_sim.py::TestGemm::test_words SKIPPED (no nki) [ 40%]
tests/test_nki_sim.py::TestGemm::test_expected XPASS [ 60%]
tests/test_nki_sim.py::TestGemm::test_slow"""


def test_tests_without_an_outcome_are_limited() -> None:
    results = list(results_of("trnfft", LOG.splitlines()))
    assert [result.outcome for result in results] == [
        "passed", "skipped", "passed", "limited", "limited",
    ]  # fmt: skip
    assert results[0].case == "tests/test_nki_sim.py::TestGemm::test_parity[2, 3]"


def test_a_skipped_suite_is_no_success(tmp_path: Path) -> None:
    folder = tmp_path / "trnfft" / "tests"
    folder.mkdir(parents=True)
    (folder.parent / "pytest.ini").write_text("[pytest]\nmarkers = nki_simulator\n")
    test = folder / "test_nki_sim.py"
    body = "import os, pytest\n\n@pytest.mark.nki_simulator\ndef test_it():\n    {}\n"
    test.write_text(body.format("assert os.environ['TRNFFT_USE_SIMULATOR'] == '1'"))
    assert run("tests.suites.trnsci_tests", str(tmp_path)).returncode == 0
    test.write_text(body.format("pytest.skip('no nki')"))
    assert run("tests.suites.trnsci_tests", str(tmp_path)).returncode == 2
