"""Getting results by what they are made from, and keeping them.

A result is never needed: what cannot be read, is damaged or takes too long counts as not there, with
a note, and after some failures in a row the store is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from errno import EACCES, EPERM, EROFS
from functools import cache
from typing import Final, TypeVar, cast

from hlo_tools.store.action import Action, digest_of
from hlo_tools.store.places import Place, open_place
from nki_lang.base.unknown_fields import UPDATE, unknown_fields_are_allowed, unknown_key

__all__ = [
    "ACTIONS",
    "CONTENT",
    "USES",
    "Store",
    "is_newer",
    "open_store",
    "parse_record",
    "path_of",
]

SCHEMA: Final = "nki-store/1"
_SCHEMAS: Final = "nki-store/"
_RECORD_KEYS: Final = frozenset({"schema", "action", "files"})
_ACTION_KEYS: Final = frozenset({"kind", "parts"})
_FILE_KEYS: Final = frozenset({"sha256", "size"})
ACTIONS: Final = "ac"
CONTENT: Final = "cas"
USES: Final = "use"
RECORD_LIMIT: Final = 1 << 20
_FAILURES: Final = 3
"""So many failed requests in a row end the use of a store by this process."""
_READ_ONLY: Final = frozenset({EACCES, EPERM, EROFS})
_T = TypeVar("_T")


def path_of(folder: str, digest: str) -> str:
    """The name of a record, a content or a mark of use."""
    return f"{folder}/{digest[:2]}/{digest}"


class Store:
    """Results by action.

    Attributes:
        place: where it is.
        read_only: nothing is written: not results, not even that they were used. A place that
            refuses to be written makes it so.
        notes: what went wrong, one line each.
    """

    def __init__(self, place: Place, *, read_only: bool = False) -> None:
        self.place, self.read_only = place, read_only
        self.notes: list[str] = []
        self._failures = 0
        self._damaged: set[str] = set()
        self._used: set[str] = set()

    def get(self, action: Action) -> dict[str, bytes] | None:
        """The files of a result by name, each checked against its digest; None when there is none."""
        record = self._try(lambda: self.place.read(path_of(ACTIONS, action.digest), RECORD_LIMIT))
        if record is None:
            return None
        if is_newer(record):  # its writer may find it again: it is not written over
            return self._note(f"the record {action.digest} is of a newer version: {UPDATE}")
        named = parse_record(record, action)
        if named is None:
            self._damaged.add(action.digest)
            return self._note(f"the record {action.digest} is damaged")
        files: dict[str, bytes] = {}
        for name, (digest, size) in named.items():
            content = self._content(digest, size)
            if content is None:
                self._damaged.add(action.digest)  # it names what is not there
                return None
            files[name] = content
        self._mark(action.digest)
        return files

    def lacks(self, action: Action) -> bool:
        """Return True if a result would be new in the store; False where nothing is written."""
        if self.read_only:
            return False
        size = self._try(lambda: self.place.size(path_of(ACTIONS, action.digest)) or 0)
        return size == 0

    def _content(self, digest: str, size: int) -> bytes | None:
        if not size:
            return b"" if digest == digest_of(b"") else None
        content = self._try(lambda: self.place.read(path_of(CONTENT, digest), size))
        if content is None:
            return None
        if len(content) == size and digest_of(content) == digest:
            return content
        self._damaged.add(digest)
        return self._note(f"the content {digest} is damaged")

    def put(self, action: Action, files: Mapping[str, bytes]) -> bool:
        """Keep a result: its contents first, its record last, unless another writer was first.

        Returns:
            Whether the store has it now.
        """
        if self.read_only:
            return False
        named = {name: (digest_of(content), len(content)) for name, content in files.items()}
        for name, (digest, size) in named.items():
            if size and not self._keep(digest, files[name]):
                return False
        record = _record(action, named)
        place = path_of(ACTIONS, action.digest)

        def write() -> bool:
            if action.digest in self._damaged:
                self.place.write(place, record)
            else:
                self.place.create(place, record)
            return True

        return self._written(write)

    def _keep(self, digest: str, content: bytes) -> bool:
        place = path_of(CONTENT, digest)

        def keep() -> bool:
            if digest in self._damaged or self.place.size(place) != len(content):
                self.place.write(place, content)
                self._damaged.discard(digest)
            return True

        return self._written(keep)

    def _written(self, write: Callable[[], bool], *, is_mark: bool = False) -> bool:
        """Return True if something was written. A place that can only be read is still read."""

        def attempt() -> bool:
            try:
                return write()
            except OSError as error:
                if error.errno not in _READ_ONLY:
                    raise
                self.read_only = True
                if not is_mark:
                    self._note(f"can only be read: {error.strerror}")
                return False

        return self._try(attempt) or False

    def _mark(self, digest: str) -> None:
        """Note that a result was used, once a process: what was not is removed first."""
        if not self.read_only and digest not in self._used:
            self._used.add(digest)

            def write() -> bool:
                self.place.write(path_of(USES, digest), b".")
                return True

            self._written(write, is_mark=True)

    def _try(self, request: Callable[[], _T]) -> _T | None:
        """A request's result; None when it failed or the store has failed too often."""
        if self._failures >= _FAILURES:
            return None
        try:
            result = request()
        except OSError as error:
            self._failures += 1
            self._note(str(error) or type(error).__name__)
            if self._failures == _FAILURES:
                self._note(f"not used any more after {_FAILURES} failures in a row")
            return None
        self._failures = 0
        return result

    def _note(self, text: str) -> None:
        self.notes.append(f"warning[HLO-STORE] {self.place.url}: {text}")


