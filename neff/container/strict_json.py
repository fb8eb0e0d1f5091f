"""JSON from untrusted files, and JSON whose bytes never vary."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from neff.errors import NeffFileError

__all__ = ["dump", "is_list", "is_object", "load", "objects"]

_MAX_BYTES = 1 << 28


def load(data: bytes | memoryview, location: str) -> Any:
    """Parse a document.

    Raises:
        NeffFileError: ``NEFF-JSON``: not JSON, a repeated key, NaN or infinity, nested too
            deep or too large.
    """
    if len(data) > _MAX_BYTES:
        raise _bad(f"{len(data)} bytes; at most {_MAX_BYTES} are read", location)
    try:
        return json.loads(bytes(data), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise _bad("nested too deep", location) from None
    except (ValueError, UnicodeError) as error:
        raise _bad(str(error), location) from None


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def objects(document: object, key: str) -> list[dict[str, Any]]:
    """The objects in the array ``document[key]``; none where that is of another type."""
    rows = document.get(key) if is_object(document) else None
    return [row for row in rows if is_object(row)] if is_list(rows) else []


def dump(document: Any, *, indent: int | None = 1) -> bytes:
    """The bytes of a document: keys in their order, ASCII, one newline at the end."""
    text = json.dumps(document, indent=indent, ensure_ascii=True, allow_nan=False)
    return text.encode() + b"\n"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice[:80]!r} is repeated")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _bad(message: str, location: str) -> NeffFileError:
    return NeffFileError(f"not valid JSON: {message}", code="NEFF-JSON", place=location)
