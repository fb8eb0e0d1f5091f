"""``nki-neff run``."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.fills import Fill, Seed
from hlo_tools.cli.shared.options import AsJson
from neff.cli.arrays import read_inputs
from neff.cli.options import File
from neff.errors import NeffError
from neff.program import named_ranks
from nki_lang.base.dtypes import Array

if TYPE_CHECKING:
    from neff.runtime.model import LoadedModel

__all__ = ["command"]

_UNSAFE = re.compile(r"[^\w.+-]")
_NUMPY_KINDS = frozenset("biufc")

Arrays = dict[str, npt.NDArray[np.generic]]


Given = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help="An input: NAME=FILE.npy.", metavar="NAME=FILE"),
]
Folder = Annotated[Path, typer.Option("--output", "-o", help="Folder for NAME.npy of each output.")]
Widened = Annotated[
    bool,
    typer.Option("--float32", help="Write types that NumPy lacks (bfloat16, fp8) as float32."),
]
Checked = Annotated[
    bool, typer.Option("--check", help="Reject results from uninitialised memory (slow).")
]
Ranks = Annotated[
    int,
    typer.Option(
        "--ranks",
        help="Devices that run it together; by default as many as it was built for. {rank} in "
        "an input's file is the number of each.",
        min=0,
        metavar="N",
    ),
]


def command(
    file: File,
    inputs: Given = None,
    folder: Folder = Path("."),
    fill: Fill = None,
    seed: Seed = 0,
    widen: Widened = False,
    check: Checked = False,
    ranks: Ranks = 0,
    as_json: AsJson = False,
) -> int:
    """Run a NEFF that nki-neff built.

    Of several devices each writes its outputs into a folder rank_N; device N fills random inputs
    with the seed plus N.

    Example: nki-neff run matmul.neff -i input0=a.npy -i input1=b.npy -o results
    Example: nki-neff run mean.neff --ranks 4 -i input0=part{rank}.npy -o results
    """
    from neff.container import read
    from neff.runtime.model import LoadedModel

    program = read(file)
    count = ranks or program.devices or max(1, named_ranks(program))
    models = [LoadedModel(program, file.stem, str(file)) for _ in range(count)]
    arrays = [
        read_inputs([_of_rank(option, rank) for option in inputs or []], program, fill, seed + rank)
        for rank in range(count)
    ]
    model = models[0]
    start = time.perf_counter()
    if count == 1:
        results = [model.run(arrays[0], check=check)]
    else:
        results = _together(models, arrays, check)
    elapsed = time.perf_counter() - start
    _warn(model, file)
    rows = _save_all(results, model, folder, widen)
    if as_json:
        console.write_json("run", file=str(file), milliseconds=elapsed * 1e3, outputs=rows)
        return 0
    for row in rows:
        console.line(f"{row['file']}  {row['dtype']}{row['shape']}")
    console.note(f"{elapsed * 1e3:.1f} ms on this machine", verbose=True)
    return 0


def _save_all(
    results: list[dict[str, Array]], model: LoadedModel, folder: Path, widen: bool
) -> list[dict[str, object]]:
    """Write the outputs of each device; a row of ``--json`` for each file."""
    names = _file_names(list(model.outputs))
    unwritten = {gap.tensor.name: len(gap.where) * gap.tensor.dtype.itemsize for gap in model.gaps}
    rows: list[dict[str, object]] = []
    for rank, outputs in enumerate(results):
        output_folder = folder / f"rank_{rank}" if len(results) > 1 else folder
        for name, value in outputs.items():
            path = _save(output_folder / names[name], value, widen)
            row: dict[str, object] = {"name": name, "file": str(path), "dtype": str(value.dtype),
                   "shape": list(value.shape), "unwritten_bytes": unwritten.get(name, 0)}  # fmt: skip
            rows.append(row if len(results) == 1 else row | {"rank": rank})
    return rows


def _warn(model: LoadedModel, file: Path) -> None:
    """Warn about memory that the program leaves unwritten, or reads before it is written."""
    from neff.runtime.model import UNWRITTEN_REMEDY
    from nki_lang.analysis.unwritten import REMEDY

    for gap in model.gaps:
        console.note(f"warning[NEFF-UNWRITTEN] {gap.location or file}: {gap.message}")
        console.note(f"help: {UNWRITTEN_REMEDY}")
    for warning in model.unwritten_reads:
        console.note(f"warning[NEFF-UNINITIALISED] {warning.location or file}: {warning.message}")
        console.note(f"help: {REMEDY}")


def _of_rank(text: str, rank: int) -> str:
    """An input with the device's number in the file's name."""
    name, equals, path = text.partition("=")
    return name + equals + path.replace("{rank}", str(rank))


def _together(
    models: list[LoadedModel], arrays: list[Arrays], check: bool
) -> list[dict[str, Array]]:
    from neff.runtime.ranks import run_together_once

    if check:
        raise NeffError(
            "--check follows what one device does",
            code="NEFF-USAGE",
            place=f"{len(models)} devices",
            remedy="run it without --check",
        )
    return run_together_once(models, arrays, [{} for _ in models])


def _file_names(names: list[str]) -> dict[str, str]:
    """A file name for each output; names come from the file and may hold anything."""
    safe = {name: _UNSAFE.sub("_", name).lstrip(".") or "output" for name in names}
    if len({stem.lower() for stem in safe.values()}) != len(names):
        return {name: f"{index}_{safe[name]}.npy" for index, name in enumerate(names)}
    return {name: f"{stem}.npy" for name, stem in safe.items()}


def _save(path: Path, array: Array, widen: bool) -> Path:
    from neff.container.atomic import atomic_file

    if widen and array.dtype.kind not in _NUMPY_KINDS:
        array = array.astype(np.float32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NeffError(
            f"cannot create the folder: {error.strerror}",
            code="NEFF-WRITE",
            place=str(path.parent),
            remedy="name a folder that can be created with --output",
        ) from None
    with atomic_file(path) as file:
        np.save(file, array, allow_pickle=False)
    return path
