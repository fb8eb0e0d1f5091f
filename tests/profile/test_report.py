"""Estimates at a prompt and of a whole script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neff
from neff.profile import profile_of
from nki_lang import jit
from tests.profile.programs import line_of, softmax, softmax_kernel

SCRIPT = """
import nki, nki.isa as nisa, nki.language as nl
import numpy as np

@nki.jit(platform_target="trn2")
def scaled(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    times = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=times, src=count)
    register = nisa.register_alloc()
    nisa.register_load(register, times)
    for _ in nl.dynamic_range(0, register, 1):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out

count = np.array([[5]], np.int32)
for rows in (64, 64, 128, 64):
    print(scaled(np.ones((rows, 8), np.float32), count).max())
"""


def test_a_profile_at_a_prompt() -> None:
    x = np.ones((128, 512), np.float32)
    report = jit(softmax_kernel, platform_target="trn2").profile(x)
    expected = profile_of(softmax())
    assert report.estimate.total == expected.estimate.total
    text = repr(report)
    assert "(estimated)" in text.splitlines()[0]
    assert f"programs.py:{line_of('nisa.reciprocal(')}" in text
    assert "critical path" in text and "waits for DMA" in text
    assert "<table>" in report._repr_html_() and "(estimated)" in report._repr_html_()
    assert report.what_if("dma=2x").total.value < report.estimate.total.value
    assert report.by("engine")[0].path_ns > 0


def test_a_profile_writes_its_documents(tmp_path: Path) -> None:
    report = jit(softmax_kernel, platform_target="trn2").profile(np.ones((128, 512), np.float32))
    names = report.write(tmp_path)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "summary.json").read_text())["estimated"] is True


def unrolled(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(300):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nl.store(out, tile)
    return out


def test_unrolled_instructions_are_one_row_of_the_cost() -> None:
    cost = jit(unrolled, platform_target="trn2").cost(np.ones((64, 32), np.float32))
    rows = [row for row in cost.rows if row[2] == "tensor_scalar"]
    assert sum(int(row[3]) for row in rows) == 300
    assert len(repr(cost).splitlines()) < 15


def test_an_unusable_kernel_is_an_error_of_ours() -> None:
    def wrong(x: Any) -> Any:
        return nl.load(x)

    with pytest.raises(Exception, match="NKI-"):
        jit(wrong).profile(np.ones((4, 4), np.float32))


def profiled(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "hlo_tools.cli",
        "profile",
        str(tmp_path / "script.py"),
        *words,
    ]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))


def test_every_program_of_a_script(tmp_path: Path) -> None:
    done = profiled(tmp_path, "--json", "-o", str(tmp_path / "made"), "--platform", "trn2")
    assert done.returncode == 0, done.stderr
    assert "32.0" in done.stderr
    document = json.loads(done.stdout)
    first, second = document["programs"]
    assert (first["runs"], second["runs"]) == (3, 1)
    total = 3 * first["profile"]["total_us"] + second["profile"]["total_us"]
    assert document["total_us"] == pytest.approx(total, abs=0.01)
    assert first["profile"]["complete"] is True
    scalars = [row for row in first["profile"]["by"]["opcode"] if row["name"] == "tensor_scalar"]
    assert scalars[0]["events"] == 5
    folder = tmp_path / "made" / first["folder"]
    assert neff.read(folder / "program.neff").target == "trn2"
    assert json.loads((folder / "summary.json").read_text()) == first["profile"]


def test_a_script_without_programs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print(1)")
    command = [sys.executable, "-m", "hlo_tools.cli", "profile", str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 3
    assert "ran no program" in done.stderr
