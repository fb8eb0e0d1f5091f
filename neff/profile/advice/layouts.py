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

_PARTITIONS = 128

_MAX_ELEMENTWISE_ROW_BYTES = 8
"""Rows of at most two fp32 elements count as moved element by element."""

_MIN_ROWS = 1024
"""Transfers of fewer rows cost little."""

_MAX_FOLDED_PARTITIONS, _MIN_FOLDED_ELEMENTS = 32, 512
"""A tile of few partitions and at least this many elements in each is folded."""


def transfer_in(instruction: Instruction) -> Transfer | None:
    """Return the transfer of an instruction between HBM and the chip."""
    if instruction.op not in COPIES or "src" not in instruction.operands:
        return None
    work = transfer_of(instruction, False)
    return work if type(work) is Transfer and work.to_hbm != work.from_hbm else None


def sides_of(instruction: Instruction) -> tuple[Access, Access]:
    """Return the tile, and the access to the tensor in HBM."""
    dst, src = instruction.operands["dst"], instruction.operands["src"]
    return (dst, src) if dst.tensor.on_chip else (src, dst)


# --- element by element ---------------------------------------------------------------------


def along_rows(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """Replace transfers across the rows in HBM by transfers along them.

    The tensor engine transposes the tiles when they are only loaded.
    """
    across = [inst for inst in run if _is_across(inst)]
    if not across:
        return run, []
    loads = [inst for inst in across if inst.operands["dst"].tensor.on_chip]
    is_transposed = len(loads) == len(across) and bool(loads)
    statements: list[Instruction] = []
    for number, inst in enumerate(run):
        if not _is_across(inst):
            statements.append(inst)
        elif is_transposed and inst.op == "dma_copy":
            statements += _loaded_and_transposed(inst, number)
        else:
            statements.append(_along(inst))
    return statements, across


def _is_across(instruction: Instruction) -> bool:
    work = transfer_in(instruction)
    if work is None or work.gathered or work.transposes or instruction.op != "dma_copy":
        return False
    if work.row_bytes > _MAX_ELEMENTWISE_ROW_BYTES or work.rows < _MIN_ROWS:
        return False
    _, far = sides_of(instruction)
    return len(far.pattern) > 1 and far.pattern[0][0] == 1 and far.pattern[-1][0] > 1


def _along(instruction: Instruction) -> Instruction:
    tile, far = sides_of(instruction)
    lanes, width = tile.pattern[0][1], _elements(tile)
    name = "src" if instruction.operands["src"] is far else "dst"
    contiguous = far._replace(pattern=((width, lanes), (1, width)))
    return replace(instruction, operands={**instruction.operands, name: contiguous})


def _elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _loaded_and_transposed(load: Instruction, number: int) -> list[Instruction]:
    """A load of whole rows, and a transpose and a copy of each block of 128 of them."""
    tile, far = sides_of(load)
    lanes, width = tile.pattern[0][1], _elements(tile)
    blocks = -(-width // _PARTITIONS)
    dtype = tile.element_type
    rows = Tensor(f"#{number}/rows", dtype, (_PARTITIONS, blocks * lanes), MemoryRegion.sbuf)
    staged = Access(rows, 0, ((blocks * lanes, _PARTITIONS), (1, blocks * lanes)))
    contiguous = far._replace(
        pattern=((lanes, _PARTITIONS), (lanes * _PARTITIONS, blocks), (1, lanes))
    )
    instructions = [replace(load, operands={**load.operands, "dst": staged, "src": contiguous})]
    row_elements = max(1, tile.tensor.free_elements)
    for block in range(blocks):
        bank = Tensor(f"#{number}/bank{block}", dtype, (lanes, _PARTITIONS), MemoryRegion.psum)
        transposed = Access(bank, 0, ((_PARTITIONS, lanes), (1, _PARTITIONS)))
        data = Access(rows, block * lanes, ((blocks * lanes, _PARTITIONS), (1, lanes)))
        block_dst = tile._replace(
            offset=tile.offset + block * _PARTITIONS,
            pattern=((row_elements, lanes), (1, min(_PARTITIONS, width))),
        )
        instructions += [
            Instruction(
                "nc_transpose", {"dst": transposed, "data": data}, Engine.tensor, "", load.location
            ),
            Instruction(
                "tensor_copy",
                {"dst": block_dst, "src": transposed},
                Engine.vector,
                "",
                load.location,
            ),
        ]
    return instructions


# --- in few partitions ----------------------------------------------------------------------


def folded(run: list[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
    """Fold long tiles of few partitions over all partitions."""
    sites = Sites(run)
    names: dict[str, int] = {}
    culprits: list[Instruction] = []
    for key, positions in sites.places.items():
        first_inst = run[positions[0]]
        if transfer_in(first_inst) is None or not _is_long(sides_of(first_inst)[0]):
            continue
        connected = [
            run[position] for site in sites.connected(key) for position in sites.places[site]
        ]
        if any(inst.op.startswith("nc_") for inst in connected):
            continue
        culprits += [run[position] for position in positions]
        lanes = sides_of(first_inst)[0].pattern[0][1]
        for inst in connected:
            for value in inst.operands.values():
                if type(value) is Access and value.tensor.on_chip and value.pattern[0][1] == lanes:
                    names[value.tensor.name] = _PARTITIONS // lanes
    if not names:
        return run, []
    return [mapped(inst, lambda access: _folded(access, names)) for inst in run], culprits


def _is_long(access: Access) -> bool:
    return (
        access.pattern[0][1] <= _MAX_FOLDED_PARTITIONS and _elements(access) >= _MIN_FOLDED_ELEMENTS
    )


def _folded(access: Access, names: dict[str, int]) -> Access:
    factor = names.get(access.tensor.name) if access.tensor.on_chip else None
    if factor is None:
        return access
    lanes, width = access.pattern[0][1], _elements(access)
    tensor = access.tensor
    folded_width = -(-width // factor) if width >= factor else width
    folded_elements = (
        -(-tensor.free_elements // factor)
        if tensor.free_elements >= factor
        else tensor.free_elements
    )
    column = access.offset % max(1, tensor.free_elements) // factor if folded_elements > 1 else 0
    shape = (lanes * factor, folded_elements)
    return access._replace(
        tensor=replace(tensor, shape=shape),
        offset=min(column, folded_elements - folded_width),
        pattern=((folded_elements, lanes * factor), (1, folded_width)),
    )
