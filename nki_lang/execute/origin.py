"""The first read of an unwritten element, as the error about its value names it."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.source import SourceLocation

__all__ = ["Origin"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The first read of an unwritten element.

    Attributes:
        tensor: name of the tensor that was read.
        index: index of the element in the operand.
        op, operand: the instruction and its operand.
        location: source line of the instruction.
    """

    tensor: str
    index: tuple[int, ...]
    op: str
    operand: str
    location: SourceLocation | None

    def error(self, reaches: str) -> NkiExecutionError:
        """Return the error for a value that reaches ``reaches``, located at this read."""
        position = ", ".join(str(coordinate) for coordinate in self.index)
        return NkiExecutionError(
            f"{self.op} reads element [{position}] of its {self.operand}, tensor {self.tensor!r}, "
            f"before anything was written there, and the value reaches {reaches}",
            code="NKI-UNINITIALISED",
            location=self.location,
            remedy="write the whole tile before it is read (nisa.memset), or read only the part "
            "that was written",
            details={"tensor": self.tensor, "operand": self.operand, "index": list(self.index)},
        )
