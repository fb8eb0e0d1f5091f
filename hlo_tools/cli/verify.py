"""``nki-hlo verify``: what is wrong with a module, and with the kernel files that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.failures import report
from hlo_tools.cli.shared.findings import FORMATS, Report, RuleText, print_findings
from hlo_tools.cli.shared.inputs import look_at_each, module_files
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.cli.shared.options import ExitZero, FindingsFormat, FindingsJson
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.kernels.calls import resolve
from hlo_tools.verify import BACKENDS, RULES, Finding, Options, Severity, backend_of, verify
from hlo_tools.verify.backends import AUTOMATIC

__all__ = ["command"]

ALSO = {
    "broadcasts": "ordered_broadcasts",
    "names": "same_names",
    "device-memory": "device_memory",
    "bitcast-reshapes": "bitcast_reshapes",
}
"""Word of ``--also`` -> the option that it sets."""

_KERNEL_FILE = RuleText(
    "every kernel file that a module calls exists and is complete",
    "such a module can be inspected, but neither run nor built",
)


Layouts = Annotated[
    bool, typer.Option("--layout-sensitive", help="Layouts are final: only copies change them.")
]
Deadlocks = Annotated[
    bool, typer.Option("--deadlocks", help="In scheduled modules, no transfer waits for ever.")
]
MixedPrecision = Annotated[
    bool, typer.Option("--mixed-precision", help="An operation may mix types of floats.")
]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        help=f"What compiled the module: {AUTOMATIC}, {', '.join(BACKENDS)}.",
        metavar="NAME",
        autocompletion=completion.words(AUTOMATIC, *BACKENDS),
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Broadcasts ascend; shardings name devices that the module has."),
]
Unbounded = Annotated[bool, typer.Option("--unbounded", help="Dimensions may have no bound.")]


@dataclass(frozen=True, slots=True)
class Strictness(OptionGroup):
    """The checks that a module may skip, or that are made on request."""

    layout_sensitive: Layouts = False
    deadlocks: Deadlocks = False
    mixed_precision: MixedPrecision = False
    unbounded: Unbounded = False
    strict: Strict = False


def command(
    files: Annotated[list[str], typer.Argument(help="Modules, folders, or - for standard input.")],
    form: FindingsFormat = "text",
    as_json: FindingsJson = False,
    exit_zero: ExitZero = False,
    backend: BackendName = AUTOMATIC,
    *,
    strictness: Strictness,
    replicas: Annotated[
        int, typer.Option("--replicas", help="Replicas of the program; 1: not known.", min=1)
    ] = 1,
    partitions: Annotated[
        int, typer.Option("--partitions", help="Its partitions; 1: not known.", min=1)
    ] = 1,
    also: Annotated[
        str,
        typer.Option(
            "--also",
            help=f"Further checks: {', '.join(ALSO)}.",
            metavar="NAMES",
            autocompletion=completion.words(*ALSO),
        ),
    ] = "",
) -> int:
    """Check ids, references, types, shardings, pairs, schedule, aliases, kernel files, as XLA does.

    Exit code 1 when something is wrong; nki-hlo explain CODE explains a finding. Files that cannot be
    read are reported after everything else (exit code 3).

    Example: nki-hlo verify model.hlo_module.pb
    Example: nki-hlo verify model.hlo_module.pb --layout-sensitive --deadlocks --partitions 8
    Example: nki-hlo verify model.hlo_module.pb --backend none
    Example: nki-hlo verify model.hlo_module.pb --strict
    Example: nki-hlo verify model.hlo_module.pb --also broadcasts,names --json
    """
    form = "json" if as_json else form
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    paths = [path for name in files for path in module_files(name)]
    if backend not in (AUTOMATIC, *BACKENDS):
        raise typer.BadParameter(f"--backend takes {AUTOMATIC}, {', '.join(BACKENDS)}")
    options = Options(
        backend=backend, replicas=replicas, partitions=partitions,
        **asdict(strictness), **_further(also),
    )  # fmt: skip
    shown, findings, unread = look_at_each(paths, lambda module: _of_module(module, options))
    texts = {finding.code: _KERNEL_FILE for finding in findings}
    texts |= {code: RuleText(rule.title, rule.why) for code, rule in RULES.items()}
    print_findings(Report("verify", shown, findings, texts, {}), form)
    if unread:
        return [report(error) for error in unread][-1]
    wrong = any(finding.severity is Severity.error for finding in findings)
    return 1 if wrong and not exit_zero else 0


def _further(also: str) -> dict[str, bool]:
    """The options that ``--also`` names."""
    names = [name.strip() for name in also.split(",") if name.strip()]
    unknown = sorted(set(names) - ALSO.keys())
    if unknown:
        raise typer.BadParameter(f"--also takes {', '.join(ALSO)}, not {', '.join(unknown)}")
    return {ALSO[name]: True for name in names}


def _of_module(module: Module, options: Options) -> list[Finding]:
    """Return the findings of a module; its kernel files are checked when it is valid."""
    findings = verify(module, options=options)
    detected = backend_of(module) if options.backend == AUTOMATIC else None
    if detected is not None:
        mixing = "; an operation may mix types of floats" if detected.mixes_floats else ""
        console.note(
            f"{module.path}: compiled for {detected.name}{mixing}",
            verbose=not detected.mixes_floats,
        )
    if any(finding.severity is Severity.error for finding in findings):
        return findings
    return [*findings, *_of_kernels(module)]


def _of_kernels(module: Module) -> Iterator[Finding]:
    root = module.folder
    for view in module.find_custom_calls():
        try:
            if root is None and not Path(decode(view.backend_config).binary).is_absolute():
                continue  # a module from standard input has no folder
            resolve(view.backend_config, root or Path.cwd())
        except HloError as error:
            yield Finding(
                error.code,
                f"{error.place}: {error.message}" if error.place else error.message,
                computation=view.computation.name,
                instruction=view.name,
                source=str(view.source) if view.source else "",
                file=module.path,
                remedy=error.remedy,
            )
