"""Records of extractions to a compile cache: which entries are current, and which are stale.

A cache keeps one small file for each script, arguments and platform that were extracted to it.
An entry is stale when a later extraction of the same kind succeeded without it and no other
extraction has it. Entries that no record names (other tools' and scripts' that ran by themselves)
are never stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, cast

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import read_beside
from nki_lang.base.atomic import atomic_file
from nki_lang.base.unknown_fields import REMEDY, unknown_key

__all__ = [
    "Extraction",
    "entries_of",
    "failed_extractions",
    "latest_entries",
    "prune",
    "read_records",
    "record_extraction",
    "stale_entries",
]

_FOLDER: Final = ".extractions"
_ENTRY: Final = "*/MODULE_*"


@dataclass(frozen=True, slots=True)
class Extraction:
    """One script's last extraction to a cache.

    Attributes:
        script: the script, relative to the cache.
        arguments: its own arguments.
        platform: the target asked for, "" for the environment's.
        when: nanoseconds since the epoch.
        entries: what it compiled, in order, relative to the cache.
        replaced: entries of earlier extractions of the same kind that it did not compile.
        exit_code: the script's exit code.
        earlier: current entries that an extraction before compiled, and the last one, which
            failed, did not.
    """

    script: str
    arguments: tuple[str, ...]
    platform: str
    when: int
    entries: tuple[str, ...]
    replaced: tuple[str, ...]
    exit_code: int = 0
    earlier: tuple[str, ...] = ()


_KEYS: Final = frozenset(field.name for field in fields(Extraction))


def record_extraction(
    cache: Path,
    script: Path,
    arguments: Sequence[str],
    platform: str,
    entries: Iterable[Path],
    *,
    exit_code: int,
) -> Extraction:
    """Record what a script compiled; returns the record.

    Args:
        entries: the entries' folders, in order; those outside the cache are left out.
        exit_code: the script's; other than 0, the entries of the extraction before stay current,
            since a script that failed may not have reached them.

    Raises:
        HloFileError: ``HLO-CACHE-WRITE``: the record cannot be written.
    """
    cache = cache.absolute()
    compiled = tuple(
        dict.fromkeys(str(e.relative_to(cache)) for e in entries if e.is_relative_to(cache))
    )
    kind = (os.path.relpath(script.absolute(), cache), tuple(arguments), platform)
    path = _path(cache, *kind)
    before = _read(path)
    former = (*before.entries, *before.replaced) if before else ()
    earlier: tuple[str, ...] = ()
    if before and exit_code:
        earlier = tuple(entry for entry in before.entries if entry not in compiled)
        compiled, former = tuple(dict.fromkeys((*before.entries, *compiled))), before.replaced
    replaced = tuple(e for e in dict.fromkeys(former) if e not in compiled and (cache / e).is_dir())
    extraction = Extraction(*kind, time.time_ns(), compiled, replaced, exit_code, earlier)
    _write(path, extraction)
    return extraction


def read_records(cache: Path) -> list[Extraction]:
    """The extractions that a cache knows of, oldest first; damaged records are left out."""
    records = [_read(path) for path in (cache / _FOLDER).glob("*.json")]
    return sorted(
        (record for record in records if record is not None), key=lambda record: record.when
    )


def stale_entries(cache: Path) -> frozenset[str]:
    """The stale entries of a cache, relative to it."""
    records = read_records(cache)
    current = {entry for record in records for entry in record.entries}
    return frozenset(entry for record in records for entry in record.replaced) - current


def failed_extractions(cache: Path) -> list[Extraction]:
    """The extractions that failed and left entries of an earlier run current."""
    return [record for record in read_records(cache) if record.exit_code and record.earlier]


def latest_entries(cache: Path) -> frozenset[str]:
    """The entries of the latest extraction, relative to the cache.

    Without any record: the entry that was written last.
    """
    records = read_records(cache)
    if records:
        return frozenset(records[-1].entries)
    newest = max(cache.glob(_ENTRY), key=lambda entry: entry.stat().st_mtime_ns, default=None)
    return frozenset() if newest is None else frozenset({str(newest.relative_to(cache))})


def entries_of(cache: Path) -> frozenset[str]:
    """Every entry of a cache, whole or not, relative to it."""
    return frozenset(str(entry.relative_to(cache)) for entry in cache.glob(_ENTRY))


def prune(cache: Path) -> list[str]:
    """Remove the stale entries; returns them.

    Raises:
        HloFileError: ``HLO-CACHE-WRITE``: one cannot be removed.
    """
    stale = sorted(stale_entries(cache))
    try:
        for entry in stale:
            with suppress(FileNotFoundError):
                shutil.rmtree(cache / entry)
    except OSError as error:
        raise _unwritable(error, cache) from error
    for record in read_records(cache):
        path = _path(cache, record.script, record.arguments, record.platform)
        _write(path, replace(record, replaced=tuple(e for e in record.replaced if e not in stale)))
    return stale


def _path(cache: Path, script: str, arguments: Sequence[str], platform: str) -> Path:
    kind = json.dumps([script, list(arguments), platform]).encode()
    return cache / _FOLDER / f"{hashlib.sha256(kind).hexdigest()[:16]}.json"


def _read(path: Path) -> Extraction | None:
    try:
        document: Any = json.loads(read_beside(path))
        _require_known_keys(document, path)
        return Extraction(
            str(document["script"]),
            _texts(document["arguments"]),
            str(document["platform"]),
            int(document["when"]),
            _relative(document["entries"]),
            _relative(document["replaced"]),
            int(document.get("exit_code", 0)),
            _relative(document.get("earlier", [])),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _require_known_keys(document: object, path: Path) -> None:
    """Refuse a record of a newer version: pruning without it could remove what it needs.

    Raises:
        HloFileError: ``HLO-UNKNOWN-FIELD``.
    """
    if not isinstance(document, dict):
        return
    key = unknown_key(cast("dict[str, object]", document), _KEYS)
    if key is not None:
        raise HloFileError(
            f"this version does not know the key {key[:80]!r} of the record of an extraction",
            code="HLO-UNKNOWN-FIELD",
            place=str(path),
            remedy=REMEDY,
        )


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(str(value) for value in cast("list[object]", values))


def _relative(values: object) -> tuple[str, ...]:
    """Entries as a record names them; a damaged record must not lead out of the cache."""
    names = _texts(values)
    all_parts = [Path(name).parts for name in names]
    if not all(
        len(path_parts) == 2 and path_parts[0] != ".." and path_parts[1].startswith("MODULE_")
        for path_parts in all_parts
    ):
        raise ValueError("not an entry's name")
    return names


def _write(path: Path, record: Extraction) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_file(path) as file:
            file.write(json.dumps(asdict(record), indent=1).encode())
    except OSError as error:
        raise _unwritable(error, path) from error


def _unwritable(error: OSError, path: Path) -> HloFileError:
    return HloFileError(
        f"the compile cache cannot be written: {error.strerror or error}",
        code="HLO-CACHE-WRITE",
        place=str(error.filename or path),
        remedy="make it writable and see that it has room",
    )
