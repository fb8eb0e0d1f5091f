"""Costs over sizes, types, memories and targets: none is nothing, none falls as work grows."""

from __future__ import annotations

import itertools

import pytest

from neff.timing import InstructionCost, InstructionCosts, Parameters, Side
from neff.timing.costs import Pricing
from neff.timing.work import Transfer
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor
from nki_lang.isa.table import TABLE, InstructionSpec

GENERATIONS = {"trn1": 2, "trn2": 3, "trn3": 4}
COLUMNS = (1, 2, 7, 16, 63, 64, 65, 128, 200, 256, 511, 512, 513, 1024, 1025, 2048, 5000, 16384)
TYPES = ("float32", "bfloat16", "float8_e4m3", "int32", "uint8")
PLACES = (MemoryRegion.sbuf, MemoryRegion.psum, MemoryRegion.shared_hbm)


def instruction(
    spec: InstructionSpec, engine: Engine, dtype: str, source: MemoryRegion, columns: int
) -> Instruction:
    """All its required tensors of one size; what is read stands in ``source`` where that may be."""
    operands: dict[str, object] = {}
    for operand in spec.operands:
        if operand.role not in ("read", "write") or operand.optional:
            continue
        expected = source if operand.role == "read" else MemoryRegion.sbuf
        buffer = expected if expected in operand.buffers else min(operand.buffers, key=str)
        location = (0, 0) if buffer in (MemoryRegion.sbuf, MemoryRegion.psum) else None
        tensor = Tensor(operand.name, BY_NAME[dtype], (128, columns), buffer, location)
        access = Access(tensor, 0, ((columns, 128), (1, columns)))
        operands[operand.name] = (access,) if operand.name == "srcs" else access
    return Instruction(spec.op, operands, engine)


def checked(costs: dict[Side, InstructionCosts], inst: Instruction) -> InstructionCost:
    value, fast, slow = (costs[side].of(inst) for side in Side)
    where = (inst.op, inst.engine.name, inst.operands)
    assert 0 < fast.interval <= value.interval <= slow.interval, where
    assert 0 < fast.latency <= value.latency <= slow.latency, where
    assert value.interval <= value.latency and 0 <= value.measured_share <= 1, where
    return value


@pytest.mark.parametrize("target", GENERATIONS)
def test_every_instruction_grows_with_its_columns(target: str) -> None:
    costs = {side: InstructionCosts(Parameters(target), side=side) for side in Side}
    for op, dtype, source in itertools.product(TABLE, TYPES, PLACES):
        for engine in TABLE[op].engines[GENERATIONS[target]]:
            costs_by_columns = [
                checked(costs, instruction(TABLE[op], engine, dtype, source, columns))
                for columns in COLUMNS
            ]
            for before, after in itertools.pairwise(costs_by_columns):
                assert after.latency >= before.latency - 1e-6, (op, engine, dtype, source)
                assert after.interval >= before.interval - 1e-6, (op, engine, dtype, source)


ROW_COUNTS = (1, 2, 15, 16, 17, 31, 64, 100, 127, 128, 129, 256, 1000, 1024, 1025, 4096)
BYTES = (1, 4, 64, 255, 256, 511, 512, 1000, 1024, 1025, 2047, 2048, 3000, 4095, 4096)
SHORTEST_FULL_WRITE = 512
"""Shorter writes to HBM are read, changed and written: a step down of some nanoseconds a packet."""


def allowed(descriptors: str, to_hbm: bool, less: int, more: int) -> float:
    """Share of the time of rows of ``less`` bytes that those of ``more`` bytes may take.

    Measured are the step of short writes, and loads whose rows are merged to packets, which take
    longer than the same bytes in rows too long for that. Sixteen engines take turns, so a packet
    more or less can be a round more or less.
    """
    if to_hbm:
        return 0.75 if less < SHORTEST_FULL_WRITE <= more else 0.85
    return 1.0 if descriptors == "hardware" else 0.8


@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("descriptors", ["hardware", "software", "static"])
def test_transfers_grow_with_rows_and_bytes(target: str, descriptors: str) -> None:
    costs = InstructionCosts(Parameters(target))
    sides = [Pricing(Parameters(target), side) for side in Side]
    kinds = itertools.product((False, True), (False, True), (False, True), (False, True), (0, 2, 4))
    for strided, to_hbm, from_hbm, casts, transposes in kinds:
        latencies: dict[tuple[int, int], float] = {}
        for rows, size in itertools.product(ROW_COUNTS, BYTES):
            work = Transfer(
                descriptors, rows, size, strided, max(1, rows // 128), to_hbm, from_hbm, casts,
                transposes,
            )  # fmt: skip
            value, fast, slow = (pricing.cost(work) for pricing in sides)
            assert 0 < fast.moving <= value.moving <= slow.moving, work
            assert fast.latency <= value.latency <= slow.latency, work
            latencies[rows, size] = costs._cost(work).latency  # pyright: ignore[reportPrivateUsage]
        for rows, (less, more) in itertools.product(ROW_COUNTS, itertools.pairwise(BYTES)):
            least = latencies[rows, less] * allowed(descriptors, to_hbm, less, more)
            assert latencies[rows, more] >= least - 1e-6, (rows, less, more)
            assert more > 2 * less or latencies[rows, more] < 3 * latencies[rows, less]
        for size, (less, more) in itertools.product(BYTES, itertools.pairwise(ROW_COUNTS)):
            assert latencies[more, size] >= 0.999 * latencies[less, size], (size, less, more)
