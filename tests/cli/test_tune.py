"""``nki-hlo tune``: candidates ranked, compared, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools.cli import main

KERNELS = """
import nki, nki.isa as nisa, nki.language as nl

COLUMNS = 256
WRONG = 0

@nki.jit
def scaled(x, rows=128):
    assert x.shape[0] % rows == 0, "rows do not fit"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, x.shape[0], rows):
        for c in range(0, x.shape[1], COLUMNS):
            here = (nl.ds(r, rows), nl.ds(c, COLUMNS))
            tile = nl.ndarray((rows, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[here])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0 + WRONG)
            nisa.dma_copy(dst=out[here], src=tile)
    return out
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return [
        "tune", str(tmp_path / "kernels.py"), "--kernel", "scaled", "--arg", "x=bf16[256,512]",
        "--platform", "trn2",
    ]  # fmt: skip


def tuned(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["estimated"] is True
    return document["candidates"]


def test_ranked_by_estimate(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer and larger transfers are faster; an argument and a constant of the file are both set."""
    rows = tuned([*words, "--param", "rows=64,128", "--param", "COLUMNS=128,512", "-j1"], capsys)
    assert rows[0]["parameters"] == {"rows": 128, "COLUMNS": 512}
    assert rows[-1]["parameters"] == {"rows": 64, "COLUMNS": 128}
    times = [row["total_us"] for row in rows]
    assert times == sorted(times)
    assert {row["difference"] for row in rows} == {0.0}
    assert all(row["sbuf_bytes_per_partition"] for row in rows)


def test_what_does_not_fit_or_differs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuned([*words, "--param", "rows=100,128,256", "--param", "WRONG=0,1", "-j1"], capsys)
    status = {tuple(row["parameters"].values()): row["status"] for row in rows}
    assert status == {
        (128, 0): "fits", (128, 1): "differs", (100, 0): "failed", (100, 1): "failed",
        (256, 0): "failed", (256, 1): "failed",
    }  # fmt: skip
    assert [row["status"] for row in rows] == ["fits", "differs", *["failed"] * 4]
    errors = {row["parameters"]["rows"]: row["error"] for row in rows[2:]}
    assert "rows do not fit" in errors[100]
    assert "NKI-PARTITION" in errors[256] and "kernels.py:" in errors[256]
    difference = next(row["difference"] for row in rows if row["status"] == "differs")
    assert difference == pytest.approx(0.5, rel=0.02)


def test_processes_find_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*words, "--param", "rows=64,128"]
    assert tuned([*asked, "-j2"], capsys) == tuned([*asked, "-j1"], capsys)


def test_a_table(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--param", "rows=100,128", "-j1", "--no-run"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "µs on trn2 (estimated)" in out[0]
    assert out[1].split()[0] == "128"
    assert out[-1].startswith("rows=100: AssertionError")
    assert main([*words, "--param", "rows=100", "-j1"]) == 1


@pytest.mark.parametrize("argument", ["x", "x=f99[256,512]"])
def test_a_wrong_argument_is_refused_once(
    words: list[str], argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--arg", argument, "--param", "rows=64,128"]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("HLO-USAGE") == 1


@pytest.mark.parametrize("parameter", ["rows", "rows=", "1=2"])
def test_a_parameter_that_is_none(words: list[str], parameter: str) -> None:
    assert main([*words, "--param", parameter]) == 2


def test_a_name_that_the_kernel_does_not_have(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--param", "speed=1,2"]) == 2
    assert "HLO-ARGUMENT" in capsys.readouterr().err
