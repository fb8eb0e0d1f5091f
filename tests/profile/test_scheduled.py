"""The order of a list scheduler: faster where source order makes engines wait, and equally right."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from neff import write
from neff.cli import main
from neff.compiler import compile_kernel
from neff.errors import NeffError
from neff.profile.advice.rebuild import bodies_of
from neff.profile.advice.reorder import dependencies
from neff.profile.scheduled import default_order, estimate_in_order, in_scheduled_order
from neff.program import Program, Step
from neff.runtime.order import order_of
from neff.timing import Estimate, Parameters
from nki_lang import isa as nisa
from nki_lang import klir
from nki_lang import language as nl
from nki_lang.beta1 import isa as beta1_isa
from nki_lang.beta1 import language as beta1
from nki_lang.beta1.kernel import jit as beta1_jit
from nki_lang.ir import Instruction
from nki_lang.kernel import Kernel

VECTOR, SCALAR = nisa.engine.vector, nisa.engine.scalar


def alternating(x, rows_at_once):
    """Each row block goes through two engines in turn, four times."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[start : start + 128])
        for _ in range(rows_at_once):
            nisa.tensor_scalar(tile, tile, nl.multiply, 0.5, engine=VECTOR)
            nisa.activation(tile, nl.square, tile)
        nisa.dma_copy(out[start : start + 128], tile)
    return out


def alternating_in_beta1(x):
    """The same in NKI beta 1: four row blocks, two engines in turn."""
    out = beta1.ndarray(x.shape, dtype=x.dtype, buffer=beta1.shared_hbm)
    for block in beta1.affine_range(4):
        rows = beta1.ds(block * 128, 128)
        tile = beta1.load(x[rows, :])
        for _ in range(4):
            scaled = beta1_isa.tensor_scalar(tile, np.multiply, 0.5, engine=beta1_isa.vector_engine)
            tile = beta1_isa.activation(np.square, scaled)
        beta1.store(out[rows, :], tile)
    return out


