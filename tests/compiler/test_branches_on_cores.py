"""``lnc=2``: cores that take branches and loops together meet on every path."""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from neff.compiler import compile
from neff.compiler.assembly.link import (
    Call,
    Linker,
    Repeat,
    _loop_statement,  # pyright: ignore[reportPrivateUsage]
)
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from tests.compiler.compiling import check, lowered

TWO_CORES = CompileOptions(lnc=2)
TABLE = np.random.default_rng(7).integers(0, 9, (6, 5)).astype(np.int32)


def _branch_in_a_loop(n: Any, x: Any) -> Any:
    def turn(i: Any, a: Any) -> Any:
        return lax.cond(
            a[0, 0] % 2 == 0, lambda: jnp.sort(a, 1), lambda: jnp.sort(a, 0) + 1
        )  # fmt: skip

    return lax.fori_loop(0, n, turn, x)


def _loop_that_may_not_turn(n: Any, x: Any) -> Any:
    def turn(i: Any, a: Any) -> Any:
        return lax.fori_loop(0, a[0, 0] % 2, lambda j, b: jnp.sort(b, 0) + j, a) + 1

    return lax.fori_loop(0, n, turn, x)


def _branches_in_branches(n: Any, x: Any) -> Any:
    def chosen(a: Any) -> Any:
        return lax.cond(
            a[1, 1] % 2 == 0, lambda: jnp.sort(a, 1) + 1, lambda: jnp.sort(a, 0) + 3
        )  # fmt: skip

    def turn(i: Any, a: Any) -> Any:
        return lax.switch(
            a[0, 0] % 3, [lambda: chosen(a), lambda: jnp.sort(a, 0) + 1, lambda: a + 2]
        )

    return lax.fori_loop(0, n, turn, x)


@pytest.mark.parametrize("iterations", [3, 5])
@pytest.mark.parametrize(
    "function", [_branch_in_a_loop, _loop_that_may_not_turn, _branches_in_branches]
)
def test_cores_take_the_same_branch(function: Any, iterations: int) -> None:
    check(function, np.int32(iterations), TABLE, options=TWO_CORES)


def _meets_inside(
    linker: Linker, loop: Repeat, calls: list[Call], repeats: list[Repeat]
) -> list[Repeat]:
    """As the linker was before cores met in front of what may not be taken."""
    together = any(calls[number].everywhere for number in range(loop.first, loop.last))
    cores = linker._cores  # pyright: ignore[reportPrivateUsage]
    outer = [core.body for core in cores]
    for core in cores:
        core.body = []
    linker._shared = linker._shared or together  # pyright: ignore[reportPrivateUsage]
    _, repeats = linker._span(calls, repeats, loop.first, loop.last)  # pyright: ignore[reportPrivateUsage]
    linker._shared = linker._shared or together  # pyright: ignore[reportPrivateUsage]
    for core, body in zip(cores, outer, strict=True):
        inside, core.body = core.body, body
        if inside:
            body.append(_loop_statement(loop, inside))
    return repeats


@pytest.mark.parametrize("function", [_branch_in_a_loop, _branches_in_branches])
def test_meetings_in_branches_are_refused(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Linker, "_loop", _meets_inside)
    _refused(function, "NEFF-RACE")


@pytest.mark.parametrize(
    "function", [_branch_in_a_loop, _loop_that_may_not_turn, _branches_in_branches]
)
def test_missing_meetings_are_refused(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Linker, "_append_barrier", lambda *_: None)
    _refused(function, "NEFF-RACE")


@pytest.mark.parametrize("missing", range(4))
def test_each_meeting_is_needed(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    append, counted = Linker._append_barrier, itertools.count()  # pyright: ignore[reportPrivateUsage]

    def leave_out(linker: Linker, call: Call) -> None:
        if next(counted) != missing:
            append(linker, call)

    monkeypatch.setattr(Linker, "_append_barrier", leave_out)
    _refused(_branch_in_a_loop, "NEFF-RACE")


def test_a_meeting_of_one_core_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Linker._append_barrier  # pyright: ignore[reportPrivateUsage]

    def alone(linker: Linker, call: Call) -> None:
        append(linker, call)
        linker._cores[1].body.pop()  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Linker, "_append_barrier", alone)
    _refused(_branch_in_a_loop, "NEFF-DEADLOCK")


def _refused(function: Any, code: str) -> None:
    with pytest.raises(NeffCompileError) as failure:
        compile(lowered(function, np.int32(3), TABLE), target="trn2", options=TWO_CORES)
    assert failure.value.code == code
    assert "bug of the compiler" in failure.value.remedy
