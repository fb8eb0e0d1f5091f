"""``nki-neff budget``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hlo_tools.cli import console
from hlo_tools.cli.findings import checkout_path
from neff.errors import NeffError
from neff.profile import Budget, Check, check_budget, profile_of
from neff.profile.project_budgets import ProjectBudgets, project_budgets

__all__ = ["budget_files"]

KEPT, EXCEEDED = 0, 1


def budget_files(
    paths: Sequence[Path], budget: Budget, *, settings: list[str], as_json: bool, as_github: bool
) -> int:
    """Check the estimates of NEFFs against limits, the project's without any; 1 when one is not kept.

    Of several NEFFs, those for which the project has no limit are left out.

    Raises:
        NeffError: one cannot be read, or there is nothing to check.
    """
    is_given = budget != Budget(tolerance=budget.tolerance)
    project = None if is_given else project_budgets(Path.cwd())
    found = {file: _checks(file, budget, project, settings) for file in _files(paths)}
    if not any(found.values()):
        raise NeffError(
            "there is no limit to check",
            code="NEFF-USAGE",
            remedy="give --max-latency, --max-sbuf, --max-hbm, --min-utilisation or --baseline, or "
            "name the program in [tool.nki-neff.budgets]",
        )
    checks = [(file, check) for file, rows in found.items() for check in rows]
    code = KEPT if all(check.is_kept for _, check in checks) else EXCEEDED
    if as_json:
        rows: list[dict[str, object]] = [{"file": str(f), **asdict(check)} for f, check in checks]
        files = [str(file) for file in found]
        console.write_json("budget", files=files, estimated=True, kept=not code, checks=rows)
        return code
    columns = ("budget (estimated)", "found", "limit", "unit", "")
    cells = [(c.name, _number(c.found), _number(c.limit), c.unit, _verdict(c)) for _, c in checks]
    if len(found) > 1:
        columns = ("NEFF", *columns)
        cells = [(file.name, *row) for (file, _), row in zip(checks, cells, strict=True)]
    console.table(columns, cells)
    for _, check in checks:
        if as_github and not check.is_kept:
            _annotate(check)
    return code


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Files, and the NEFFs of folders."""
    for path in paths:
        yield from sorted(path.rglob("*.neff")) if path.is_dir() else [path]


def _checks(
    file: Path, budget: Budget, project: ProjectBudgets | None, settings: list[str]
) -> list[Check]:
    from neff.container import read
    from neff.timing import Parameters, overrides_of

    program = read(file)
    parameters = Parameters(program.target, overrides_of(settings, Path.cwd()))
    profile = profile_of(program, parameters=parameters)
    if project is None:
        return check_budget(program, profile, budget)
    return project.check(program, profile, (program.name, file.stem))


def _verdict(check: Check) -> str:
    return "kept" if check.is_kept else f"EXCEEDED {check.place}".rstrip()


def _annotate(check: Check) -> None:
    """A workflow command of GitHub's, at the costly line where it is known."""
    file, _, line = check.place.rpartition(":")
    known = bool(file) and line.isdigit()
    at = f" file={_property(checkout_path(file))},line={line}" if known else ""
    text = str(replace(check, place=""))
    console.line(f"::error{at}::{_data(text)}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _number(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
