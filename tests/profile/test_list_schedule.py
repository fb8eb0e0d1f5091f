"""The parts of the list scheduler against plain versions of them, on random programs."""

from __future__ import annotations

import random

import pytest

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.hazards import hazards_of
from neff.profile.list_schedule import WINDOW_INSTRUCTIONS, list_schedule
from neff.profile.tile_pool import Life, reused_bytes
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import target_of
from nki_lang.ir import Access, Engine, Instruction, Tensor

F32 = BY_NAME["float32"]
ENGINES = ("vector", "scalar", "gpsimd")


def random_tensor(choose: random.Random, number: int) -> Tensor:
    if choose.random() < 0.3:
        return Tensor(f"h{number}", F32, (256, 64), MemoryRegion.shared_hbm)
    address = 0, 64 * choose.randrange(8)
    return Tensor(f"t{number}", F32, (128, 64), MemoryRegion.sbuf, address)


def random_window(choose: random.Random, tensor: Tensor) -> Access:
    first, count = choose.choice([(0, 64), (0, 16), (16, 16), (8, 16), (32, 32), (5, 1)])
    row = choose.choice([0, 64]) if tensor.on_chip else choose.choice([0, 128])
    rows = choose.choice([32, 64])
    return Access(tensor, 64 * row + first, ((64, rows), (1, count)))


def random_run(seed: int, length: int = 60) -> list[Instruction]:
    choose = random.Random(seed)
    tensors = [random_tensor(choose, number) for number in range(5)]
    run: list[Instruction] = []
    for _ in range(length):
        src, dst = (random_window(choose, choose.choice(tensors)) for _ in range(2))
        engine = Engine[choose.choice(ENGINES)]
        run.append(Instruction("tensor_copy", {"dst": dst, "src": src}, engine))
    return run


def boxes_of(instruction: Instruction, is_placed: bool) -> list[tuple[str, Region, bool]]:
    boxes: list[tuple[str, Region, bool]] = []
    for access, is_written in operands_touched(instruction):
        assert isinstance(access, Access)
        address = access.tensor.address if is_placed else None
        space = access.tensor.name if address is None else "sbuf"
        boxes.append((space, region_of(access, address or (0, 0)), is_written))
    return boxes


def all_pairs(run: list[Instruction], is_placed: bool) -> list[set[int]]:
    """Compare each instruction with each earlier one."""
    boxes = [boxes_of(instruction, is_placed) for instruction in run]
    return [
        {
            earlier
            for earlier in range(later)
            for space, box, is_written in boxes[later]
            for old_space, old_box, was_written in boxes[earlier]
            if space == old_space and (is_written or was_written) and not box.apart(old_box)
        }
        for later in range(len(run))
    ]


def closure(hazards: list[set[int]]) -> list[set[int]]:
    closed: list[set[int]] = []
    for needed in hazards:
        closed.append(set(needed).union(*(closed[earlier] for earlier in needed)))
    return closed


@pytest.mark.parametrize("is_placed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_hazards_are_those_of_all_pairs(seed: int, is_placed: bool) -> None:
    run = random_run(seed)
    touched = [list(operands_touched(instruction)) for instruction in run]
    hazards = hazards_of(touched, is_placed=is_placed)
    expected = all_pairs(run, is_placed)
    assert closure(hazards) == closure(expected)
    assert all(needed <= all_needed for needed, all_needed in zip(hazards, expected, strict=True))


def plain_schedule(
    engines: list[str], hazards: list[set[int]], costs: list[tuple[float, float]]
) -> list[int]:
    """Look at all instructions of all windows for each start."""
    order: list[int] = []
    ends: dict[int, float] = {}
    free = dict.fromkeys(engines, 0.0)
    while len(order) < len(engines):
        starts: list[tuple[float, int]] = []
        for engine in free:
            numbers = [number for number, name in enumerate(engines) if name == engine]
            head = next(
                (index for index, number in enumerate(numbers) if number not in ends), len(numbers)
            )
            for number in numbers[head : head + WINDOW_INSTRUCTIONS]:
                if number not in ends and hazards[number] <= ends.keys():
                    ready = max((ends[needed] for needed in hazards[number]), default=0.0)
                    starts.append((max(ready, free[engine]), number))
        begin, number = min(starts)
        interval, latency = costs[number]
        free[engines[number]], ends[number] = begin + interval, begin + latency
        order.append(number)
    return order


@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_that_of_a_plain_list_scheduler(seed: int) -> None:
    choose = random.Random(seed)
    count = 150
    engines = [choose.choice(ENGINES) for _ in range(count)]
    hazards = [
        {choose.randrange(later) for _ in range(choose.randrange(3))} if later else set[int]()
        for later in range(count)
    ]
    costs = [
        (interval := float(choose.randrange(1, 9)), interval + choose.randrange(20))
        for _ in engines
    ]
    assert list_schedule(engines, hazards, costs) == plain_schedule(engines, hazards, costs)


def life(region: MemoryRegion, nbytes: int, first: int, last: int) -> Life:
    return Life(Tensor(f"t{first}", F32, (128, nbytes // 4), region), first, last)


def test_bytes_of_dead_tiles_are_handed_out_again() -> None:
    sbuf, psum, target = MemoryRegion.sbuf, MemoryRegion.psum, target_of("trn2")
    tiles = [
        life(sbuf, 64, 0, 1),
        life(sbuf, 64, 1, 3),
        life(sbuf, 64, 2, 3),
        life(sbuf, 128, 4, 5),
    ]
    room = {sbuf: 128, psum: 4096}
    pairs = reused_bytes(tiles, room, target)
    assert pairs is not None
    # The third tile takes the bytes of the first; the last one those of the others.
    names = [(taker.first, gone.first) for taker, gone in pairs]
    assert names == [(2, 0), (4, 1), (4, 2)]
    assert reused_bytes([*tiles, life(sbuf, 32, 3, 3)], room, target) is None


def test_tiles_in_psum_have_banks_of_their_own_while_there_are_enough() -> None:
    sbuf, psum, target = MemoryRegion.sbuf, MemoryRegion.psum, target_of("trn2")
    room = {sbuf: 0, psum: 4096}
    small = [life(psum, 512, 0, 0), life(psum, 512, 1, 1), life(psum, 512, 2, 2)]
    assert [(a.first, b.first) for a, b in reused_bytes(small, room, target) or ()] == [(2, 0)]
    together = [life(psum, 512, number, 9) for number in range(3)]
    assert reused_bytes(together, room, target) == []
