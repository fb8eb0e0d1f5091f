"""Random kernels in every way of running them agree: a small share of tests/fuzz/drivers/fuzz_kernels.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nki_lang.isa.table import COLLECTIVES, TABLE

ROOT = Path(__file__).resolve().parents[2]


def fuzzed(folder: Path, modes: str, count: int) -> dict[str, Any]:
    """The report of a run over the first seeds."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "tests.fuzz.drivers.fuzz_kernels", "--count", str(count)]
    command += ["--ways", modes, "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert report.exists(), done.stdout + done.stderr
    return json.loads(report.read_text())


def check(report: dict[str, Any], count: int) -> None:
    assert report["faults"] == [], "\n".join(
        f["fault"] + "\n" + f["source"] for f in report["faults"]
    )
    assert all(
        runs >= count // 2
        for mode, runs in report["runs"].items()
        if mode not in ("refused whole", "simulate")
    )


def test_on_the_host(tmp_path: Path) -> None:
    modes = "simulate,direct,threads,klir,text,neff,neff by address"
    report = fuzzed(tmp_path, modes, 20)
    assert set(modes.split(",")) <= set(report["runs"])
    check(report, 20)


@pytest.mark.jax
def test_in_jax(tmp_path: Path) -> None:
    check(fuzzed(tmp_path, "jax jit,jax vmap,jax grad", 6), 6)


@pytest.mark.torch_xla
@pytest.mark.slow("three devices compile each kernel: a minute or two")
def test_on_devices(tmp_path: Path) -> None:
    check(fuzzed(tmp_path, "device jit,device neff jit,torch,torch neuron,torch_xla", 24), 24)


MADE_ELSEWHERE = {
    "register_alu": "operators on registers; the kernel language has no function of that name",
    "device_print": "prints, and returns nothing to compare",
    **dict.fromkeys(
        COLLECTIVES, "needs several ranks: tests/fuzz/drivers/fuzz_ranks.py makes those"
    ),
}
"""Rows of the instruction table that no random kernel has, and why."""


def test_every_other_row_of_the_table_is_made() -> None:
    """By the generator itself, run as the driver runs it."""
    script = (
        "import json, re; from tests.fuzz.drivers.kernels.generate import kernel;"
        "print(json.dumps(sorted({n for s in range(1500) for n in re.findall(r'nisa\\.(\\w+)\\(', kernel(s).source())})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(TABLE) - set(json.loads(done.stdout)) == set(MADE_ELSEWHERE)


def test_a_way_that_does_not_exist() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.drivers.fuzz_kernels",
        "--ways",
        "direct,telepathy",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "there is no way 'telepathy'" in done.stderr
