"""Captures of a real device: what each instruction took.

Three forms are read:

* a decoded stream (tab-separated text) whose lines have start, duration and waiting time behind ``|``;
* JSON with a list ``instruction`` of objects with ``timestamp``, ``duration``, ``label`` and
  ``opcode``, as ``neuron-profile`` and Neuron Explorer write it (``device_profile_model_<id>.json``);
* a folder of Parquet tables with ``Instruction.parquet``, as Neuron Explorer writes it (schema 7.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from neff.container import strict_json
from neff.errors import NeffError, NeffFileError
from neff.timing import StreamInstruction, read_stream
from nki_lang.base.plain_files import read_plain, shown

__all__ = ["SETUP_OPCODES", "Capture", "Record", "read_capture"]

MAX_CAPTURE_BYTES = 1 << 28
"""Larger text captures are refused."""

SETUP_OPCODES = frozenset(
    {"NOP", "SET_ORDERING_MODE", "EVENT_SEMAPHORE", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOTIFY",
     "COMPARE_BRANCH", "DRAIN", "WRITE", "TENSOR_LOAD", "MODIFY_POOL_CONFIG"}
)  # fmt: skip
"""Opcodes that do not compute: a program here has none of them, or another number."""

_ENGINE_NAMES = {
    "tensormatrix": "tensor", "pe": "tensor", "dve": "vector", "act": "scalar",
    "activation": "scalar", "pool": "gpsimd", "sp": "sync",
}  # fmt: skip
_ENGINES = frozenset({"tensor", "vector", "scalar", "gpsimd", "sync"})


@dataclass(frozen=True, slots=True)
class Record:
    """One instruction of a capture; times in nanoseconds.

    Attributes:
        opcode: as the capture spells it.
        start, duration: measured.
        waited: for semaphores before the start; None when the capture does not say so.
    """

    opcode: str
    start: float
    duration: float
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """The content of one file.

    Attributes:
        file: its name.
        records: of each engine, in order of start, without :data:`SETUP_OPCODES`; of a stream by
            the index of the instruction instead.
        stream: the instructions of a decoded stream; empty for other captures.
        by_index: records of a decoded stream.
    """

    file: str
    records: Mapping[str, tuple[Record, ...]]
    stream: tuple[StreamInstruction, ...] = ()
    by_index: Mapping[int, Record] | None = None


def read_capture(path: Path, *, core: int = 0) -> Capture:
    """Read a capture of any form.

    Args:
        path: a file, or a folder of Parquet tables.
        core: physical core whose instructions are read, where a capture has several.

    Raises:
        NeffError: ``NEFF-CAPTURE``; it is none of the forms, or has no times. ``NEFF-PYARROW``;
            a folder needs pyarrow. ``NEFF-STREAM`` as of :func:`neff.timing.read_stream`.
    """
    if path.is_dir():
        return Capture(path.name, _by_engine(_parquet_rows(path), path, core))
    try:
        data = read_plain(path, MAX_CAPTURE_BYTES)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from error
    if data.lstrip()[:1] in (b"{", b"["):
        return Capture(path.name, _by_engine(_json_rows(data, path), path, core))
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise _wrong(path, "is neither text, JSON nor a folder of Parquet tables") from error
    return _stream(path, lines)


def _wrong(path: Path, message: str) -> NeffError:
    return NeffError(
        message,
        code="NEFF-CAPTURE",
        place=shown(path),
        remedy="give a decoded stream with times, a profile as JSON, or a folder with "
        "Instruction.parquet; docs/timing.md has the forms",
    )


def _stream(path: Path, lines: list[str]) -> Capture:
    """Return a decoded stream with the times behind ``|``."""
    instructions = read_stream(lines)
    texts = [line for line in lines if line.strip() and not line.startswith("#")]
    by_index: dict[int, Record] = {}
    for inst, line in zip(instructions, texts, strict=True):
        _, bar, times = line.partition("|")
        cells = times.split()
        if not bar or len(cells) < 2:
            raise _wrong(path, f"instruction {inst.index} has no start and duration behind |")
        numbers = [_number(cell, path, f"instruction {inst.index}") for cell in cells[:3]]
        by_index[inst.index] = Record(inst.opcode, *numbers)
    if not instructions:
        raise _wrong(path, "has no instructions")
    return Capture(path.name, {}, tuple(instructions), by_index)


def _number(value: object, path: Path, location: str) -> float:
    """Return a time that is finite and not negative."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not isfinite(number) or number < 0:
        raise _wrong(path, f"{location}: {value!r} is no time")
    return number


