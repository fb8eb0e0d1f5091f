"""Replace: sub-graphs become kernel calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass, needed
from hlo_tools.rewrite.errors import PassError

__all__ = ["Replace"]


@dataclass(frozen=True, slots=True)
class Replace(Pass):
    """Call a kernel wherever a pattern is found. Results are the kernel's.

    Attributes:
        pattern: a file with HLO, or FILE.py:NAME for a NumPy or JAX function, or a pattern.
        kernel: the kernel's .klir file.
        required: it is an error when the pattern is nowhere.
    """

    name: ClassVar[str] = "replace"
    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("pattern",), ("kernel",))

    pattern: str = ""
    kernel: str = ""
    required: bool = False

    def run(self, module: Module) -> bool:
        from hlo_tools.kernel_calls import replace_matches

        needed(self)
        calls = replace_matches(module, self.pattern, self.kernel)
        if self.required and not calls:
            raise PassError(
                f"the pattern {self.pattern} does not match anywhere in the module",
                code="HLO-NO-MATCH",
                remedy="opcodes, shapes, attributes and constants must equal the pattern's",
            )
        return bool(calls)
