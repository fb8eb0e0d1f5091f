"""Comments at code that a person must rewrite, with codes that ``nki-hlo explain`` knows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Marker", "Unmigrated"]


@dataclass(frozen=True, slots=True)
class Marker:
    """A comment in the migrated file.

    Attributes:
        code: such as ``NKI-M003``.
        line: of the statement in the original file.
        what: what stays as it was.
        why: why it cannot be rewritten mechanically.
        how: what to write.
    """

    code: str
    line: int
    what: str
    why: str
    how: str

    def comment(self) -> str:
        """Return the comment's text."""
        return f"# MIGRATE {self.code}: {self.what}: {self.why}; {self.how}"


class Unmigrated(Exception):
    """Raised by a rewrite that gives up: the statement stays and gets a marker."""

    def __init__(self, code: str, what: str, why: str, how: str) -> None:
        super().__init__(f"{what}: {why}")
        self.code, self.what, self.why, self.how = code, what, why, how
