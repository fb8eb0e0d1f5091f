"""Ports to memories that two engines share: A1:596-597 for trn1, A2:266-273 for later ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler import compile_kernel
from neff.profile import profile_of
from neff.profile.stalls import engine_splits
from neff.program import Program, Step, SubGraph
from neff.timing import Event, Parameters, StreamInstruction, estimate, replay
from neff.timing.ports import memories_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor
from nki_lang.kernel import Kernel
from tests.neff.programs import F32, engines, sbuf, whole


def both(a):
    """VectorE and GpSimd copy a tile of their own, again and again."""
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    tile, left, right = (nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(tile, a)
    for _ in range(8):
        nisa.tensor_copy(left, tile, engine=nisa.engine.vector)
        nisa.tensor_copy(right, tile, engine=nisa.engine.gpsimd)
    nisa.dma_copy(out[0], left)
    nisa.dma_copy(out[1], right)
    return out


def one_after_the_other(a):
    """The same work, the copies of GpSimd behind those of VectorE."""
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    tile, left, right = (nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(tile, a)
    for _ in range(8):
        nisa.tensor_copy(left, tile, engine=nisa.engine.vector)
    for _ in range(8):
        nisa.tensor_copy(right, left, engine=nisa.engine.gpsimd)
    nisa.dma_copy(out[0], left)
    nisa.dma_copy(out[1], right)
    return out


def compiled(kernel: object, target: str) -> Program:
    data = np.ones((128, 512), np.float32)
    return compile_kernel(Kernel(kernel).trace((data,), target=target))


def passing(program: Program, engine: str, cycles: float) -> list[tuple[float, float]]:
    """When the 512 elements of an engine's copies pass."""
    clock = Parameters(program.target)[f"{engine}.clock_ghz"].value
    events = [e for e in estimate(program).cores[0].events if e.opcode == "tensor_copy"]
    return [(e.start, e.start + 512 * cycles / clock) for e in events if e.lane == engine]


def overlap(left: list[tuple[float, float]], right: list[tuple[float, float]]) -> float:
    return sum(
        max(0.0, min(end, until) - max(start, since))
        for start, end in left
        for since, until in right
    )


def test_vector_and_gpsimd_take_turns_on_trn1_and_not_on_trn2() -> None:
    first = compiled(both, "trn1")
    assert overlap(passing(first, "vector", 1.0), passing(first, "gpsimd", 2.0)) < 1e-6
    later = compiled(both, "trn2")
    assert overlap(passing(later, "vector", 0.5), passing(later, "gpsimd", 2.0)) > 1000


def test_the_time_is_that_of_the_sum_on_trn1_and_of_the_longer_on_trn2() -> None:
    """A copy of GpSimd takes twice as long as one of VectorE: 8 of both, or 8 of GpSimd alone."""
    for target, vector, together in (("trn1", 512 / 1.12, True), ("trn2", 512 * 0.5 / 0.96, False)):
        clock = Parameters(target)["gpsimd.clock_ghz"].value
        copies = [end for _, end in passing(compiled(both, target), "gpsimd", 2.0)]
        starts = [start for start, _ in passing(compiled(both, target), "gpsimd", 2.0)]
        iteration = (starts[-1] - starts[1]) / 6
        alone = (1024 + 150) / clock
        expected = 1024 / clock + max(vector, 150 / clock) if together else alone
        assert iteration == pytest.approx(expected, rel=1e-3), target
        assert copies == sorted(copies)


def test_a_port_without_an_own_time_changes_nothing() -> None:
    program = compiled(both, "trn1")
    free = Parameters("trn1", {"sbuf.port_times": 0, "psum.port_times": 0})
    lifted = estimate(program, parameters=free).total
    assert lifted.value < estimate(program).total.value
    total = estimate(program).total
    assert total.low <= total.value <= total.high
    alone = compiled(one_after_the_other, "trn1")
    assert estimate(alone).total == estimate(alone, parameters=free).total


def test_the_profile_says_whom_an_engine_waits_for() -> None:
    splits = engine_splits(profile_of(compiled(both, "trn1")), 0)
    waits = {split.engine: split.waiting_ns for split in splits}
    assert waits["vector"]["gpsimd"] > 1000
    later = engine_splits(profile_of(compiled(both, "trn2")), 0)
    assert not any("gpsimd" in split.waiting_ns for split in later if split.engine == "vector")


def bank(name: str, offset: int, columns: int = 512) -> Tensor:
    return Tensor(name, F32, (128, columns), MemoryRegion.psum, (0, offset))


def from_psum(engine: Engine, source: Access, target: int) -> Instruction:
    """A copy out of PSUM."""
    dst = whole(sbuf(f"d{target}", (128, 512), target))
    operands: dict[str, object] = {"dst": dst, "data": source, "op": "copy"}
    if engine is Engine.vector:
        operands = {"dst": dst, "src": source}
    return Instruction("activation" if engine is Engine.scalar else "tensor_copy", operands, engine)


def copies(target: str, left: Access, right: Access) -> list[Event]:
    """First events of both engines that copy from PSUM."""
    lists = engines(
        vector=[Step(from_psum(Engine.vector, left, 0))],
        scalar=[Step(from_psum(Engine.scalar, right, 4096))],
    )
    program = Program("copies", target, [], [], {}, [SubGraph(lists, 0)])
    return [e for e in estimate(program).cores[0].events if e.opcode != "act_table_load"]


