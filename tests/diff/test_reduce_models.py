"""Faults planted in modules of public models become a few instructions in few runs."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hlo_tools
from hlo_tools.diff.reduce import reduce_module
from hlo_tools.diff.trials import Plan, Trials
from hlo_tools.ir.module import Module
from hlo_tools.verify import Severity, verify

ROOT = Path(__file__).resolve().parents[2]
MOST_RUNS, MOST_LEFT = 200, 15

pytestmark = [
    pytest.mark.torch_xla,
    pytest.mark.slow(
        "models of up to 43,000 instructions are traced, and reduced in some 200 runs"
    ),
]


def of_entry(module: Module, opcode: str) -> list[Any]:
    return [view.proto for view in module.entry if view.opcode == opcode]


def one(module: Module) -> None:
    rows = of_entry(module, "logistic")
    rows[len(rows) * 2 // 3].opcode = "tan"


def two(module: Module) -> None:
    rows = of_entry(module, "exponential")
    rows[5].opcode = rows[-7].opcode = "tan"


def in_a_reducer(module: Module) -> None:
    bodies = [body for body in module.computations if body.root.opcode == "maximum"]
    bodies[len(bodies) // 2].root.proto.opcode = "atan2"


def unsupported(module: Module) -> None:
    of_entry(module, "rsqrt")[40].opcode = "erf"


def in_a_gradient(module: Module) -> None:
    rows = of_entry(module, "multiply")
    rows[len(rows) * 3 // 4].opcode = "atan2"


LINT = f"{shlex.quote(sys.executable)} -m hlo_tools.cli lint -t trn2 {{}} | grep -q 'erf is not on'"
FAULTS: dict[str, tuple[Callable[[Module], None], str, str]] = {
    "one operation": (one, "mixtral-8x22b-train", r"grep -qaP '\x03tan' {}"),
    "two far apart": (two, "mixtral-8x22b-train", r"test $(grep -aoP '\x03tan' {} | wc -l) -ge 2"),
    "one in a reducer": (in_a_reducer, "gemma2-train", r"grep -qaP '\x05atan2' {}"),
    "one that lint finds": (unsupported, "qwen3-train", LINT),
    "one in a gradient": (in_a_gradient, "bert-train", r"grep -qaP '\x05atan2' {}"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault(name: str, tmp_path: Path) -> None:
    plant, model, command = FAULTS[name]
    script = str(ROOT / "scripts" / "bench" / "dump_models.py")
    subprocess.run([sys.executable, script, str(tmp_path), model], check=True, capture_output=True)
    module = hlo_tools.load(tmp_path / f"{model}.pb")
    plant(module)
    module.touch()
    trials = Trials(Plan(command=command, suffix=".pb"), is_valid)
    reduction = reduce_module(hlo_tools.load(module.to_bytes()), trials)
    assert sum(1 for _ in reduction.module.instructions) <= MOST_LEFT
    assert trials.runs <= MOST_RUNS and reduction.is_whole


def is_valid(module: Module) -> bool:
    return not any(problem.severity is Severity.error for problem in verify(module))
