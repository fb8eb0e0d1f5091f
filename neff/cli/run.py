"""``nki-neff run``."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np

from hlo_tools.cli import console
from neff.cli.arrays import read_inputs
from neff.errors import NeffError
from nki_lang.dtypes import Array

__all__ = ["run_file"]

_UNSAFE = re.compile(r"[^\w.+-]")
_NUMPY_KINDS = frozenset("biufc")


def run_file(
    file: Path,
    inputs: list[str],
    folder: Path,
    *,
    fill: str | None = None,
    seed: int = 0,
    widen: bool = False,
    check: bool = False,
    as_json: bool = False,
) -> int:
    """Run a NEFF once.

    Args:
        file: the NEFF.
        inputs: ``NAME=FILE.npy``.
        folder: where ``NAME.npy`` of each output is written; created if missing.
        fill: what missing inputs are: ``zeros``, ``random`` or None for an error.
        seed: of random inputs.
        widen: outputs of types that NumPy lacks are written as float32.
        check: reject results that come from uninitialised memory.
        as_json: print one document instead of lines.

    Raises:
        NeffError: what is wrong, with its place.
    """
    from neff.container import read
    from neff.runtime.model import UNWRITTEN_REMEDY, LoadedModel
    from nki_lang.execute.unwritten import REMEDY

    model = LoadedModel(read(file), file.stem, str(file))
    arrays = read_inputs(inputs, model.program, fill, seed)
    names = _file_names(list(model.outputs))
    start = time.perf_counter()
    outputs = model.run(arrays, check=check)
    elapsed = time.perf_counter() - start
    for gap in model.gaps:
        console.note(f"warning[NEFF-UNWRITTEN] {gap.location or file}: {gap.message}")
        console.note(f"help: {UNWRITTEN_REMEDY}")
    for one in model.unwritten_reads:
        console.note(f"warning[NEFF-UNINITIALISED] {one.location or file}: {one.message}")
        console.note(f"help: {REMEDY}")
    unwritten = {gap.tensor.name: len(gap.where) * gap.tensor.dtype.itemsize for gap in model.gaps}
    written = {name: _save(folder / names[name], outputs[name], widen) for name in outputs}
    if as_json:
        rows = [
            {"name": name, "file": str(path), "dtype": str(outputs[name].dtype),
             "shape": list(outputs[name].shape), "unwritten_bytes": unwritten.get(name, 0)}
            for name, path in written.items()
        ]  # fmt: skip
        console.write_json("run", file=str(file), milliseconds=elapsed * 1e3, outputs=rows)
        return 0
    for name, path in written.items():
        console.line(f"{path}  {outputs[name].dtype}{list(outputs[name].shape)}")
    console.note(f"{elapsed * 1e3:.1f} ms on this machine", verbose=True)
    return 0


def _file_names(names: list[str]) -> dict[str, str]:
    """A file name for each output; names come from the file and may hold anything."""
    safe = {name: _UNSAFE.sub("_", name).lstrip(".") or "output" for name in names}
    if len({each.lower() for each in safe.values()}) != len(names):
        return {name: f"{index}_{safe[name]}.npy" for index, name in enumerate(names)}
    return {name: f"{each}.npy" for name, each in safe.items()}


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
