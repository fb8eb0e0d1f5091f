"""The advice names the fault of each slow kernel, its line, and what it would gain without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neff import read, write
from neff.cli import main
from neff.compiler import compile_kernel
from neff.profile import profile_of
from neff.profile.advice import RULES, Advice, advice_of
from neff.profile.advice.rebuild import rebuilt
from neff.profile.advice.rule import Subject
from neff.program import Program
from neff.runtime import load as load_neff
from neff.timing import estimate
from nki_lang import jit
from tests.profile.slow_kernels import HALF, PAIRS, columns, hbm, load, psum, sbuf

TOLERANCE = 0.2


def advice(program: Program) -> dict[str, Advice]:
    return {entry.code: entry for entry in advice_of(profile_of(program))}


@pytest.mark.parametrize("name", PAIRS)
def test_the_gain_is_that_of_the_mended_kernel(name: str) -> None:
    """Simulated from the slow program alone; within a fifth of what the other source shows."""
    pair = PAIRS[name]
    slow, fixed = pair.slow(), pair.mended()
    by_code = advice(slow)
    assert pair.code in by_code
    before, after = (estimate(program).total.value for program in (slow, fixed))
    assert by_code[pair.code].gain_ns == pytest.approx(before - after, rel=TOLERANCE)
    assert by_code[pair.code].place.partition(":")[0].endswith("slow_kernels.py")
    assert pair.code not in advice(fixed)


def test_a_fault_that_others_hide_is_named_behind_them() -> None:
    """One bank for all products, each of which waits for a round trip through HBM."""

    def kernel(a: Any, b: Any) -> Any:
        out = hbm((128, 4096), nl.float32)
        between = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.private_hbm)
        left, right, bank = load(a, (128, 128)), load(b, (128, 4096)), psum((128, 512))
        for i in range(8):
            tile = sbuf((128, 512))
            nisa.nc_matmul(
                dst=bank, stationary=left, moving=columns(right, i, 512), accumulate=False
            )
            nisa.activation(dst=tile, op=nl.gelu, data=bank)
            nisa.dma_copy(dst=between, src=tile)
            again = load(between, (128, 512))
            nisa.dma_copy(dst=columns(out, i, 512), src=again)
        return out

    arrays = np.ones((128, 128), HALF), np.ones((128, 4096), HALF)
    by_code = advice(compile_kernel(jit(kernel).trace(arrays, target="trn2")))
    assert not by_code["PERF-HBM-ROUND-TRIP"].behind
    assert "PERF-HBM-ROUND-TRIP" in by_code["PERF-PSUM-BUFFER"].behind
    assert by_code["PERF-PSUM-BUFFER"].later_ns > 3 * by_code["PERF-PSUM-BUFFER"].gain_ns


def test_each_rule_has_a_slow_kernel() -> None:
    assert {pair.code for pair in PAIRS.values()} >= set(RULES)


def test_a_program_from_a_file_gets_the_same_advice(tmp_path: Path) -> None:
    program = PAIRS["single_buffer"].slow()
    write(program, tmp_path / "a.neff")
    again, before = advice(read(tmp_path / "a.neff")), advice(program)
    assert again.keys() == before.keys()
    code = "PERF-SINGLE-BUFFER"
    assert again[code].gain_ns == pytest.approx(before[code].gain_ns)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(PAIRS["two_passes"].slow(), tmp_path / "slow.neff")
    return tmp_path / "slow.neff"


def test_text_and_annotations(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--advice", "text"]) == 0
    text = capsys.readouterr().out
    assert "warning[PERF-HBM-ROUND-TRIP]" in text
    assert "50% of all that it reads, more than the vendor's 25%" in text
    assert "(estimated)" in text
    assert main(["profile", str(file), "--advice", "github"]) == 0
    row = next(row for row in capsys.readouterr().out.splitlines() if "ROUND-TRIP" in row)
    assert row.startswith("::warning file=")
    assert "slow_kernels.py,line=" in row


def test_advice_with_a_folder_writes_the_profile_too(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(file), "--advice", "text", "-o", str(tmp_path / "made")]) == 0
    assert "warning[PERF-HBM-ROUND-TRIP]" in capsys.readouterr().out
    assert (tmp_path / "made" / "summary.json").exists()


def test_documents(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--advice", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["advice"]
    assert row["gain_low_us"] <= row["gain_us"] <= row["gain_high_us"]
    assert row["lines"][0] == row["place"]
    assert main(["profile", str(file), "--advice", "sarif"]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    driver = run["tool"]["driver"]
    assert driver["name"] == "nki-neff profile" and driver["version"]
    assert driver["rules"][0]["helpUri"].endswith("/docs/profile.md")
    (result,) = run["results"]
    assert result["partialFingerprints"]["primaryLocationLineHash"]
    assert result["ruleId"] == "PERF-HBM-ROUND-TRIP"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 0


def test_an_unknown_format_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--advice", "colour"]) == 2
    assert "text, json, github" in capsys.readouterr().err


def fused_advice(kernel: Any, code: str) -> list[Advice]:
    """Return what a rule says of a kernel on one tile of [128, 512]."""
    x = np.ones((128, 512), np.float32)
    program = compile_kernel(jit(kernel).trace((x,), target="trn2"))
    return advice_of(profile_of(program), rules=[code])


def test_near_misses_of_an_activation_and_its_sum() -> None:
    def kernel_of(between: str) -> Any:
        def kernel(x: Any) -> Any:
            out = hbm((128, 1 if between != "groups" else 2), nl.float32)
            tile, result, total = load(x, (128, 512)), sbuf((128, 512)), sbuf(out.shape)
            if between == "total is read":
                nisa.memset(dst=total, value=0.0)
            nisa.activation(dst=result, op=nl.exp, data=tile)
            if between == "total is read":
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=total)
            if between == "written again":
                nisa.tensor_scalar(dst=result, data=result, op0=nl.add, operand0=1.0)
            data = result.reshape((128, 2, 256)) if between == "groups" else result
            data = result[:, :256] if between == "half" else data
            negate = between == "negated"
            nisa.tensor_reduce(dst=total, op=nl.add, data=data, axis=-1, negate=negate)
            nisa.dma_copy(dst=out, src=total)
            return out

        return kernel

    assert fused_advice(kernel_of("nothing"), "PERF-ACTIVATION-SUM")
    for between in ("written again", "groups", "half", "negated", "total is read"):
        assert not fused_advice(kernel_of(between), "PERF-ACTIVATION-SUM"), between


def test_near_misses_of_two_scalar_steps() -> None:
    def kernel_of(case: str) -> Any:
        def kernel(x: Any) -> Any:
            out = hbm((128, 512), nl.float32)
            tile, middle, result = load(x, (128, 512)), sbuf((128, 512)), sbuf((128, 512))
            vector = nisa.engine.vector
            nisa.tensor_scalar(dst=middle, data=tile, op0=nl.add, operand0=1.0, engine=vector)
            if case == "data changes":
                nisa.activation(dst=tile, op=nl.exp, data=tile)
            width = 256 if case == "half" else 512
            nisa.tensor_scalar(
                dst=result[:, :width], data=middle[:, :width], op0=nl.multiply, operand0=2.0,
                engine=vector,
            )  # fmt: skip
            if case == "read again":
                nisa.tensor_tensor(dst=result, data1=result, data2=middle, op=nl.add)
            nisa.dma_copy(dst=out, src=result)
            return out

        return kernel

    assert fused_advice(kernel_of("nothing"), "PERF-SCALAR-STEPS")
    for case in ("data changes", "half", "read again"):
        assert not fused_advice(kernel_of(case), "PERF-SCALAR-STEPS"), case


@pytest.mark.parametrize("name", ["sum_of_exponentials", "one_operator_at_a_time"])
def test_what_a_fused_rule_simulates_computes_the_same(name: str) -> None:
    program = PAIRS[name].slow()
    profile = profile_of(program)
    (fix,) = RULES[PAIRS[name].code].fixes(Subject(profile, 0))
    faster = rebuilt(program, fix.bodies)
    assert faster is not None and len(fix.culprits) == 8
    for seed in (0, 1):
        x = np.random.default_rng(seed).uniform(-1, 1, (128, 4096)).astype(np.float32)
        (before,), (after,) = (load_neff(p).run({"x": x}).values() for p in (program, faster))
        np.testing.assert_allclose(after, before, rtol=1e-5)
