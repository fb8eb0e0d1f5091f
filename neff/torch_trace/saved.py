"""Traced models in files: a ZIP archive of the NEFF, its HLO, the weights and a description.

Entries are stored, not compressed, and of bounded number and size; weights are read without pickled
code (``weights_only``).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, cast

import neff
from neff.errors import NeffFileError
from neff.runtime import LoadedModel
from neff.runtime import load as load_model
from neff.torch_graph.compiled import HLO_FILE, NEFF_FILE
from neff.torch_graph.pytorch import Tree, pytree, torch
from neff.torch_trace.graph import TracedGraph, Written
from nki_lang.base.atomic import atomic_file

__all__ = ["SavedModel", "is_saved_model", "read_saved", "save"]

DESCRIPTION_FILE = "nki_hlo_traced_model.json"
WEIGHTS_FILE = "weights.pt"
FORMAT_VERSION = 1
MAX_ARCHIVE_BYTES = 64 << 30

_ENTRIES = (DESCRIPTION_FILE, HLO_FILE, NEFF_FILE, WEIGHTS_FILE)
_PLAIN_VALUES = (bool, int, float, str, type(None))

SavedModel = tuple[LoadedModel, TracedGraph, Tree, list[object], bool]
"""The model, its graph, the structure and kinds of its arguments, and whether batches are dynamic."""


class SavableModel(Protocol):
    """Attributes of a traced model that :func:`save` writes."""

    @property
    def model(self) -> LoadedModel: ...
    @property
    def graph(self) -> TracedGraph: ...
    @property
    def sources(self) -> Sequence[Tree]: ...
    @property
    def structure(self) -> Tree: ...
    @property
    def examples(self) -> Sequence[object]: ...
    @property
    def has_dynamic_batch(self) -> bool: ...


def save(model: SavableModel, path: str | os.PathLike[str]) -> None:
    """Write a traced model with the present values of its state.

    Raises:
        TypeError: an argument that is no tensor is neither a number, a text nor None.
    """
    buffer = io.BytesIO()
    weights = [source for source in model.sources if not isinstance(source, int)]
    torch.save(weights, buffer)
    with TemporaryDirectory(prefix="nki-hlo-") as scratch:
        neff.write(model.model.program, Path(scratch) / NEFF_FILE)
        program = (Path(scratch) / NEFF_FILE).read_bytes()
    contents = {
        DESCRIPTION_FILE: json.dumps(_described(model), indent=1).encode(),
        HLO_FILE: model.graph.module,
        NEFF_FILE: program,
        WEIGHTS_FILE: buffer.getvalue(),
    }
    with atomic_file(path, user_path=True) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def _described(model: SavableModel) -> dict[str, object]:
    graph = model.graph
    return {
        "version": FORMAT_VERSION,
        "name": model.model.program.name,
        "sources": [s if isinstance(s, int) else None for s in model.sources],
        "results": [[list(shape), _name_of(kind)] for shape, kind in graph.results],
        "written": [[location.source, location.input] for location in graph.written],
        "names": list(graph.names),
        "result_structure": pytree.treespec_dumps(graph.structure),
        "structure": pytree.treespec_dumps(model.structure),
        "examples": [_example(kind) for kind in model.examples],
        "has_dynamic_batch": model.has_dynamic_batch,
    }


def _name_of(kind: Tree) -> str:
    return str(kind).removeprefix("torch.")


def _example(kind: object) -> dict[str, object]:
    parts = cast("tuple[Tree, ...]", kind)
    if len(parts) == 2:
        return {"shape": list(parts[0]), "dtype": _name_of(parts[1])}
    if not isinstance(parts[0], _PLAIN_VALUES):
        raise TypeError(f"a model traced with the argument {parts[0]!r} cannot be saved")
    return {"value": parts[0]}


def is_saved_model(path: object) -> bool:
    """Return True for a file that :func:`save` wrote."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    file = Path(cast("str", path))
    if not file.is_file():
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return DESCRIPTION_FILE in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_saved(path: str | os.PathLike[str]) -> SavedModel:
    """Read what :func:`save` wrote.

    Raises:
        NeffFileError: ``NEFF-TRACE-FILE``: the file is none of a traced model, or is damaged.
    """
    try:
        contents = _contents(Path(path))
        description: Tree = json.loads(contents[DESCRIPTION_FILE])
        if description["version"] != FORMAT_VERSION:
            raise ValueError(f"its format has version {description['version']!r}")
        weights = iter(torch.load(io.BytesIO(contents[WEIGHTS_FILE]), weights_only=True))
        sources = tuple(
            next(weights) if source is None else int(source) for source in description["sources"]
        )
        graph = TracedGraph(
            contents[HLO_FILE],
            sources,
            tuple((tuple(shape), getattr(torch, name)) for shape, name in description["results"]),
            tuple(Written(source, number) for source, number in description["written"]),
            pytree.treespec_loads(description["result_structure"]),
            tuple(description["names"]),
        )
        structure = pytree.treespec_loads(description["structure"])
        examples = [_kind(example) for example in description["examples"]]
        is_dynamic = bool(description["has_dynamic_batch"])
        name = str(description["name"])
    except Exception as error:
        raise NeffFileError(
            f"no traced model can be read: {type(error).__name__}: {error}",
            code="NEFF-TRACE-FILE",
            place=str(path),
            remedy="save the model again with torch.jit.save(traced, path)",
        ) from error
    with TemporaryDirectory(prefix="nki-hlo-") as scratch:
        (Path(scratch) / NEFF_FILE).write_bytes(contents[NEFF_FILE])
        model = load_model(Path(scratch) / NEFF_FILE, name=name)
    return model, graph, structure, examples, is_dynamic


def _contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if sorted(entry.filename for entry in entries) != sorted(_ENTRIES):
            raise ValueError(f"its entries are not {', '.join(_ENTRIES)}")
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("an entry is compressed")
        if sum(entry.file_size for entry in entries) > MAX_ARCHIVE_BYTES:
            raise ValueError(f"its entries have more than {MAX_ARCHIVE_BYTES} bytes")
        return {entry.filename: archive.read(entry) for entry in entries}


def _kind(example: dict[str, Tree]) -> object:
    if "shape" in example:
        return (tuple(example["shape"]), getattr(torch, example["dtype"]))
    return (example["value"],)
