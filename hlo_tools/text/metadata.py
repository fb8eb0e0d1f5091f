"""``metadata={...}`` in text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlo_tools import schema
from hlo_tools.text.cursor import Cursor

__all__ = ["INTEGERS", "STRINGS", "read_metadata", "read_metadata_list"]

Message = Any

STRINGS = frozenset({"op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"})
INTEGERS = frozenset(
    {
        "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
        "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes",
    }
)  # fmt: skip
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
    metadata = schema.OpMetadata()
    cursor.expect("{", "to start the metadata")
    while not cursor.accept("}"):
        start = cursor.pos
        name = cursor.attribute_name()
        if name in STRINGS:
            setattr(metadata, name, cursor.text_string())
        elif name in INTEGERS:
            setattr(metadata, name, cursor.integer())
        elif name == "profile_type":
            metadata.profile_type.extend(
                cursor.items("{", "}", lambda: _profile(cursor), "profile types")
            )
        elif name in _IGNORED:
            _IGNORED[name](cursor)
        else:
            raise cursor.error(f"metadata has no property '{name}'", pos=start)
        cursor.accept(",")
    return metadata


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
    found = cursor.identifier("a profile type")
    if found.upper() not in _PROFILE_TYPES:
        raise cursor.error(f"there is no profile type '{found}'")
    return _PROFILE_TYPES[found.upper()]
