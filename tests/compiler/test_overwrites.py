"""The proof that no kernel reads what is overwritten: wrong programs that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from neff.compiler import compile
from neff.compiler.assembly.history import Began, Choice, Event, History, Renamed, Turns, Used
from neff.compiler.assembly.overwrites import require_values
from neff.compiler.graph import blocks
from neff.compiler.graph.blocks import Loop
from neff.compiler.graph.nodes import Node
from neff.compiler.planned import Compiler
from neff.compiler.plans import Plan
from neff.compiler.record import Record
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from neff.program import Program, Variable
from nki_lang.base.dtypes import BY_NAME
from tests.compiler.compiling import lowered
from tests.compiler.loop_nests import (
    NESTS,
    data_decides,
    innermost_depends_on_the_middle_alone,
)

_WRONG = [
    pytest.param(function, arguments, id=function.__name__)
    for function, arguments in NESTS
    if function not in (data_decides, innermost_depends_on_the_middle_alone)
]
"""Programs that are wrong without the captures; the two others compute nothing in place."""


@pytest.fixture
def _outer_state_is_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the compiler was before it listed what inner blocks read of outer loops."""
    complete = blocks._read  # pyright: ignore[reportPrivateUsage]

    def incomplete(loop: Loop) -> tuple[Node, ...]:
        complete(loop)
        loop.captured = [
            node for node in loop.captured if node.opcode not in ("carried", "counter")
        ]
        operands = (*loop.start.operands, *loop.captured)
        return tuple({id(node): node for node in operands}.values())

    monkeypatch.setattr(blocks, "_read", incomplete)


@pytest.mark.usefixtures("_outer_state_is_overlooked")
@pytest.mark.parametrize(("function", "arguments"), _WRONG)
def test_overlooked_reads_are_refused(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(NeffCompileError) as failure:
        compile(lowered(function, *arguments), target="trn2")
    assert failure.value.code == "NEFF-STALE-READ"
    assert "bug of the compiler" in failure.value.remedy


def _read_after_the_next_state(n: Any, x: Any, y: Any) -> Any:
    def turn(i: Any, s: Any) -> Any:
        return s[0] * 2 + 1, jnp.sort(s[1], 0) + s[0]

    return lax.fori_loop(0, n, turn, (x, y))


def _read_across(n: Any, x: Any, y: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, a: a + a[::-1], x)


def _update_and_another_row(n: Any, x: Any, y: Any) -> Any:
    def turn(i: Any, a: Any) -> Any:
        row = lax.dynamic_slice(a, ((i + 1) % 8, 0), (1, 6))
        return lax.dynamic_update_slice(a, row * 2 + a[3:4], (i % 8, 0))

    return lax.fori_loop(0, n, turn, x)


def _parts_change_places(n: Any, x: Any, y: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, s: (s[1] * 2, s[0] + 1), (x, y))


def _scatter_and_sum(n: Any, x: Any, y: Any) -> Any:
    rows = jnp.array([1, 5, 2])

    def turn(i: Any, s: Any) -> Any:
        return s[0].at[rows].add(s[1][:3]), s[1] + s[0]

    return lax.fori_loop(0, n, turn, (x, y))


def _branch_and_sum(n: Any, x: Any, y: Any) -> Any:
    def turn(i: Any, s: Any) -> Any:
        chosen = lax.cond(s[1][0, 0] > 5, lambda: jnp.sort(s[0], 0), lambda: jnp.sort(s[0], 1))
        return chosen, s[0] * s[1]

    return lax.fori_loop(0, n, turn, (x, y))


_GIVEN = (np.int32(3), np.ones((8, 6), np.float32), np.ones((8, 6), np.float32))


@pytest.mark.parametrize(
    "function",
    [_read_after_the_next_state, _read_across, _update_and_another_row, _parts_change_places,
     _scatter_and_sum, _branch_and_sum],
)  # fmt: skip
def test_writes_that_come_too_early_are_refused(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = lowered(function, *_GIVEN)
    compile(module, target="trn2")
    monkeypatch.setattr("neff.compiler.units.homes._is_before", lambda *_: True)
    with pytest.raises(NeffCompileError) as failure:
        compile(module, target="trn2")
    assert failure.value.code == "NEFF-STALE-READ"


def test_level_3_warns_of_a_plan_that_fails_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Compiler.program

    def program(self: Compiler, plan: Plan, record: Record, *, owners: bool) -> Program:
        if plan.name == "all rules":
            raise NeffCompileError("a value is gone", code="NEFF-STALE-READ")
        return complete(self, plan, record, owners=owners)

    monkeypatch.setattr(Compiler, "program", program)
    options = CompileOptions(optlevel=3)
    with pytest.warns(UserWarning, match=r"\[NEFF-STALE-READ\] the plan 'all rules' is left out"):
        compile(lowered(_read_across, *_GIVEN), target="trn2", options=options)


def test_memory_that_is_used_again_too_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = lowered(_parts_change_places, *_GIVEN)
    monkeypatch.setattr(
        "neff.compiler.assembly.assemble._span", lambda numbers, _: (numbers[0], numbers[-1])
    )
    with pytest.raises(NeffCompileError) as failure:
        compile(module, target="trn2")
    assert failure.value.code == "NEFF-STALE-READ"


_SIZES = {"a": (64, "input"), "b": (64, "scratch"), "c": (64, "output")}


def _proved(*events: Event, memories: dict[str, str] | None = None) -> str:
    """Return the code with which the proof refuses a record without kernels, or ""."""
    variables = {
        name: Variable(name, kind, BY_NAME["float32"], (size,))
        for name, (size, kind) in _SIZES.items()
    }
    history = History([*events, Used(0, ("c",), ())], memories or {})
    try:
        require_values(history, [], [], [], variables)
    except NeffCompileError as failure:
        return failure.code
    return ""


_OLD, _NEW = Began("b"), Renamed(0, "b", "b@0")
_BACK = Renamed(0, "b@0", "b")


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([_OLD, _NEW], ""),
        ([_OLD, _NEW, _NEW], "NEFF-STALE-READ"),
        ([_OLD, Turns([_NEW, _BACK], certain=False), _NEW], ""),
        ([_OLD, Turns([_NEW], certain=True)], "NEFF-STALE-READ"),
        ([_OLD, Turns([Began("b@0")], certain=False), _NEW], "NEFF-STALE-READ"),
        ([_OLD, Turns([Began("b@0")], certain=True), _BACK], ""),
        ([_OLD, Choice([[_NEW], []]), _BACK], "NEFF-STALE-READ"),
        ([_OLD, Choice([[_NEW], [_NEW]]), _BACK], ""),
        ([_OLD, Choice([[_NEW, _BACK], []]), _NEW], ""),
        ([_OLD, Turns([Choice([[_NEW], []])], certain=False)], "NEFF-STALE-READ"),
        ([_OLD, Turns([Choice([[_NEW], [_NEW]]), _BACK], certain=False), _NEW], ""),
    ],
)
def test_paths_through_loops_and_branches(events: list[Event], code: str) -> None:
    assert _proved(Began("c"), *events, memories={"b@0": "b"}) == code


def test_outputs_that_nothing_writes_are_refused() -> None:
    assert _proved() == "NEFF-STALE-READ"
