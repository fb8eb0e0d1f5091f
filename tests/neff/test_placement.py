"""Which tensors live at the same time when loops use them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neff.runtime.placement import UNWRITTEN, clashes
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, ForLoop, Instruction, Register, Tensor
from tests.neff.programs import F32, addition, binary, copy, sbuf, variable, whole


def _in_loop(*body: Instruction) -> list[Any]:
    return [ForLoop(Register("i"), 0, 2, 1, [*body])]


def test_tiles_of_one_iteration_may_share_bytes() -> None:
    """Not those that an iteration reads first, or that are used outside the loop, too."""
    x, y, z = (whole(sbuf(name, (4, 8))) for name in "xyz")
    tile = whole(sbuf("tile", (4, 8), 4096))
    left, right = (Access(x.tensor, offset, ((8, 4), (1, 4))) for offset in (0, 4))
    half = Access(tile.tensor, 0, ((8, 4), (1, 4)))
    quiet = _in_loop(binary("add", x, tile, tile), copy(tile, x), copy(y, tile), copy(tile, y))
    split = _in_loop(copy(left, half), copy(right, half), copy(tile, x), copy(y, tile))
    reads = _in_loop(copy(tile, x), copy(x, tile), copy(y, tile))
    after = [*_in_loop(copy(x, tile), copy(y, tile)), copy(tile, x)]
    inner = _in_loop(copy(x, tile), *_in_loop(copy(tile, x), copy(y, tile)), copy(z, tile))
    pairs_of = [
        {(clash.first, clash.second) for clash in clashes(body, addition())}
        for body in (quiet, split, reads, after, inner)
    ]
    assert pairs_of[0] == {("tile", UNWRITTEN)}
    assert pairs_of[1] == {("tile", UNWRITTEN)}
    assert ("x", "y") in pairs_of[2]
    assert ("x", "y") in pairs_of[3]
    assert pairs_of[4] & {("x", "y"), ("y", "z"), ("x", "z")} == {("x", "y")}


def test_scratch_that_an_iteration_writes_in_part_lives_as_long_as_the_loop() -> None:
    program = addition()
    names = ("first", "second")
    tensors = [Tensor(name, F32, (4, 8), MemoryRegion.private_hbm) for name in names]
    program = replace(
        program,
        variables=program.variables | {t.name: variable(t, "scratch", offset=0) for t in tensors},
    )
    tile = whole(sbuf("tile", (4, 8)))
    half = Access(tensors[0], 0, ((8, 4), (1, 4)))
    part_of_tile = Access(tile.tensor, 0, ((8, 4), (1, 4)))
    pieces = [copy(half, part_of_tile), copy(half._replace(offset=4), part_of_tile)]
    second = copy(whole(tensors[1]), tile)
    for written, expected in ((pieces[:1], {names}), (pieces, set())):
        body = _in_loop(
            *written, copy(tile, whole(tensors[0])), second, copy(tile, whole(tensors[1]))
        )
        pairs = {(clash.first, clash.second) for clash in clashes(body, program)}
        assert {pair for pair in pairs if pair[1] == "second"} == expected
