"""``nki-neff build``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from hlo_tools.cli import console
from hlo_tools.cli.progress import shown, step
from neff.errors import NeffCompileError, NeffError
from neff.options import Flags, parse_flags

__all__ = ["MODULE_FILE", "build"]

MODULE_FILE = "model.hlo_module.pb"
FLAGS_FILE = "compile_flags.json"
DEFAULT_OUTPUT = "file.neff"
"""The default output name of ``neuronx-cc``."""


def build(module: Path, flags: list[str], output: str, *, as_json: bool) -> int:
    """Compile ``module`` and write the NEFF.

    Args:
        module: a module file, a folder with one, or ``-`` for standard input.
        flags: compiler flags; those in the folder's ``compile_flags.json`` come first.
        output: the file to write, or "".
        as_json: print one document instead of a line.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    file, folder = _find(module)
    parsed = _parse(folder, flags)
    target = Path(output or parsed.output or DEFAULT_OUTPUT)
    for flag in parsed.ignored:
        console.note(f"{flag} has no effect here", verbose=True)
    with shown("build"):
        _say(f"reading {file}")
        from hlo_tools.cli.inputs import open_module
        from hlo_tools.extract.bundle import check_unchanged

        loaded = open_module(str(file))
        if file.name == MODULE_FILE:
            _warn_of_flags(folder, check_unchanged(folder.absolute()))
        _say("compiling")
        program = _compile(loaded, parsed, folder)
        _say(f"writing {target}")
        from neff.container import open_package, write

        write(program, target, compressed=not parsed.fast_loading)
    _note_kernels(loaded, folder, program.target)
    package = open_package(target)
    if as_json:
        from neff.container.inspect import describe_program
        from neff.timing import overrides_of

        console.write_json(
            "build",
            module=str(file),
            output=str(target),
            bytes=target.stat().st_size,
            hash=package.header.digest.hex(),
            options=asdict(parsed.options),
            ignored_flags=list(parsed.ignored),
            **describe_program(program, overrides_of((), Path.cwd())),
        )
    else:
        console.line(f"{target}  {program.target}  {target.stat().st_size:,} bytes")
    return 0


def _warn_of_flags(folder: Path, wrong: str) -> None:
    if wrong:
        console.note(
            f"warning[NEFF-FLAGS] {folder}: {wrong}; this build may use other flags than the "
            "module was extracted with"
        )


def _note_kernels(module: Any, folder: Path, family: str) -> None:
    """Report kernels that were traced for another family, or read what nothing wrote."""
    from hlo_tools.kernels.calls import resolve
    from nki_lang.execute.program import uninitialised

    calls = [resolve(call.proto.backend_config, folder) for call in module.find_custom_calls()]
    for name, traced in sorted({(call.config.func_name, call.kernel.target) for call in calls}):
        if traced != family:
            console.note(
                f"warning[NEFF-TARGET] {name} was traced for {traced}: what {family} lacks goes "
                f"unnoticed; nki-hlo extract --platform {family} traces it for {family}"
            )
    kernels = {call.config.func_name: call.kernel for call in calls}
    for name, kernel in sorted(kernels.items()):
        for read in uninitialised(kernel):
            console.note(f"warning[NKI-UNINITIALISED] {read.location or name}: {read.message}")


def _compile(module: Any, flags: Flags, folder: Path) -> Any:
    if not flags.target:
        from nki_lang.targets import current_target

        family = current_target().name
    else:
        from nki_lang.targets import target_of

        family = target_of(flags.target).name
    from neff.compiler import compile as compile_module

    return compile_module(module, target=family, options=flags.options, root=folder)


def _find(module: Path) -> tuple[Path, Path]:
    """The module file and the folder that its kernels' paths are relative to."""
    if not module.is_dir():
        return module, module.parent
    usual = module / MODULE_FILE
    if usual.is_file():
        return usual, module
    found = sorted(each for each in module.glob("*.pb") if each.is_file())
    if len(found) == 1:
        return found[0], module
    what = f"{len(found)} modules" if found else "no module"
    raise NeffCompileError(
        f"the folder has {what}; expected {MODULE_FILE}",
        code="NEFF-MODULE",
        place=str(module),
        remedy="name the file",
    )


def _parse(folder: Path, given: list[str]) -> Flags:
    """The flags of the command line after those kept with the module.

    Raises:
        NeffError: ``NEFF-FLAG``: a flag of the command line is wrong; ``NEFF-FLAGS-FILE``: the
            list in the folder is.
    """
    own = parse_flags(given)
    if own.rest:
        raise NeffError(
            f"{own.rest[0]!r} is not a flag",
            code="NEFF-FLAG",
            remedy="quote a value that contains spaces",
        )
    path = folder / FLAGS_FILE
    if not path.is_file():
        return own
    kept = _kept_flags(path)
    try:
        parsed = parse_flags([*kept, *given])
    except NeffError as error:
        raise _damaged_flags(path, error.message) from None
    if parsed.rest:
        raise _damaged_flags(path, f"{parsed.rest[0]!r} is not a flag")
    return parsed


def _kept_flags(path: Path) -> list[str]:
    """The flags that the module was extracted with."""
    try:
        flags: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged_flags(path, str(error)) from None
    found: list[Any] = cast("list[Any]", flags) if isinstance(flags, list) else [None]
    if any(not isinstance(flag, str) for flag in found):
        raise _damaged_flags(path, "it is not a list of strings")
    return found


def _damaged_flags(path: Path, reason: str) -> NeffError:
    return NeffError(
        f"not a usable list of flags: {reason}",
        code="NEFF-FLAGS-FILE",
        place=str(path),
        remedy="extract the module again, or remove this file and pass the flags yourself",
    )


def _say(text: str) -> None:
    """Name the current step: beside the bar, and as a line when verbose."""
    step(text)
    console.note(text, verbose=True)
