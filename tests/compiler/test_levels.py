"""``optlevel``: what each level does, that higher ones never cost more, and that all are right."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neff.compiler import compile, planned
from neff.compiler.plans import PLANS, SIZES, Tuning
from neff.compiler.record import Record
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from neff.program import Program
from neff.timing import estimate
from tests.compiler.compiling import TARGETS, check, lowered

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
FEW_EXAMPLES = hypothesis.settings(max_examples=2, deadline=None)


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32) / 4


def attend(x: Any, y: Any) -> Any:
    return jax.nn.softmax(x @ y.T, axis=-1) @ y


def step(w: Any, x: Any) -> Any:
    slope = jax.grad(lambda w: jnp.mean(jax.nn.gelu(x @ w.T) ** 2))(w)
    return w - 0.1 * slope


FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "elementwise": (lambda x: jnp.tanh(x) * x + jnp.abs(x), 1),
    "rows": (lambda x: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6), 1),
    "attention": (attend, 2),
    "training": (step, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@hypothesis.given(st.integers(32, 300), st.integers(2, 200), st.sampled_from(TARGETS))
@FEW_EXAMPLES
def test_every_level_is_right_and_the_third_the_fastest(
    name: str, rows: int, width: int, target: str
) -> None:
    function, count = FUNCTIONS[name]
    arrays = [some(rows, width, seed=seed) for seed in range(count)]
    times: list[float] = []
    for level in (1, 2, 3):
        options = CompileOptions(optlevel=level)
        program = check(function, *arrays, target=target, tolerance=1e-4, options=options)
        times.append(estimate(program).total.value)
    assert times[2] <= min(times)


def levels(function: Any, *arguments: Any) -> tuple[list[Program], list[Record]]:
    module, records = lowered(function, *arguments), [Record() for _ in PLANS]
    programs = [
        compile(module, target="trn2", options=CompileOptions(optlevel=level), record=record)
        for level, record in zip(PLANS, records, strict=True)
    ]
    return programs, records


def test_what_the_levels_do() -> None:
    x = jax.ShapeDtypeStruct((512, 1024), "bfloat16")
    w = jax.ShapeDtypeStruct((1024, 2048), "bfloat16")
    programs, records = levels(lambda x, w: jnp.sum((x @ w).T), x, w)
    first, second, third = (estimate(program).total.value for program in programs)
    assert third <= second < first
    assert not records[0].rewrites
    assert {rewrite.rule for rewrite in records[1].rewrites} >= {"exchanged-product"}
    assert [record.level for record in records] == [1, 2, 3]
    assert not records[0].searched and not records[1].searched
    assert [name for name, _ in records[2].searched] == [plan.name for plan in PLANS[3]]
    assert min(total for _, total in records[2].searched) == pytest.approx(third)
    assert programs[1].metadata["options"]["optlevel"] == 2


def test_a_search_changes_sizes_where_that_is_faster() -> None:
    x = jax.ShapeDtypeStruct((128, 5000), "float32")
    programs, records = levels(lambda x: jnp.tanh(x) * x, x)
    assert [unit.choice for unit in records[2].units if unit.choice]
    assert not any(unit.choice for unit in records[1].units)
    assert estimate(programs[2]).total.value < 0.7 * estimate(programs[1]).total.value


def test_the_first_level_builds_in_half_the_time_of_the_third() -> None:
    def seconds(level: int) -> float:
        begun = time.process_time()
        for module in modules:
            compile(module, target="trn2", options=CompileOptions(optlevel=level))
        return time.process_time() - begun

    modules = [
        lowered(function, *[some(200, 100, seed=seed) for seed in range(count)])
        for function, count in FUNCTIONS.values()
    ]
    seconds(1)  # imports, tables
    assert seconds(1) <= seconds(3) / 2


def test_the_third_level_is_faster_than_the_first_where_rules_and_sizes_matter() -> None:
    shape = jax.ShapeDtypeStruct
    programs: list[tuple[Callable[..., Any], list[Any]]] = [
        (step, [shape((512, 1024), "float32"), shape((256, 1024), "float32")]),
        (attend, [shape((1024, 64), "bfloat16")] * 2),
        (lambda x, w: jnp.sum((x @ w).T), [shape((512, 1024), "bfloat16"), shape((1024, 512), "bfloat16")]),
        (lambda x: jnp.tanh(x) * x, [shape((128, 5000), "float32")]),
        (lambda x, y: x + y.T, [shape((700, 900), "float32"), shape((900, 700), "float32")]),
    ]  # fmt: skip
    for function, arguments in programs:
        module = lowered(function, *arguments)
        first, third = (
            estimate(compile(module, target="trn2", options=CompileOptions(optlevel=level)))
            for level in (1, 3)
        )
        assert third.total.value < first.total.value


def test_a_search_ends_with_the_same_program() -> None:
    arrays = [some(130, 70, seed=seed) for seed in range(2)]
    module, options = lowered(attend, *arrays), CompileOptions(optlevel=3)
    first = compile(module, target="trn2", options=options)
    second = compile(module, target="trn2", options=options, record=Record())
    assert str(first.subgraphs) == str(second.subgraphs)


def test_plans_in_processes_end_with_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    module, options = lowered(jnp.tanh, some(130, 70)), CompileOptions(optlevel=3)
    here = compile(module, target="trn2", options=options)
    monkeypatch.setattr(planned, "_MANY", 0)
    there = compile(module, target="trn2", options=options, jobs=2)
    assert str(here.subgraphs) == str(there.subgraphs)
    assert here.variables == there.variables and here.metadata == there.metadata


def test_what_fails_in_a_process_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not planned._in_processes(os._exit, [1], 2)
    with pytest.raises(ValueError, match="math domain error"):  # a bug of ours
        planned._in_processes(math.sqrt, [-1.0], 2)
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    assert not planned._in_processes(math.sqrt, [-1.0], 2)
    monkeypatch.setattr(planned, "_MANY", 0)
    monkeypatch.setattr(planned, "_in_processes", lambda *_: ())
    module = lowered(jnp.tanh, some(4, 4))
    options = CompileOptions(optlevel=3)
    assert compile(module, target="trn2", options=options, jobs=2).outputs == ["output0"]


def test_a_module_that_no_plan_compiles_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_by_one(task: Any, works: Any, _: int) -> list[Any]:
        return [task(work) for work in works]

    monkeypatch.setattr(planned, "_MANY", 0)
    monkeypatch.setattr(planned, "_in_processes", one_by_one)
    module = lowered(jnp.tanh, jax.ShapeDtypeStruct((1 << 18, 1 << 18), "float32"))
    options = CompileOptions(optlevel=3)
    with pytest.raises(NeffCompileError, match=r"f32\[262144,262144\]") as caught:
        compile(module, target="trn2", options=options, jobs=2)
    assert caught.value.code == "NEFF-HBM" and caught.value.place


def test_sizes_are_those_of_a_tuning() -> None:
    usual = Tuning()
    assert all(getattr(usual, name) not in sizes for name, sizes in SIZES.items())
