"""Transfers of DMA instructions: contiguous pieces, and the maker of their descriptors."""

from __future__ import annotations

from neff.timing.work import LANES, Fixed, Transfer
from nki_lang.ir import Access, Engine, Instruction

__all__ = ["COPIES", "lanes_of", "transfer_of"]

COPIES = frozenset({"dma_copy", "dma_transpose", "dma_compute", "sendrecv"})
"""Instructions that the DMA engines execute, except collectives."""
LANE_PARTITIONS = 8
"""Partitions that a DMA engine serves (docs ``nki-dma-overview``: [4, 4096] moves on one engine, 16, 32
and 64 partitions on 2, 4 and 8)."""

_DESCRIPTORS_BY_MODE = {"swdge": "software", "hwdge": "hardware", "none": "static"}


def transfer_of(instruction: Instruction, is_static: bool) -> Transfer | Fixed:
    """Return the transfer of one of :data:`COPIES`.

    Args:
        instruction: with its engine.
        is_static: transfers whose location is known have their descriptors ready in memory.
    """
    operands = instruction.operands
    dst = operands.get("dst")
    sources = operands.get("srcs") if instruction.op == "dma_compute" else (operands.get("src"),)
    accesses = [access for access in sources or () if type(access) is Access]
    if type(dst) is not Access or not accesses:
        return Fixed("link.latency_ns")
    return _transfer(instruction, dst, accesses, is_static)


def _transfer(
    instruction: Instruction, dst: Access, sources: list[Access], is_static: bool
) -> Transfer:
    src = sources[0]
    runs = (_run(dst), _run(src))
    size = max(dst.element_type.itemsize, src.element_type.itemsize)
    row = min(runs) * size
    rows = max(1, _elements(dst) // min(runs)) * len(sources)
    to_hbm, from_hbm = not dst.tensor.on_chip, not src.tensor.on_chip
    outside = runs[0] if to_hbm else runs[1] if from_hbm else min(runs)
    partitions = dst.pattern[0][1] if not to_hbm else src.pattern[0][1] if not from_hbm else rows
    gathered = dst.vector_offset is not None or src.vector_offset is not None
    is_transpose = instruction.op == "dma_transpose"
    if is_transpose:
        row, rows = _elements(dst) * size // partitions, partitions
    return Transfer(
        _descriptors(instruction, is_static and not (dst.is_dynamic or src.is_dynamic)),
        rows,
        row,
        rows > 1 and outside <= min(runs),
        max(1, rows // partitions),
        to_hbm,
        from_hbm,
        dst.element_type.name != src.element_type.name,
        size if is_transpose else 0,
        rows if gathered else 0,
        *lanes_of(dst, src),
    )


def lanes_of(*accesses: Access) -> tuple[int, int]:
    """Return the first DMA engine that moves these partitions, and the number of engines.

    The wider side counts when both are on chip; a transfer within HBM uses all engines.
    """
    spans = [_partition_span(access) for access in accesses if access.tensor.on_chip]
    if not spans:
        return 0, LANES
    first, last = max(spans, key=lambda span: span[1] - span[0])
    first_lane = first // LANE_PARTITIONS
    return first_lane, last // LANE_PARTITIONS - first_lane + 1


def _partition_span(access: Access) -> tuple[int, int]:
    """Return the first and last partition of an access on chip."""
    tensor, (step, count) = access.tensor, access.pattern[0]
    row = tensor.free_bytes // access.element_type.itemsize or 1
    start = (tensor.address[0] if tensor.address else 0) + access.offset // row
    ends = sorted((start, start + (count - 1) * step // row))
    return ends[0], min(ends[1], LANES * LANE_PARTITIONS - 1)


def _descriptors(instruction: Instruction, is_static: bool) -> str:
    asked = _DESCRIPTORS_BY_MODE.get(str(instruction.operands.get("dge_mode")))
    if asked is not None:
        return asked
    if is_static:
        return "static"
    return "software" if instruction.engine is Engine.gpsimd else "hardware"


def _elements(access: Access) -> int:
    count = 1
    for _, extent in access.pattern:
        count *= extent
    return count


def _run(access: Access) -> int:
    """Return the length of the innermost run of elements that are contiguous in memory."""
    pattern = access.pattern[1:] if access.tensor.on_chip else access.pattern
    run = 1
    for step, count in reversed(pattern):
        if count != 1 and step != run:
            break
        run *= count
    return run
