"""Where a program's time goes: one table of events, and everything that is derived from it.

What flows through here:

1. :mod:`sites`: instructions that differ in nothing but their tiles are one site: opcode, operands
   with shapes, line, kernel, HLO instruction, FLOPs.
2. :mod:`table`: the events of an estimate (:mod:`neff.timing`) with their sites; a versioned
   document. Nothing is simulated or measured a second time.
3. :mod:`attribution`: time by line, HLO instruction, kernel, engine, opcode or scope.
4. :mod:`stalls`: what each engine waited for, and the critical path.
5. :mod:`what_if`: the same program with parts of the machine faster.
6. :mod:`summary`: all of that as one document.
7. :mod:`perfetto`: the events as a trace that ui.perfetto.dev opens; :mod:`files` writes them all.
8. :mod:`text` and :mod:`report`: tables for the command line, a prompt and a notebook.
9. :mod:`budgets` and :mod:`project_budgets`: limits on latency, memory and busy engines.
10. :mod:`vendor`: the vendor's tables, as Parquet files and summaries.
11. :mod:`changes`: two NEFFs, or folders of them, before and after.

All of it is estimated; each document says so.
"""

from __future__ import annotations

from neff.profile.analysis import Analysis, by
from neff.profile.attribution import GROUPINGS, Share
from neff.profile.budgets import Budget, Check, budget_of, check_budget
from neff.profile.files import write_files
from neff.profile.perfetto import write_trace
from neff.profile.report import CostReport, ProfileReport
from neff.profile.sites import Site
from neff.profile.stalls import EngineSplit, PathStep, critical_path, engine_splits
from neff.profile.summary import summary
from neff.profile.table import SCHEMA, Profile, profile_of
from neff.profile.what_if import Changes, changes_of, what_if

__all__ = [
    "GROUPINGS",
    "SCHEMA",
    "Analysis",
    "Budget",
    "Changes",
    "Check",
    "CostReport",
    "EngineSplit",
    "PathStep",
    "Profile",
    "ProfileReport",
    "Share",
    "Site",
    "budget_of",
    "by",
    "changes_of",
    "check_budget",
    "critical_path",
    "engine_splits",
    "profile_of",
    "summary",
    "what_if",
    "write_files",
    "write_trace",
]
