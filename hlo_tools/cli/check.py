"""``nki-hlo check``: what is wrong with kernels, as they run or as they are written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from hlo_tools.cli.shared import console, progress
from hlo_tools.cli.shared.findings import FORMATS, Report, RuleText, print_findings
from hlo_tools.cli.shared.kernel_call import load_kernel, parse_arguments
from hlo_tools.cli.shared.options import FindingsFormat, FindingsJson
from hlo_tools.cli.shared.targets import TargetName, checked_target
from hlo_tools.errors import HloError
from hlo_tools.extract import run_script
from hlo_tools.verify import Finding, Severity
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import target_of
from nki_lang.base.versions import NEWEST_VERSION, selected_version
from nki_lang.execute.checks import CHECKS, watch
from nki_lang.kernel import simulate
from nki_lang.strict import Violation, check_file

__all__ = ["command"]

INFORMATION = "precision"
"""Reports the precision of each line: not a fault by itself, so it runs only on request."""
DEFAULT = tuple(name for name in CHECKS if name != INFORMATION)


def command(
    file: Annotated[str, typer.Argument(help="A Python file with kernels.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="The script's own arguments, after --; with --strict more files."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Find what the vendor's compiler refuses.")
    ] = False,
    nki: Annotated[
        str,
        typer.Option("--nki", help="Find what this version of NKI refuses.", metavar="0.6|0.7"),
    ] = "",
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="Run only this kernel.", metavar="NAME")
    ] = "",
    values: Annotated[
        list[str] | None,
        typer.Option("--arg", "-a", help="Its arguments: x=float32[128,512], n=4.", metavar="A=V"),
    ] = None,
    cores: Annotated[
        int, typer.Option("--cores", help="Number of cores that it is launched on.")
    ] = 1,
    checks: Annotated[
        str,
        typer.Option("--checks", "-c", help=f"From {', '.join(CHECKS)}; or all.", metavar="NAMES"),
    ] = ",".join(DEFAULT),
    platform: TargetName = "",
    form: FindingsFormat = "text",
    as_json: FindingsJson = False,
    allow_none: Annotated[
        bool, typer.Option("--allow-none", help="With --strict: files may have no kernel.")
    ] = False,
) -> int:
    """Run a script with every kernel checked as it runs, or one kernel on generated inputs.

    With --strict or --nki nothing runs: the kernels of the file, and everything that they call, are
    read for what one version of NKI refuses: --nki, the setting nki, or 0.7. That one traces any
    Python; for 0.6, Python that its compiler does not parse is found too. With a format other than
    text, the script's own output goes to stderr. Exit code 1 with findings other than warnings.

    Example: nki-hlo check train.py --platform trn2
    Example: nki-hlo check kernels.py --kernel softmax --arg x=bfloat16[128,512] --checks all
    Example: nki-hlo check kernels.py --strict
    Example: nki-hlo check kernels.py --nki 0.7
    """
    form = "json" if as_json else form
    _check_options(form, kernel, values)
    chosen = _names(checks)
    target = checked_target(platform) or ""
    if strict or nki:
        names = [kernel] if kernel else []
        version = nki or selected_version() or NEWEST_VERSION
        return _strict([file, *(arguments or [])], names, form, version, allow_none=allow_none)
    if kernel:
        findings = _one_kernel(file, kernel, values or [], cores, chosen, target)
        return _report(file, findings, [kernel], form)
    return _script(file, arguments or [], chosen, target, form)


def _check_options(form: str, kernel: str, values: list[str] | None) -> None:
    """Refuse a format that does not exist, and --arg without --kernel."""
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    if values and not kernel:
        raise typer.BadParameter("--arg is for --kernel")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(set(names) - set(CHECKS) - {"all"})
    if unknown or not names:
        raise typer.BadParameter(f"checks are {', '.join(CHECKS)}, or all; not {unknown or text!r}")
    return tuple(CHECKS) if "all" in names else names


def _strict(
    files: list[str], names: list[str], form: str, version: str, *, allow_none: bool
) -> int:
    violations: list[Violation] = []
    for file in files:
        try:
            violations += check_file(file, names, version=version)
        except NkiError as error:
            if not (allow_none and error.code == "NKI-STRICT-NO-KERNEL"):
                raise
    errors = [violation for violation in violations if violation.severity == "error"]
    if form == "json":
        rows = [violation.to_dict() for violation in violations]
        console.write_json("check", file=files[0], files=files, strict=True, findings=rows)
    elif form != "text":
        _print_as(form, files, [_of_violation(violation) for violation in violations])
    else:
        for violation in violations:
            console.line(str(violation))
        warned = console.counted(len(violations) - len(errors), "warning")
        console.note(f"{console.counted(len(errors), 'error')}, {warned}")
    return 1 if errors else 0


def _of_violation(violation: Violation) -> Finding:
    message = f"{violation.message} in {violation.function}: {violation.why}"
    source = f"{violation.file}:{violation.line}"
    return Finding(violation.code, message, Severity(violation.severity), source=source, file=violation.file,
                   remedy=violation.instead)  # fmt: skip


def _of_run(file: str, row: dict[str, Any]) -> Finding:
    severity = Severity.note if row["check"] == INFORMATION else Severity.error
    source = f"{row['file']}:{row['line']}" if row["file"] else ""
    return Finding(row["code"], row["message"], severity, source=source, file=file,
                   remedy=row["remedy"] or "")  # fmt: skip


def _print_as(form: str, files: list[str], findings: list[Finding]) -> None:
    """In one of the forms for CI."""
    from hlo_tools.cli.shared.codes import find

    rules = {code: find(code) for code in dict.fromkeys(finding.code for finding in findings)}
    texts = {
        code: RuleText(rule.title, rule.why, rule.remedy) if rule else RuleText(code, "")
        for code, rule in rules.items()
    }
    print_findings(Report("check", files, findings, texts, {}, noun="file"), form)


def _one_kernel(
    file: str, name: str, words: list[str], cores: int, checks: tuple[str, ...], platform: str
) -> list[dict[str, Any]]:
    """Findings of one call with generated inputs."""
    values = parse_arguments(words)
    loaded = load_kernel(file, name)
    findings: list[dict[str, Any]] = []

    def listen(_func: object, new_findings: list[Any]) -> None:
        findings.extend({"kernel": name, **finding.to_json()} for finding in new_findings)

    target = target_of(platform) if platform else None
    watch.LISTENERS.append(listen)
    try:
        run = simulate(loaded[cores] if cores > 1 else loaded, target=target, checks=checks)
        run(**values)
    except NkiError as error:
        if error.code == "NKI-ARGUMENTS" and isinstance(error, TypeError):
            raise HloError(
                error.message, code="HLO-ARGUMENT", place=file,
                remedy="give each tensor and constant with --arg, such as --arg x=float32[128,512]",
            ) from error  # fmt: skip
        if not findings:  # refused before anything ran
            raise
        console.note(f"the run ended with {error.code}", verbose=True)
    finally:
        watch.LISTENERS.remove(listen)
    return findings


def _script(
    file: str, arguments: list[str], checks: tuple[str, ...], platform: str, form: str
) -> int:
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
        journal = Path(folder) / "checks"
        environment = dict(os.environ) | {
            "NKI_SIMULATOR": "1",
            watch.CHECKS_VARIABLE: ",".join(checks),
            watch.JOURNAL_VARIABLE: str(journal),
        }
        with progress.paused():
            run = run_script(
                file, arguments, platform=platform or None, environment=environment,
                stdout_to_stderr=form != "text",
            )  # fmt: skip
        lines = journal.read_text().splitlines() if journal.exists() else []
    rows = [json.loads(line) for line in lines]
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    findings = [row for row in rows if "code" in row]
    if not rows and run.exit_code == 0:
        raise HloError(
            "no kernel ran", code="HLO-NO-KERNEL-RUN", place=file,
            remedy="call one in the script, or name one: --kernel NAME --arg x=float32[128,512]",
        )  # fmt: skip
    if run.exit_code != 0 and not findings:
        failure = HloError(
            f"the script ended with exit code {run.exit_code}", code="HLO-SCRIPT", place=file,
            remedy="correct what it printed; kernels that it did not reach are not checked",
        )  # fmt: skip
        if form in ("text", "json"):
            _report(file, findings, kernels, form)
        else:  # a document without a finding would be a test that passes
            finding = Finding(failure.code, failure.message, file=file, remedy=failure.remedy)
            _print_as(form, [file], [finding])
        raise failure
    return _report(file, findings, kernels, form)


def _report(file: str, findings: list[dict[str, Any]], kernels: list[str], form: str) -> int:
    """Print each finding once, however often its line ran."""
    unique = list({json.dumps(_identity(finding)): finding for finding in findings}.values())
    faults = [finding for finding in unique if finding["check"] != INFORMATION]
    if form == "json":
        console.write_json("check", file=file, strict=False, kernels=kernels, findings=unique)
        return 1 if faults else 0
    if form != "text":
        _print_as(form, [file], [_of_run(file, finding) for finding in unique])
        return 1 if faults else 0
    for finding in unique:
        location = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
        always = finding["check"] in ("fault", "unwritten")
        check = "" if always else f" (check: {finding['check']})"
        first, _, details = finding["message"].partition("\n")
        console.line(f"{location}[{finding['code']}] {first}{check}")
        if details:
            console.line(details)
        if finding["remedy"]:
            console.line(f"  help: {finding['remedy']}")
    _note_beta1(file)
    notes = len(unique) - len(faults)
    also = f", {console.counted(notes, 'note')}" if notes else ""
    console.note(
        f"{console.counted(len(kernels), 'kernel')}, {console.counted(len(faults), 'finding')}{also}"
    )
    return 1 if faults else 0


OLD_LANGUAGE = "NKI-STRICT-OLD-API"
"""The strict rule that finds kernels of NKI beta 1."""


def _note_beta1(file: str) -> None:
    """Point to ``nki-hlo migrate`` at the line of each kernel of beta 1."""
    try:
        rows = check_file(file)
    except NkiError:  # a script without kernels of its own
        return
    for row in rows:
        if row.code == OLD_LANGUAGE:
            console.note(f"{row.file}:{row.line}: note: {row.function} is of NKI beta 1; nki-hlo migrate"
                         " rewrites it for the current version (docs/beta1.md)")  # fmt: skip


def _identity(finding: dict[str, Any]) -> list[Any]:
    return [finding[name] for name in ("check", "code", "file", "line")]
