"""``nki-hlo verify``: what is wrong with a module, and with the kernel files that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli import completion
from hlo_tools.cli.failures import report
from hlo_tools.cli.findings import FORMATS, Report, RuleText, print_findings
from hlo_tools.cli.inputs import look_at_each, module_files
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.kernels.calls import resolve
from hlo_tools.verify import RULES, Finding, verify

__all__ = ["command"]

_KERNEL_FILE = RuleText(
    "every kernel file that a module calls exists and is complete",
    "such a module can be inspected, but neither run nor built",
)


def command(
    files: Annotated[list[str], typer.Argument(help="Modules, folders, or - for standard input.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"{', '.join(FORMATS)}.",
            metavar="FORMAT",
            autocompletion=completion.words(*FORMATS),
        ),
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with code 0 despite findings.")
    ] = False,
) -> int:
    """Check ids, references, shapes, layouts, constants, schedule, aliases and kernel files.

    Exit code 1 when something is wrong; nki-hlo rule CODE explains a finding. Files that cannot be
    read are reported after everything else (exit code 3).

    Example: nki-hlo verify model.hlo_module.pb
    """
    form = "json" if as_json else form
    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    paths = [path for name in files for path in module_files(name)]
    shown, findings, unread = look_at_each(paths, _of_module)
    texts = {one.code: _KERNEL_FILE for one in findings}
    texts |= {code: RuleText(rule.title, rule.why) for code, rule in RULES.items()}
    print_findings(Report("verify", shown, findings, texts, {}), form)
    if unread:
        return [report(error) for error in unread][-1]
    return 1 if findings and not exit_zero else 0


def _of_module(module: Module) -> list[Finding]:
    """What is wrong with a module; its kernel files are checked when it is valid."""
    return verify(module) or list(_of_kernels(module))


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
