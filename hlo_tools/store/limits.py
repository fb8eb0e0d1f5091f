"""Looking after a store: what is in it, what is damaged, and removing what was not used for long."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from hlo_tools.store.action import digest_of
from hlo_tools.store.places import Item, Place
from hlo_tools.store.store import ACTIONS, CONTENT, RECORD_LIMIT, USES, parse_record, path_of

__all__ = ["Entry", "Fault", "Limits", "collect", "entries", "verify"]

_GRACE: Final = 3600.0
"""Contents that no record names stay so many seconds: their record may be about to be written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a store keeps.

    Attributes:
        size: bytes of contents; None for any number.
        age: seconds since a result was last used; None for any time.
    """

    size: int | None = None
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One result.

    Attributes:
        digest: the key of its action.
        kind: what it is.
        parts: what it was made from.
        files: (digest, size) by name.
        used: when it was written or last used, seconds since 1970.
    """

    digest: str
    kind: str
    parts: Mapping[str, str]
    files: Mapping[str, tuple[str, int]]
    used: float

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(size for _, size in self.files.values())


@dataclass(frozen=True, slots=True)
class Fault:
    """Something damaged: the name in the store, and what is wrong."""

    name: str
    problem: str


def entries(place: Place) -> list[Entry]:
    """The results of a store, least recently used first; damaged records are left out.

    Raises:
        OSError: it cannot be read.
    """
    used = {item.name.rpartition("/")[2]: item.written for item in place.items(USES)}
    results: list[Entry] = []
    for item in place.items(ACTIONS):
        content = place.read(item.name, RECORD_LIMIT)
        files = parse_record(content) if content is not None else None
        if content is None or files is None:
            continue
        action = cast("dict[str, dict[str, str]]", json.loads(content)["action"])
        digest = item.name.rpartition("/")[2]
        when = max(item.written, used.get(digest, 0.0))
        results.append(Entry(digest, str(action["kind"]), action["parts"], files, when))
    return sorted(results, key=lambda entry: (entry.used, entry.digest))


def collect(place: Place, limits: Limits, *, now: float | None = None) -> list[Entry]:
    """Remove the least recently used results beyond the limits; returns them.

    Contents that no result needs any more go too. A result that is being written at the same time
    may lose a content: whoever reads it finds it incomplete and makes it again.

    Raises:
        OSError: the store cannot be read or written.
    """
    now = time.time() if now is None else now
    remaining = entries(place)
    contents = {item.name.rpartition("/")[2]: item for item in place.items(CONTENT)}
    removed: list[Entry] = []
    while remaining and _is_beyond(remaining, limits, now):
        oldest = remaining.pop(0)
        place.remove(path_of(ACTIONS, oldest.digest))
        place.remove(path_of(USES, oldest.digest))
        removed.append(oldest)
    needed = {digest for entry in remaining for digest, _ in entry.files.values()}
    dropped = {digest for entry in removed for digest, _ in entry.files.values()}
    for digest, item in contents.items():
        if digest not in needed and (digest in dropped or now - item.written > _GRACE):
            place.remove(item.name)
    return removed


def _is_beyond(remaining: list[Entry], limits: Limits, now: float) -> bool:
    if limits.age is not None and now - remaining[0].used > limits.age:
        return True
    if limits.size is None:
        return False
    sizes = {digest: size for entry in remaining for digest, size in entry.files.values()}
    return sum(sizes.values()) > limits.size


def verify(place: Place, *, remove: bool = False) -> list[Fault]:
    """Read everything and compare it with its digests; what is damaged is removed if asked for.

    Raises:
        OSError: the store cannot be read or written.
    """
    faults: list[Fault] = []
    sizes: dict[str, int] = {}
    for item in place.items(CONTENT):
        name = item.name.rpartition("/")[2]
        content = place.read(item.name)
        if content is not None and digest_of(content) != name:
            faults.append(Fault(item.name, "its content is not what its name says"))
        else:
            sizes[name] = item.size
    for item in place.items(ACTIONS):
        if problem := _fault_of(place, item, sizes):
            faults.append(Fault(item.name, problem))
    if remove:
        for fault in faults:
            place.remove(fault.name)
    return faults


def _fault_of(location: Place, item: Item, sizes: Mapping[str, int]) -> str:
    content = location.read(item.name, RECORD_LIMIT)
    if content is None:
        return ""
    files = parse_record(content)
    if files is None:
        return "it is no record"
    from hlo_tools.store.action import Action

    action = json.loads(content)["action"]
    if Action(action["kind"], action["parts"]).digest != item.name.rpartition("/")[2]:
        return "it is the record of another action"
    missing = [name for name, (digest, size) in files.items() if size and sizes.get(digest) != size]
    return f"the content of {', '.join(missing)} is missing or damaged" if missing else ""
