"""``nki-hlo lint``: what the vendor's compiler would reject."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.configuration import read_configuration
from hlo_tools.cli.shared.failures import report
from hlo_tools.cli.shared.findings import FORMATS, Report, RuleText, print_findings
from hlo_tools.cli.shared.inputs import look_at_each, module_files
from hlo_tools.cli.shared.options import ExitZero, FindingsFormat, FindingsJson
from hlo_tools.cli.shared.targets import ChosenTarget, TargetName, target_for
from hlo_tools.extract.python_file import load_named, names_python
from hlo_tools.ir.module import Module
from hlo_tools.lint import LintRule, lint, registered_rules, selected
from hlo_tools.lint.baseline import gone, read_baseline, unknown_to, write_baseline
from hlo_tools.lint.registry import joined, rules_of
from hlo_tools.verify import Finding, Severity

__all__ = ["command"]


Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        help="Only codes with these prefixes, comma-separated.",
        autocompletion=completion.lint_codes,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="No codes with these prefixes, comma-separated.",
        autocompletion=completion.lint_codes,
    ),
]
RuleFiles = Annotated[
    list[str] | None,
    typer.Option("--rules", help="Add rules of your own.", metavar="FILE.py:NAME"),
]


def command(
    files: Annotated[list[str], typer.Argument(help="Modules, folders, or - for standard input.")],
    target: TargetName = "",
    select: Select = None,
    ignore: Ignore = None,
    rule_files: RuleFiles = None,
    form: FindingsFormat = "text",
    as_json: FindingsJson = False,
    baseline: Annotated[
        str, typer.Option("--baseline", help="File of known findings.", metavar="FILE")
    ] = "",
    write: Annotated[
        bool, typer.Option("--write-baseline", help="Write all findings to the baseline.")
    ] = False,
    exit_zero: ExitZero = False,
) -> int:
    """Find what the compiler rejects for a target, and kernels that do not match their calls.

    Exit code 1 with errors or warnings; files that cannot be read are reported after everything
    else (exit code 3). Settings may be in nki-hlo.toml or pyproject.toml.

    Example: nki-hlo lint --target trn2 hlo_artifacts/
    Example: nki-hlo lint model.pb --format sarif > lint.sarif
    Example: nki-hlo lint model.pb --format junit > lint.xml
    """
    flags = {"target": target, "select": select, "ignore": ignore, "baseline": baseline}
    settings = read_configuration(flags)
    form = "json" if as_json else form
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    known_rules = _known_rules(rule_files or ())
    rules = selected(settings.words("select"), settings.words("ignore"), known_rules)
    paths = [path for name in files for path in module_files(name)]
    used: dict[str, ChosenTarget] = {}

    def of_module(module: Module) -> list[Finding]:
        chosen = target_for(target, module.folder)
        used.setdefault(chosen.target.name, chosen)
        return lint(module, target=chosen.target, rules=rules, root=_root(module))

    shown, findings, unread = look_at_each(paths, of_module)
    _note_default(used)
    baseline_path = settings.text("baseline")
    if write and unread:
        raise unread[0]  # what is in them would be missing from the baseline
    if write:
        return _write(baseline_path, findings)
    if baseline_path:
        targets = [chosen.target for chosen in used.values()]
        codes = {rule.code for rule in rules if any(map(rule.applies_to, targets))}
        findings = _new(baseline_path, findings, shown, codes)
    facts = {"target": ",".join(sorted(used))}
    print_findings(Report("lint", shown, findings, _texts(known_rules), facts), form)
    if unread:
        return [report(error) for error in unread][-1]
    has_problems = any(finding.severity is not Severity.note for finding in findings)
    return 1 if has_problems and not exit_zero else 0


def _texts(rules: Mapping[str, LintRule]) -> dict[str, RuleText]:
    return {code: RuleText(rule.title, rule.why, rule.remedy) for code, rule in rules.items()}


def _note_default(used: Mapping[str, ChosenTarget]) -> None:
    for name, chosen in used.items():
        if chosen.is_default:
            console.note(
                f"checked for {name}, the default; --target or the setting chooses another"
            )


def _root(module: Module) -> Path:
    return module.folder or Path.cwd()


def _new(
    baseline: str, findings: list[Finding], files: list[str], codes: set[str]
) -> list[Finding]:
    """The findings that are not in the baseline; notes report entries that no longer occur."""
    baseline_findings, folder = read_baseline(baseline), Path(os.path.abspath(baseline)).parent
    missing = gone(baseline_findings, findings, folder, files=files, codes=codes)
    if missing:
        entries = console.counted(missing.total(), "known finding no longer occurs",
                                  "known findings no longer occur")  # fmt: skip
        console.note(f"{baseline}: {entries}; --write-baseline removes what no longer occurs")
    for (file, code, location), count in missing.items():
        times = f" ({count} times)" if count > 1 else ""
        console.note(f"  {file}: {code} {location}".rstrip() + times)
    return unknown_to(baseline_findings, findings, folder)


def _known_rules(locations: Sequence[str]) -> dict[str, LintRule]:
    """The registered rules, and those of Python files."""
    rules = registered_rules()
    for position in locations:
        if not names_python(position):
            raise typer.BadParameter(
                f"{position!r} is not FILE.py:NAME, a LintRule or a list of them"
            )
        rules = joined(rules, rules_of(load_named(position), position), position)
    return rules


def _write(path: str, findings: list[Finding]) -> int:
    if not path:
        raise typer.BadParameter("--write-baseline needs --baseline FILE, or the setting baseline")
    write_baseline(os.path.abspath(path), findings)
    console.note(f"{path}: {console.counted(len(findings), 'known finding')}")
    return 0
