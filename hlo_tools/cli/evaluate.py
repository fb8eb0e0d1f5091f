"""``nki-hlo evaluate``: a module's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.fills import Fill, Seed, check_fill
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.module_inputs import Inputs, gather
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.watching import (
    WatchOptions,
    print_stop,
    print_watched,
    stop_row,
    watched_rows,
)
from hlo_tools.evaluate import Evaluator, Limits, evaluate_devices
from hlo_tools.evaluate.devices import MOST_DEVICES, partitions_of
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.evaluate.recorded import Recorded, recorded_run
from hlo_tools.evaluate.values import Array, Value
from hlo_tools.evaluate.watching import Stopped, ValueWatch, plain_array
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.ir.module import Module
from hlo_tools.verify import check

__all__ = ["command"]

WAYS = ("numpy", "jaxlib")
_DEFAULT = Limits()
Work = Annotated[
    float,
    typer.Option(
        help="Limit of elementary operations; 1e9 take about a second.",
        show_default="1e12",
    ),
]
Memory = Annotated[
    float,
    typer.Option(
        help="Limit of bytes of one value, and of all filled inputs.", show_default="8 GiB"
    ),
]
Calls = Annotated[
    int,
    typer.Option(
        help="Limit of instructions that calls of calls execute, loops aside.",
        show_default="1,000,000",
    ),
]


Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for output0.npy, ...")]
Way = Annotated[
    str,
    typer.Option("--with", help="numpy or jaxlib.", autocompletion=completion.words(*WAYS)),
]
Compare = Annotated[bool, typer.Option("--compare", help="Run both and report the difference.")]
Devices = Annotated[
    int,
    typer.Option("--devices", "-d", min=1, max=MOST_DEVICES, help="Devices that communicate."),
]
Partitions = Annotated[
    int,
    typer.Option(min=0, help="Partitions of a replica; by default as the collectives need it."),
]


@dataclass(frozen=True, slots=True)
class InputOptions(OptionGroup):
    """Arrays from files, and how the inputs without a file are filled."""

    inputs: Inputs = None
    fill: Fill = None
    seed: Seed = 0

    @property
    def is_empty(self) -> bool:
        """True if a snapshot's recorded inputs are used."""
        return not self.inputs and self.fill is None

    def arrays(self, module: Module, limits: Limits, device: int | None = None) -> list[Value]:
        """Return one value for each parameter; on a device, ``{}`` in a name is its number."""
        names = self.inputs or []
        if device is not None:
            names = [text.replace("{}", str(device)) for text in names]
        return gather(module, names, self.fill, limits, seed=self.seed + (device or 0))


@dataclass(frozen=True, slots=True)
class RunOptions(OptionGroup):
    """The folder of the results, and the evaluator and devices that give them."""

    output: Output = None
    way: Way = "numpy"
    compare: Compare = False
    devices: Devices = 1
    partitions: Partitions = 0


@dataclass(frozen=True, slots=True)
class LimitOptions(OptionGroup):
    """Limits of an evaluation."""

    work: Work = _DEFAULT.work
    memory: Memory = _DEFAULT.memory
    calls: Calls = _DEFAULT.calls

    def limits(self) -> Limits:
        """Return the limits with whole bytes."""
        return Limits(work=self.work, memory=int(self.memory), calls=self.calls)


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    *,
    values: InputOptions,
    run: RunOptions,
    watch: WatchOptions,
    limit: LimitOptions,
    as_json: AsJson = False,
) -> int:
    """Evaluate a module with NumPy (kernels from their files) or with jaxlib.

    A snapshot is run on its recorded inputs unless others are given, and its results are compared
    with the recorded ones. With --devices, {} in an input's name stands for the device's number, and
    --fill random is random for each. Exit code 1 when --compare or a snapshot shows a difference, or
    the evaluation stops.

    Example: nki-hlo evaluate model.hlo_module.pb --fill random --compare

    Example: nki-hlo evaluate model.hlo_module.pb --fill random --devices 2

    Example: nki-hlo evaluate model.hlo_module.pb --fill random --watch 'dot*' --stop-at nan
    """
    check_fill(values.fill)
    if run.way not in WAYS:
        raise typer.BadParameter(f"{run.way!r} is not one of {', '.join(WAYS)}")
    module = open_module(file)
    check(module)
    limits = limit.limits()
    recorded = recorded_run(module) if values.is_empty else None
    value_watch = watch.of(module)
    several = run.devices > 1 or (recorded is not None and len(recorded.inputs) > 1)
    _check_devices(several, run.way, run.compare, value_watch)
    if several:
        return _on_devices(module, recorded, values, run, limits, as_json)
    arrays = recorded.inputs[0] if recorded else values.arrays(module, limits)
    if run.way == "jaxlib" and not run.compare:
        results: list[Array] = list(run_with_jaxlib(module, arrays))
    else:
        results, stop = _run(module, arrays, limits, value_watch)
        if stop is not None:
            return _stopped(stop, value_watch, as_json)
    reference, expected = "the recorded results", recorded.results if recorded else None
    if run.compare:
        reference, expected = "jaxlib", list(run_with_jaxlib(module, arrays))
    gaps = _gaps(results, expected) if expected is not None else []
    _show(results, gaps, as_json, reference, watch.tolerance, value_watch)
    _save(results, run.output)
    return 1 if any(gap > watch.tolerance for gap in gaps) else 0


