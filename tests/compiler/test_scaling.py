"""Builds grow with their programs: a small slice of ``scripts/bench/bench_scaling.py``, counted."""

from __future__ import annotations

import pytest

import hlo_tools
from neff.compiler import compile
from neff.compiler.coverage import coverage
from neff.program import Program
from scripts.bench.bench_scaling import Build, faults_of
from scripts.bench.scaling_programs import PROGRAMS, SHAPES
from tests.counting import calls_made

SLICE = (
    ("add", "", "f32", "odd"),
    ("concatenate", "100", "s32", "rows"),
    ("reduce-window", "cumulative", "s32", "row"),
    ("reduce-window", "long maximum", "s32", "row"),
    ("reduce", "last unusual", "f32", "rows"),
    ("pad", "holes", "s32", "square"),
    ("gather", "elements", "f32", "row"),
)
SIZES = (2000, 8000)


def test_every_opcode_is_in_the_sweep() -> None:
    assert PROGRAMS.keys() == coverage().keys()


def counted(text: str) -> tuple[int, int]:
    """The instructions of a module's program, and the calls that compiling it takes."""
    module = hlo_tools.load(text.encode())
    programs: list[Program] = []
    calls = calls_made(lambda: programs.append(compile(module, target="trn2")))
    return programs[0].metadata["statistics"]["instructions"], calls


@pytest.mark.parametrize("opcode, variant, dtype, shape", SLICE)
def test_builds_are_linear(opcode: str, variant: str, dtype: str, shape: str) -> None:
    """Instructions grow no faster than elements, and calls no faster than instructions."""
    make = PROGRAMS[opcode][variant]
    counts = [  # the first fills caches of the process
        counted(make(dtype, SHAPES[shape](size))) for size in (SIZES[0], *SIZES)
    ]
    (instructions, calls), (more, more_calls) = counts[1:]
    assert more <= 1.2 * max(200, instructions * SIZES[1] / SIZES[0])
    assert more_calls <= 1.5 * max(1.0, more / instructions) * calls


def test_faults_of_a_sweep() -> None:
    sizes = [10_000, 40_000]
    assert list(faults_of([Build(100, 0.1), Build(400, 0.4)], sizes)) == []
    assert list(faults_of([Build(100, 0.1), Build(1600, 0.5)], sizes)) == ["instructions"]
    assert list(faults_of([Build(400, 0.3), Build(400, 4.8)], sizes)) == ["seconds an instruction"]
    assert list(faults_of([Build(1, 0.1), Build(code="NEFF-SIZE")], sizes)) == []
    assert list(faults_of([Build(1, 0.1), Build(code="out of time")], sizes)) == ["out of time"]
