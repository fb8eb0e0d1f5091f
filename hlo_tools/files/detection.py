"""Which kind of file some bytes are: detected from the content, never from the name."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from hlo_tools.errors import HloFileError
from hlo_tools.files.other_kinds import PLAIN_TEXT, FileKind, file_kind, text_kind
from hlo_tools.wire import fields as wire

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["BYTECODE", "Detected", "detect", "kind_name", "message_behind_length"]

_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\v\x1b")) + b"\x7f"
_SAMPLE = 1 << 16
BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins, and a portable artifact of StableHLO."""
_EXPORTED = re.compile(rb"(?s)[\x04-\xff]\x00\x00\x00.*ML\xefR")
"""A flatbuffer begins with where its table is."""
_MLIR = (b"ML\xefR", b"module @", b"module attributes", b"module {", b"#loc", b"builtin.module")
"""How MLIR begins, as bytecode and as text."""
_ENOUGH = 16
"""Fields of a computation by which it is recognised."""
_MODULE_TYPES = {
    **dict.fromkeys((1, 2, 3, 4, 7, 8, 10, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 24), wire.BYTES),
    **dict.fromkeys((5, 6, 11, 16, 23), wire.VARINT),
}
_PBTXT = re.compile(rb"(?:\s|#[^\n]*\n)*([a-z][a-z0-9_]*)\s*(:|[{<]\s*(?:[}>]|[a-z0-9_]+\s*[:{<]))")
"""A field's name with its value, or with a message that begins with a field."""
_TOP_LEVEL_FIELDS = frozenset(
    b"name computations hlo_module buffer_assignment hlo arguments result partitions "
    b"entry_computation_name entry_computation_id id".split()
)
"""Fields with which text of a module, HloProto or snapshot begins."""
_MODULE_FIELD = re.compile(rb"\b(?:hlo_module|computations)\s*:?\s*[{<]")
_COMPUTATION_TYPES = {
    **dict.fromkeys((1, 2, 4, 8), wire.BYTES),
    **dict.fromkeys((5, 6, 7), wire.VARINT),
}


@dataclass(frozen=True, slots=True)
class Detected:
    """A kind of content and how it was recognised.

    ``kind`` is ``"module"``, ``"hlo"``, ``"snapshot"``, ``"unoptimized"`` (messages),
    ``"delimited"`` (an unoptimized snapshot behind its length, with its arguments behind it),
    ``"text"``, ``"pbtxt"`` or ``"json"``.
    """

    kind: str
    reason: str


def detect(data: Buffer) -> Detected:
    """Tell what ``data`` (not compressed) is.

    Raises:
        HloFileError: empty (HLO-EMPTY), or neither text nor a message (HLO-DAMAGED,
            HLO-TRUNCATED, HLO-NOT-HLO).
    """
    if len(data) == 0:
        raise HloFileError("the file is empty", code="HLO-EMPTY", remedy="write it again")
    other_kind = file_kind(data)
    if other_kind is not None:
        raise _not_a_module(other_kind)
    if bytes(data[:32]).lstrip().startswith(_MLIR) or bytes(data[:4]) == BYTECODE:
        return Detected("stablehlo", "MLIR: text, bytecode or a portable artifact")
    if _EXPORTED.match(bytes(data[:_SAMPLE])):
        return Detected("stablehlo", "a file of jax.export, with MLIR's bytecode inside")
    if _is_text(data):
        return _detect_text(bytes(data[:_SAMPLE]))
    return _detect_message(data)


def kind_name(head: Buffer) -> str:
    """Return what the first bytes of a file are, with the article; empty if they do not say.

    For errors of commands that take something else than modules.
    """
    if len(head) == 0:
        return ""
    kind = file_kind(head)
    if kind is None and _is_text(head):
        kind = text_kind(bytes(head))
    if kind is not None:
        return "text" if kind is PLAIN_TEXT else kind.name
    try:
        return "JSON" if detect(head).kind == "json" else "a module"
    except HloFileError:
        return ""


def _is_text(data: Buffer) -> bool:
    """Text has none of the control characters that tags and lengths of messages are made of."""
    sample = bytes(data[:_SAMPLE])
    if sample.translate(None, _CONTROL) != sample:
        return False
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return len(sample) == _SAMPLE and error.start > _SAMPLE - 4
    return True


def _detect_text(sample: bytes) -> Detected:
    head = sample.lstrip().lstrip(b"\xef\xbb\xbf")
    if head.startswith(b"{"):
        return Detected("json", "text that begins with {")
    field = _PBTXT.match(head)
    if field and (field[1] in _TOP_LEVEL_FIELDS or _MODULE_FIELD.search(sample)):
        return Detected("pbtxt", f"text that begins with the field {field[1].decode()}")
    other_kind = text_kind(sample)
    if other_kind is not None:
        raise _not_a_module(other_kind)
    return Detected("text", "text without control characters")


