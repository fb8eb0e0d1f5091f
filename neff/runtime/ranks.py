"""Several ranks of one model in one process, for kernels with collectives."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from neff.container import read
from neff.program import Program
from neff.runtime.model import load
from nki_lang.dtypes import Array
from nki_lang.execute.exchange import run_together
from nki_lang.execute.ranks import meeting_of

__all__ = ["run_ranks"]


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
        NeffRuntimeError: it cannot run; ``NEFF-EXEC-COLLECTIVE`` for a wrong replica group,
            ``NEFF-EXEC-DEADLOCK`` when ranks do not meet.
    """
    program = source if isinstance(source, Program) else read(source)
    models = [load(program) for _ in inputs]
    bound = [model.begin(given, {}) for model, given in zip(models, inputs, strict=True)]
    machines = [machine for machine, _, _ in bound]
    programs = [run for machine in machines for run in machine.begin()]
    meeting = meeting_of([machine.states for machine in machines])
    for machine in machines[:1]:  # the kernel's place is that of any rank
        with machine.faults():
            run_together(programs, meeting)
    return [
        model.collect(arrays, targets, {})
        for model, (_, arrays, targets) in zip(models, bound, strict=True)
    ]
