"""``metadata={...}`` in text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlo_tools import schema
from hlo_tools.text.cursor import Cursor, unescape
from hlo_tools.wire import fields as wire
from hlo_tools.wire.large_constants import encode_varint

__all__ = ["plain_metadata", "read_metadata", "read_metadata_list"]

Message = Any

_STRINGS = frozenset({"op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"})
_INTEGERS = frozenset(
    {
        "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
        "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes",
    }
)  # fmt: skip
_TAGS = {
    field.name: encode_varint(field.number << 3 | kind)
    for names, kind in ((_STRINGS, wire.BYTES), (_INTEGERS, wire.VARINT))
    for field in schema.OpMetadata.DESCRIPTOR.fields
    if field.name in names
}
_WORD = r'"((?:[^"\\\ud800-\udfff]++|\\[^\ud800-\udfff])*+)"'
_PAIR = re.compile(rf"([a-z_]+)=(?:{_WORD}|([0-9]{{1,9}}))")
_UNESCAPED_METADATA = re.compile(rf"\{{(?:{_PAIR.pattern}(?: |(?=\}})))*\}}")
_PROFILE_TYPES = dict(schema.ProfileType.items())
_IGNORED: dict[str, Callable[[Cursor], object]] = {
    "preserve_layout": Cursor.boolean,
    "logical_creation_pass_id": Cursor.integer,
    "creation_pass_id": Cursor.integer,
    "replaced_op": Cursor.string,
}
"""Properties that older texts have and the format has dropped."""


def read_metadata(cursor: Cursor) -> Message:
    """One ``{op_name="..." source_line=3 ...}``."""
    cursor.skip()
    plain = _UNESCAPED_METADATA.match(cursor.text, cursor.pos)
    data = plain_metadata(plain.group()) if plain is not None else None
    if plain is not None and data is not None:
        cursor.pos = plain.end()
        return schema.OpMetadata.FromString(data)
    metadata = schema.OpMetadata()
    names_read: set[str] = set()
    cursor.expect("{", "to start the metadata")
    while not cursor.accept("}"):
        start = cursor.pos
        name = cursor.attribute_name()
        if name in names_read:
            raise cursor.error(f"the metadata have {name}= twice", pos=start)
        names_read.add(name)
        if name in _STRINGS:
            setattr(metadata, name, cursor.text_string())
        elif name in _INTEGERS:
            setattr(metadata, name, cursor.integer())
        elif name == "profile_type":
            metadata.profile_type.extend(
                cursor.items("{", "}", lambda: _profile(cursor), "profile types")
            )
        elif name == "metadata_payload":
            metadata.metadata_payload.value = cursor.string()
        elif name in _IGNORED:
            _IGNORED[name](cursor)
        else:
            raise cursor.error(f"metadata has no property '{name}'", pos=start)
        cursor.accept(",")
    return metadata


def plain_metadata(text: str) -> bytes | None:
    """The bytes of metadata that hold words and short numbers only; None for any other."""
    if _UNESCAPED_METADATA.fullmatch(text) is None:
        return None
    parts: list[bytes] = []
    pairs = _PAIR.findall(text)
    if len({name for name, _, _ in pairs}) < len(pairs):
        return None
    for name, word, digits in pairs:
        if digits and name in _INTEGERS:
            parts += _TAGS[name], _varint(int(digits))
        elif not digits and name in _STRINGS:
            data = unescape(word)
            if "\\" in word and not _is_utf8(data):
                return None
            parts += _TAGS[name], _varint(len(data)), data
        else:
            return None
    return b"".join(parts)


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 1 << 7 else encode_varint(number)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_metadata_list(cursor: Cursor) -> list[Message]:
    """``{...}`` or ``{{...}, {...}}``."""
    start = cursor.pos
    cursor.expect("{", "to start the metadata")
    several = cursor.peek("{")
    cursor.pos = start
    if not several:
        return [read_metadata(cursor)]
    return cursor.items("{", "}", lambda: read_metadata(cursor), "a list of metadata")


def _profile(cursor: Cursor) -> int:
    """Read a number, or the name that version 0.1 printed."""
    if cursor.text[cursor.pos : cursor.pos + 1].isdigit():
        return cursor.integer()
    name = cursor.identifier("a profile type")
    if name.upper() not in _PROFILE_TYPES:
        raise cursor.error(f"there is no profile type '{name}'")
    return _PROFILE_TYPES[name.upper()]
