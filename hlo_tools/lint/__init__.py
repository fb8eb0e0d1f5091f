"""Lint: what the vendor's compiler refuses, found in the graph before it is compiled."""

from hlo_tools.lint.linter import lint, selected
from hlo_tools.lint.registry import registered_rules
from hlo_tools.lint.rule import Graph, Hit, LintRule
from hlo_tools.lint.table import RULES

__all__ = ["RULES", "Graph", "Hit", "LintRule", "lint", "registered_rules", "selected"]
