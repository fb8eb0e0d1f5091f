"""Checks that a kernel's live tensors fit on chip.

For any placement, the bytes alive at one time cannot exceed the memory. The error lists the tiles
that are alive. Tensors with an address are not counted: the user placed them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePath

from nki_lang.base.errors import NkiValidationError
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.builder import TraceBuilder
from nki_lang.ir import Access, Block, Instruction, Tensor, is_group
from nki_lang.tracing.capacity_chart import Holding, draw

__all__ = ["Spans", "check_capacity"]

_ARCH = "nki/guides/architecture, SBUF and PSUM sizes"


Spans = dict[str, tuple[int, int]]
"""First and last instruction that uses each tensor."""


def check_capacity(builder: TraceBuilder, spans: Spans | None = None) -> None:
    """Refuse a kernel whose live tiles exceed SBUF or PSUM.

    Args:
        builder: what was built.
        spans: lifetime of each tensor; None to compute it from the builder's statements.

    Raises:
        NkiValidationError: code ``NKI-CAPACITY``, at the line of the largest tile alive then.
    """
    target = builder.target
    for buffer, limit in (
        (MemoryRegion.sbuf, target.sbuf_usable_bytes),
        (MemoryRegion.psum, target.psum_partition_bytes),
    ):
        tiles = [
            tensor
            for tensor in builder.tensors.values()
            if tensor.buffer is buffer and tensor.address is None
        ]
        if sum(map(_rows_bytes, tiles)) <= limit * 128:
            continue
        _check_live(builder, tiles, buffer, limit, spans or _lifetimes(builder.body))


def _rows_bytes(tensor: Tensor) -> int:
    """Bytes times partitions, in whole quadrants of 32 partitions."""
    return tensor.free_bytes * (-(-tensor.shape[0] // 32) * 32)


def _check_live(
    builder: TraceBuilder, tiles: list[Tensor], buffer: MemoryRegion, limit: int, spans: Spans
) -> None:
    events: list[tuple[int, int, Tensor]] = []
    for tensor in tiles:
        if tensor.name in spans:
            first, last = spans[tensor.name]
            events.append((first, 1, tensor))
            events.append((last + 1, 0, tensor))
    events.sort(key=lambda event: event[:2])
    live: dict[str, Tensor] = {}
    total = 0
    for _, begins, tensor in events:
        if not begins:
            total -= _rows_bytes(tensor)
            del live[tensor.name]
            continue
        live[tensor.name] = tensor
        total += _rows_bytes(tensor)
        if total > limit * 128:
            _refuse(builder, list(live.values()), tensor, buffer, limit, total, spans)


def _refuse(
    builder: TraceBuilder,
    live: list[Tensor],
    newest: Tensor,
    buffer: MemoryRegion,
    limit: int,
    total: int,
    spans: Spans,
) -> None:
    largest = sorted(live, key=_rows_bytes, reverse=True)[:6]
    end = 1 + max(last for _, last in spans.values())
    holdings = [_holding(builder, tensor, spans[tensor.name]) for tensor in largest]
    picture = draw(holdings, end, spans[newest.name][0])
    more = f", the largest {len(largest)} of them" if len(live) > len(largest) else ""
    raise NkiValidationError(
        f"{len(live)} tiles alive at one time take {-(-total // 128)} bytes of each partition of"
        f" {buffer}; {builder.target.name} has {limit}{more}:\n{picture}",
        code="NKI-CAPACITY",
        location=builder.tensor_locations.get(newest.name),
        remedy="use smaller tiles, or write out and reuse tiles sooner",
        source=_ARCH,
        details={
            "memory": buffer.value,
            "bytes": -(-total // 128),
            "limit": limit,
            "tiles": len(live),
            "largest": [asdict(holding) for holding in holdings],
        },
    )


def _holding(builder: TraceBuilder, tensor: Tensor, span: tuple[int, int]) -> Holding:
    location = builder.tensor_locations.get(tensor.name)
    line = f"{PurePath(location.file).name}:{location.line}" if location is not None else ""
    kind = f"{tensor.dtype}{list(tensor.shape)}"
    return Holding(tensor.name, tensor.free_bytes, *span, kind, line)


def _lifetimes(body: Block) -> Spans:
    """Return first and last use of each tensor; a loop keeps its tensors for all iterations."""
    spans: Spans = {}
    _scan(body, 0, spans)
    return spans


def _scan(block: Block, start: int, spans: dict[str, tuple[int, int]]) -> int:
    position = start
    for statement in block:
        if type(statement) is Instruction:
            for name in _touched(statement):
                first, _ = spans.get(name, (position, position))
                spans[name] = (first, position)
            position += 1
            continue
        inner: dict[str, tuple[int, int]] = {}
        end = _scan(statement.body, position, inner)  # type: ignore[union-attr]
        for name in inner:
            first, _ = spans.get(name, (position, end))
            spans[name] = (first, end)
        position = end
    return position


def _touched(instruction: Instruction) -> list[str]:
    names: list[str] = []
    for value in instruction.operands.values():
        _add(value, names)
    return names


def _add(value: object, names: list[str]) -> None:
    if type(value) is Access:
        names.append(value.tensor.name)
        if value.vector_offset is not None:
            names.append(value.vector_offset.tensor.name)
        if type(value.scalar_offset) is Access:
            names.append(value.scalar_offset.tensor.name)
    elif is_group(value):
        for entry in value:
            _add(entry, names)
