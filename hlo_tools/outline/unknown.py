"""Search for fields that the schema lacks in the bytes of a message, read as columns.

All messages of one type are read in step (:mod:`hlo_tools.wire.columns`), type by type, so that a
module with 100,000 instructions takes as long as its outline.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools import schema
from hlo_tools.errors import HloFileError
from hlo_tools.schema.unknown import known_tags, message_tags
from hlo_tools.types.element_types import Array
from hlo_tools.wire.columns import Table, Words, split

if TYPE_CHECKING:
    from hlo_tools.schema.unknown import AnyDescriptor
    from hlo_tools.wire.fields import Buffer

__all__ = ["holds_unknown_fields", "table_holds_unknown", "tags_to_check"]


def holds_unknown_fields(data: Buffer, descriptor: AnyDescriptor) -> bool:
    """Return True if a message, or one in it at any depth, has an unknown field.

    Args:
        data: the message; payloads that are no messages are not read.
        descriptor: its type.
    """
    return _any_holds_unknown(Words(data), [(descriptor, np.array([0]), np.array([len(data)]))])


def table_holds_unknown(words: Words, kind: str, table: Table, skipped: int) -> bool:
    """Return True if fields of messages of one type, or of the messages in them, are unknown.

    Args:
        words: the buffer that they were read from.
        kind: name of the messages' type.
        table: their fields of :func:`tags_to_check`, perhaps with others.
        skipped: the key of messages that are checked by themselves.
    """
    descriptor = schema.message(kind).DESCRIPTOR
    if not _known(descriptor)[table.tag].all():
        return True
    return _any_holds_unknown(words, _inner(descriptor, table, skipped))


def tags_to_check(kind: str, *, messages: bool = True) -> list[int]:
    """The keys of a type's fields that are unknown, and of those that are messages.

    Larger keys than all of these are unknown too.
    """
    descriptor = schema.message(kind).DESCRIPTOR
    return [*_unknown(descriptor), *(message_tags(descriptor) if messages else ())]


def _any_holds_unknown(words: Words, left: list[tuple[AnyDescriptor, Array, Array]]) -> bool:
    """Return True if messages, passed as types with bounds, hold unknown fields at any depth."""
    while left:
        descriptor, begin, end = left.pop()
        tags = (*_unknown(descriptor), *message_tags(descriptor))
        try:
            table = split(words, begin, end, tags, beyond=True)
        except HloFileError:
            return True  # groups, which no schema has
        if not _known(descriptor)[table.tag].all():
            return True
        left += _inner(descriptor, table)
    return False


def _inner(
    descriptor: AnyDescriptor, table: Table, skipped: int = 0
) -> list[tuple[AnyDescriptor, Array, Array]]:
    """The messages among fields, by type."""
    types = message_tags(descriptor)
    counts = np.bincount(table.tag, table.end > table.begin)
    parts: list[tuple[AnyDescriptor, Array, Array]] = []
    for tag in np.flatnonzero(counts).tolist():
        if tag in types and tag != skipped:
            rows = table.of(tag)
            parts.append((types[tag], rows.begin, rows.end))
    return parts


@cache
def _known(descriptor: AnyDescriptor) -> Array:
    """Return a table by key that is True for known keys; its last row covers all larger keys."""
    tags = known_tags(descriptor)
    table = np.zeros((max(tags, default=0) | 7) + 2, bool)
    table[list(tags)] = True
    return table


@cache
def _unknown(descriptor: AnyDescriptor) -> tuple[int, ...]:
    """Unknown keys up to the largest known number, and that number's last key."""
    table = _known(descriptor)
    last = len(table) - 2
    return (*(tag for tag in range(8, last) if not table[tag]), last)
