"""Placement on chip: no overlap in time, banks, fixed addresses, and what an error says."""

from __future__ import annotations

import itertools
import random

import pytest

from neff.compiler.assembly.live_ranges import live_ranges
from neff.compiler.assembly.memory import Arena, ChipMemory
from neff.errors import NeffCompileError
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import TARGETS
from nki_lang.ir import Access, ForLoop, Instruction, Register, Tensor

F32 = BY_NAME["float32"]


def tile(name: str, elements: int, region: MemoryRegion = MemoryRegion.sbuf, **fields) -> Tensor:
    return Tensor(name, F32, (128, elements), region, **fields)


def whole(tensor: Tensor) -> Access:
    return Access(tensor, 0, ((tensor.free_elements, 128), (1, tensor.free_elements)))


def copy(target: Tensor, source: Tensor, line: int = 1) -> Instruction:
    return Instruction(
        "tensor_copy",
        {"dst": whole(target), "src": whole(source)},
        location=SourceLocation("kernel.py", line),
    )


def overlapping(left: Tensor, right: Tensor) -> bool:
    assert left.address is not None
    assert right.address is not None
    return (
        left.address[1] < right.address[1] + right.free_bytes
        and right.address[1] < left.address[1] + left.free_bytes
    )


def test_tensors_that_live_together_do_not_overlap() -> None:
    generator = random.Random(5)
    tensors = [tile(f"t{n}", generator.choice([1, 7, 100, 513, 2000])) for n in range(60)]
    body = [copy(tensors[n], tensors[generator.randrange(max(0, n - 6), n)]) for n in range(1, 60)]
    placed = ChipMemory(TARGETS["trn1"]).plan(body, "k.")
    ranges = list(live_ranges(body).values())
    for number, live in enumerate(ranges):
        for earlier in ranges[:number]:
            if live.first <= earlier.last and earlier.first <= live.last:
                assert not overlapping(placed[live.tensor.name], placed[earlier.tensor.name])
    assert {tensor.name for tensor in placed.values()} == {f"k.t{n}" for n in range(60)}


def test_dead_tensors_make_room() -> None:
    size = TARGETS["trn1"].sbuf_usable_bytes // 4
    first = tile("t0", size // 3)
    body = []
    for number in range(1, 40):
        second = tile(f"t{number}", size // 3)
        body.append(copy(second, first))
        first = second
    memory = ChipMemory(TARGETS["trn1"])
    memory.plan(body, "")
    assert memory.peak[MemoryRegion.sbuf] <= TARGETS["trn1"].sbuf_usable_bytes


def test_a_dead_tensor_rests_before_its_bytes_are_used_again() -> None:
    tensors = [tile(f"t{n}", 512) for n in range(6)]
    body = [copy(tensors[n + 1], tensors[n]) for n in range(5)]
    placed = ChipMemory(TARGETS["trn1"]).plan(body, "")
    assert len({tensor.address for tensor in placed.values()}) == 6


def test_psum_tensors_stay_in_a_bank() -> None:
    source = tile("s", 64)
    tensors = [tile(f"p{n}", 300, MemoryRegion.psum) for n in range(8)]
    body = [copy(tensor, source) for tensor in tensors] + [copy(source, t) for t in tensors]
    placed = ChipMemory(TARGETS["trn2"]).plan(body, "")
    for tensor in tensors:
        address = placed[tensor.name].address
        assert address is not None
        assert address[1] // 2048 == (address[1] + tensor.free_bytes - 1) // 2048


def test_small_psum_tensors_share_banks_when_they_must() -> None:
    source = tile("s", 64)
    tensors = [tile(f"p{n}", 64, MemoryRegion.psum) for n in range(20)]
    body = [copy(tensor, source) for tensor in tensors] + [copy(source, t) for t in tensors]
    placed = ChipMemory(TARGETS["trn2"]).plan(body, "")
    addresses = sorted(placed[tensor.name].address[1] for tensor in tensors)  # type: ignore[index]
    assert all(b - a >= 256 for a, b in itertools.pairwise(addresses))


def test_fixed_addresses_are_kept_and_nothing_else_is_put_there() -> None:
    fixed = tile("f", 1000, address=(0, 0), fixed=True)
    moving = [tile(f"t{n}", 1000) for n in range(5)]
    body = [copy(t, fixed) for t in moving] + [copy(fixed, t) for t in moving]
    memory = ChipMemory(TARGETS["trn1"])
    placed = memory.plan(body, "")
    assert placed["f"].address == (0, 0)
    assert all(not overlapping(placed["f"], placed[t.name]) for t in moving)
    again = memory.plan([copy(tile("u", 1000), tile("v", 1000))], "")
    assert not overlapping(again["u"], again["v"])


def test_a_tensor_of_a_device_loop_lives_through_the_loop() -> None:
    a, b, c = tile("a", 8), tile("b", 8), tile("c", 8)
    loop = ForLoop(Register("i"), 0, 4, 1, [copy(b, a), copy(c, b)])
    ranges = live_ranges([copy(a, tile("z", 8)), loop, copy(tile("y", 8), c)])
    assert (ranges["a"].first, ranges["a"].last) == (0, 3)
    assert (ranges["b"].first, ranges["b"].last) == (1, 3)
    assert (ranges["c"].first, ranges["c"].last) == (1, 3)


def test_the_error_says_who_holds_what() -> None:
    size = TARGETS["trn1"].sbuf_usable_bytes // 4
    big = [tile(f"big{n}", size // 2 - 100) for n in range(3)]
    source = tile("small", 16)
    body = [copy(t, source, 10 + n) for n, t in enumerate(big)] + [copy(source, t) for t in big]
    with pytest.raises(NeffCompileError) as caught:
        ChipMemory(TARGETS["trn1"]).plan(body, "")
    error = caught.value
    assert error.code == "NEFF-SBUF"
    assert error.place == "kernel.py:12"
    assert "big2 [128, 22428] float32 needs 89712 bytes" in error.message
    assert "of 180224 bytes of all 128 partitions 704 are free" in error.message
    assert "89712 bytes of 128 partitions: big0 [128, 22428] float32 kernel.py:10" in error.message


def test_the_error_for_psum() -> None:
    tensors = [tile(f"p{n}", 512, MemoryRegion.psum) for n in range(9)]
    source = tile("s", 512)
    body = [copy(t, source) for t in tensors] + [copy(source, t) for t in tensors]
    with pytest.raises(NeffCompileError, match="psum") as caught:
        ChipMemory(TARGETS["trn1"]).plan(body, "")
    assert caught.value.code == "NEFF-PSUM"


def test_arena_gives_back_everything() -> None:
    generator = random.Random(1)
    arena = Arena(1 << 16, 0, 1 << 12)
    extents = []
    for _ in range(500):
        if extents and generator.random() < 0.5:
            arena.give(extents.pop(generator.randrange(len(extents))))
        else:
            extent = arena.take(generator.randrange(1, 3000))
            if extent is not None:
                assert all(extent[1] <= low or high <= extent[0] for low, high in extents)
                extents.append(extent)
    for extent in extents:
        arena.give(extent)
    arena.settle()
    assert arena.take(1 << 16) == (0, 1 << 16)