def _check_devices(several: bool, mode: str, compare: bool, watch: ValueWatch | None) -> None:
    """Refuse watches of anything but NumPy on one device, and jaxlib on several devices."""
    if watch is not None and (several or mode == "jaxlib"):
        raise typer.BadParameter("--watch, --stop-at and --dump need NumPy on one device")
    if several and (compare or mode == "jaxlib"):
        raise typer.BadParameter("jaxlib runs one device here; leave out --compare and --with")


def _run(
    module: Module, arrays: Sequence[object], limits: Limits, watch: ValueWatch | None
) -> tuple[list[Array], Stopped | None]:
    """The results of an evaluation, or where it stopped."""
    kernels = kernel_calls(module.folder or Path.cwd())
    evaluator = Evaluator(module, custom_calls=kernels, limits=limits, watch=watch)
    results, stop = list[Array](), None
    try:
        results = evaluator.run(arrays)
    except Stopped as stopped:
        stop = stopped
    if watch is not None:
        watch.finish()
        if watch.compared:
            compared = console.counted(watch.compared, "value")
            console.note(f"{compared} compared with the reference")
    return results, stop


def _stopped(stop: Stopped, watch: ValueWatch | None, as_json: bool) -> int:
    values = watch.values if watch is not None else []
    if as_json:
        rows = watched_rows(values)
        console.write_json("evaluate", outputs=[], watched=rows, stopped=stop_row(stop))
    else:
        print_watched(values)
        print_stop(stop)
    return 1


def _gaps(results: list[Array], expected: Sequence[object]) -> list[float]:
    """How far each output is off; one that only one side has is infinitely far."""
    pairs = zip_longest(results, expected)
    return [inf if a is None or b is None else largest_difference(a, b) for a, b in pairs]


def _on_devices(
    module: Module,
    recorded: Recorded | None,
    values: InputOptions,
    run: RunOptions,
    limits: Limits,
    as_json: bool,
) -> int:
    """The results of each device."""
    inputs_by_device: list[list[Value]] = recorded.inputs if recorded else []
    if not recorded:
        inputs_by_device = [values.arrays(module, limits, device) for device in range(run.devices)]
    count = len(inputs_by_device)
    results_by_device = evaluate_devices(
        module,
        inputs_by_device,
        partitions=run.partitions or partitions_of(module, count),
        limits=limits,
    )
    if as_json:
        rows = [
            {"device": number, "outputs": _rows(results, [])}
            for number, results in enumerate(results_by_device)
        ]
        console.write_json("evaluate", devices=rows)
    for number, results in enumerate(results_by_device):
        if not as_json:
            console.line(f"device {number}")
            _print(results, [], "")
        _save(results, run.output / f"device{number}" if run.output is not None else None)
    return 0


def _save(results: list[Array], output: Path | None) -> None:
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(results):
        np.save(output / f"output{number}.npy", plain_array(value))


def _rows(results: list[Array], gaps: list[float]) -> list[dict[str, object]]:
    return [
        {"name": f"output{number}", "dtype": str(value.dtype), "shape": list(value.shape),
         **({"difference": gaps[number]} if gaps else {})}
        for number, value in enumerate(results)
    ]  # fmt: skip


def _show(
    results: list[Array],
    gaps: list[float],
    as_json: bool,
    reference: str,
    tolerance: float,
    watch: ValueWatch | None,
) -> None:
    if as_json:
        more = {"watched": watched_rows(watch.values), "stopped": None} if watch else {}
        console.write_json("evaluate", outputs=_rows(results, gaps), **more)
        return
    print_watched(watch.values if watch is not None else [])
    _print(results, gaps, reference)
    if gaps:
        agree = sum(gap <= tolerance for gap in gaps)
        worst = max(range(len(gaps)), key=lambda index: gaps[index])
        off = f"; largest difference {gaps[worst]:.1e}, of output{worst}" if gaps[worst] else ""
        outputs = console.counted(len(gaps), "output")
        console.line(f"{agree} of {outputs} agree with {reference} within {tolerance:g}{off}")


def _print(results: list[Array], gaps: list[float], reference: str) -> None:
    for number, (row, value) in enumerate(zip(_rows(results, gaps), results, strict=True)):
        gap = f"  difference from {reference} {gaps[number]:.1e}" if gaps else ""
        with np.printoptions(threshold=8, edgeitems=2):
            console.line(f"{row['name']}  {row['dtype']}{row['shape']}{gap}\n{value}")
