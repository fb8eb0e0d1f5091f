"""The timing model: figures that can be worked out by hand, and honesty about the rest."""

from __future__ import annotations

import dataclasses

import pytest

from neff.errors import NeffRuntimeError
from neff.program import Step
from neff.timing import estimate
from nki_lang.ir import Engine, Instruction, Register
from nki_lang.ir.cost import DMA_BYTES_PER_NS, DMA_START_NS
from tests.neff.programs import addition, counted

CLOCK = 1.12
RATE = 16 * DMA_BYTES_PER_NS["trn1"]
TILE = 128 * 512 * 4
SUM_NS = 2 * 512 / CLOCK
"""Two cycles an element for tensor_tensor in float32."""


def test_an_addition_by_hand() -> None:
    found = estimate(addition())
    loads = DMA_START_NS + 2 * TILE / RATE
    store = DMA_START_NS + TILE / RATE
    assert found.total_ns == pytest.approx(loads + SUM_NS + store, rel=1e-3)
    core = found.cores[0]
    assert core.engines[Engine.vector].busy_ns == pytest.approx(SUM_NS, rel=1e-3)
    assert (core.dma.instructions, core.dma_bytes) == (3, 3 * TILE)
    assert found.is_complete


def test_engines_work_side_by_side() -> None:
    program = addition()
    vector = program.subgraphs[0].engines[Engine.vector][0]
    alone = estimate(program).total_ns
    scalar = dataclasses.replace(vector.instruction, op="activation", engine=Engine.scalar)
    scalar.operands = {"dst": vector.instruction.operands["dst"], "op": "exp",
                       "data": vector.instruction.operands["data1"]}  # fmt: skip
    program.subgraphs[0].engines[Engine.scalar] = [Step(scalar)] * 2
    assert estimate(program).total_ns == pytest.approx(alone)


def test_loops_are_multiplied() -> None:
    one, four = estimate(counted(1)), estimate(counted(4))
    assert four.total_ns == pytest.approx(4 * one.total_ns)
    assert four.cores[0].engines[Engine.vector].instructions == 4
    assert four.cores[0].dma.instructions == 8
    assert four.cores[0].unknown == {"register_alu": 4}
    assert not four.is_complete


def test_what_is_unknown_is_said() -> None:
    program = counted()
    for steps in program.subgraphs[0].engines.values():
        steps[0].stop = Register("n")
    found = estimate(program)
    assert found.cores[0].unknown_loops == 1
    assert found.to_json()["cores"][0]["loops_of_unknown_length"] == 1
    assert not found.is_complete


def test_a_deadlock_is_no_endless_time() -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.gpsimd] = [
        Step(Instruction("memset", {}, Engine.gpsimd), ((0, 9),))
    ]
    with pytest.raises(NeffRuntimeError) as caught:
        estimate(program)
    assert caught.value.code == "NEFF-DEADLOCK"
