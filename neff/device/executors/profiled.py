"""Programs that ``nki-hlo profile`` runs: each NEFF is kept, with how often and on what it ran.

The folder holds ``PID-N.neff`` for each program built, ``PID-N.json`` with the iterations of its
loops in its first run, and ``runs``, a line with the NEFF's name for each run of any process.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hlo_tools.extract.protocol import PROFILE
from neff.container import read
from neff.program import Program
from neff.runtime import LoadedModel
from neff.runtime.trips import trips_of
from neff.timing import Trips

__all__ = ["ProfiledModel", "ProgramRun", "programs_run", "watched", "watched_ranks"]

_RUNS = "runs"
_numbers = itertools.count()


class ProfiledModel:
    """A loaded model whose runs are noted in a folder."""

    def __init__(self, model: LoadedModel, file: Path) -> None:
        self._model, self._file = model, file
        self._has_run = False

    def run(self, inputs: Mapping[str, object]) -> dict[str, npt.NDArray[np.generic]]:
        """Run once; see :meth:`neff.runtime.LoadedModel.run`."""
        if not self._has_run:
            trips = trips_of(self._model.program, inputs, self._model.name)
            self._file.with_suffix(".json").write_text(json.dumps(trips))
            self._has_run = True
        _note_run(self._file)
        return self._model.run(inputs)


def _note_run(file: Path) -> None:
    line = file.name.encode() + b"\n"
    handle = os.open(file.with_name(_RUNS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def _neff_path(file: Path) -> Path | None:
    """A copy of a NEFF for the profile of the script, if one is wanted."""
    folder = os.environ.get(PROFILE)
    if not folder:
        return None
    path = Path(folder) / f"{os.getpid()}-{next(_numbers)}.neff"
    shutil.copyfile(file, path)
    return path


def watched(model: LoadedModel, file: Path) -> LoadedModel | ProfiledModel:
    """The model, its runs noted when a profile of the script is wanted."""
    path = _neff_path(file)
    return ProfiledModel(model, path) if path else model


def watched_ranks(program: Program, file: Path) -> Callable[[], None]:
    """Return the recorder of runs on several devices when a profile of the script is requested.

    Such a profile is that of one device; its loops count as long as they are written.
    """
    path = _neff_path(file)
    if path is None:
        return lambda: None
    path.with_suffix(".json").write_text(json.dumps([{} for _ in program.subgraphs]))
    return lambda: _note_run(path)


@dataclass(slots=True)
class ProgramRun:
    """A program that a script ran.

    Attributes:
        program: as its NEFF has it.
        data: the bytes of the NEFF.
        trips: iterations of loops in its first run, see ``neff.timing.estimate``.
        runs: how often it ran.
    """

    program: Program
    data: bytes
    trips: Trips
    runs: int = 0


def programs_run(folder: Path) -> list[ProgramRun]:
    """Return the programs that ran, in order of first runs; equal NEFFs are one program."""
    runs = folder / _RUNS
    names = runs.read_text().splitlines() if runs.exists() else []
    by_content: dict[bytes, ProgramRun] = {}
    by_name: dict[str, ProgramRun] = {}
    for name in names:
        if name not in by_name:
            data = (folder / name).read_bytes()
            if data not in by_content:
                rows = json.loads((folder / name).with_suffix(".json").read_text())
                trips = [{int(loop): float(mean) for loop, mean in row.items()} for row in rows]
                by_content[data] = ProgramRun(read(folder / name), data, trips)
            by_name[name] = by_content[data]
        by_name[name].runs += 1
    return list(by_content.values())
