"""One run of a watched script: its kernels' errors, findings and times, and what changed since."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from hlo_tools.errors import CodedError
from hlo_tools.extract import protocol
from nki_lang.base.targets import target_of
from nki_lang.execute.checks import CHECKS, Finding, watch
from nki_lang.kernel import Kernel, set_array_runner, simulate

__all__ = ["PRELOADED", "KernelRun", "LineTime", "Run", "Script", "changes", "observed"]

PRELOADED = ("neff.cli.watching", "neff.compiler", "neff.profile", "neff.runtime.trips")
"""Modules that every run needs."""

MAX_KERNELS = 20
"""Further kernels of a script run, but are not estimated."""

SHOWN_CHANGE = 0.005
"""A smaller relative change of a time is none."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its own ``arguments``, for a ``target`` ("" for the current one)."""

    file: str
    arguments: tuple[str, ...] = ()
    target: str = ""


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of a line (``place``) on the critical path, on its engines, and waiting.

    ``text`` is the line itself, by which it is found again when lines above it change.
    """

    place: str
    text: str
    path_us: float
    self_us: float
    waiting_us: float


@dataclass(slots=True)
class KernelRun:
    """A kernel with the first arguments of each form that it was called with.

    Attributes:
        name: of its function, with the shapes of its tensors.
        total_us, low_us, high_us: estimated; 0 when it was not compiled.
        lines: that take time, the longest on the critical path first.
        findings: of the checks of ``nki-hlo check``.
    """

    name: str
    total_us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    lines: list[LineTime] = field(default_factory=list[LineTime])
    findings: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


@dataclass(slots=True)
class Run:
    """Everything that a run showed.

    Attributes:
        kernels: in the order of their first call.
        error: ``code``, ``message``, ``place`` and ``remedy`` of the error that ended it, empty if none.
        files: Python files of the script's folder that it read.
    """

    kernels: list[KernelRun] = field(default_factory=list[KernelRun])
    error: dict[str, str] = field(default_factory=dict[str, str])
    files: list[str] = field(default_factory=list[str])


def observed(script: Script) -> Run:
    """Run a script in this process, which is good for nothing else afterwards."""
    warnings.simplefilter("ignore")
    run = Run()
    sys.dont_write_bytecode = True  # its stamp has seconds: two edits in one would be the same
    sys.argv = [script.file, *script.arguments]
    sys.path.insert(0, str(Path(script.file).resolve().parent))
    for name in ("NKI_SIMULATOR", protocol.EXTRACT_ONLY):  # kernels would not reach the observer
        os.environ.pop(name, None)
    import_module("nki")  # which may install a runner of its own; the observer replaces it
    set_array_runner(_Observer(run, script.target).called)
    try:
        runpy.run_path(script.file, run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            run.error = _error("", f"the script ended with exit code {error.code}", "")
    except CodedError as error:
        run.error = _error(error.code, error.message, error.place, error.remedy)
    except SyntaxError as error:
        run.error = _error("", f"SyntaxError: {error.msg}", f"{error.filename}:{error.lineno}")
    except MemoryError:
        raise
    except Exception as error:
        run.error = _error("", f"{type(error).__name__}: {error}", _place(error, script.file))
    run.files = _files(script.file, sys.modules.values())
    return run


def _error(code: str, message: str, location: str, remedy: str = "") -> dict[str, str]:
    return {"code": code, "message": message, "place": location, "remedy": remedy}


def _place(error: Exception, file: str) -> str:
    """Return the innermost line of the script's folder, else the innermost line."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = str(Path(file).resolve().parent)
    inside = [frame for frame in frames if str(Path(frame.filename).resolve()).startswith(folder)]
    frame = (inside or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _files(file: str, modules: Iterable[ModuleType]) -> list[str]:
    folder = Path(file).resolve().parent
    paths = {Path(file).resolve()}
    for module in list(modules):
        name = getattr(module, "__file__", None)
        if name and Path(name).resolve().is_relative_to(folder):
            paths.add(Path(name).resolve())
    return sorted(map(str, paths))


class _Observer:
    """Runs each call of a kernel in the simulator, and estimates the first one of each form."""

    def __init__(self, run: Run, target: str) -> None:
        self._run, self._target = run, target_of(target) if target else None
        self._names: set[str] = set()

    def called(self, kernel: Kernel, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        name = _name(kernel, kernel.arrays(args, kwargs))
        if name in self._names or len(self._names) >= MAX_KERNELS:
            return simulate(kernel, target=self._target, checks=())(*args, **kwargs)
        self._names.add(name)
        kernel_run = KernelRun(name)
        self._run.kernels.append(kernel_run)

        def listen(_function: object, findings: list[Finding]) -> None:
            kernel_run.findings.extend(finding.to_json() for finding in findings)

        self._estimate(kernel, args, kwargs, kernel_run)
        checks = tuple(check for check in CHECKS if check != "precision")
        watch.LISTENERS.append(listen)
        try:
            return simulate(kernel, target=self._target, checks=checks)(*args, **kwargs)
        finally:
            watch.LISTENERS.remove(listen)

    def _estimate(
        self,
        kernel: Kernel,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        kernel_run: KernelRun,
    ) -> None:
        from neff.compiler import compile_kernel
        from neff.profile import by, profile_of
        from neff.runtime.trips import trips_of

        program = compile_kernel(kernel.trace(args, kwargs, target=self._target))
        inputs = dict(zip(program.inputs, kernel.arrays(args, kwargs), strict=True))
        profile = profile_of(program, trips=trips_of(program, inputs))
        total = profile.estimate.total
        kernel_run.total_us, kernel_run.low_us, kernel_run.high_us = (
            round(nanoseconds / 1e3, 3) for nanoseconds in total
        )
        for share in by(profile, "line"):
            times = (share.path_ns, share.self_ns, share.waiting_ns)
            if share.events:
                figures = [round(nanoseconds / 1e3, 3) for nanoseconds in times]
                kernel_run.lines.append(LineTime(share.name, _text(share.name), *figures))


def _name(kernel: Kernel, arrays: list[object]) -> str:
    shapes = ", ".join(
        f"{getattr(array, 'dtype', '')}{list(getattr(array, 'shape', ()))}" for array in arrays
    )
    return f"{kernel.func.__name__}({shapes})"


def _text(location: str) -> str:
    file, _, number = location.rpartition(":")
    path = Path(file)
    if not number.isdigit() or not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""


def changes(before: Run, after: Run) -> list[str]:
    """Return sentences that say what is different between two runs."""
    sentences: list[str] = []
    if before.error != after.error:
        sentences.append("the script runs now" if not after.error else "the error is new")
    earlier = {kernel.name: kernel for kernel in before.kernels}
    for kernel in after.kernels:
        previous = earlier.pop(kernel.name, None)
        if previous is None:
            sentences.append(f"{kernel.name} is new")
            continue
        sentences += _kernel_changes(previous, kernel)
    sentences += [f"{name} is not called any more" for name in earlier]
    return sentences


def _kernel_changes(before: KernelRun, after: KernelRun) -> list[str]:
    sentences: list[str] = []
    if _differ(before.total_us, after.total_us):
        share = after.total_us / before.total_us - 1 if before.total_us else 0.0
        sentences.append(
            f"{after.name}: {before.total_us:,.1f} µs before, {after.total_us:,.1f} µs now ({share:+.0%})"
        )
    earlier, later = _times(before), _times(after)
    for text in dict.fromkeys([*later, *earlier]):
        old, new = earlier.get(text, 0.0), later.get(text, 0.0)
        if _differ(old, new):
            sentences.append(f"  {text}: {old:,.1f} µs before, {new:,.1f} µs now")
    for word, more, fewer in (("new", after, before), ("gone", before, after)):
        messages = {str(finding["message"]) for finding in fewer.findings}
        sentences += [
            f"  {finding['code']} is {word}: {finding['message']}"
            for finding in more.findings
            if str(finding["message"]) not in messages
        ]
    return sentences


def _times(kernel: KernelRun) -> dict[str, float]:
    """Return the time on the critical path by the text of the line."""
    times: dict[str, float] = {}
    for line in kernel.lines:
        times[line.text] = times.get(line.text, 0.0) + line.path_us
    return times


def _differ(before: float, after: float) -> bool:
    return abs(after - before) > max(0.05, SHOWN_CHANGE * max(before, after))
