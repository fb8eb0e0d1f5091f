"""Lint: what the vendor's compiler refuses, found in the graph before it is compiled."""

from hlo_tools.lint.linter import lint, selected
from hlo_tools.lint.rule import LintRule
from hlo_tools.lint.table import RULES

__all__ = ["RULES", "LintRule", "lint", "selected"]
