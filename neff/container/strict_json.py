"""JSON from files that nobody trusts, and JSON whose bytes never vary."""

from __future__ import annotations

import json
from typing import Any

from neff.errors import NeffFileError

__all__ = ["dump", "load"]

_MAX_BYTES = 1 << 28


def load(data: bytes | memoryview, place: str) -> Any:
    """Parse a document.

    Raises:
        NeffFileError: ``NEFF-JSON``: no JSON, a key given twice, NaN or infinity, nested too
            deep or too large.
    """
    if len(data) > _MAX_BYTES:
        raise _bad(f"{len(data)} bytes; at most {_MAX_BYTES} are read", place)
    try:
        return json.loads(bytes(data), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise _bad("nested too deep", place) from None
    except (ValueError, UnicodeError) as error:
        raise _bad(str(error), place) from None


def dump(document: Any, *, indent: int | None = 1) -> bytes:
    """The bytes of a document: keys as they stand, ASCII, one newline at the end."""
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


def _bad(message: str, place: str) -> NeffFileError:
    return NeffFileError(f"not valid JSON: {message}", code="NEFF-JSON", place=place)
