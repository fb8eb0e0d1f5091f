"""Outcomes of each kernel in each execution mode, as a table and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Result", "outcome_of", "print_table", "reason_of", "write_json"]


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        kernel: the row of the table.
        case: shapes, cores or the test's name.
        way: the column of the table.
        outcome: ``passed``, ``failed``, ``skipped``, or ``limited`` when the limits of time or
            memory that the driver was given ended it.
        reason: why it did not pass.
        seconds: how long it took.
    """

    kernel: str
    case: str
    way: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0


def outcome_of(reason: str) -> str:
    """Return the outcome of a run that ended for this reason ("" for success)."""
    if not reason:
        return "passed"
    limits = ("TimeoutError", "MemoryError", "took more than", "to allocate", "allocate memory")
    return "limited" if any(limit in reason for limit in limits) else "failed"


def reason_of(error: BaseException) -> str:
    """An error as one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def print_table(results: Sequence[Result], modes: Sequence[str]) -> None:
    """Kernel by way, with passed/tried in each cell; then every reason with how often it stood.

    ``+2`` behind a cell: two more were ended by the limits of time or memory.
    """
    kernels = list(dict.fromkeys(result.kernel for result in results))
    width = max([len(name) for name in kernels] + [len("kernel")])
    print("  ".join(["kernel".ljust(width), *(mode.rjust(9) for mode in modes)]))
    for kernel in kernels:
        cells = [_cell(results, kernel, mode) for mode in modes]
        print("  ".join([kernel.ljust(width), *(cell.rjust(9) for cell in cells)]))
    print("  ".join(["all".ljust(width), *(_cell(results, None, mode).rjust(9) for mode in modes)]))
    _print_reasons(results)


def _cell(results: Iterable[Result], kernel: str | None, mode: str) -> str:
    outcomes = Counter(
        result.outcome
        for result in results
        if result.way == mode and kernel in (None, result.kernel)
    )
    tried = outcomes["passed"] + outcomes["failed"]
    more = f" +{outcomes['limited']}" if outcomes["limited"] else ""
    if not tried and not more:
        return "skipped" if outcomes["skipped"] else "-"
    return f"{outcomes['passed']}/{tried}{more}"


def _print_reasons(results: Iterable[Result]) -> None:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        if result.outcome != "passed":
            groups.setdefault((result.kernel, result.way, result.reason), []).append(result.case)
    for (kernel, mode, reason), cases in groups.items():
        print(f"\n{kernel} {mode}: {len(cases)} times, as {cases[0]}\n    {reason}")


def write_json(results: Iterable[Result], path: str | Path) -> None:
    """All runs as a list of objects."""
    rows = [asdict(result) for result in results]
    Path(path).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
