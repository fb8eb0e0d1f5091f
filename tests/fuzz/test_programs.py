"""Random programs, modules, histories of kernels and operators: a small share of the drivers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEST_WAYS = "evaluate,trn1,trn2,trn2 lnc=2,trn3 lnc=2,trn2 O1,trn2 by chance"
"""Ways of loop nests that take no second each."""


def faults(folder: Path, driver: str, *options: str) -> tuple[list[dict[str, str]], dict[str, int]]:
    """Return the faults that a driver reports, and its runs by execution mode."""
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        f"tests.fuzz.drivers.{driver}",
        "--json",
        str(report),
        *options,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert report.exists(), done.stdout + done.stderr
    report_data = json.loads(report.read_text())
    return report_data["faults"], report_data["runs"]


@pytest.mark.jax
def test_jax_programs(tmp_path: Path) -> None:
    options = ("--count", "10", "--each", "1", "--nests", "0")
    differences, runs = faults(tmp_path, "fuzz_jax", *options)
    assert differences == []
    assert runs["evaluate"] >= 8 and len(runs) > 4


@pytest.mark.jax
def test_loop_nests(tmp_path: Path) -> None:
    options = ("--count", "4", "--each", "1", "--nests", "1")
    differences, runs = faults(tmp_path, "fuzz_jax", *options, "--ways", NEST_WAYS)
    assert differences == []
    assert runs["nest evaluate"] == 4 and sum(runs.values()) == 8 and len(runs) > 2


@pytest.mark.jax
def test_hlo_modules(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_hlo", "--count", "24")
    assert differences == []
    assert runs["jaxlib"] >= 20 and len(runs) > 20


@pytest.mark.jax
def test_histories(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_state", "--count", "16")
    assert differences == []
    assert runs["direct"] >= 8 and runs["change"] >= 15 and len(runs) > 8


def test_kernels_of_several_ranks(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_ranks", "--count", "10")
    assert differences == []
    assert set(runs) == {"eager", "executor", "klir", "text", "neff"}


def test_kernels_beside_a_machine_of_scalars(tmp_path: Path) -> None:
    differences, runs = faults(
        tmp_path, "fuzz_oracle", "--count", "20", "--ways", "simulate,direct"
    )
    assert differences == []
    assert runs == {"simulate": 20, "direct": 20}


@pytest.mark.jax
def test_modules_of_several_devices(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_collectives", "--count", "12")
    assert differences == []
    assert set(runs) == {"trn1", "trn2", "trn3", "jaxlib"}


@pytest.mark.torch_xla
def test_operators_of_torch(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_torch", "--count", "60")
    assert differences == []
    assert set(runs) == {"call", "in place", "in place of a part", "out", "gradient"}


@pytest.mark.torch_xla
def test_gradients_around_kernels(tmp_path: Path) -> None:
    differences, runs = faults(tmp_path, "fuzz_autograd", "--count", "40")
    assert differences == []
    kinds = ("equal", "raises", "HLO-KERNEL-GRADIENT", "NKI-OP-MUTATES")
    assert {f"{device}: {kind}" for device in ("cpu", "neuron") for kind in kinds} <= runs.keys()


@pytest.mark.jax
@pytest.mark.parametrize("driver", ["fuzz_jax", "fuzz_hlo"])
def test_a_way_that_does_not_exist(driver: str) -> None:
    command = [
        sys.executable,
        "-m",
        f"tests.fuzz.drivers.{driver}",
        "--ways",
        "evaluate,telepathy,jaxlib",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "there is no way" in done.stderr
