"""``nki-hlo watch``: a report for each save, with errors, findings, times, and what changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hlo_tools.cli import main
from neff.cli.limited import Limits, called
from neff.cli.watch import reported, saves_of
from neff.cli.watching import KernelRun, Run, Script, changes

KERNEL = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def scaled(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(n))
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
SCRIPT = """
import numpy as np
from mykernel import scaled
result = scaled(np.ones((128, 64), np.float32), 3)
assert (np.asarray(result) == 3).all()
scaled(np.ones((128, 64), np.float32), 4)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mykernel.py").write_text(KERNEL)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def reports(
    capfd: pytest.CaptureFixture[str], *edits: Callable[[], object], timeout: float = 60
) -> list[dict[str, Any]]:
    """Return the reports before the first edit and after each of them."""

    def saves() -> Iterator[None]:
        yield None
        for edit in edits:
            edit()
            yield None

    script = Script("script.py", target="trn2")
    runs = list(reported(script, saves(), set(), timeout, as_json=True))
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(rows) == len(runs) == len(edits) + 1
    return rows


def test_each_save_has_its_report(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel, script = folder / "mykernel.py", folder / "script.py"
    slower = "    nisa.activation(dst=tile, op=nl.exp, data=tile)\n    nisa.dma_copy(dst=out"
    edits = (
        lambda: kernel.write_text(KERNEL.replace("    nisa.dma_copy(dst=out", slower)),
        lambda: kernel.write_text(KERNEL.replace("dst=out, src=tile", "dst=out[0:64], src=tile[0:64]")),
        lambda: script.write_text(SCRIPT + "1 / 0\n"),
    )  # fmt: skip
    first, changed, unwritten, failed = reports(capfd, *edits)
    (kernel_run,) = first["kernels"]
    assert kernel_run["name"] == "scaled(float32[128, 64])"
    assert kernel_run["low_us"] < kernel_run["total_us"] < kernel_run["high_us"]
    assert [line["text"].split("(")[0] for line in kernel_run["lines"]] == [
        "nisa.dma_copy", "nisa.dma_copy", "nisa.tensor_scalar",
    ]  # fmt: skip
    total = sum(line["path_us"] for line in kernel_run["lines"])
    assert total == pytest.approx(kernel_run["total_us"], rel=0.02)
    assert first["error"] == {} and first["changes"] == [] and not kernel_run["findings"]
    assert first["files"] == [str(folder / "mykernel.py"), str(folder / "script.py")]
    # exp adds its time; the assertion of the script fails
    assert changed["kernels"][0]["total_us"] > kernel_run["total_us"] + 0.2
    assert changed["error"]["message"] == "AssertionError: "
    assert changed["error"]["place"].endswith("script.py:5")
    assert changed["changes"][0] == "the error is new"
    assert any("nisa.activation(dst=tile" in sentence for sentence in changed["changes"])
    (finding,) = unwritten["kernels"][0]["findings"]
    assert finding["code"] == "NKI-UNWRITTEN"
    assert any("NKI-UNWRITTEN is new" in sentence for sentence in unwritten["changes"])
    assert failed["error"]["message"] == "AssertionError: "


def test_errors_have_their_place(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel, script = folder / "mykernel.py", folder / "script.py"
    edits = (
        lambda: kernel.write_text(KERNEL.replace("op0=nl.multiply", "op0=nl.no_such")),
        lambda: kernel.write_text("def f(:\n"),
        lambda: script.write_text("while True: pass\n"),
    )
    _, unknown, syntax, endless = reports(capfd, *edits, timeout=8)
    assert unknown["error"]["place"].endswith("mykernel.py:9")
    assert "SyntaxError" in syntax["error"]["message"]
    assert syntax["error"]["place"].endswith("mykernel.py:1")
    assert endless["error"]["code"] == "NEFF-LIMIT"


@pytest.mark.usefixtures("folder")
def test_once_prints_a_report(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "script.py", "--once", "--platform", "trn2"]) == 0
    out = capfd.readouterr().out
    assert "scaled(float32[128, 64]): " in out and "(estimated)" in out
    assert "mykernel.py:9" in out and "nisa.tensor_scalar(" in out
    assert main(["watch", "nothing.py", "--once"]) == 3
    assert "error[HLO-NO-FILE]" in capfd.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "variable",
    [
        "NKI_SIMULATOR=1",
        "NKI_HLO_EXECUTOR=neff",
        "NKI_ARTIFACTS_DIR=a",
        "NEURON_EXTRACT_GRAPHS_ONLY=1",
    ],
)
def test_the_environment_does_not_hide_kernels(
    variable: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    assert main(["watch", "script.py", "--once", "--platform", "trn2"]) == 0
    assert "scaled(float32[128, 64]): " in capfd.readouterr().out


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def test_calls_have_the_environment_of_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("first", "second"):
        monkeypatch.setenv("VARIABLE_OF_THE_CALLER", value)
        (outcome,) = called(
            _variable, ["VARIABLE_OF_THE_CALLER"], jobs=1, limits=Limits(60, 1 << 30)
        )
        assert outcome.result == value


def test_a_written_file_is_a_save(tmp_path: Path) -> None:
    file, added = tmp_path / "a.py", tmp_path / "b.py"
    file.write_text("1")
    added.write_text("1")
    watched = {str(file)}
    saves = saves_of(watched)
    next(saves)
    file.write_text("22")
    next(saves)
    os.utime(file, ns=(1, 1))
    next(saves)


def test_lines_that_moved_did_not_change() -> None:
    before = KernelRun("k(f32[1])", 10.0)
    run, later = Run([before]), Run([KernelRun("k(f32[1])", 12.0)])
    assert changes(run, run) == []
    assert changes(run, later) == ["k(f32[1]): 10.0 µs before, 12.0 µs now (+20%)"]
    assert changes(run, Run()) == ["k(f32[1]) is not called any more"]
    assert changes(Run(), run) == ["k(f32[1]) is new"]
    assert changes(Run(error={"code": "X"}), Run()) == ["the script runs now"]
