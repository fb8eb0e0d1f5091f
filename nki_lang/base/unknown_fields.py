"""Fields of files from newer producers: the rule, and the switch that passes over them.

A field, key or value that this version does not know may change the semantics of a file. Every
reader refuses it, with a code of its layer, unless the caller allows unknown fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

__all__ = ["ALLOW_VARIABLE", "REMEDY", "UPDATE", "unknown_fields_are_allowed", "unknown_key"]

ALLOW_VARIABLE: Final = "NKI_HLO_ALLOW_UNKNOWN_FIELDS"
"""Environment variable that ``--allow-unknown-fields`` sets to 1."""

UPDATE: Final = "a newer version wrote the file: install a newer nki-hlo"
REMEDY: Final = (
    f"{UPDATE}, or pass over unknown fields with --allow-unknown-fields ({ALLOW_VARIABLE}=1): "
    "results may be wrong"
)


def unknown_fields_are_allowed() -> bool:
    """Return True if the process passes over unknown fields."""
    return os.environ.get(ALLOW_VARIABLE) == "1"


def unknown_key(document: Mapping[str, object], keys: AbstractSet[str]) -> str | None:
    """Return the first key of a document that is not in ``keys``; None if there is none, or if
    unknown fields are allowed.
    """
    if document.keys() <= keys or unknown_fields_are_allowed():
        return None
    return next(key for key in document if key not in keys)