def in_place(x, count):
    """One chain: nothing can be moved."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(tile, x)
    for _ in range(count):
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5, engine=VECTOR)
        nisa.activation(tile, nl.square, tile)
    nisa.dma_copy(out, tile)
    return out


def crowded(x, count):
    """Tiles that fill SBUF one after the other, so that their values cannot all live at once."""
    out = nl.ndarray((count * 128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    for number in range(count):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.multiply, float(number), engine=VECTOR)
        nisa.dma_copy(out[number * 128 : (number + 1) * 128], tile)
    return out


def compiled(func, *args: object, target: str = "trn2", **options: object) -> Program:
    return compile_kernel(Kernel(func).trace(args, options, target=target))


def in_order(program: Program, order: str, **changes: object) -> Estimate:
    keywords = {"statistic": "body", "dma": "", "trips": None} | changes
    return estimate_in_order(program, order, parameters=Parameters(program.target), **keywords)  # type: ignore[arg-type]


def steps_of(program: Program) -> Counter[tuple[str, str]]:
    return Counter(
        (engine.name, step.instruction.op)
        for graph in program.subgraphs
        for engine, steps in graph.engines.items()
        for step in steps
        if isinstance(step, Step)
    )


def lists_of(program: Program) -> dict[str, list[int]]:
    (graph,) = program.subgraphs
    return {
        engine.name: [id(step.instruction) for step in steps if isinstance(step, Step)]
        for engine, steps in graph.engines.items()
    }


def order_is_kept(program: Program, reordered: Program) -> bool:
    """Return True if all instructions that share bytes of a tensor, one of them writing, keep their order."""
    (before,), (after,) = bodies_of(program), [order_of(graph) for graph in reordered.subgraphs]
    positions = {id(statement): number for number, statement in enumerate(after)}
    assert positions.keys() == {id(statement) for statement in before}
    run = [statement for statement in before if isinstance(statement, Instruction)]
    return all(
        positions[id(run[earlier])] < positions[id(statement)]
        for statement, needed in zip(run, dependencies(run), strict=True)
        for earlier in needed
    )


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_independent_rows_overlap(target: str) -> None:
    x = np.linspace(-1, 1, 512 * 64, dtype=np.float32).reshape(512, 64)
    program = compiled(alternating, x, 4, target=target)
    source, scheduled = (in_order(program, order).total.value for order in ("source", "scheduled"))
    assert scheduled < 0.75 * source


def test_the_new_order_keeps_the_order_of_instructions_that_share_bytes() -> None:
    program = compiled(alternating, np.ones((512, 64), np.float32), 4)
    reordered = in_scheduled_order(program, Parameters("trn2"))
    assert steps_of(reordered) == steps_of(program)
    assert order_is_kept(program, reordered)
    assert lists_of(program) != lists_of(reordered)


def test_a_chain_stays_as_it_is() -> None:
    program = compiled(in_place, np.ones((128, 64), np.float32), 6)
    source, scheduled = (in_order(program, order).total.value for order in ("source", "scheduled"))
    assert scheduled == pytest.approx(source, rel=0.01)


@pytest.mark.parametrize("columns", [24 << 10, 10 << 10])
def test_tiles_wait_for_those_whose_bytes_they_take(columns: int) -> None:
    """Eight tiles of 96 KiB a partition, two of which fit, or of 40 KiB, four of which fit."""
    program = compiled(crowded, np.ones((128, columns), np.float32), 8)
    reordered = in_scheduled_order(program, Parameters("trn2"))
    assert steps_of(reordered) == steps_of(program)
    assert order_is_kept(program, reordered)
    (source,), (new,) = bodies_of(program), [order_of(graph) for graph in reordered.subgraphs]
    loads = [number for number, statement in enumerate(new) if is_load(statement)]
    stores = [number for number, statement in enumerate(new) if is_store(statement)]
    at_once = 192 * 1024 // (4 * columns)
    for load, store in zip(loads[at_once:], stores, strict=False):
        assert load > store
    assert len(source) == 24


def is_load(statement: object) -> bool:
    return isinstance(statement, Instruction) and str(statement.engine) == "sync"


def is_store(statement: object) -> bool:
    return isinstance(statement, Instruction) and str(statement.engine) == "gpsimd"


def test_an_unknown_order_is_refused() -> None:
    program = compiled(in_place, np.ones((128, 64), np.float32), 1)
    with pytest.raises(NeffError, match="NEFF-ORDER") as caught:
        in_order(program, "upside")
    assert caught.value.remedy == "use one of source, scheduled"


def test_time_prints_both_orders_where_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.ones((512, 64), np.float32)
    for name, program in (
        ("rows", compiled(alternating, x, 4)),
        ("chain", compiled(in_place, x[:128], 6)),
    ):
        write(program, tmp_path / f"{name}.neff")
    rows, chain = (str(tmp_path / f"{name}.neff") for name in ("rows", "chain"))

    def printed(*words: str) -> str:
        assert main(["time", *words]) == 0
        return capsys.readouterr().out

    assert "in the order of a list scheduler (--order scheduled): " in printed(rows)
    assert "list scheduler" not in printed(chain)
    assert "list scheduler" not in printed(rows, "--order", "source")
    document = json.loads(printed(rows, "--json"))
    assert document["order"] == "source"
    second = json.loads(printed(rows, "--json", "--order", "scheduled"))
    assert second["order"] == "scheduled" and "scheduled" not in second
    assert second["total_us"] == document["scheduled"]["total_us"] < 0.75 * document["total_us"]


def test_an_unknown_order_is_a_wrong_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(compiled(in_place, np.ones((128, 64), np.float32), 1), tmp_path / "chain.neff")
    assert main(["time", str(tmp_path / "chain.neff"), "--order", "upside"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        "error[NEFF-ORDER]" in printed.err and "help: use one of source, scheduled" in printed.err
    )


@pytest.mark.parametrize("through_klir", [False, True])
def test_kernels_of_beta_1_have_the_scheduled_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], through_klir: bool
) -> None:
    x = np.ones((512, 64), np.float32)
    kernel = beta1_jit(alternating_in_beta1).trace((x,), target="trn1")
    if through_klir:
        klir.write(kernel, tmp_path / "rows.klir")
        kernel = klir.read(tmp_path / "rows.klir")
    program = compile_kernel(kernel)
    assert default_order(program) == "scheduled"
    file = str(tmp_path / "rows.neff")
    write(program, file)
    assert main(["time", file]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("trn1, body, in the order of a list scheduler: ")
    assert "\nin the order of the source (--order source): " in printed
    assert main(["time", file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    scheduled, source = (in_order(program, order).total.value for order in ("scheduled", "source"))
    assert document["order"] == "scheduled" and "scheduled" not in document
    assert document["total_us"] == pytest.approx(scheduled / 1e3, abs=1e-3)
    assert document["source"]["total_us"] == pytest.approx(source / 1e3, abs=1e-3)


def test_kernels_of_the_current_language_have_source_order() -> None:
    program = compiled(in_place, np.ones((128, 64), np.float32), 1)
    assert default_order(program) == "source"
    assert "kernel_language" not in program.metadata
