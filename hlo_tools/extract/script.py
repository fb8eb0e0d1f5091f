"""A script run on the simulated device in a process of its own, its modules captured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.extract.protocol import EXECUTORS, CapturedModule, read, variables_for
from hlo_tools.extract.python_file import check_syntax
from hlo_tools.extract.record import entries_of, read_records, record_extraction
from hlo_tools.files.other_kinds import file_kind, is_binary
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import target_of

__all__ = ["CapturedModule", "ScriptRun", "no_program", "run_script"]

_LAUNCHER = Path(__file__).with_name("launcher.py")
_HEAD_BYTES = 1 << 12
"""Bytes by which another kind of file is recognized."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """Outcome of a script.

    Attributes:
        exit_code: the script's own; 128 + N when signal N ended it.
        modules: what it compiled, in order; also what a failing script compiled before.
        output: the cache that the modules were written to, or None.
        new: paths of the entries that were not in the cache before.
        stale: paths of entries that an earlier extraction of this script wrote and that it no
            longer compiles; still in the cache.
    """

    exit_code: int
    modules: tuple[CapturedModule, ...]
    output: Path | None
    new: frozenset[str] = frozenset()
    stale: tuple[str, ...] = ()


def no_program(script: str, verb: str) -> HloError:
    """Return the error for a script that ended well without a program on the device.

    Args:
        verb: what no program did: ``"compiled"`` or ``"ran"``.
    """
    return HloError(
        f"the script {verb} no program on the neuron device",
        code="HLO-NO-PROGRAM",
        place=script,
        remedy="call a function under jax.jit, compute on torch tensors of the device 'neuron', or "
        "call an @nki.jit kernel in the script",
    )


def run_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    platform: str | None = None,
    output: str | Path | None = None,
    execute: bool = True,
    executor: str = "",
    environment: Mapping[str, str] | None = None,
    stdout_to_stderr: bool = False,
    parse_first: bool = True,
) -> ScriptRun:
    """Run a Python script on the simulated device.

    The script is ``__main__``, with its own arguments and its folder on the path; its output and
    its errors go where ours go.

    Args:
        script: the file.
        arguments: what ``sys.argv[1:]`` is in the script.
        platform: ``trn1``, ``trn2`` or ``trn3``; by default that of the environment.
        output: compile cache to write every module to; None writes none.
        execute: False captures programs without running them; their results are zeros.
        executor: ``cpu`` (the default), ``neff``, or ``neff,cpu`` for falling back.
        environment: variables of the script; ours by default.
        stdout_to_stderr: what the script prints goes to stderr.
        parse_first: report a syntax error here; otherwise Python reports it and ends with 1.

    Raises:
        HloFileError: code ``HLO-NO-FILE``: there is no such script; ``HLO-SYNTAX``: Python cannot
            parse it; ``HLO-CACHE-WRITE``: the output folder cannot be written.
        HloError: code ``HLO-EXECUTOR`` or ``HLO-PLATFORM``: no such executor or platform.
    """
    path = _existing(script)
    if parse_first:
        check_syntax(path)
    absent = _absent(output) if output is not None else []
    folder = _writable(output) if output is not None else None
    variables = dict(os.environ if environment is None else environment)
    target = _platform(platform)
    _check_executor(executor)
    before = entries_of(folder) if folder is not None else frozenset[str]()
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as temporary:
        journal = Path(temporary) / "journal"
        variables |= variables_for(
            platform=target, output=folder, execute=execute, executor=executor,
            journal=journal, environment=variables,
        )  # fmt: skip
        command = [sys.executable, str(_LAUNCHER), str(path), *arguments]
        stdout = sys.stderr.fileno() if stdout_to_stderr else None
        sys.stdout.flush()
        exit_code = _wait(subprocess.Popen(command, env=variables, stdout=stdout))
        modules = tuple(read(journal))
    _remove_empty(absent)
    if folder is None:
        return ScriptRun(exit_code, modules, None)
    new = frozenset(str(folder / entry) for entry in entries_of(folder) - before)
    stale: Sequence[Path] = ()
    if modules or read_records(folder):
        written = (Path(module.path) for module in modules if module.path)
        record = record_extraction(folder, path, arguments, target, written, exit_code=exit_code)
        stale = [folder / entry for entry in record.replaced]
    return ScriptRun(exit_code, modules, folder, new, tuple(map(str, stale)))


def _existing(script: str | Path) -> Path:
    path = Path(script)
    if not path.is_file():
        raise HloFileError(
            "this is a folder, not a Python script" if path.is_dir()
            else "this is a device or a named pipe, not a Python script" if path.exists()
            else "there is no such script",
            code="HLO-NO-FILE",
            place=str(path),
            remedy=_remedy_for_name(path),
        )  # fmt: skip
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    kind = file_kind(head)
    if kind is not None or is_binary(head):
        name = kind.name if kind else "a binary file, perhaps a module"
        raise HloFileError(
            f"this is {name}, not a Python script",
            code="HLO-NO-FILE",
            place=str(path),
            remedy=kind.remedy
            if kind
            else "'nki-hlo show FILE' shows a module; pass the path of a Python file here",
        )
    return path


def _remedy_for_name(path: Path) -> str:
    """Return the remedy for a path that names no file: FILE.py:NAME is a form of other options."""
    file, _, name = str(path).rpartition(":")
    if not path.exists() and name.isidentifier() and Path(file).is_file():
        return f"pass {file}; check, grade and tune select a kernel with --kernel {name}"
    return "pass the path of a Python file"


def _absent(output: str | Path) -> list[Path]:
    """Those folders of the path that are not there yet, the innermost first."""
    path = Path(output).absolute()
    return [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]


def _remove_empty(folders: Sequence[Path]) -> None:
    """Take back what was made for modules that never came; others may have written there."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def _writable(output: str | Path) -> Path:
    folder = Path(output).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise HloFileError(
            f"the output folder cannot be written: {error.strerror or error}",
            code="HLO-CACHE-WRITE",
            place=str(folder),
            remedy="make it writable, or name another one with --output",
        ) from error
    return folder


def _platform(name: str | None) -> str:
    try:
        return target_of(name).name if name is not None else ""
    except NkiError as error:
        raise HloError(error.message, code="HLO-PLATFORM", remedy=error.remedy) from error


def _check_executor(executor: str) -> None:
    if executor and executor not in EXECUTORS:
        raise HloError(
            f"there is no executor {executor!r}",
            code="HLO-EXECUTOR",
            remedy=f"use one of {'; '.join(EXECUTORS)}",
        )


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The exit code; an interrupt goes to the script too, which decides what becomes of it."""
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            continue
        return code if code >= 0 else 128 - code
