"""``nki-hlo extract``: the modules that a script compiles."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli import console
from hlo_tools.extract import CapturedModule, ScriptRun, cache_folder, run_script
from nki_lang.errors import NkiError
from nki_lang.targets import target_of

__all__ = ["checked_platform", "command"]

FINE, NOTHING_FOUND = 0, 1
DEFAULT_OUTPUT = "hlo_artifacts"


def command(
    script: Annotated[str, typer.Argument(help="A Python script.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The script's own arguments, after --.")
    ] = None,
    platform: Annotated[
        str, typer.Option("--platform", "-p", help="trn1, trn2 or trn3.", metavar="TARGET")
    ] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="Compile cache to write to.", metavar="DIR")
    ] = "",
    no_run: Annotated[
        bool,
        typer.Option(
            "--no-run", help="Capture programs without running them; their results are zeros."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; the script prints to stderr.")
    ] = False,
) -> int:
    """Run a script and write every module it compiles, with its kernels, to a compile cache.

    The exit code is the script's own; 1 when it compiled nothing.

    Example: nki-hlo extract matmul.py --platform trn1 --output hlo_artifacts -- --size 2048
    """
    run = run_script(
        script,
        arguments or [],
        platform=checked_platform(platform),
        output=output or cache_folder(os.environ) or DEFAULT_OUTPUT,
        execute=not no_run,
        stdout_to_stderr=as_json,
    )
    if as_json:
        _print_json(script, run)
    else:
        _print(run)
    if not run.modules:
        ended = f" ended with exit code {run.exit_code} and" if run.exit_code else ""
        console.note(
            f"{script}{ended} compiled no program on the neuron device; nothing was extracted"
        )
    return run.exit_code or (FINE if run.modules else NOTHING_FOUND)


def checked_platform(name: str) -> str | None:
    """The target's own name; None when none was given.

    Raises:
        typer.BadParameter: there is no such target.
    """
    if not name:
        return None
    try:
        return target_of(name).name
    except NkiError as error:
        raise typer.BadParameter(f"{error.message}; {error.remedy}") from error


def _print_json(script: str, run: ScriptRun) -> None:
    console.write_json(
        "extract",
        script=script,
        exit_code=run.exit_code,
        output=str(run.output),
        modules=[asdict(module) for module in run.modules],
    )


def _print(run: ScriptRun) -> None:
    if not run.modules:
        return
    columns = ("module", "instructions", "kernels", "bytes", "ms", "entry")
    console.table(columns, [_row(module, run.output) for module in run.modules])
    programs, modules = len(run.modules), len({module.path for module in run.modules})
    what = f"{console.counted(programs, 'program')}, {console.counted(modules, 'module')}"
    console.note(f"{what} in {run.output}")


def _row(module: CapturedModule, output: Path | None) -> tuple[object, ...]:
    path = Path(module.path)
    shown = path.relative_to(output) if output and path.is_relative_to(output) else path
    kernels = ", ".join(dict.fromkeys(module.kernels)) or "-"
    milliseconds = f"{module.seconds * 1000:.1f}"
    return module.name, module.instructions, kernels, module.size, milliseconds, shown
