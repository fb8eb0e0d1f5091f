"""Budgets of a project: ``[tool.nki-neff.budgets]`` in ``pyproject.toml``.

Each entry is a glob of program or kernel names with its limits::

    [tool.nki-neff.budgets]
    "train_step*" = { max-latency = "2ms", max-sbuf = "20MiB" }
    softmax = { max-latency = "40us", min-utilisation = ["vector=20%"] }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from neff.errors import NeffError
from neff.profile.analysis import by
from neff.profile.budgets import Budget, Check, budget_of, check_budget
from neff.profile.table import Profile
from neff.program import Program
from neff.timing.project import project_table

__all__ = ["ProjectBudgets", "project_budgets"]

_TEXTS = {"max-latency": "max_latency", "max-sbuf": "max_sbuf", "max-hbm": "max_hbm",
          "tolerance": "tolerance"}  # fmt: skip
_BASELINE, _UTILISATION = "baseline", "min-utilisation"


@dataclass(frozen=True, slots=True)
class ProjectBudgets:
    """The entries of a project: glob of names -> limits."""

    entries: tuple[tuple[str, Budget], ...]

    def check(self, program: Program, profile: Profile, names: tuple[str, ...]) -> list[Check]:
        """Every limit that applies, those of the program first.

        Args:
            program: compiled.
            profile: of the program.
            names: what the program is called: its own name, that of its file.
        """
        checks: list[Check] = []
        for glob, budget in self.entries:
            if any(fnmatchcase(name, glob) for name in names):
                checks += _named(glob, check_budget(program, profile, budget))
            elif budget.latency_ns is not None:
                checks += _kernels(profile, glob, budget.latency_ns)
        return checks


def _named(glob: str, checks: list[Check]) -> Iterator[Check]:
    for check in checks:
        yield replace(check, name=f"{check.name} ({glob})")


def _kernels(profile: Profile, glob: str, limit: float) -> Iterator[Check]:
    """Each call of a kernel that the glob names; its share of the critical path is its latency."""
    for share in by(profile, "kernel"):
        label, _, function = share.name.partition(" ")
        if function and fnmatchcase(function, glob):
            location = _costliest(profile, share.name)
            name = f"latency of {function} ({label})"
            is_kept = share.path_ns <= limit
            yield Check(name, share.path_ns / 1e3, limit / 1e3, "µs", is_kept, location)


def _costliest(profile: Profile, kernel: str) -> str:
    """The line of a kernel with most of the critical path."""
    lines = {site.place for site in profile.sites if site.kernel == kernel}
    shares = [share for share in by(profile, "line") if share.name in lines]
    return max(shares, key=lambda share: share.path_ns).name if shares else ""


def project_budgets(folder: Path) -> ProjectBudgets:
    """The entries of the nearest ``pyproject.toml``.

    Args:
        folder: where the search starts, upwards; baselines are relative to it.

    Raises:
        NeffError: ``NEFF-BUDGET``; an entry is none, or a limit is not understood.
    """
    table = project_table("budgets", folder, "NEFF-BUDGET")
    return ProjectBudgets(tuple((glob, _entry(glob, row, folder)) for glob, row in table.items()))


def _entry(glob: str, row: object, folder: Path) -> Budget:
    if not isinstance(row, dict):
        raise _wrong(glob, "it is no table of limits")
    limits = cast("Mapping[str, object]", row)
    unknown = sorted(set(limits) - set(_TEXTS) - {_BASELINE, _UTILISATION})
    if unknown:
        raise _wrong(glob, f"{unknown[0]!r} is not a limit")
    shares = limits.get(_UTILISATION, [])
    listed = cast("list[object]", shares) if isinstance(shares, list) else [shares]
    baseline = limits.get(_BASELINE)
    texts = {_TEXTS[name]: str(value) for name, value in limits.items() if name in _TEXTS}
    return budget_of(
        **texts,
        min_utilisation=tuple(str(share) for share in listed),
        baseline=folder / str(baseline) if baseline is not None else None,
    )


def _wrong(glob: str, reason: str) -> NeffError:
    limits = ", ".join([*_TEXTS, _BASELINE, _UTILISATION])
    return NeffError(
        f"the budget of {glob!r} cannot be used: {reason}",
        code="NEFF-BUDGET",
        place="pyproject.toml",
        remedy=f"give limits: {limits}",
    )