def _record(action: Action, named: Mapping[str, tuple[str, int]]) -> bytes:
    document = {
        "schema": SCHEMA,
        "action": json.loads(action.text),
        "files": {name: {"sha256": digest, "size": size} for name, (digest, size) in named.items()},
    }
    return json.dumps(document, sort_keys=True, indent=1).encode()


def parse_record(content: bytes, action: Action | None = None) -> dict[str, tuple[str, int]] | None:
    """The files that a record names, (digest, size) each; None when it is no record.

    Args:
        content: the record.
        action: what it must be the record of.
    """
    try:
        document: object = json.loads(content) if len(content) < RECORD_LIMIT else None
        record = cast("dict[str, dict[str, dict[str, object]]]", document)
        recorded_action = Action(
            str(record["action"]["kind"]), cast("dict[str, str]", record["action"]["parts"])
        )
        files = {
            name: (str(content_row["sha256"]), int(str(content_row["size"])))
            for name, content_row in record["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    fits = all(
        len(digest) == 64 and digest.isalnum() and size >= 0 for digest, size in files.values()
    )
    if not fits or (action is not None and recorded_action.text != action.text):
        return None
    return files


def is_newer(content: bytes) -> bool:
    """Return True for a record of another schema of ours, or with keys that are not known.

    Its files count as needed all the same when a store is looked after.
    """
    try:
        document: object = json.loads(content) if len(content) < RECORD_LIMIT else None
        record = cast("dict[str, dict[str, dict[str, object]]]", document)
        rows = [(record, _RECORD_KEYS), (record["action"], _ACTION_KEYS)]
        rows += [(row, _FILE_KEYS) for row in record["files"].values()]
        if any(unknown_key(row, keys) for row, keys in rows):
            return True
        schema: object = record["schema"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    is_ours = isinstance(schema, str) and schema.startswith(_SCHEMAS)
    return is_ours and schema != SCHEMA and not unknown_fields_are_allowed()


@cache
def open_store(url: str, *, read_only: bool = False) -> Store:
    """The store of a URL or folder; the same one for the whole process.

    Raises:
        HloError: ``HLO-STORE-URL``: no store can be there.
    """
    return Store(open_place(url), read_only=read_only)
