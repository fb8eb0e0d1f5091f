"""Engine programs: dependencies by bytes, few waits, loops, and a verifier that finds mistakes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.engines import TRANSFERS
from neff.compiler.assembly.regions import Region, region_of
from neff.compiler.assembly.schedule import schedule
from neff.compiler.assembly.verify import verify
from neff.errors import NeffCompileError
from neff.program import EngineLoop, Program, Step, SubGraph, Variable
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Access, Block, Engine, ForLoop, Instruction, NoReorder, Register, Tensor
from tests.counting import steps_taken

F32 = BY_NAME["float32"]
X = Tensor("x", F32, (128, 64), MemoryRegion.shared_hbm)
Y = Tensor("y", F32, (128, 64), MemoryRegion.shared_hbm)
OFFSETS = {"y": ("hbm:y", 0)}


def tile(number: int, byte: int) -> Tensor:
    return Tensor(f"t{number}", F32, (128, 64), MemoryRegion.sbuf, (0, byte))


def whole(tensor: Tensor) -> Access:
    return Access(tensor, 0, ((64, 128), (1, 64)))


def columns(tensor: Tensor, begin: int, end: int) -> Access:
    return Access(tensor, begin, ((64, 128), (1, end - begin)))


def load(target: Tensor) -> Instruction:
    return Instruction("dma_copy", {"dst": whole(target), "src": whole(X)}, Engine.sync)


def store(source: Tensor) -> Instruction:
    return Instruction("dma_copy", {"dst": whole(Y), "src": whole(source)}, Engine.gpsimd)


def add(target: Tensor, a: Tensor, b: Tensor, engine: Engine = Engine.vector) -> Instruction:
    operands = {"dst": whole(target), "data1": whole(a), "data2": whole(b), "op": "add"}
    return Instruction("tensor_tensor", operands, engine)


def program(graph: SubGraph) -> Program:
    variables = {
        "x": Variable("x", "input", F32, X.shape),
        "y": Variable("y", "output", F32, Y.shape),
    }
    return Program("p", "trn2", ["x"], ["y"], variables, [graph])


def scheduled(body: Block) -> SubGraph:
    graph = schedule(body, OFFSETS, TRANSFERS)
    verify(program(graph))
    return graph


def test_a_chain_over_engines() -> None:
    a, b = tile(0, 0), tile(1, 256)
    graph = scheduled([load(a), add(b, a, a), store(b)])
    (loading,) = graph.engines[Engine.sync]
    (adding,) = graph.engines[Engine.vector]
    (storing,) = graph.engines[Engine.gpsimd]
    assert (loading.waits, len(loading.signals)) == ((), 1)
    assert adding.waits == ((loading.signals[0], 1),)
    assert storing.waits == ((adding.signals[0], 1),)
    assert storing.signals == ()
    assert graph.semaphores == 2


def test_an_engine_waits_for_its_own_transfers_but_not_for_its_computations() -> None:
    a, b = tile(0, 0), tile(1, 256)
    computing = replace(add(b, a, a), engine=Engine.sync)
    more = replace(add(a, b, b), engine=Engine.sync)
    graph = scheduled([load(a), computing, more])
    waits = [step.waits for step in graph.engines[Engine.sync]]
    assert waits == [(), ((0, 1),), ()]


@pytest.mark.parametrize("value", [0, -1, -5])
def test_a_wait_for_nothing_orders_nothing(value: int) -> None:
    a, b = tile(0, 0), tile(1, 256)
    graph = scheduled([load(a), add(b, a, a), store(b)])
    (adding,) = graph.engines[Engine.vector]
    graph.engines[Engine.vector] = [replace(adding, waits=((adding.waits[0][0], value),))]
    with pytest.raises(NeffCompileError) as caught:
        verify(program(graph))
    assert caught.value.code == "NEFF-RACE"


def test_what_is_known_already_is_not_waited_for() -> None:
    a, b, c = tile(0, 0), tile(1, 256), tile(2, 512)
    body = [load(a), add(b, a, a), add(c, a, b, Engine.scalar)]
    graph = scheduled(body)
    (last,) = graph.engines[Engine.scalar]
    assert len(last.waits) == 1


def test_reuse_of_bytes_waits_for_the_readers() -> None:
    a, b = tile(0, 0), tile(1, 256)
    graph = scheduled([load(a), add(b, a, a), load(tile(2, 0))])
    second = graph.engines[Engine.sync][1]
    assert len(second.waits) == 1


def test_tiles_side_by_side_in_one_matrix_are_apart() -> None:
    a = tile(0, 0)
    left = replace(store(a), operands={"dst": columns(Y, 0, 32), "src": columns(a, 0, 32)})
    right = replace(store(a), operands={"dst": columns(Y, 32, 64), "src": columns(a, 32, 64)})
    again = replace(store(a), operands={"dst": columns(Y, 16, 48), "src": columns(a, 16, 48)})
    graph = scheduled([left, right, again])
    steps = graph.engines[Engine.gpsimd]
    assert steps[1].waits == ()
    assert steps[2].waits == ((0, 1),) or steps[2].waits == ((0, 2),)


def test_no_reorder_keeps_the_order_across_engines() -> None:
    body = [NoReorder([add(tile(n, 256 * n), tile(n, 256 * n), tile(n, 256 * n), engine)
                       for n, engine in enumerate((Engine.vector, Engine.scalar, Engine.gpsimd))])]  # fmt: skip
    graph = scheduled(body)
    assert [
        len(graph.engines[e][0].waits) for e in (Engine.vector, Engine.scalar, Engine.gpsimd)
    ] == [0, 1, 1]


def test_depends_on_is_an_order() -> None:
    first = replace(add(tile(0, 0), tile(0, 0), tile(0, 0)), name="first")
    second = replace(
        add(tile(1, 256), tile(1, 256), tile(1, 256), Engine.scalar), depends_on=("first",)
    )
    graph = scheduled([first, second])
    assert len(graph.engines[Engine.scalar][0].waits) == 1


def test_loops_stand_in_every_engine() -> None:
    a, b = tile(0, 0), tile(1, 256)
    loop = ForLoop(Register("i"), 0, 8, 2, [load(a), add(b, a, a), store(b)])
    graph = scheduled([load(a), loop, store(b)])
    for engine, steps in graph.engines.items():
        loops = [step for step in steps if isinstance(step, EngineLoop)]
        assert [(loop.ident, loop.start, loop.stop, loop.step) for loop in loops] == [
            (0, 0, 8, 2)
        ], engine
    inner = next(step for step in graph.engines[Engine.vector] if isinstance(step, EngineLoop))
    assert isinstance(inner.body[0], Step)
    outside = graph.engines[Engine.gpsimd][-1]
    assert isinstance(outside, Step)
    assert outside.waits == ()


def test_the_verifier_finds_a_missing_wait() -> None:
    a, b = tile(0, 0), tile(1, 256)
    graph = schedule([load(a), add(b, a, a), store(b)], OFFSETS, TRANSFERS)
    step = graph.engines[Engine.vector][0]
    assert isinstance(step, Step)
    step.waits = ()
    with pytest.raises(NeffCompileError, match="may run before") as caught:
        verify(program(graph))
    assert caught.value.code == "NEFF-RACE"


def test_the_verifier_finds_a_deadlock() -> None:
    a, b = tile(0, 0), tile(1, 256)
    graph = schedule([load(a), add(b, a, a), store(b)], OFFSETS, TRANSFERS)
    step = graph.engines[Engine.sync][0]
    assert isinstance(step, Step)
    step.waits = ((1, 1),)
    with pytest.raises(NeffCompileError, match="wait for each other") as caught:
        verify(program(graph))
    assert caught.value.code == "NEFF-DEADLOCK"


def bytes_of(access: Access, base: int) -> set[int]:
    size = access.element_type.itemsize
    index = np.array([access.offset])
    for step, count in access.pattern:
        index = (index[:, None] + np.arange(count) * step).reshape(-1)
    return {base + int(element) * size + byte for element in index for byte in range(size)}


def test_regions_never_miss_an_overlap() -> None:
    generator = random.Random(3)
    tensor = Tensor("h", F32, (24, 24), MemoryRegion.shared_hbm)
    accesses = []
    for _ in range(120):
        rows, cols = generator.randint(1, 8), generator.randint(1, 8)
        down, across = generator.choice([24, 48, 1, 3]), generator.choice([1, 2, 24, 0])
        blocks = generator.choice([1, 1, 2])  # of rows, beside each other
        limit = 24 * 24 - down * (blocks * rows - 1) - across * (cols - 1)
        if limit <= 0:
            continue
        walked = ((down, rows), (down * rows, blocks), (across, cols))
        accesses.append(Access(tensor, generator.randrange(limit), walked))
    regions = [region_of(access, (0, 64)) for access in accesses]
    touched = [bytes_of(access, 64) for access in accesses]
    for i, j in itertools.combinations(range(len(accesses)), 2):
        if touched[i] & touched[j]:
            assert not regions[i].apart(regions[j]), (accesses[i], accesses[j])


def on_chip(generator: random.Random) -> Region:
    low, first = generator.randrange(0, 120), generator.choice([0, 32, 64])
    return Region(first, first + generator.choice([32, 64]), low, low + generator.randint(1, 40))


def in_rows(generator: random.Random) -> Region:
    """A run of bytes, or columns of some rows of 32 or 48 bytes."""
    pitch, low = generator.choice([0, 32, 32, 48]), generator.randrange(0, 200)
    if not pitch:
        return Region(0, 1, low, low + generator.randint(1, 70))
    left, rows = low % pitch, generator.randint(2, 4)
    span = generator.randint(1, pitch - left)
    return Region(0, 1, low, low + pitch * (rows - 1) + span, pitch, left, left + span)


@pytest.mark.parametrize("make", [on_chip, in_rows])
def test_the_tracker_orders_every_conflict(make: Callable[[random.Random], Region]) -> None:
    """Against all pairs: whoever conflicts is reached through the dependencies that were found."""
    generator = random.Random(9)
    tracker = Tracker()
    past: list[list[tuple[str, Region, bool]]] = []
    lanes: list[int] = []
    reached: list[set[int]] = []
    for index in range(300):
        touched = [
            ("space", make(generator), generator.random() < 0.4)
            for _ in range(generator.randint(1, 3))
        ]
        lane = generator.randrange(4)
        predecessors = tracker.visit(index, lane, touched)
        conflicting = {
            number
            for number, accesses in enumerate(past)
            for (_, region, writes), (_, box, wrote) in itertools.product(touched, accesses)
            if (writes or wrote) and not region.apart(box)
        }
        assert predecessors <= conflicting
        before = predecessors | {number for number in range(index) if lanes[number] == lane}
        everything = set(before)
        for predecessor in before:
            everything |= reached[predecessor]
        assert conflicting <= everything
        past.append(touched)
        lanes.append(lane)
        reached.append(everything)


def test_columns_of_rows_in_several_blocks_are_apart() -> None:
    tensor = Tensor("t", BY_NAME["float32"], (512 * 192,), MemoryRegion.shared_hbm)
    walked = ((192, 128), (192 * 128, 4), (1, 64))
    left, right = (region_of(Access(tensor, 64 * number, walked), (0, 0)) for number in range(2))
    assert left.apart(right)
    assert not left.apart(region_of(Access(tensor, 63, walked), (0, 0)))


def test_blocks_of_columns_share_the_runs_of_their_rows() -> None:
    """The work for one access must not grow with the square of the number of column blocks."""
    width, rows, columns, block = 64 * 1024, 1024, 16 * 1024, 512
    tensor = Tensor("t", BY_NAME["float32"], (rows, columns), MemoryRegion.shared_hbm)
    tracker, index = Tracker(), 0
    for top in range(0, rows, 128):
        for left in range(0, columns, block):
            access = Access(tensor, top * columns + left, ((columns, 128), (1, block)))
            region = region_of(access, (0, 0))
            assert region.pitch == width
            assert not tracker.visit(index, 0, [("t", region, True)])
            index += 1
    assert len(tracker._spaces["t"].starts) <= 2 * (rows // 128)
    entire = region_of(Access(tensor, 0, ((1, rows * columns),)), (0, 0))
    last = set(range(columns // block - 1, index, columns // block))
    assert tracker.visit(index, 1, [("t", entire, False)]) == last  # lane 0 finishes in order
    columns_region = region_of(Access(tensor, 130 * columns + 700, ((columns, 3), (1, 10))), (0, 0))
    assert tracker.visit(index + 1, 1, [("t", columns_region, False)]) == {columns // block + 1}


def reads_of_one_tile(count: int) -> Block:
    """Many engines read one tile, and write tiles that others wrote before."""
    shared, results = tile(0, 0), [tile(1 + number, 256 * (1 + number)) for number in range(6)]
    engines = (Engine.vector, Engine.scalar, Engine.gpsimd)
    return [load(shared)] + [
        add(results[number % 6], shared, shared, engines[number % 3]) for number in range(count)
    ]


def blocks_of_columns(count: int) -> Block:
    """Every block of columns of one matrix is written, and read after it; pitches alternate."""
    width = 16 * count
    matrix = Tensor("y", F32, (128, width), MemoryRegion.shared_hbm)
    halves = Tensor("y", F32, (256, width // 2), MemoryRegion.shared_hbm)
    body: Block = []
    for number in range(count):
        a, column = tile(number % 8, 256 * (number % 8)), 16 * number
        block = Access(matrix, column, ((width, 128), (1, 16)))
        body.append(Instruction("dma_copy", {"dst": block, "src": whole(a)}, Engine.sync))
        body.append(Instruction("dma_copy", {"dst": whole(a), "src": block}, Engine.scalar))
    for number in range(count // 2):
        block = Access(halves, 16 * number, ((width // 2, 256), (1, 16)))
        body.append(Instruction("dma_copy", {"dst": whole(a), "src": block}, Engine.scalar))
    return body


def many_loops(count: int) -> Block:
    a, b = tile(0, 0), tile(1, 256)
    chain: Block = [add(b, a, a), add(a, b, b, Engine.gpsimd)]
    return [ForLoop(Register(f"i{number}"), 0, 2, 1, list(chain)) for number in range(count)]


@pytest.mark.parametrize("make", [reads_of_one_tile, blocks_of_columns, many_loops])
def test_scheduling_and_proof_are_linear(make: Callable[[int], Block]) -> None:
    """Steps of one program that is four times as long as another one are four times as many."""
    bodies = [make(count) for count in (50, 200)]
    steps = [
        steps_taken(lambda body=body: scheduled(body), "neff/compiler/assembly/") for body in bodies
    ]
    assert steps[1] < 4.6 * steps[0]


def test_a_race_names_the_earliest_step() -> None:
    shared, result = tile(0, 0), tile(1, 256)
    reads = [add(result, shared, shared) for _ in range(3)]
    reads[0].location = SourceLocation("first.py", 7)
    graph = scheduled([*reads, add(shared, result, result, Engine.gpsimd)])
    (step,) = graph.engines[Engine.gpsimd]
    graph.engines[Engine.gpsimd] = [replace(step, waits=())]
    with pytest.raises(NeffCompileError, match="tensor_tensor on gpsimd") as raised:
        verify(program(graph))
    assert raised.value.code == "NEFF-RACE" and "first.py:7" in raised.value.place