def _not_a_module(kind: FileKind) -> HloFileError:
    return HloFileError(
        f"this is {kind.name}, not a module", code="HLO-NOT-HLO", remedy=kind.remedy
    )


def _detect_message(data: Buffer) -> Detected:
    size = len(data)
    if message_behind_length(data) is not None:
        return Detected("delimited", "a length, and so many bytes whose field 1 is a module")
    first = _first_payload(data, 0, size)
    if first is not None:
        inner = _first_payload(data, *first)
        if inner is not None and _looks_like_module(data, *inner):
            return Detected("snapshot", "field 1 is an HloProto, whose field 1 is a module")
        if _looks_like_module(data, *first):
            return _hlo_or_unoptimized(data)
    if _matches(data, 0, size, _MODULE_TYPES) and _holds_computations(data):
        return Detected("module", "its fields are those of HloModuleProto")
    list(wire.fields(data))
    raise HloFileError(
        "no kind of HLO file: the top-level fields fit none of HloModuleProto, HloProto, "
        "HloSnapshot",
        code="HLO-NOT-HLO",
        remedy="pass a .pb written by JAX, PyTorch/XLA, nkipy or an XLA dump, or HLO text",
    )


def message_behind_length(data: Buffer) -> tuple[int, int] | None:
    """Bounds of an unoptimized snapshot that stands behind its length, as XLA dumps it.

    Large arguments stand behind the message, not in it (``large_hlo_snapshot_serialization`` in
    XLA, since 2025-02).
    """
    try:
        size, begin = wire.read_varint(data, 0, min(len(data), 10))
    except HloFileError:
        return None
    end = begin + size
    first = _first_payload(data, begin, end) if end <= len(data) else None
    return (begin, end) if first is not None and _looks_like_module(data, *first) else None


def _holds_computations(data: Buffer) -> bool:
    """True if field 3 can be a computation; without one that has fields, field 1 can be a name."""
    name = b""
    for field in wire.fields(data):
        if field.number == 3 and field.begin < field.end:
            return _can_be_computation(data, field.begin, field.end)
        if field.number == 1:
            name = bytes(data[field.begin : field.end])
    return name.translate(None, _CONTROL) == name


def _can_be_computation(data: Buffer, begin: int, end: int) -> bool:
    """It begins with a name, or its fields have their types, or it is damaged."""
    with contextlib.suppress(HloFileError):
        for field in islice(wire.fields(data, begin, end), _ENOUGH):
            if field.number == 1 and field.wire_type == wire.BYTES:
                return True
            if _COMPUTATION_TYPES.get(field.number, field.wire_type) != field.wire_type:
                return False
    return True


def _hlo_or_unoptimized(data: Buffer) -> Detected:
    for field in wire.fields(data):
        if field.number == 2 and field.wire_type == wire.BYTES:
            return Detected("unoptimized", "field 1 is a module and field 2 holds inputs")
        if field.number == 3 and field.wire_type == wire.VARINT:
            return Detected("unoptimized", "field 1 is a module and field 3 is a version")
    return Detected("hlo", "field 1 is a module")


def _first_payload(data: Buffer, begin: int, end: int) -> tuple[int, int] | None:
    """Bounds of field 1 when it comes first and is bytes."""
    try:
        for field in wire.fields(data, begin, end):
            if field.number == 1 and field.wire_type == wire.BYTES:
                return field.begin, field.end
            return None
    except HloFileError:
        return None
    return None


def _matches(
    data: Buffer, begin: int, end: int, types: dict[int, int], limit: int | None = None
) -> bool:
    """Return True if every known field has its wire type, and there is at least one known field.

    ``limit``: how many fields are examined.
    """
    known_fields = 0
    try:
        for field in islice(wire.fields(data, begin, end), limit):
            expected = types.get(field.number)
            if expected is not None and expected != field.wire_type:
                return False
            known_fields += expected is not None
    except HloFileError:
        return False
    return known_fields > 0


def _looks_like_module(data: Buffer, begin: int, end: int) -> bool:
    """True if the fields have a module's types, and those of its first computation with fields."""
    if not _matches(data, begin, end, _MODULE_TYPES):
        return False
    has_computation = False
    for field in wire.fields(data, begin, end):
        if field.number == 3:
            if field.begin < field.end:
                return _matches(data, field.begin, field.end, _COMPUTATION_TYPES, _ENOUGH)
            has_computation = True
    return has_computation
