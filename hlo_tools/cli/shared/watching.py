"""Options with which ``nki-hlo evaluate`` shows, writes and checks values of instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.module_inputs import Tolerance
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.evaluate.watching import Stopped, ValueWatch, WatchedValue, reference_values
from hlo_tools.ir.module import Module

__all__ = [
    "WatchOptions",
    "print_stop",
    "print_watched",
    "stop_row",
    "watched_rows",
]

Watch = Annotated[
    list[str] | None,
    typer.Option(
        "--watch",
        help="Show values of instructions: NAME or COMPUTATION/NAME, with *; may be repeated.",
        metavar="PATTERN",
        autocompletion=completion.instructions,
    ),
]
StopAt = Annotated[
    str,
    typer.Option(
        "--stop-at",
        help="Stop at the first nan, inf, or difference from a reference (.npz, or a --dump folder).",
        metavar="nan|inf|REFERENCE",
    ),
]
Dump = Annotated[
    Path | None,
    typer.Option("--dump", help="Folder for every value, or for those that --watch chooses."),
]
_SHOWN_ELEMENTS = 8
"""Arrays of at most so many elements are printed whole."""


@dataclass(frozen=True, slots=True)
class WatchOptions(OptionGroup):
    """Which values are shown, written and checked."""

    watch: Watch = None
    stop_at: StopAt = ""
    dump: Dump = None
    tolerance: Tolerance = 1e-4

    def of(self, module: Module) -> ValueWatch | None:
        """Return the watch that the options ask for; None if they ask for none.

        Raises:
            HloError: the reference cannot be read (HLO-NPY).
        """
        if not (self.watch or self.stop_at or self.dump):
            return None
        is_kind = self.stop_at in ("", "nan", "inf")
        return ValueWatch(
            module,
            patterns=self.watch or [],
            stop_at=self.stop_at if is_kind else "",
            reference=None if is_kind else reference_values(Path(self.stop_at)),
            tolerance=self.tolerance,
            folder=self.dump,
        )


def print_watched(values: Sequence[WatchedValue]) -> None:
    """Print a line for each value, and the elements of small ones."""
    for value in values:
        console.line(_text(value))


def print_stop(stop: Stopped) -> None:
    """Print the instruction at which an evaluation stopped, and what it took."""
    console.line(f"stopped at {_text(stop.value)}")
    console.line(f"  {stop.reason}")
    for operand in stop.operands:
        console.line(f"  operand {_text(operand)}")


def watched_rows(values: Sequence[WatchedValue]) -> list[dict[str, object]]:
    """The values for JSON, without their elements."""
    return [_row(value) for value in values]


def stop_row(stop: Stopped | None) -> dict[str, object] | None:
    """The instruction at which an evaluation stopped, for JSON."""
    if stop is None:
        return None
    return {**_row(stop.value), "reason": stop.reason, "operands": watched_rows(stop.operands)}


def _row(value: WatchedValue) -> dict[str, object]:
    return {
        "computation": value.computation, "instruction": value.instruction, "run": value.run,
        "tuple_index": value.tuple_index, "dtype": value.dtype, "shape": list(value.shape), "low": value.low,
        "high": value.high, "mean": value.mean, "nan": value.nan, "inf": value.inf,
        "source": value.source,
    }  # fmt: skip


def _text(value: WatchedValue) -> str:
    name = f"%{value.computation}/%{value.instruction}"
    name += f"[{value.tuple_index}]" if value.tuple_index >= 0 else ""
    shape = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    run = f", run {value.run}" if value.run > 1 else ""
    source = f"  {value.source}" if value.source else ""
    facts = [
        f"{word} {number:.6g}"
        for word, number in (("low", value.low), ("high", value.high), ("mean", value.mean))
        if number is not None
    ]
    facts += [
        f"{word} {number}" for word, number in (("nan", value.nan), ("inf", value.inf)) if number
    ]
    if value.array.size <= _SHOWN_ELEMENTS:
        facts = [np.array2string(value.array, separator=", ", max_line_width=10_000)]
        facts = [facts[0].replace("\n", "")]
    return f"{name}  {shape}{run}  {' '.join(facts)}{source}"
