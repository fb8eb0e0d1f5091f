"""``nki-hlo extract``: the modules that a script compiles."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.targets import TargetName, checked_target, extracted_target, target_for
from hlo_tools.errors import HloFileError
from hlo_tools.extract import CapturedModule, ScriptRun, cache_folder, run_script
from hlo_tools.extract.flags import remote_cache
from hlo_tools.extract.protocol import CACHE, COMPILER_FLAGS
from hlo_tools.extract.record import prune
from hlo_tools.extract.script import no_program
from hlo_tools.store import open_store

__all__ = ["command"]

DEFAULT_OUTPUT = "hlo_artifacts"
_HELPER_INSTRUCTIONS = 40
_PRIVATE = "jit__"
"""How the names of programs begin that JAX makes of its own private functions (jit__normal)."""


Script = Annotated[str, typer.Argument(help="A Python script.")]
Arguments = Annotated[
    list[str] | None, typer.Argument(help="The script's own arguments, after --.")
]


def command(
    script: Script,
    arguments: Arguments = None,
    platform: TargetName = "",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Compile cache to write to: a folder, s3://BUCKET/PREFIX, gs://...",
            metavar="DIR",
        ),
    ] = "",
    no_run: Annotated[
        bool,
        typer.Option(
            "--no-run", help="Capture programs without running them; their results are zeros."
        ),
    ] = False,
    prune_stale: Annotated[
        bool,
        typer.Option(
            "--prune", help="Remove what earlier extractions wrote and no script compiles now."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; the script prints to stderr.")
    ] = False,
) -> int:
    """Run a script and write every module it compiles, with its kernels, to a compile cache.

    Modules with kernels are listed first. A module that an edited script no longer compiles stays
    in the cache as stale; commands that take the folder leave it out. The exit code is the
    script's own; 3 when it compiled nothing.

    Example: nki-hlo extract matmul.py --platform trn1 --output hlo_artifacts -- --size 2048
    """
    named = {**os.environ, CACHE: output, COMPILER_FLAGS: ""} if output else os.environ
    run = run_script(
        script,
        arguments or [],
        platform=checked_target(platform),
        output=cache_folder(named) or DEFAULT_OUTPUT,
        execute=not no_run,
        stdout_to_stderr=as_json,
    )
    pruned = prune(run.output) if prune_stale and run.output is not None else []
    if url := remote_cache(named):
        _publish(url, run)
    if as_json:
        _print_json(script, run, pruned)
    else:
        _print(run, pruned, platform)
    if not run.modules and not run.exit_code:
        raise no_program(script, "compiled")
    if not run.modules:
        console.note(
            f"{script} ended with exit code {run.exit_code} and compiled no program on the neuron "
            "device; nothing was extracted"
        )
    return run.exit_code


def _publish(url: str, run: ScriptRun) -> None:
    """Put what was extracted into a remote cache.

    Raises:
        HloFileError: ``HLO-STORE``: it does not take it; the entries are in its mirror here.
    """
    from hlo_tools.extract.remote import publish

    store = open_store(url)
    folders = dict.fromkeys(Path(module.path) for module in run.modules)
    failed = [folder for folder in folders if not publish(store, folder)]
    if failed:
        raise HloFileError(
            f"{console.counted(len(failed), 'module')} not published: {store.notes[-1]}",
            code="HLO-STORE",
            place=url,
            remedy=f"they are in {run.output}; nki-hlo cache push publishes them later",
        )
    console.note(f"{console.counted(len(folders), 'module')} published in {url}")


def _print_json(script: str, run: ScriptRun, pruned: list[str]) -> None:
    modules = _in_order(run)
    console.write_json(
        "extract",
        script=script,
        exit_code=run.exit_code,
        output=str(run.output),
        modules=[asdict(module) | {"new": module.path in run.new} for module in modules],
        stale=[path for path in run.stale if Path(path).exists()],
        pruned=pruned,
    )


def _print(run: ScriptRun, pruned: list[str], platform: str) -> None:
    modules = _in_order(run)
    if modules:
        columns = ("module", "instructions", "kernels", "bytes", "ms", "", "entry")
        console.table(columns, [_row(module, run) for module in modules])
        programs, paths = len(modules), len({module.path for module in modules})
        what = f"{console.counted(programs, 'program')}, {console.counted(paths, 'module')}"
        console.note(f"{what}{_targets(modules, platform)} in {run.output}")
        _note_small(modules)
    for entry in pruned:
        console.note(f"removed {entry}")
    if run.stale and not pruned:
        stale = console.counted(len(run.stale), "module")
        console.note(
            f"{stale} of earlier extractions of this script in the same folder: stale, "
            "left out by commands on the folder; --prune removes them"
        )


def _targets(modules: list[CapturedModule], platform: str) -> str:
    """Return the targets of the modules, and how to choose another one if nobody chose it."""
    names = {extracted_target(Path(module.path)) for module in modules if module.path} - {""}
    chosen = target_for(platform)
    is_default = chosen.is_default and names == {chosen.target.name}
    origin = " (the default target; --target chooses another)" if is_default else ""
    return f" for {' and '.join(sorted(names))}{origin}" if names else ""


def _in_order(run: ScriptRun) -> list[CapturedModule]:
    """The modules in the order of their compilation, those with kernels first."""
    return sorted(run.modules, key=lambda module: not module.kernels)


def _note_small(modules: list[CapturedModule]) -> None:
    """Say that programs without kernels, beside some with, may be helpers of JAX's."""
    helpers = [module for module in modules if is_helper(module)]
    if helpers and len(helpers) < len(modules):
        names = ", ".join(dict.fromkeys(module.name for module in helpers))
        console.note(
            f"{console.counted(len(helpers), 'small program')} without kernels that JAX compiled "
            f"for single operations: {names}; --kernels-only on later commands leaves them out"
        )


def is_helper(module: CapturedModule) -> bool:
    """Return True if JAX made a module of a single operation outside ``jax.jit``."""
    small = module.instructions <= _HELPER_INSTRUCTIONS or module.name.startswith(_PRIVATE)
    return not module.kernels and module.name.startswith("jit_") and small


def _row(module: CapturedModule, run: ScriptRun) -> tuple[object, ...]:
    path = Path(module.path)
    inside = run.output is not None and path.is_relative_to(run.output)
    shown = path.relative_to(run.output) if run.output is not None and inside else path
    kernels = ", ".join(dict.fromkeys(module.kernels)) or "-"
    milliseconds = f"{module.seconds * 1000:.1f}"
    state = "new" if module.path in run.new else "unchanged"
    return module.name, module.instructions, kernels, module.size, milliseconds, state, shown
