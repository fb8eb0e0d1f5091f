"""Transfers whose tile lies across the memory: element by element, or all of it in few partitions."""

from __future__ import annotations

from dataclasses import replace

from neff.profile.advice.merge import Sites
from neff.profile.advice.rebuild import mapped
from neff.timing.transfers import COPIES, transfer_of
from neff.timing.work import Transfer
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor

__all__ = ["along_rows", "folded", "sides_of", "transfer_in"]

_LANES = 128

_ELEMENTWISE = 8
"""Bytes; rows of one or two elements."""

_MANY_ROWS = 1024
"""Of a transfer; below, the rows cost little."""

_FEW, _LONG = 32, 512
"""Partitions, and elements of each, from which on a tile is folded."""


def transfer_in(instruction: Instruction) -> Transfer | None:
    """What an instruction moves between HBM and the chip."""
    if instruction.op not in COPIES or "src" not in instruction.operands:
        return None
    work = transfer_of(instruction, False)
    return work if type(work) is Transfer and work.to_hbm != work.from_hbm else None


def sides_of(instruction: Instruction) -> tuple[Access, Access]:
    """The tile, and the part of a tensor in HBM."""
    dst, src = instruction.operands["dst"], instruction.operands["src"]
    return (dst, src) if dst.tensor.on_chip else (src, dst)


# --- element by element ---------------------------------------------------------------------


def along_rows(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """The run with transfers along the rows in HBM in place of those across them.

    What is only loaded across them is transposed by the tensor engine then.
    """
    across = [one for one in run if _is_across(one)]
    if not across:
        return run, []
    loads = [one for one in across if one.operands["dst"].tensor.on_chip]
    is_turned = len(loads) == len(across) and bool(loads)
    found: list[Instruction] = []
    for number, one in enumerate(run):
        if not _is_across(one):
            found.append(one)
        elif is_turned and one.op == "dma_copy":
            found += _loaded_and_turned(one, number)
        else:
            found.append(_along(one))
    return found, across


def _is_across(instruction: Instruction) -> bool:
    work = transfer_in(instruction)
    if work is None or work.gathered or work.transposes or instruction.op != "dma_copy":
        return False
    if work.row_bytes > _ELEMENTWISE or work.rows < _MANY_ROWS:
        return False
    _, far = sides_of(instruction)
    return len(far.pattern) > 1 and far.pattern[0][0] == 1 and far.pattern[-1][0] > 1


def _along(instruction: Instruction) -> Instruction:
    tile, far = sides_of(instruction)
    lanes, width = tile.pattern[0][1], _elements(tile)
    name = "src" if instruction.operands["src"] is far else "dst"
    plain = far._replace(pattern=((width, lanes), (1, width)))
    return replace(instruction, operands={**instruction.operands, name: plain})


def _elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _loaded_and_turned(load: Instruction, number: int) -> list[Instruction]:
    """A load of whole rows, and a transpose and a copy of each block of 128 of them."""
    tile, far = sides_of(load)
    lanes, width = tile.pattern[0][1], _elements(tile)
    blocks = -(-width // _LANES)
    dtype = tile.element_type
    rows = Tensor(f"#{number}/rows", dtype, (_LANES, blocks * lanes), MemoryRegion.sbuf)
    staged = Access(rows, 0, ((blocks * lanes, _LANES), (1, blocks * lanes)))
    plain = far._replace(pattern=((lanes, _LANES), (lanes * _LANES, blocks), (1, lanes)))
    found = [replace(load, operands={**load.operands, "dst": staged, "src": plain})]
    whole = max(1, tile.tensor.free_elements)
    for block in range(blocks):
        bank = Tensor(f"#{number}/bank{block}", dtype, (lanes, _LANES), MemoryRegion.psum)
        turned = Access(bank, 0, ((_LANES, lanes), (1, _LANES)))
        data = Access(rows, block * lanes, ((blocks * lanes, _LANES), (1, lanes)))
        part = tile._replace(
            offset=tile.offset + block * _LANES, pattern=((whole, lanes), (1, min(_LANES, width)))
        )
        found += [
            Instruction(
                "nc_transpose", {"dst": turned, "data": data}, Engine.tensor, "", load.location
            ),
            Instruction(
                "tensor_copy", {"dst": part, "src": turned}, Engine.vector, "", load.location
            ),
        ]
    return found


# --- in few partitions ----------------------------------------------------------------------


def folded(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """The run with long tiles of few partitions folded over all of them."""
    sites = Sites(run)
    names: dict[str, int] = {}
    culprits: list[Instruction] = []
    for key, places in sites.found.items():
        first = run[places[0]]
        if transfer_in(first) is None or not _is_long(sides_of(first)[0]):
            continue
        own = [run[place] for one in sites.connected(key) for place in sites.found[one]]
        if any(one.op.startswith("nc_") for one in own):
            continue
        culprits += [run[place] for place in places]
        lanes = sides_of(first)[0].pattern[0][1]
        for one in own:
            for value in one.operands.values():
                if type(value) is Access and value.tensor.on_chip and value.pattern[0][1] == lanes:
                    names[value.tensor.name] = _LANES // lanes
    if not names:
        return run, []
    return [mapped(one, lambda access: _folded(access, names)) for one in run], culprits


def _is_long(access: Access) -> bool:
    return access.pattern[0][1] <= _FEW and _elements(access) >= _LONG


def _folded(access: Access, names: dict[str, int]) -> Access:
    factor = names.get(access.tensor.name) if access.tensor.on_chip else None
    if factor is None:
        return access
    lanes, width = access.pattern[0][1], _elements(access)
    tensor = access.tensor
    short = -(-width // factor) if width >= factor else width
    whole = (
        -(-tensor.free_elements // factor)
        if tensor.free_elements >= factor
        else tensor.free_elements
    )
    column = access.offset % max(1, tensor.free_elements) // factor if whole > 1 else 0
    shape = (lanes * factor, whole)
    return access._replace(
        tensor=replace(tensor, shape=shape),
        offset=min(column, whole - short),
        pattern=((whole, lanes * factor), (1, short)),
    )
