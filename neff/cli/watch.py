"""``nki-hlo watch``: errors, findings and time of each line, whenever a script is saved."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.targets import TargetName, checked_target
from hlo_tools.errors import HloFileError
from neff.cli.limited import Limits, called
from neff.cli.watching import PRELOADED, KernelRun, Run, Script, changes, observed

__all__ = ["command", "reported", "saves_of"]

FINE, FAULTS = 0, 1

POLL_SECONDS = 0.1
"""Time between two looks at the files."""

RUN_MIB = 8192
"""Memory that a run may allocate."""

MAX_PRINTED_LINES = 15


def command(
    file: Annotated[str, typer.Argument(help="A Python script that calls kernels.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The script's own arguments, after --.")
    ] = None,
    platform: TargetName = "",
    once: Annotated[bool, typer.Option("--once", help="Report once, and end.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that a run may take.", min=0.1)
    ] = 60.0,
    as_json: AsJson = False,
) -> int:
    """Run a script whenever it is saved: errors, findings of the checks, time of each line, changes.

    Kernels that the script calls with NumPy arrays run in the simulator with all checks, and are estimated. Files of
    the script's folder that it imports are watched as well. Ctrl-C ends. With --json each report is one
    line. Exit code 1 when the last report has an error or a finding.

    Example: nki-hlo watch kernels.py --once
    """
    if not Path(file).is_file():
        raise HloFileError(
            "there is no such file", code="HLO-NO-FILE", place=file,
            remedy="pass the path of a Python script",
        )  # fmt: skip
    script = Script(file, tuple(arguments or ()), checked_target(platform) or "")
    watched: set[str] = {str(Path(file).resolve())}
    saves: Iterable[None] = (None,) if once else saves_of(watched)
    last = Run()
    try:
        for run in reported(script, saves, watched, timeout, as_json=as_json):
            last = run
    except KeyboardInterrupt:
        console.note("ended")
    return FAULTS if last.error or any(kernel.findings for kernel in last.kernels) else FINE


def saves_of(watched: set[str]) -> Iterator[None]:
    """Yield at once, and again whenever one of the files was written."""
    stamps = _stamps(watched)
    yield None
    while True:
        stamps = {path: stamp for path, stamp in stamps.items() if path in watched}
        now = _stamps(watched)
        if any(stamps.get(path, stamp) != stamp for path, stamp in now.items()):
            stamps = now
            yield None
        else:
            stamps |= now
            time.sleep(POLL_SECONDS)


def _stamps(paths: set[str]) -> dict[str, tuple[int, int]]:
    stamps: dict[str, tuple[int, int]] = {}
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:  # an editor is replacing it
            continue
        stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps


def reported(
    script: Script, saves: Iterable[None], watched: set[str], timeout: float, *, as_json: bool
) -> Iterator[Run]:
    """Run the script for each save, print a report, and yield it; its files become ``watched``."""
    limits = Limits(timeout, RUN_MIB << 20)
    previous: Run | None = None
    for _ in saves:
        (outcome,) = called(observed, [script], jobs=1, limits=limits, preload=PRELOADED)
        run = outcome.result
        if run is None:
            error = {"code": "NEFF-LIMIT", "message": outcome.error, "place": script.file}
            run = Run(error=error | {"remedy": "raise --timeout"}, files=sorted(watched))
        watched.update(run.files)
        sentences = [] if previous is None else changes(previous, run)
        if as_json:
            _write(script, run, sentences, outcome.seconds)
        else:
            _print(script, run, sentences, outcome.seconds)
        previous = run
        yield run


def _write(script: Script, run: Run, sentences: list[str], seconds: float) -> None:
    document = {"schema": console.SCHEMA, "command": "watch", "file": script.file}
    document |= asdict(run) | {"changes": sentences, "seconds": round(seconds, 3)}
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _print(script: Script, run: Run, sentences: list[str], seconds: float) -> None:
    console.line(f"{script.file} ({seconds:.1f} s)")
    for kernel in run.kernels:
        _print_kernel(kernel)
    if run.error:
        code = f"[{run.error['code']}]" if run.error["code"] else ""
        console.line(f"error{code} {run.error['place']}: {run.error['message']}")
        if run.error.get("remedy"):
            console.line(f"  help: {run.error['remedy']}")
    if not run.kernels and not run.error:
        console.line("the script calls no kernel with NumPy arrays (nki.simulate is not estimated)")
    if sentences:
        console.line("since the last save:")
    for sentence in sentences:
        console.line(f"  {sentence}")
    console.line()


def _print_kernel(kernel: KernelRun) -> None:
    console.line(
        f"{kernel.name}: {kernel.total_us:,.1f} µs ({kernel.low_us:,.1f}–{kernel.high_us:,.1f}) "
        "(estimated)"
    )
    rows = [
        (f"{line.path_us:,.1f}", f"{line.waiting_us:,.1f}", Path(line.place).name, line.text)
        for line in kernel.lines[:MAX_PRINTED_LINES]
    ]
    console.table(("µs", "waits", "line", ""), rows)
    for finding in kernel.findings:
        location = f"{finding['file']}:{finding['line']}" if finding.get("file") else ""
        console.line(f"finding[{finding['code']}] {location}: {finding['message']}")
