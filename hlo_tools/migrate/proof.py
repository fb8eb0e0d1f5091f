"""The proof of a migration: both files run on the same arguments, and every bit is compared."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hlo_tools.extract.protocol import EXECUTOR
from hlo_tools.migrate.record import Launch
from hlo_tools.migrate.trial import MODES, Request, Trial, is_array
from nki_lang.beta1.values import Value
from nki_lang.frontend.objects import is_sequence
from nki_lang.tracing.arguments import sequence_like

__all__ = ["Comparison", "Proof", "prove"]

SEEDS = (1, 2)
"""Seeds of the random arguments, besides the recorded ones."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One call of a kernel in both files.

    Attributes:
        kernel: its name.
        shapes: of the tensors that it takes.
        is_equal: all results are the same bits in every mode.
        difference: what differs, or why the call could not run.
        old_ns, new_ns: estimated times.
    """

    kernel: str
    shapes: tuple[str, ...]
    is_equal: bool
    difference: str
    old_ns: float | None
    new_ns: float | None


@dataclass(frozen=True, slots=True)
class Proof:
    """All comparisons; nothing is proven without one."""

    comparisons: tuple[Comparison, ...]

    @property
    def is_equal(self) -> bool:
        """True if there are comparisons and all are equal."""
        return bool(self.comparisons) and all(entry.is_equal for entry in self.comparisons)


def prove(old: Path, new: Path, launches: Sequence[Launch]) -> Proof:
    """Run the calls of both files in simulate and as NEFFs.

    Args:
        old: the file of the earlier version.
        new: the migrated file.
        launches: calls, whose numbers are also replaced by random ones.
    """
    calls = [
        variant for launch in launches for variant in (launch, *(_random(launch, seed) for seed in SEEDS))
    ]  # fmt: skip
    if not calls:
        return Proof(())
    try:
        old_trials, new_trials = _trials((old, new), calls)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        failed = Trial({}, None, f"the arguments cannot be given to another process: {error}")
        old_trials = new_trials = [failed] * len(calls)
    rows = zip(calls, old_trials, new_trials, strict=True)
    return Proof(tuple(_compared(*row) for row in rows))


def _random(launch: Launch, seed: int) -> Launch:
    """Return the call with other floats; integers stay, since they may be indices."""
    generator = np.random.default_rng(seed)

    def other(value: Value) -> Value:
        if is_array(value):
            is_float = value.dtype.kind not in "biu"
            shape: tuple[int, ...] = value.shape
            return generator.standard_normal(size=shape).astype(value.dtype) if is_float else value
        if is_sequence(value):
            return sequence_like(value, [other(entry) for entry in value])
        return value

    named = {key: other(value) for key, value in launch.kwargs.items()}
    return Launch(launch.kernel, launch.grid, tuple(other(value) for value in launch.args), named)


_START = "import sys; from hlo_tools.migrate.trial import main; sys.exit(main(sys.argv[1:]))"


def _trials(files: Sequence[Path], calls: Sequence[Launch]) -> list[list[Trial]]:
    request = Request(
        tuple(map(str, files)),
        tuple((call.kernel, call.grid, call.args, call.kwargs) for call in calls),
    )
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder:
        asked, answered = Path(folder) / "request", Path(folder) / "result"
        asked.write_bytes(pickle.dumps(request))
        run = subprocess.run(
            [sys.executable, "-c", _START, str(asked), str(answered)],
            env=dict(os.environ) | {EXECUTOR: "neff"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answered.exists():
            return pickle.loads(answered.read_bytes())
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        failed = Trial({}, None, f"the process ended with {run.returncode}: {last}")
        return [[failed] * len(calls) for _ in files]


def _compared(call: Launch, old: Trial, new: Trial) -> Comparison:
    difference = ""
    if old.error or new.error:
        version, error = ("the earlier", old.error) if old.error else ("the migrated", new.error)
        difference = f"{version} kernel did not run: {error}"
    for mode in MODES:
        if not difference:
            difference = _difference(mode, old.results[mode], new.results[mode])
    shapes = tuple(
        f"{value.dtype}{list(value.shape)}"
        for value in (*call.args, *call.kwargs.values()) if is_array(value)
    )  # fmt: skip
    return Comparison(call.kernel, shapes, not difference, difference, old.time_ns, new.time_ns)


def _difference(mode: str, old: Sequence[Value], new: Sequence[Value]) -> str:
    """Return what differs between results, "" for the same bits."""
    if len(old) != len(new):
        return f"{mode}: {len(old)} results before and {len(new)} now"
    for location, (left, right) in enumerate(zip(old, new, strict=True)):
        before, now = (f"{array.dtype}{list(array.shape)}" for array in (left, right))
        if before != now:
            return f"{mode}: result {location} was {before} and is {now}"
        if left.tobytes() != right.tobytes():
            wide = [np.asarray(array, np.float64) for array in (left, right)]
            count = int(np.sum(~((wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1])))))
            gap = np.nanmax(np.abs(wide[0] - wide[1])) if count else 0.0
            return f"{mode}: result {location} differs in {count} of {left.size} elements, by {gap:.3g} at most"
    return ""