@pytest.mark.parametrize(
    ("target", "left", "right", "takes_turns"),
    [
        ("trn1", 0, 2048, True),
        ("trn1", 0, 0, True),
        ("trn2", 0, 2048, False),
        ("trn2", 2048, 2048, True),
        ("trn2", 1024, 2048, True),
        ("trn3", 0, 4096, False),
        ("trn3", 4096, 4096, True),
    ],
)
def test_vector_and_scalar_at_psum(target: str, left: int, right: int, takes_turns: bool) -> None:
    """All of PSUM on trn1, the same bank later; 512 numbers from byte 1024 on reach two banks."""
    first, second = sorted(copies(target, whole(bank("a", left)), whole(bank("b", right))),
                           key=lambda event: event.start)  # fmt: skip
    clock = Parameters(target)[f"{first.lane}.clock_ghz"].value
    assert (second.start == pytest.approx(first.start + 512 / clock)) == takes_turns
    assert (second.waits_for >= 0) == takes_turns


def test_banks_of_an_access() -> None:
    """By listing every byte that it reads."""
    rng = random.Random(7)
    for _ in range(200):
        columns = rng.choice((64, 512, 1024, 2048))
        tensor = bank("t", rng.randrange(0, 16384 - 4 * columns + 1, 4), columns)
        counts = [rng.randint(1, 4), rng.randint(1, 8)]
        steps = [rng.choice((-1, 1)) * rng.randint(0, columns // 16) for _ in counts]
        lowest = -sum(min(0, step * (count - 1)) for step, count in zip(steps, counts, strict=True))
        highest = sum(max(0, step * (count - 1)) for step, count in zip(steps, counts, strict=True))
        offset = rng.randint(lowest, columns - 1 - highest)
        row = rng.randrange(4)
        access = Access(
            tensor, row * columns + offset, ((columns, 8), *zip(steps, counts, strict=True))
        )
        positions = {offset + i * steps[0] + j * steps[1]
                  for i in range(counts[0]) for j in range(counts[1])}  # fmt: skip
        start = tensor.address[1] if tensor.address else 0
        touched = {
            (start + 4 * position + byte) // 2048 for position in positions for byte in range(4)
        }
        expected = set(range(min(touched), max(touched) + 1))
        memories = memories_of(Instruction("memset", {"dst": access}, Engine.vector))
        assert set(memories) == {"psum", *(f"psum.{number}" for number in expected)}


def test_replayed_streams_share_the_ports_of_their_target() -> None:
    stream = [
        StreamInstruction(0, "Vector", "TENSOR_REDUCE", "op=MAX", "fp32@S", "fp32@S", 512),
        StreamInstruction(1, "GpSimd", "IOTA", "", "", "fp32@S", 512),
        StreamInstruction(2, "Vector", "COPY", "", "fp32@P", "fp32@S", 512),
        StreamInstruction(3, "Scalar", "COPY", "", "fp32@P", "fp32@S", 512),
    ]
    later = {event.source: event.start for event in replay(stream, "trn2")}
    assert later[1] == later[3] == 0
    first = {event.source: event.start for event in replay(stream, "trn1")}
    reduce, iota = sorted((first[0], first[1]))
    duration = 512 / 1.12 if reduce == first[0] else 1024 / 1.4
    assert iota == pytest.approx(reduce + duration)
    assert first[3] == 0 and first[2] >= 512 / 1.4


def test_random_streams_never_share_a_port_on_trn1() -> None:
    """Whatever waits for whom: no two engines' elements pass at once, and all work is done."""
    rng = random.Random(3)
    for _ in range(40):
        stream: list[StreamInstruction] = []
        for index in range(rng.randint(2, 40)):
            engine = rng.choice(("Vector", "Scalar", "GpSimd"))
            source = "S" if engine == "GpSimd" else rng.choice("SP")
            waits = tuple(rng.sample(range(index), min(index, rng.randint(0, 2))))
            stream.append(
                StreamInstruction(index, engine, "CAST", "", f"fp32@{source}", "fp32@S",
                                  rng.choice((1, 64, 512)), waits_on=waits)
            )  # fmt: skip
        by_source = {event.source: event for event in replay(stream, "trn1")}
        assert len(by_source) == len(stream)
        spans: dict[str, list[tuple[str, float, float]]] = {"sbuf": [], "psum": []}
        rates = {"Vector": 1 / 1.12, "Scalar": 1 / 1.4, "GpSimd": 2 / 1.4}
        for row in stream:
            start = by_source[row.index].start
            end = start + row.elements * rates[row.engine]
            if row.engine != "Scalar":
                spans["sbuf"].append((row.engine, start, end))
            if row.engine != "GpSimd" and row.src == "fp32@P":
                spans["psum"].append((row.engine, start, end))
        for spans_of_port in spans.values():
            for engine, start, end in spans_of_port:
                other_spans = [(a, b) for owner, a, b in spans_of_port if owner != engine]
                assert overlap([(start, end)], other_spans) < 1e-6
