"""Random loop nests: exact, short, readable from their seed, and program smaller without losing that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import pytest

from tests.fuzz.drivers.loop_nests.draw import nest
from tests.fuzz.drivers.loop_nests.exactness import arrays_of, exact_nest
from tests.fuzz.drivers.loop_nests.interpret import MAX_STEPS, Interpreter, RunawayError
from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Compute,
    ForLoop,
    Input,
    Nest,
    Number,
    Variable,
    targets_of,
    walk,
)  # fmt: skip
from tests.fuzz.drivers.loop_nests.operators import KERNELS
from tests.fuzz.drivers.loop_nests.program import NestProgram
from tests.fuzz.drivers.loop_nests.render import source

SEEDS = range(24)
COUNTER, STATE, START = (Variable(name, (), "float32") for name in ("i", "s", "x"))


drawn_nest = cache(nest)


def test_a_seed_gives_one_program_with_names_bound_once() -> None:
    for seed in SEEDS:
        drawn = drawn_nest(seed)
        assert seed > 5 or drawn == nest(seed)
        names = [variable.name for step in walk(drawn.body) for variable in targets_of(step)]
        assert len(names) == len(set(names))
        compile(source(drawn), f"<nest {seed}>", "exec")


def test_every_kind_of_statement_is_drawn() -> None:
    steps = [step for seed in SEEDS for step in walk(drawn_nest(seed).body)]
    kinds = {type(step).__name__ for step in steps}
    assert kinds == {"Compute", "ForLoop", "WhileLoop", "Scan", "Map", "Branch"}
    operators = {step.operator for step in steps if isinstance(step, Compute)}
    assert operators & KERNELS.keys() and {"row_set", "index", "window_update"} <= operators
    bounds = {type(step.upper) for step in steps if isinstance(step, ForLoop)}
    assert bounds == {Number, Variable}
    structures = {step.structure for step in steps if isinstance(step, ForLoop)}
    assert structures == {"single", "tuple", "dict", "nested"}
    assert any(argument.donated for seed in SEEDS for argument in drawn_nest(seed).inputs)


def loop(operator: str, trips: int, bound: int = 0) -> Nest:
    """``x = operator(x, x)`` in a loop."""
    target, counter = Variable("v", (), "float32"), Variable("i", (), "int32")
    step = Compute(target, operator, (STATE, STATE), bound=bound)
    body = Body((counter, STATE), (step,), (target,))
    result = Variable("r", (), "float32")
    outer = ForLoop((result,), Number(0), Number(trips), "single", (START,), body)
    return Nest(0, (Input(START, 3, 3),), Body((START,), (outer,), (result,)))


def test_numbers_that_a_dtype_does_not_hold_are_clipped() -> None:
    exact = loop("add", 20)
    assert exact_nest(exact) == exact
    assert Interpreter().run(exact, arrays_of(exact, 0)) == [3 * 2.0**20]
    clipped = exact_nest(loop("add", 30))
    assert clipped == loop("add", 30, bound=99)
    assert Interpreter().run(clipped, arrays_of(clipped, 0)) == [99.0]
    assert "jnp.clip(jnp.add(s, s), -99, 99)" in source(clipped)


def test_programs_that_run_too_long_are_dropped() -> None:
    with pytest.raises(RunawayError):
        Interpreter().run(loop("maximum", MAX_STEPS + 1), [np.float32(3)])
    assert exact_nest(loop("maximum", MAX_STEPS + 1)) is None


@dataclass(frozen=True, slots=True)
class UpdateFuzzer:
    """Takes every program that sets a row within a loop for faulty."""

    def faults(self, program: NestProgram, modes: list[str]) -> dict[str, str]:
        program.meant()
        bodies = [step for step in walk(program.nest.body) if not isinstance(step, Compute)]
        inner = [
            step.operator for body in bodies for step in _inner(body) if isinstance(step, Compute)
        ]
        return {"way": "a row is set"} if "row_set" in inner else {}


def _inner(statement: object) -> list[object]:
    return list(walk(statement.body)) if isinstance(statement, ForLoop) else []


def test_faults_are_shrunk_to_what_shows_them() -> None:
    fuzzer = UpdateFuzzer()
    programs = [NestProgram(seed, drawn_nest(seed)) for seed in SEEDS]
    program = min(
        (program for program in programs if fuzzer.faults(program, [])),
        key=lambda program: sum(1 for _ in walk(program.nest.body)),
    )
    smaller = [less for less in islice(program.smaller(), 12) if fuzzer.faults(less, [])]
    assert smaller
    counts = [sum(1 for _ in walk(less.nest.body)) for less in smaller]
    assert min(counts) < sum(1 for _ in walk(program.nest.body))
