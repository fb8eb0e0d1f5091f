"""Iterations of loops that only a run knows, counted in a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from neff import write
from neff.cli import main
from neff.compiler import compile_kernel
from neff.program import Program
from neff.runtime.trips import has_open_loops, trips_of
from neff.timing import estimate
from nki_lang import jit
from tests.neff.programs import counted

ROW_COUNT = 64


def _added(values: Any, count: Any, inner: bool) -> Any:
    out = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    times = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    nisa.dma_copy(dst=times, src=count)
    register = nisa.register_alloc()
    nisa.register_load(register, times)
    for iteration in nl.dynamic_range(0, register, 1):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        if inner:
            for _ in nl.dynamic_range(0, iteration, 1):
                nisa.activation(dst=tile, op=nl.copy, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


def flat(values: Any, count: Any) -> Any:
    return _added(values, count, inner=False)


def triangle(values: Any, count: Any) -> Any:
    return _added(values, count, inner=True)


def exponentials(values: Any, count: Any) -> Any:
    out = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
    times = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values)
    nisa.dma_copy(dst=times, src=count)
    register = nisa.register_alloc()
    nisa.register_load(register, times)
    for _ in nl.dynamic_range(0, register, 1):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


def arrays(count: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"values": np.zeros((ROW_COUNT, 8), np.float32), "count": np.array([[count]], np.int32)}


def program(kernel: Callable[..., Any]) -> Program:
    return compile_kernel(jit(kernel).trace(tuple(arrays(1).values()), target="trn2"))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_loop_with_a_bound_from_memory(count: int) -> None:
    built = program(flat)
    (trips,) = trips_of(built, arrays(count))
    assert list(trips.values()) == [count]
    run = estimate(built, trips=[trips])
    assert run.is_complete
    assert run.total == estimate(built, trips=count).total
    assert run.cores[0].engines["vector"].opcodes_ns.get("tensor_scalar", 0.0) > 0 or not count


def test_a_triangle_has_the_mean_of_its_inner_loop() -> None:
    """0 + 1 + ... + 8 copies in nine iterations."""
    built = program(triangle)
    (trips,) = trips_of(built, arrays(9))
    assert sorted(trips.values()) == [4.0, 9.0]
    events = estimate(built, trips=[trips]).cores[0].events
    assert sum(event.turns for event in events if event.opcode == "activation") == 36


def test_the_function_table_of_a_loop_is_loaded_once_before_it() -> None:
    events = estimate(program(exponentials), trips=5).cores[0].events
    (load,) = (event for event in events if event.opcode == "act_table_load")
    activations = [event for event in events if event.opcode == "activation"]
    assert load.turns == 1 and sum(event.turns for event in activations) == 5
    assert load.start < min(event.start for event in activations)


def test_a_program_without_such_loops_is_not_run() -> None:
    built = counted()
    assert not has_open_loops(built)
    assert trips_of(built, {}) == [{}]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(program(flat), tmp_path / "flat.neff")
    words = ["time", str(tmp_path / "flat.neff")]
    for name, array in arrays(5).items():
        np.save(tmp_path / f"{name}.npy", array)
        words += ["-i", f"{name}={tmp_path / name}.npy"]
    assert main(words) == 0
    assert "at least" not in capsys.readouterr().out
    assert main([*words, "--trips", "3"]) in (2, 3)
    assert "NEFF-USAGE" in capsys.readouterr().err
    assert main([*words[:4]]) == 2
    assert "count" in capsys.readouterr().err
    assert main(["profile", *words[1:4], "--fill", "zeros"]) == 0
    assert "at least" not in capsys.readouterr().out
