"""Verify: everything that is wrong with a module, each finding with a code and a place."""

from hlo_tools.verify.backends import BACKENDS, Backend, backend_of
from hlo_tools.verify.findings import Finding, Severity
from hlo_tools.verify.options import Options
from hlo_tools.verify.rules import RULES, Rule
from hlo_tools.verify.verifier import check, verify

__all__ = [
    "BACKENDS", "RULES", "Backend", "Finding", "Options", "Rule", "Severity", "backend_of", "check",
    "verify",
]  # fmt: skip