def _json_rows(data: bytes, path: Path) -> Iterator[tuple[str, int, Record]]:
    """Yield engine, core and record of each instruction of a profile as JSON."""
    try:
        document = strict_json.load(data, shown(path))
    except NeffFileError as error:
        raise _wrong(path, f"is no JSON: {error.message}") from error
    rows = strict_json.objects(document, "instruction")
    if not rows:
        raise _wrong(path, "has no list named instruction")
    for number, row in enumerate(rows):
        engine = row.get("label") or row.get("timeline_track") or row.get("engine") or ""
        start, duration = (
            row.get(long, row.get(short))
            for long, short in (("start_ts", "timestamp"), ("duration_ns", "duration"))
        )
        location = f"instruction {number}"
        waited = row.get("evt_wait_time_ns")
        yield str(engine), _core(row.get("pcore_idx")), Record(
            str(row.get("opcode", "")), _number(start, path, location), _number(duration, path, location),
            None if waited is None else _number(waited, path, location),
        )  # fmt: skip


def _core(value: object) -> int:
    return value if type(value) is int else 0


_COLUMNS = ("start_ts", "duration_ns", "engine", "opcode", "pcore_idx", "evt_wait_time_ns")


def _parquet_rows(folder: Path) -> Iterator[tuple[str, int, Record]]:
    """Yield the same of a folder of Parquet tables; large tables are several files."""
    files = sorted(folder.rglob("Instruction.parquet")) or sorted(
        folder.rglob("Instruction_*.parquet")
    )
    if not files:
        raise _wrong(folder, "has no Instruction.parquet")
    if len({file.parent for file in files}) > 1:
        raise _wrong(folder, "has several profiles: give the folder of one")
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise NeffError(
            "Parquet files need pyarrow",
            code="NEFF-PYARROW",
            remedy="install it: pip install '.[profile]' in the checkout",
        ) from error
    for file in files:
        try:
            names = set(parquet.read_schema(file).names)
            missing = {*_COLUMNS[:4]} - names
            if missing:
                raise _wrong(file, f"lacks the columns {', '.join(sorted(missing))}")
            columns = [name for name in _COLUMNS if name in names]
            table = parquet.read_table(file, columns=columns).to_pylist()
        except (OSError, ValueError) as error:
            raise _wrong(file, f"is no Parquet file: {error}") from error
        for number, row in enumerate(table):
            location, waited = f"row {number}", row.get("evt_wait_time_ns")
            yield str(row["engine"]), _core(row.get("pcore_idx")), Record(
                str(row["opcode"]), _number(row["start_ts"], file, location),
                _number(row["duration_ns"], file, location),
                None if waited is None else _number(waited, file, location),
            )  # fmt: skip


def _by_engine(
    rows: Iterable[tuple[str, int, Record]], path: Path, core: int
) -> dict[str, tuple[Record, ...]]:
    """Return the records of each engine of one core, in order of start."""
    engines: dict[str, list[Record]] = {}
    for engine, number, record in rows:
        name = _ENGINE_NAMES.get(engine.lower(), engine.lower())
        if name in _ENGINES and number == core and record.opcode.upper() not in SETUP_OPCODES:
            engines.setdefault(name, []).append(record)
    if not engines:
        raise _wrong(path, f"has no instructions of core {core}")
    return {
        name: tuple(sorted(records, key=lambda record: record.start))
        for name, records in engines.items()
    }
