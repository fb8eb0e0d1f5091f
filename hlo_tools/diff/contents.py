"""Contents of instructions as bytes, without names, ids and references.

The fields that make no difference are found in the bytes of a whole module at once
(:mod:`hlo_tools.wire.columns`), and cut out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from google.protobuf.message import Message as AnyMessage

from hlo_tools import schema
from hlo_tools.diff.fields import LEFT_OUT, METADATA, STRUCTURE
from hlo_tools.errors import HloError
from hlo_tools.outline import Outline
from hlo_tools.types.literal import Literal, store
from hlo_tools.wire.columns import Table, split, starts
from hlo_tools.wire.fields import BYTES

__all__ = ["FIELDS", "contents", "is_void", "without_layouts"]

Message = Any

_WHO = (
    *LEFT_OUT["HloInstructionProto"], *STRUCTURE["HloInstructionProto"],
    "comparison_type", "comparison_order",
)  # fmt: skip
"""Fields that identify an instruction; the order of a comparison is added by its semantics."""
FIELDS: dict[str, tuple[str, ...]] = {
    "metadata": tuple(METADATA["HloInstructionProto"]),
    "literal": ("literal",),
    "sharding": ("sharding",),
    "frontend_attributes": ("frontend_attributes",),
    "backend_config": ("backend_config", "backend_config_payload"),
    "shape": ("shape",),
}
"""Fields of an instruction that a comparison may leave out, by what it calls them."""
_MEANT = frozenset({"sharding", "domain_entry_sharding", "domain_exit_sharding"})
"""Fields whose empty message means something: replicated."""
_CHUNK = 1 << 14
"""Instructions whose bytes are copied at once."""
_MIN_DIGEST_BYTES = 1 << 16
"""Instructions with at least this many bytes are compared by a digest."""


def is_void(name: str, value: object) -> bool:
    """Return True if a field holds a message that equals its absence; some readers write such."""
    return isinstance(value, AnyMessage) and name not in _MEANT and not value.ByteSize()


def contents(outline: Outline, ignored: Collection[str]) -> Iterator[bytes]:
    """Yield the bytes of each instruction without name, id, references and ignored fields.

    Of large ones a digest.
    """
    begin, end = outline.rows
    for start in range(0, len(begin), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        for text in _left(outline, begin[chunk], end[chunk], frozenset(ignored)):
            yield text if len(text) < _MIN_DIGEST_BYTES else blake2b(text).digest()


def _left(outline: Outline, begin: Any, end: Any, ignored: frozenset[str]) -> Iterator[bytes]:
    """Return messages without the fields that make no difference."""
    cut, void = _tags(ignored)
    fields = split(outline.words, begin, end, (*cut, *void))
    is_cut = (fields.begin == fields.end) | ~np.isin(fields.tag, void)
    fields = Table(*(column[is_cut] for column in fields))
    start, stop = starts(fields), fields.end
    sizes = end - begin - np.bincount(fields.row, stop - start, len(begin)).astype(np.int64)
    # What is left begins with a message or behind a field, and ends at a field or with a message.
    first = np.sort(np.concatenate((begin, stop)))
    last = np.sort(np.concatenate((start, end)))
    bounds = np.column_stack((first, last)).reshape(-1) - begin[0]
    is_left = np.tile([False, True], first.size)
    chosen = np.repeat(is_left, np.diff(bounds, prepend=0))
    data = np.frombuffer(outline.data, np.uint8, int(end[-1] - begin[0]), int(begin[0]))
    left = data[chosen].tobytes()
    ends = np.cumsum(sizes)
    pairs = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    return (left[first:last] for first, last in pairs)


@lru_cache(maxsize=64)
def _tags(ignored: frozenset[str]) -> tuple[list[int], list[int]]:
    """Tags of the fields that make no difference: always, and where they hold an empty message."""
    cleared = {*_WHO, *(field for name in ignored for field in FIELDS.get(name, ()))}
    cut: list[int] = []
    void: list[int] = []
    for attribute in schema.HloInstructionProto.DESCRIPTOR.fields:
        if attribute.name in cleared:
            cut += [attribute.number << 3 | kind for kind in (0, BYTES)]
        elif attribute.message_type and not attribute.is_repeated and attribute.name not in _MEANT:
            void.append(attribute.number << 3 | BYTES)
    return cut, void


def without_layouts(module: Message) -> Message:
    """A copy of a module's message without the layouts of its instructions."""
    copy = type(module)()
    copy.CopyFrom(module)
    for body in copy.computations:
        for row in body.instructions:
            _drop_layouts(row.shape)
            if row.HasField("literal"):
                _put_in_rows(Literal(row.literal))
                _drop_layouts(row.literal.shape)
    return copy


def _put_in_rows(literal: Literal) -> None:
    """Elements that are stored in another order are stored row by row."""
    for _, leaf in literal.leaves():
        order = leaf.proto.shape.layout.minor_to_major
        if not leaf.shape.is_array or list(order) == sorted(order, reverse=True):
            continue
        with suppress(HloError):  # elided, or damaged: they stay as they are
            values = leaf.numpy()
            leaf.proto.shape.ClearField("layout")
            leaf.proto.ClearField(leaf.shape.element.field)
            store(leaf.proto, values)


def _drop_layouts(shape: Message) -> None:
    shape.ClearField("layout")
    for element_shape in shape.tuple_shapes:
        _drop_layouts(element_shape)
