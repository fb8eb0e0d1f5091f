"""``nki-neff budget``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.findings import checkout_path
from hlo_tools.cli.shared.options import AsJson
from neff.cli.estimates import EstimateOptions
from neff.cli.options import ChipFile, Settings
from neff.errors import NeffError
from neff.profile import Budget, Check, budget_of, check_budget, profile_of
from neff.profile.project_budgets import ProjectBudgets, project_budgets

__all__ = ["command"]

WITHIN_BUDGET, EXCEEDED = 0, 1


def command(
    paths: Annotated[
        list[Path], typer.Argument(help="NEFFs, or folders of them.", metavar="FILE...")
    ],
    max_latency: Annotated[str, typer.Option(help="Such as 250us.", metavar="TIME")] = "",
    max_sbuf: Annotated[str, typer.Option(help="Such as 20MiB.", metavar="SIZE")] = "",
    max_hbm: Annotated[str, typer.Option(help="Such as 1GiB.", metavar="SIZE")] = "",
    min_utilisation: Annotated[
        list[str] | None,
        typer.Option(help="How busy an engine has to be: tensor=60%.", metavar="ENGINE=SHARE"),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A summary.json of an earlier profile.")
    ] = None,
    tolerance: Annotated[
        str, typer.Option(help="How much slower than the baseline it may be: 5%.", metavar="SHARE")
    ] = "",
    settings: Settings = None,
    chip: ChipFile = None,
    as_github: Annotated[
        bool, typer.Option("--github", help="Also annotations for GitHub at the costly lines.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Check the estimates of NEFFs built here against limits. Exit code 1 when one is exceeded.

    Without limits here, those that [tool.nki-neff.budgets] in pyproject.toml has for their names;
    of several NEFFs, those for which it has none are left out.

    Example: nki-neff budget matmul.neff --max-latency 250us --max-sbuf 20MiB
    """
    budget = budget_of(
        max_latency=max_latency,
        max_sbuf=max_sbuf,
        max_hbm=max_hbm,
        min_utilisation=tuple(min_utilisation or ()),
        baseline=baseline,
        tolerance=tolerance,
    )
    options = EstimateOptions(settings=settings, chip=chip)
    return _check(paths, budget, options, as_json=as_json, as_github=as_github)


def _check(
    paths: Sequence[Path],
    budget: Budget,
    options: EstimateOptions,
    *,
    as_json: bool,
    as_github: bool,
) -> int:
    is_given = budget != Budget(tolerance=budget.tolerance)
    project = None if is_given else project_budgets(Path.cwd())
    checks_by_file = {file: _checks(file, budget, project, options) for file in _files(paths)}
    if not any(checks_by_file.values()):
        raise NeffError(
            "there is no limit to check",
            code="NEFF-USAGE",
            remedy="give --max-latency, --max-sbuf, --max-hbm, --min-utilisation or --baseline, or "
            "name the program in [tool.nki-neff.budgets]",
        )
    checks = [(file, check) for file, rows in checks_by_file.items() for check in rows]
    for glob in _unmatched(project, [check for _, check in checks]):
        console.note(f"the budget {glob!r} is that of no program or kernel here")
    code = WITHIN_BUDGET if all(check.is_kept for _, check in checks) else EXCEEDED
    if as_json:
        rows: list[dict[str, object]] = [{"file": str(f), **asdict(check)} for f, check in checks]
        files = [str(file) for file in checks_by_file]
        console.write_json("budget", files=files, estimated=True, kept=not code, checks=rows)
        return code
    columns = ("budget (estimated)", "found", "limit", "unit", "")
    cells = [(c.name, _number(c.found), _number(c.limit), c.unit, _verdict(c)) for _, c in checks]
    if len(checks_by_file) > 1:
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
        files = sorted(path.rglob("*.neff")) if path.is_dir() else [path]
        if not files:
            raise NeffError(
                "the folder contains no NEFF",
                code="NEFF-OPEN",
                place=str(path),
                remedy="nki-neff build MODULES -o FOLDER writes them",
            )
        yield from files


def _unmatched(project: ProjectBudgets | None, checks: Sequence[Check]) -> list[str]:
    """Return the entries of the project that no check comes from: a name may be misspelled."""
    kernels = [check.name.removeprefix("latency of ").partition(" (")[0] for check in checks]
    return [
        glob
        for glob, _ in (project.entries if project is not None else ())
        if not any(check.name.endswith(f"({glob})") for check in checks)
        and not any(fnmatchcase(kernel, glob) for kernel in kernels)
    ]


def _checks(
    file: Path, budget: Budget, project: ProjectBudgets | None, options: EstimateOptions
) -> list[Check]:
    from neff.container import read

    program = read(file)
    profile = profile_of(program, **options.keywords(program, file))
    if project is None:
        return check_budget(program, profile, budget)
    return project.check(program, profile, (program.name, file.stem))


def _verdict(check: Check) -> str:
    return "kept" if check.is_kept else f"EXCEEDED {check.place}".rstrip()


def _annotate(check: Check) -> None:
    """A workflow command of GitHub's, at the costly line where it is known."""
    file, _, line = check.place.rpartition(":")
    has_line = bool(file) and line.isdigit()
    location = f" file={_property(checkout_path(file))},line={line}" if has_line else ""
    text = str(replace(check, place=""))
    console.line(f"::error{location}::{_data(text)}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _number(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
