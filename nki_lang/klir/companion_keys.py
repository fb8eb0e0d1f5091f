"""Checks that a companion record has only keys that this version reads.

Open by design, and therefore not checked: the names of tensors, instructions and metadata.
``metadata`` is kept as it is.
"""

from __future__ import annotations

from typing import Any

from nki_lang.base.errors import NkiFileError
from nki_lang.base.unknown_fields import REMEDY, unknown_key
from nki_lang.klir.companion import is_record
from nki_lang.klir.table import operand_names

__all__ = ["require_known_keys", "require_known_operands", "unknown_entry"]

_RECORD_KEYS = frozenset(
    {
        "format", "version", "klir_sha256", "target", "grid", "returns_tuple", "has_collectives",
        "tensors", "instructions", "functions", "callers", "places", "engines", "regions",
        "metadata",
    }
)  # fmt: skip
_TENSOR_KEYS = frozenset({"dtype", "shape", "buffer", "address", "fixed"})
_NOTE_KEYS = frozenset({"op", "operands", "engine", "depends_on"})
_CALLER_KEYS = frozenset({"frames", "runs"})


def unknown_entry(path: str, text: str) -> NkiFileError:
    """Return the error of an entry of a companion record that this version does not know.

    Args:
        path: where it stands in the record, as in ``instructions[3].operands``.
        text: what is unknown.
    """
    return NkiFileError(
        f"the companion record has {text} at {path}, which this version does not know",
        code="NKI-FILE-UNKNOWN-FIELD",
        remedy=REMEDY,
    )


def require_known_keys(record: dict[str, Any]) -> None:
    """Refuse a record with a key that this version does not read.

    Objects of another type than documented are left to the readers of their content.

    Raises:
        NkiFileError: code ``NKI-FILE-UNKNOWN-FIELD``.
    """
    _check(record, _RECORD_KEYS, "the top level")
    cores: list[dict[str, dict[str, object]]] = record.get("tensors") or []
    for core, tensors in enumerate(cores):
        for name, note in tensors.items():
            _check(note, _TENSOR_KEYS, f"tensors[{core}].{name}")
    _check(record.get("callers"), _CALLER_KEYS, "callers")
    notes: list[tuple[int, dict[str, object]]] = record.get("instructions") or []
    for index, note in notes:
        if not note.keys() <= _NOTE_KEYS:
            _check(note, _NOTE_KEYS, f"instructions[{index}]")


def require_known_operands(op: str, operands: dict[str, object], index: int) -> None:
    """Refuse a note whose operands the instruction does not have.

    Args:
        op: the instruction; an unknown one takes any operands, and cannot be executed.
        operands: the note's.
        index: the instruction's number.

    Raises:
        NkiFileError: code ``NKI-FILE-UNKNOWN-FIELD``.
    """
    names = operand_names(op)
    if names is not None and not all(name in names for name in operands):
        _check(operands, frozenset(names), f"instructions[{index}].operands of {op}")


def _check(document: object, keys: frozenset[str], path: str) -> None:
    if not is_record(document):
        return
    key = unknown_key(document, keys)
    if key is not None:
        raise unknown_entry(path, f"the key {key[:80]!r}")
