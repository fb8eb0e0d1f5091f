"""Several ranks of one model in one process, which meet in its collectives."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from neff.program import Program
from neff.runtime.model import LoadedModel, load
from nki_lang.base.dtypes import Array
from nki_lang.execute import meeting_of, run_together

__all__ = ["LoadedRanks", "run_ranks", "run_together_once"]


def run_ranks(
    source: Program | str | os.PathLike[str], inputs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Array]]:
    """Execute a NEFF once for each rank; ranks meet in its collectives.

    Args:
        source: the file or the program, the same for all ranks.
        inputs: for each rank an array for every input by name.

    Returns:
        The outputs of each rank by name.

    Raises:
        NeffFileError: the file is damaged or not ours.
        NeffRuntimeError: it cannot run; ``NEFF-RANKS`` for another number of ranks than it is for,
            ``NEFF-EXEC-COLLECTIVE`` for a wrong replica group, ``NEFF-EXEC-DEADLOCK`` when ranks
            do not meet.
    """
    return LoadedRanks(source, len(inputs)).run(inputs)


class LoadedRanks:
    """A model loaded once for each rank, which can run any number of times.

    Attributes:
        models: that of each rank.
    """

    def __init__(
        self, source: Program | str | os.PathLike[str], count: int, *, name: str | None = None
    ) -> None:
        first = load(source, name=name)
        first.require_ranks(count)
        models = [load(first.program, name=name) for _ in range(count - 1)]
        self.models: list[LoadedModel] = [first, *models][:count]
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Array]]:
        """Execute every rank once.

        Args:
            inputs: for each rank an array for every input by name.

        Raises:
            NeffRuntimeError: as for :func:`run_ranks`.
        """
        with self._lock:
            return run_together_once(self.models, inputs, [{} for _ in self.models])


def run_together_once(
    models: Sequence[LoadedModel],
    inputs: Sequence[Mapping[str, Any]],
    outputs: Sequence[dict[str, Any]],
) -> list[dict[str, Array]]:
    """Execute the models of all ranks once.

    Args:
        models: one for each rank.
        inputs: for each rank an array for every input by name.
        outputs: for each rank arrays to write results into; those not given are made.

    Raises:
        NeffRuntimeError: as for :func:`run_ranks`.
    """
    for model in models:
        model.require_ranks(len(models))
    bound = [
        model.begin(arrays, results)
        for model, arrays, results in zip(models, inputs, outputs, strict=True)
    ]
    machines = [machine for machine, _, _ in bound]
    programs = [run for machine in machines for run in machine.begin()]
    meeting = meeting_of([machine.states for machine in machines])
    for machine in machines[:1]:  # the kernel's place is that of any rank
        with machine.faults():
            run_together(programs, meeting)
    return [
        model.collect(arrays, targets, results)
        for model, (_, arrays, targets), results in zip(models, bound, outputs, strict=True)
    ]
