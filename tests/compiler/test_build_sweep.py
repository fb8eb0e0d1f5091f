"""Common operations build at every length: a seeded slice of ``scripts/bench/build_sweep.py``."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("jax")

from scripts.bench.build_sweep import Build, builds, fault_of, fault_of_values
from scripts.bench.sweep_programs import OPERATIONS

pytestmark = pytest.mark.jax

MAX_SECONDS = 120
"""CPU time of a build; the longest takes about 30 s."""


def drawn(seed: int, count: int, longest: int) -> list[Build]:
    """Return random builds of at most this length."""
    return random.Random(seed).sample(
        [build for build in builds() if build.length <= longest], count
    )


@pytest.mark.parametrize("build", drawn(38, 24, 2048), ids=str)
def test_an_operation_builds(build: Build) -> None:
    assert fault_of(build, MAX_SECONDS) == ""


@pytest.mark.parametrize("build", drawn(39, 6, 512), ids=str)
def test_a_build_has_the_values_of_jaxlib(build: Build) -> None:
    for seed in (1, 2):
        assert fault_of_values(build, seed) == ""


def test_the_sweep_has_at_least_90_operations_and_gradients() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert len(names) + sum(operation.differentiable for operation in OPERATIONS) >= 90


@pytest.mark.slow("builds 1500 programs, of up to 50257 columns, and runs some: 40 minutes")
def test_the_sweep_at_night() -> None:
    faults: list[str] = []
    for number, build in enumerate(drawn(40, 1500, 50257)):
        fault = fault_of(build, MAX_SECONDS)
        if not fault and not number % 20:
            fault = fault_of_values(build, number)
        if fault:
            faults.append(f"{build}: {fault}")
    assert not faults, "\n".join(faults)
