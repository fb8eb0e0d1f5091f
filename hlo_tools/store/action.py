"""Key of a result: the text of everything it was made from, which is hashed and explains it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Action", "digest_of"]


def digest_of(content: bytes) -> str:
    """SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Action:
    """One way of making a result; two of equal text make the same.

    Attributes:
        kind: what is made, ``neff`` for instance.
        parts: everything that the result depends on, by name: versions, flags, digests of inputs.
            No path of a machine belongs there: results of another checkout would not be found.
    """

    kind: str
    parts: Mapping[str, str]

    @cached_property
    def text(self) -> str:
        """The text that is hashed: JSON with sorted keys."""
        document = {"kind": self.kind, "parts": dict(self.parts)}
        return json.dumps(document, sort_keys=True, ensure_ascii=True)

    @cached_property
    def digest(self) -> str:
        """The key."""
        return digest_of(self.text.encode())
