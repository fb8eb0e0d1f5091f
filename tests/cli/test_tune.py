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
        for c in range(0, x.shape[1] // COLUMNS * COLUMNS, COLUMNS):
            here = (nl.ds(r, rows), nl.ds(c, COLUMNS))
            tile = nl.ndarray((rows, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[here])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0 + WRONG)
            nisa.dma_copy(dst=out[here], src=tile)
    return out

def twice(x):
    return x + x

def broken(x):
    raise ValueError("no numbers")

@nki.jit
def placed(x, places, SKIP=0):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    index = nl.load(places)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.multiply, operand0=1 - SKIP)
    there = out.ap([[64, 128], [1, 64]], offset=0, vector_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=there, src=tile)
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
    return candidates(0, words, capsys)


def candidates(
    code: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> list[dict[str, object]]:
    assert main([*words, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["estimated"] is True
    return document["candidates"]


def statuses(rows: list[dict[str, object]]) -> dict[tuple[object, ...], object]:
    return {tuple(row["parameters"].values()): row["status"] for row in rows}


def test_ranked_by_estimate(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer and larger transfers are faster; an argument and a constant of the file are both set."""
    rows = tuned([*words, "--param", "rows=64,128", "--param", "COLUMNS=128,512", "-j1"], capsys)
    assert rows[0]["parameters"] == {"rows": 128, "COLUMNS": 512}
    assert rows[-1]["parameters"] == {"rows": 64, "COLUMNS": 128}
    times = [row["total_us"] for row in rows]
    assert times == sorted(times)
    assert {row["difference"] for row in rows} == {0.0}
    assert all(row["sbuf_bytes_per_partition"] for row in rows)


def test_what_does_not_fit(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuned([*words, "--param", "rows=100,128,256", "-j1"], capsys)
    assert [row["status"] for row in rows] == ["fits", "failed", "failed"]
    errors = {row["parameters"]["rows"]: row["error"] for row in rows[1:]}
    assert "rows do not fit" in errors[100]
    assert "NKI-PARTITION" in errors[256] and "kernels.py:" in errors[256]


def test_candidates_that_disagree(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a reference none of them is right, however many agree."""
    asked = [*words, "--param", "rows=64,128", "--param", "WRONG=1,0", "-j1"]
    rows = candidates(1, asked, capsys)
    assert {row["status"] for row in rows} == {"disagrees"}
    difference = {row["parameters"]["WRONG"]: row["difference"] for row in rows}
    assert difference == {1: 0.0, 0: pytest.approx(1 / 3, rel=0.02)}
    assert main(asked) == 1
    out, notes = capsys.readouterr()
    assert out.count("DISAGREES") == 4
    assert "the candidates disagree: without --reference" in notes


def test_a_reference_tells_which_is_right(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*words, "--param", "WRONG=1,0", "-j1", "--reference", f"{words[1]}:twice"]
    rows = tuned(asked, capsys)
    assert statuses(rows) == {(0,): "correct", (1,): "differs"}
    assert [row["difference"] for row in rows] == [0.0, pytest.approx(0.5, rel=0.02)]
    assert candidates(1, [*asked, "--param", "COLUMNS=100"], capsys)


@pytest.mark.parametrize("reference", [[], ["--reference", "kernels.py:twice"]])
def test_unwritten_results_are_never_right(
    words: list[str], reference: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns that no tile reaches: the candidate is not compared, the others are."""
    reference = [word.replace("kernels.py", words[1]) for word in reference]
    asked = [*words, "-j1", *reference]
    rows = tuned([*asked, "--param", "COLUMNS=384,256,512"], capsys)
    right = "correct" if reference else "fits"
    assert statuses(rows) == {(512,): right, (256,): right, (384,): "unwritten"}
    assert rows[-1]["unwritten_elements"] == 256 * 128 and rows[-1]["difference"] is None
    assert statuses(candidates(1, [*asked, "--param", "COLUMNS=384"], capsys)) == {
        (384,): "unwritten"
    }
    assert main([*asked, "--param", "COLUMNS=384"]) == 1
    out, notes = capsys.readouterr()
    assert "UNWRITTEN" in out and "leaves 32768 elements" in notes


def test_results_that_values_leave_unwritten(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row goes to row 0: only the run shows it."""
    words[words.index("scaled")] = "placed"
    words[words.index("x=bf16[256,512]")] = "x=f32[128,64]"
    asked = [*words, "--arg", "places=i32[128,1]", "--param", "SKIP=1", "-j1"]
    [row] = candidates(1, asked, capsys)
    assert row["status"] == "unwritten" and row["unwritten_elements"] == 127 * 64


@pytest.mark.parametrize(
    ("reference", "exit_code", "code"),
    [
        ("kernels.py", 2, "HLO-USAGE"), ("kernels.py:COLUMNS", 2, "HLO-USAGE"),
        ("kernels.py:none", 3, "HLO-NO-NAME"), ("kernels.py:broken", 2, "HLO-ARGUMENT"),
    ],
)  # fmt: skip
def test_a_reference_that_is_none(
    words: list[str], reference: str, exit_code: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = reference.replace("kernels.py", words[1])
    assert main([*words, "--param", "rows=64", "-j1", "--reference", named]) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err


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
