"""Differences between two modules, matched by structure, not by name or order."""

from hlo_tools.diff.compare import Pairing, diff_modules
from hlo_tools.diff.keys import IGNORABLE
from hlo_tools.diff.result import Change, ComputationDiff, InstructionDiff, ModuleDiff

__all__ = [
    "IGNORABLE",
    "Change",
    "ComputationDiff",
    "InstructionDiff",
    "ModuleDiff",
    "Pairing",
    "diff_modules",
]
