"""Placement by quadrants: tiles of 32 and 64 partitions side by side, and results in place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from neff import runtime
from neff.compiler import compile_kernel
from neff.compiler.assembly.live_ranges import LiveRange, live_ranges
from neff.compiler.assembly.memory import ChipMemory
from neff.compiler.assembly.packing import pack
from neff.compiler.assembly.verify import verify
from neff.errors import NeffCompileError
from neff.program import Program
from neff.runtime.order import order_of
from neff.runtime.placement import clashes
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import TARGETS
from nki_lang.ir import Access, Instruction, Tensor, walk
from tests.compiler.kernels import rotated, traced

F32 = BY_NAME["float32"]


def tile(name: str, lanes: int, elements: int, **fields) -> Tensor:
    return Tensor(name, F32, (lanes, elements), MemoryRegion.sbuf, **fields)


def whole(tensor: Tensor) -> Access:
    return Access(tensor, 0, ((tensor.free_elements, tensor.shape[0]), (1, tensor.free_elements)))


def box(tensor: Tensor, address: tuple[int, int]) -> tuple[range, range]:
    partition, byte = address
    return range(partition, partition + tensor.shape[0]), range(byte, byte + tensor.free_bytes)


def overlapping(left: tuple[range, range], right: tuple[range, range]) -> bool:
    return all(
        max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("seed", range(20))
def test_rectangles_that_live_together_are_apart_and_start_where_they_may(seed: int) -> None:
    draw = random.Random(seed)
    ranges = []
    for number in range(60):
        first = draw.randrange(100)
        lanes = draw.choice([1, 20, 32, 33, 64, 65, 96, 128])
        tensor = tile(f"t{number}", lanes, draw.choice([1, 40, 300, 1000]))
        ranges.append(LiveRange(tensor, first, first + draw.randrange(30)))
    fixed = [tile("f", 40, 100, address=(64, 512), fixed=True)]
    placed, missing = pack([], ranges, fixed, size=30000, page=0, alignment=64)
    assert missing is None
    for number, live in enumerate(ranges):
        address = placed[live.tensor.name]
        placed_box = box(live.tensor, address)
        assert placed_box[0].stop <= 128 and placed_box[1].stop <= 30000 and address[1] % 64 == 0
        lanes = live.tensor.shape[0]
        assert address[0] % (32 if lanes <= 32 else 64 if lanes <= 64 else 128) == 0
        assert not overlapping(placed_box, box(fixed[0], (64, 512)))
        for live_range in ranges[:number]:
            if live.first <= live_range.last and live_range.first <= live.last:
                assert not overlapping(
                    placed_box, box(live_range.tensor, placed[live_range.tensor.name])
                )


def test_a_page_is_not_crossed() -> None:
    ranges = [LiveRange(tile(f"p{n}", 32, 300), 0, 9) for n in range(16)]
    placed, missing = pack([], ranges, [], size=8192, page=2048, alignment=64)
    assert missing is None
    assert all(byte // 2048 == (byte + 1199) // 2048 for _, byte in placed.values())


def four_at_once(lanes: int, elements: int) -> list[Instruction]:
    tiles = [tile(f"t{n}", lanes, elements) for n in range(4)]
    return [
        *(Instruction("memset", {"dst": whole(tile), "value": 0.0}) for tile in tiles),
        Instruction("tensor_tensor", {
            "dst": whole(tiles[0]), "data1": whole(tiles[0]), "data2": whole(tiles[1])
        }),
        Instruction("tensor_tensor", {
            "dst": whole(tiles[2]), "data1": whole(tiles[2]), "data2": whole(tiles[3])
        }),
    ]  # fmt: skip


def test_what_fits_in_all_partitions_stays_there() -> None:
    placed = ChipMemory(TARGETS["trn2"]).plan(four_at_once(64, 100), "")
    assert {tensor.address[0] for tensor in placed.values() if tensor.address} == {0}


def test_operands_of_one_instruction_start_at_the_same_partition() -> None:
    size = TARGETS["trn2"].sbuf_usable_bytes // 4
    placed = ChipMemory(TARGETS["trn2"]).plan(four_at_once(64, size // 2 - 100), "")
    starts = [placed[f"t{n}"].address[0] for n in range(4)]  # type: ignore[index]
    assert sorted(starts) == [0, 0, 64, 64]
    assert starts[0] == starts[1] and starts[2] == starts[3]


def test_what_does_not_fit_side_by_side_either_is_an_error() -> None:
    size = TARGETS["trn2"].sbuf_usable_bytes // 4
    with pytest.raises(NeffCompileError, match="64 partitions: t0") as caught:
        ChipMemory(TARGETS["trn2"]).plan(four_at_once(64, size // 2 + 100), "")
    assert caught.value.code == "NEFF-SBUF"


def rotation(target: str) -> tuple[Program, dict[str, np.ndarray]]:
    columns = TARGETS[target].sbuf_usable_bytes // 4 // 3 // 16 * 16 - 16
    draw = np.random.default_rng(4)
    shapes = {"values": (128, columns), "cosine": (64, 1), "sine": (64, 1)}
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    kernel = traced(rotated, *shapes.values(), target=target)
    return compile_kernel(kernel), arrays


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_small_tiles_fit_side_by_side_and_in_place(target: str) -> None:
    program, arrays = rotation(target)
    verify(program)
    order = order_of(program.subgraphs[0])
    assert not list(clashes(order, program))
    tensors = {
        operand.tensor.name: operand.tensor
        for inst in walk(order)
        for operand in inst.operands.values()
        if isinstance(operand, Access) and operand.tensor.on_chip
    }
    assert {tensor.address[0] for tensor in tensors.values() if tensor.address} == {0, 64}
    low, high = arrays["values"][:64], arrays["values"][64:]
    c, s = arrays["cosine"], arrays["sine"]
    expected = np.concatenate([low * c - high * s, high * c + low * s])
    for by_address in (False, True):
        (actual,) = runtime.load(program, by_address=by_address).run(arrays).values()
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_results_are_not_put_over_operands_that_are_read_otherwise() -> None:
    size = TARGETS["trn2"].sbuf_usable_bytes // 4
    a, b = tile("a", 128, size * 2 // 3), tile("b", 128, size * 2 // 3)
    crossed = Access(a, a.free_elements - 1, ((a.free_elements, 128), (-1, a.free_elements)))
    body = [
        Instruction("memset", {"dst": whole(a), "value": 0.0}),
        Instruction("tensor_copy", {"dst": whole(b), "src": crossed}),
    ]
    with pytest.raises(NeffCompileError):
        ChipMemory(TARGETS["trn2"]).plan(body, "")
    body[1] = Instruction("tensor_copy", {"dst": whole(b), "src": whole(a)})
    placed = ChipMemory(TARGETS["trn2"]).plan(body, "")
    assert placed["a"].address == placed["b"].address
    assert len(live_ranges(body)) == 2
