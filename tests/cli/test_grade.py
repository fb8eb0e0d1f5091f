"""``nki-hlo grade``: right, wrong, incomplete, endless and broken candidates, each in a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_tools.cli import main
from neff.cli.grading import largest_difference

RIGHT = """
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
FILES = {
    "right.py": RIGHT,
    "wrong.py": RIGHT.replace("float(n)", "float(n) + (n == 3)"),
    "incomplete.py": RIGHT.replace("dst=out, src=tile", "dst=out[0:64], src=tile[0:64]"),
    "endless.py": "while True: pass",
    "ended.py": "import os; os._exit(7)",
    "large.py": "print('text on stdout'); import numpy; numpy.ones(1 << 33)",
    "broken.py": "def f(:",
    "two.py": RIGHT + RIGHT.replace("scaled", "again"),
    "spec.py": "def times(x, n):\n    return x * n\n",
}
CASES = [
    {"x": "f32[128,64]", "n": 4},
    {"name": "small", "arguments": {"x": "bf16[128,8]", "n": 3}, "seed": 5},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    return tmp_path


def records(
    capfd: pytest.CaptureFixture[str], *words: str, code: int, reference: str = "spec.py:times"
) -> list[dict[str, Any]]:
    options = ["--reference", reference, "--cases", "cases.json", "--platform", "trn2", "-j", "2"]
    assert main(["grade", *words, *options]) == code
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


@pytest.mark.usefixtures("folder")
def test_records_say_what_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    right, wrong, incomplete = records(capfd, "right.py", "wrong.py", "incomplete.py", code=1)
    assert right["correct"] and right["compiled"] and right["checks"] == []
    assert [case["name"] for case in right["cases"]] == ["0", "small"]
    for case in right["cases"]:
        assert case["low_us"] < case["total_us"] < case["high_us"]
        assert case["largest_error"] == 0.0
    assert [case["sbuf_bytes_per_partition"] for case in right["cases"]] == [256, 16]
    assert [case["correct"] for case in wrong["cases"]] == [True, False]
    case = wrong["cases"][1]
    # 4 x instead of 3 x: a third of the largest value, where it is
    assert case["largest_error"] == pytest.approx(1 / 3, rel=0.02)
    assert case["actual"] == pytest.approx(4 / 3 * case["expected"], rel=0.02)
    assert case["position"]["result"] == 0 and len(case["position"]["index"]) == 2
    assert incomplete["cases"][0]["unwritten_elements"] == 64 * 64
    assert not incomplete["correct"]
    assert [finding["code"] for finding in incomplete["checks"]] == ["NKI-UNWRITTEN"]


@pytest.mark.usefixtures("folder")
def test_a_candidate_that_never_ends_does_not_stop_the_others(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ("endless.py", "ended.py", "large.py", "broken.py", "right.py")
    limits = ("--timeout", "10", "--memory", "1000", "--no-advice", "--no-checks")
    *failed, right = records(capfd, *words, *limits, code=1)
    assert [record["error"]["code"] for record in failed] == [
        "NEFF-LIMIT", "NEFF-LIMIT", "HLO-IMPORT", "HLO-SYNTAX",
    ]  # fmt: skip
    assert "longer than 10 s" in failed[0]["error"]["message"]
    assert "exit code 7" in failed[1]["error"]["message"]
    assert "MemoryError" in failed[2]["error"]["message"]
    assert right["correct"] and "checks" not in right and "advice" not in right


@pytest.mark.usefixtures("folder")
def test_a_kernel_can_be_the_reference(capfd: pytest.CaptureFixture[str]) -> None:
    (record,) = records(capfd, "two.py:again", "--no-advice", code=0, reference="right.py:scaled")
    assert record["correct"]
    (record,) = records(capfd, "two.py", "--no-advice", code=1)
    assert record["error"]["code"] == "HLO-NO-KERNEL"
    (record,) = records(capfd, "two.py", "--kernel", "scaled", "--no-advice", code=0)
    assert record["correct"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[3]", '[{"arguments": 3}]', '[{"arguments": {}, "sed": 1}]',
             '[{"arguments": {}, "seed": "x"}]', '[{"arguments": {}, "tolerance": -1}]'],
)  # fmt: skip
def test_other_files_of_cases_are_refused(
    folder: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "cases.json").write_text(text)
    words = ["grade", "right.py", "--reference", "spec.py:times", "--cases", "cases.json"]
    assert main(words) == 3
    out, err = capfd.readouterr()
    assert out == "" and "error[NEFF-CASES]" in err and "  help: " in err


def test_a_missing_file_of_cases_is_named_once(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["grade", "right.py", "--reference", "spec.py:times", "--cases", "none.json"]
    assert main(words) == 3
    err = capfd.readouterr().err
    assert "cannot be read: No such file or directory\n" in err and err.count("none.json") == 1


def test_the_largest_difference_has_its_place() -> None:
    expected = np.array([[1.0, -8.0], [np.inf, np.nan]])
    assert largest_difference(expected, expected) == (0.0, (0, 0))
    result = expected.copy()
    result[0, 0] = 3.0
    assert largest_difference(expected, result) == (0.25, (0, 0))
    result[1, 1] = 0.0
    assert largest_difference(expected, result) == (np.inf, (1, 1))
    result = expected.copy()
    result[1, 0] = -np.inf
    assert largest_difference(expected, result) == (np.inf, (1, 0))
    assert largest_difference(np.zeros((0, 2)), np.zeros((0, 2))) == (0.0, ())
