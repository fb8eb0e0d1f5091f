"""Splits tiles whose columns are used in separate pieces into one tile for each piece.

A bank of PSUM, for example, receives four transposed blocks, and each block is copied elsewhere. As
four tiles, each has one writer, and :mod:`nki_lang.analysis.forwarding` can look through it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from nki_lang.analysis.liveness import accesses_of
from nki_lang.ir.types import Access, Block, Instruction, Operand, Tensor, with_operands

__all__ = ["split_tiles"]

_Columns = tuple[int, int]
"""First column, and the column after the last."""


def split_tiles(block: Block, named: Container[str]) -> Block:
    """Return the block with a tile for each piece of its tiles.

    Only tiles without an address are split that the instructions of the block use, outside loops,
    by static accesses of all partitions.

    Args:
        block: the statements of a core.
        named: tensors that the caller sees, which stay as they are.
    """
    pieces = _pieces_of(block, named)
    if not pieces:
        return block
    renamed: dict[int, tuple[Access, Access]] = {}
    return [
        with_operands(
            statement,
            {name: _renamed(value, pieces, renamed) for name, value in statement.operands.items()},
        )
        if isinstance(statement, Instruction)
        else statement
        for statement in block
    ]


def _pieces_of(block: Block, named: Container[str]) -> dict[str, list[tuple[_Columns, Tensor]]]:
    """Return the pieces of each tile that has several."""
    uses: dict[str, dict[_Columns, Tensor]] = {}
    excluded: set[str] = set()
    for statement in block:
        if not isinstance(statement, Instruction):
            _exclude(statement.body, excluded)
            continue
        for access in accesses_of(statement):
            tensor = access.tensor
            if tensor.name in excluded:
                continue
            columns = None if tensor.name in named else _columns_of(access)
            if columns is None:
                excluded.add(tensor.name)
            else:
                uses.setdefault(tensor.name, {})[columns] = tensor
    pieces: dict[str, list[tuple[_Columns, Tensor]]] = {}
    for name, columns_used in uses.items():
        intervals = _joined(columns_used) if name not in excluded else []
        if len(intervals) > 1:
            tensor = next(iter(columns_used.values()))
            pieces[name] = [(interval, _piece(tensor, interval)) for interval in intervals]
    return pieces


def _exclude(body: Block, names: set[str]) -> None:
    for statement in body:
        if isinstance(statement, Instruction):
            names.update(access.tensor.name for access in accesses_of(statement))
        else:
            _exclude(statement.body, names)


def _columns_of(access: Access) -> _Columns | None:
    """Return the columns that an access of all partitions uses; None for any other access."""
    tensor = access.tensor
    if tensor.address is not None or not tensor.on_chip or len(tensor.shape) < 2:
        return None
    width = tensor.free_elements
    if access.is_dynamic or access.dtype is not None or 0 in access.shape:
        return None
    if not access.pattern or access.pattern[0] != (width, tensor.shape[0]):
        return None
    low = access.offset + sum(min(0, step * (count - 1)) for step, count in access.pattern[1:])
    high = access.offset + sum(max(0, step * (count - 1)) for step, count in access.pattern[1:])
    return (low, high + 1) if low >= 0 and high < width else None


def _joined(columns: Iterable[_Columns]) -> list[_Columns]:
    """Return the intervals with those that overlap joined."""
    intervals: list[_Columns] = []
    for low, high in sorted(columns):
        if intervals and low < intervals[-1][1]:
            intervals[-1] = (intervals[-1][0], max(high, intervals[-1][1]))
        else:
            intervals.append((low, high))
    return intervals


def _piece(tensor: Tensor, columns: _Columns) -> Tensor:
    low, high = columns
    name = f"{tensor.name}[{low}:{high}]"
    return replace(tensor, name=name, shape=(tensor.shape[0], high - low))


def _renamed(
    value: Operand,
    pieces: dict[str, list[tuple[_Columns, Tensor]]],
    renamed: dict[int, tuple[Access, Access]],
) -> Operand:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is tuple or kind is list:
        return tuple(_renamed(entry, pieces, renamed) for entry in value)
    if kind is not Access:
        return value
    if value.is_dynamic:
        return value._replace(
            scalar_offset=_renamed(value.scalar_offset, pieces, renamed),
            vector_offset=_renamed(value.vector_offset, pieces, renamed),
        )
    if value.tensor.name not in pieces:
        return value
    if id(value) not in renamed:
        columns = _columns_of(value)
        assert columns is not None
        for (low, high), tensor in pieces[value.tensor.name]:
            if low <= columns[0] < high:
                pattern = ((high - low, value.pattern[0][1]), *value.pattern[1:])
                moved = value._replace(tensor=tensor, offset=value.offset - low, pattern=pattern)
                renamed[id(value)] = (value, moved)
                break
    return renamed[id(value)][1]
