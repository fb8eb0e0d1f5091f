"""Columns of a row that move together to other columns of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RowPiece"]


@dataclass(frozen=True, slots=True)
class RowPiece:
    """A run of columns, with a step from one to the next.

    Attributes:
        target, target_step: first column of the result, and the step to the next.
        source, source_step: the same of the operand.
        count: number of columns.
        is_negated: the copies are negative.
    """

    target: int
    target_step: int
    source: int
    source_step: int
    count: int
    is_negated: bool

    @property
    def written(self) -> slice:
        """The columns of the result."""
        limit = self.target + (self.count - 1) * self.target_step + 1
        return slice(self.target, limit, self.target_step)

    @property
    def read(self) -> slice:
        """The columns of the operand."""
        limit = self.source + (self.count - 1) * self.source_step + 1
        return slice(self.source, limit, self.source_step)
