"""The table of lint rules: every documented error of the vendor's compiler, and ours on kernels.

Facts: the pages on error codes in the vendor's public documentation (compiler/error-codes, as of
2026-08), one a code; wording and checks are ours. A rule without a check cannot be decided from the
graph.
"""

from __future__ import annotations

from hlo_tools.lint import (
    element_types,
    integers,
    kernel_files,
    operators,
    quantization,
    scaled_matmul,
    whole,
    windows,
)
from hlo_tools.lint.rule import LintRule

__all__ = ["RULES"]

_FAMILIES = (
    element_types, integers, kernel_files, operators, quantization, scaled_matmul, whole, windows,
)  # fmt: skip

RULES: dict[str, LintRule] = {
    rule.code: rule
    for rule in sorted(
        (rule for family in _FAMILIES for rule in family.RULES), key=lambda r: r.code
    )
}
"""Code -> rule, by code."""
