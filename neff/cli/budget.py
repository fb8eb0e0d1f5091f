"""``nki-neff budget``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from hlo_tools.cli import console
from neff.errors import NeffError
from neff.profile import Budget, Check, check_budget, profile_of
from neff.profile.project_budgets import project_budgets

__all__ = ["budget_file"]

KEPT, EXCEEDED = 0, 1


def budget_file(
    file: Path, budget: Budget, *, settings: list[str], as_json: bool, as_github: bool
) -> int:
    """Check a NEFF's estimate against limits, the project's without any; 1 when one is not kept.

    Raises:
        NeffError: it cannot be read, or there is nothing to check.
    """
    from neff.container import read
    from neff.timing import Parameters, overrides_of

    program = read(file)
    parameters = Parameters(program.target, overrides_of(settings, Path.cwd()))
    is_given = budget != Budget(tolerance=budget.tolerance)
    project = None if is_given else project_budgets(Path.cwd())
    profile = profile_of(program, parameters=parameters)
    if project is None:
        checks = check_budget(program, profile, budget)
    else:
        checks = project.check(program, profile, (program.name, file.stem))
    if not checks:
        raise NeffError(
            "there is no limit to check",
            code="NEFF-USAGE",
            remedy="give --max-latency, --max-sbuf, --max-hbm, --min-utilisation or --baseline, or "
            "name the program in [tool.nki-neff.budgets]",
        )
    code = KEPT if all(check.is_kept for check in checks) else EXCEEDED
    if as_json:
        rows: list[dict[str, object]] = [asdict(check) for check in checks]
        console.write_json("budget", file=str(file), estimated=True, kept=not code, checks=rows)
        return code
    rest = [(c.name, _number(c.found), _number(c.limit), c.unit, _verdict(c)) for c in checks]
    console.table(("budget (estimated)", "found", "limit", "unit", ""), rest)
    for check in checks:
        if as_github and not check.is_kept:
            _annotate(check)
    return code


def _verdict(check: Check) -> str:
    return "kept" if check.is_kept else f"EXCEEDED {check.place}".rstrip()


def _annotate(check: Check) -> None:
    """A workflow command of GitHub's, at the costly line where it is known."""
    file, _, line = check.place.rpartition(":")
    at = f" file={_property(file)},line={line}" if file and line.isdigit() else ""
    text = str(replace(check, place=""))
    console.line(f"::error{at}::{_data(text)}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _number(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
