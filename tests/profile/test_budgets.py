"""Limits on the estimate: what is measured against what, exit codes, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlo_tools.pytest_plugin import KernelBudget
from neff import write
from neff.cli import main
from neff.errors import NeffError
from neff.profile import Check, budget_of, by, check_budget, profile_of
from nki_lang import jit
from tests.neff.programs import addition
from tests.profile.programs import softmax, softmax_kernel, two_kernels


def checks(**limits: object) -> dict[str, Check]:
    program = addition()
    all_checks = check_budget(program, profile_of(program), budget_of(**limits))  # type: ignore[arg-type]
    return {check.name: check for check in all_checks}


def test_latency_is_that_of_the_estimate() -> None:
    total = profile_of(addition()).estimate.total.value / 1e3
    check = checks(max_latency=f"{total * 1.01:.3f}us")["latency"]
    assert check.is_kept
    assert check.found == pytest.approx(total)
    assert not checks(max_latency=f"{total * 0.99:.3f} us")["latency"].is_kept
    assert checks(max_latency="1s")["latency"].limit == 1e6


def test_memory_by_hand() -> None:
    """Three tiles of 512 float32 a partition; three variables of [128, 512] in HBM."""
    size = 3 * 512 * 4 * 128
    by_name = checks(max_sbuf="768KiB", max_hbm="0.75MiB")
    assert [(by_name[name].found, by_name[name].is_kept) for name in ("sbuf", "hbm")] == [
        (size, True)
    ] * 2
    exceeded = checks(max_sbuf="767KiB", max_hbm="0.74MiB")
    assert not exceeded["sbuf"].is_kept
    assert not exceeded["hbm"].is_kept
    assert exceeded["sbuf"].place in (
        "/home/someone/project/add.py:9",
        "/home/someone/project/add.py:12",
    )


def test_utilisation() -> None:
    by_name = checks(min_utilisation=("vector=0.1%", "tensor=1%"))
    assert by_name["utilisation of vector"].is_kept
    assert not by_name["utilisation of tensor"].is_kept


def test_a_baseline_may_be_exceeded_by_the_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, summary = tmp_path / "a.neff", tmp_path / "summary.json"
    write(softmax(), file)
    assert main(["profile", str(file), "-o", str(tmp_path)]) == 0
    words = ["budget", str(file), "--baseline", str(summary)]
    assert main(words) == 0
    document = json.loads(summary.read_text())
    document["total_us"] *= 0.97
    summary.write_text(json.dumps(document))
    assert main(words) == 1
    assert main([*words, "--tolerance", "5%"]) == 0
    assert "estimated" in capsys.readouterr().out


def test_an_annotation_at_the_costly_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(addition(), tmp_path / "a.neff")
    words = ["budget", str(tmp_path / "a.neff"), "--max-latency", "1us"]
    assert main([*words, "--github"]) == 1
    (row,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("::")]
    assert row.startswith("::error file=add.py,line=")
    assert row.endswith("µs, limit 1 (estimated)")
    assert main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["kept"], document["checks"][0]["name"]) == (False, "latency")


@pytest.mark.parametrize(
    ("words", "exit_code", "text"),
    [
        ([], 2, "NEFF-USAGE"),
        (["--max-latency", "250"], 2, "NEFF-BUDGET"),
        (["--max-latency", "-1us"], 2, "NEFF-BUDGET"),
        (["--max-sbuf", "1us"], 2, "NEFF-BUDGET"),
        (["--min-utilisation", "wheel=3%"], 2, "NEFF-BUDGET"),
        (["--min-utilisation", "vector=101%"], 2, "cannot be busy for 101% of the time"),
        (["--max-latency", "5kg"], 2, "write a number and ns, us, µs, ms or s"),
        (["--max-latency", "5us", "--tolerance", "5kg"], 2, "write a number and %"),
        (["--baseline", "missing.json"], 3, "NEFF-BASELINE"),
    ],
)
def test_refusals(
    words: list[str], exit_code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(addition(), tmp_path / "a.neff")
    assert main(["budget", str(tmp_path / "a.neff"), *words]) == exit_code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{}", "no", '{"schema": "nki-neff/profile/1"}'])
def test_a_baseline_that_is_none(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(addition(), tmp_path / "a.neff")
    (tmp_path / "b.json").write_text(text)
    words = ["budget", str(tmp_path / "a.neff"), "--baseline", str(tmp_path / "b.json")]
    assert main(words) == 3
    assert "NEFF-BASELINE" in capsys.readouterr().err


PROJECT = """
[tool.nki-neff.budgets]
"add*" = { max-latency = "1ms", max-sbuf = "1KiB", min-utilisation = ["vector=0.1%"] }
"dou?le" = { max-latency = "1us" }
"""


def test_budgets_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    write(addition(), tmp_path / "added.neff")
    assert main(["budget", "added.neff", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["checks"]
    assert [(row["name"], row["is_kept"]) for row in rows] == [
        ("latency (add*)", True), ("sbuf (add*)", False), ("utilisation of vector (add*)", True),
    ]  # fmt: skip
    assert main(["budget", "added.neff", "--max-latency", "1s"]) == 0
    write(softmax(), tmp_path / "other.neff")
    assert main(["budget", "other.neff"]) in (2, 3)
    assert "NEFF-USAGE" in capsys.readouterr().err


def test_budgets_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NEFFs of a folder for which the project has no limit are left out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "neffs").mkdir()
    write(addition(), tmp_path / "neffs" / "added.neff")
    write(softmax(), tmp_path / "neffs" / "other.neff")
    assert main(["budget", "neffs", "--json"]) == 1
    printed = capsys.readouterr()
    assert "the budget 'dou?le' is that of no program or kernel here" in printed.err
    document = json.loads(printed.out)
    assert {row["file"] for row in document["checks"]} == {"neffs/added.neff"}
    assert document["files"] == ["neffs/added.neff", "neffs/other.neff"]
    assert main(["budget", "neffs/added.neff", "neffs/other.neff", "--max-latency", "1s"]) == 0
    assert capsys.readouterr().out.count("kept") == 2


def test_a_folder_without_a_neff_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["budget", str(tmp_path), "--max-latency", "1s"]) == 3
    assert "error[NEFF-OPEN]" in capsys.readouterr().err


def test_a_budget_for_a_kernel_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its part of the critical path; the line in the annotation is the kernel's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    program = two_kernels(tmp_path)
    write(program, tmp_path / "m.neff")
    assert main(["budget", "m.neff", "--github", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["checks"]
    (share,) = [share for share in by(profile_of(program), "kernel") if share.name == "k0 double"]
    assert row["name"] == "latency of double (k0)"
    assert row["found"] == pytest.approx(share.path_ns / 1e3)
    assert row["place"].startswith("programs.py:")


@pytest.mark.parametrize(
    "entry",
    ["x = 3", 'x = { speed = "1us" }', "x = { max-latency = 3 }"],
)
def test_a_wrong_entry_of_a_project(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool.nki-neff.budgets]\n{entry}\n")
    write(addition(), tmp_path / "a.neff")
    assert main(["budget", "a.neff"]) == 2
    assert "NEFF-BUDGET" in capsys.readouterr().err


X = np.ones((128, 512), np.float32)


def test_the_fixture(nki_budget: KernelBudget) -> None:
    kernel = jit(softmax_kernel)
    total = profile_of(softmax()).estimate.total.value / 1e3
    report = nki_budget(kernel, X, max_latency_us=total * 1.001, nki_target="trn2")
    assert report.estimate.total.value == pytest.approx(total * 1e3)
    with pytest.raises(pytest.fail.Exception, match=r"programs\.py:\d+: latency: .*estimated"):
        nki_budget(kernel, X, max_latency_us=total * 0.999, nki_target="trn2")
    with pytest.raises(pytest.fail.Exception, match="utilisation of tensor"):
        nki_budget(kernel, X, min_utilisation={"tensor": 0.5, "vector": 0.01})
    with pytest.raises(pytest.fail.Exception, match="sbuf"):
        nki_budget(kernel, X, max_sbuf_bytes=1000, max_hbm_bytes=1e9)


def test_the_fixture_reads_the_project(
    nki_budget: KernelBudget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = jit(softmax_kernel)
    with pytest.raises(NeffError, match="NEFF-USAGE"):
        nki_budget(kernel, X)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.nki-neff.budgets]\n"softmax*" = { max-latency = "1us" }\n'
    )
    with pytest.raises(pytest.fail.Exception, match="latency"):
        nki_budget(kernel, X)


def test_info_has_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(softmax(), tmp_path / "a.neff")
    total = profile_of(softmax()).estimate.total.value / 1e3
    assert main(["info", str(tmp_path / "a.neff"), "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert estimate["estimated"] is True
    assert estimate["total_us"] == pytest.approx(total, abs=1e-3)
    assert main(["info", str(tmp_path / "a.neff")]) == 0
    assert "(estimated)" in capsys.readouterr().out
