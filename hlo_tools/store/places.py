"""Where a store's files are: a folder of this machine, or whatever fsspec reaches.

A place holds named byte strings. ``create`` is the conditional write: of several writers of one
name one succeeds, and no reader finds half of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from errno import EINVAL
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from hlo_tools.errors import HloError, HloFileError
from nki_lang.base.atomic import atomic_file, staging_name, sweep
from nki_lang.base.plain_files import MAX_RESULT_BYTES, read_plain

__all__ = ["Item", "Place", "open_place"]

_T = TypeVar("_T")
_STAGING: Final = ".staging-"
_SECONDS: Final = 60.0
"""How long one request may take in all; a server that is slower counts as failing."""


@dataclass(frozen=True, slots=True)
class Item:
    """One name of a place: its size in bytes, and when it was written (seconds since 1970)."""

    name: str
    size: int
    written: float


class Place(Protocol):
    """Named byte strings. Names are relative, with ``/``. All raise OSError when it fails."""

    url: str

    def read(self, name: str, size: int | None = None) -> bytes | None:
        """The content, its first ``size`` bytes where that is given; None without such a name."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of the content; None when there is no such name."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write it unless it is there; whether it was written."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write it whatever is there."""
        ...

    def remove(self, name: str) -> None:
        """Remove it; it may be gone already."""
        ...

    def items(self, folder: str) -> list[Item]:
        """Everything below a folder, sorted by name."""
        ...


def open_place(url: str) -> Place:
    """The place that a URL or a path names.

    Raises:
        HloError: ``HLO-STORE-URL``: the scheme is unknown, or a package is missing for it.
    """
    scheme = urlsplit(url).scheme if "://" in url else ""
    if scheme in ("", "file"):
        path = unquote(urlsplit(url).path) if scheme else url
        return Folder(Path(path).absolute(), url)
    return Remote(url)


class Folder:
    """A folder of this machine, or one that machines share."""

    def __init__(self, root: Path, url: str) -> None:
        self._root, self.url = root, url

    def read(self, name: str, size: int | None = None) -> bytes | None:
        try:
            maximum = MAX_RESULT_BYTES if size is None else size
            return read_plain(self._root / name, maximum, truncate=size is not None)
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        path = self._root / name
        if path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, _STAGING)
        beside = path.with_name(staging_name(_STAGING))
        try:
            beside.write_bytes(content)
            return _linked(beside, path)
        finally:
            with suppress(OSError):
                beside.unlink()

    def write(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.write(content)

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def items(self, folder: str) -> list[Item]:
        stored: list[Item] = []
        for path in sorted((self._root / folder).rglob("*")):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.name.startswith("."):
                    facts = path.stat()
                    name = path.relative_to(self._root).as_posix()
                    stored.append(Item(name, facts.st_size, facts.st_mtime))
        return stored


def _linked(beside: Path, path: Path) -> bool:
    """Give a file its name unless it is taken; whether it was free."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except PermissionError:  # a file system without links
        os.replace(beside, path)
    return True


class Remote:
    """A place that fsspec reaches; its errors are all OSError here."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = _file_system(url)

    def read(self, name: str, size: int | None = None) -> bytes | None:
        span = {} if size is None else {"start": 0, "end": size}
        path = f"{self._root}/{name}"
        try:
            return bytes(self._do(lambda: self._request("cat_file", path, **span)))
        except FileNotFoundError:
            return None
        except OSError as error:
            if span and error.errno == EINVAL:  # S3 has no range of an empty object
                return b""
            raise

    def size(self, name: str) -> int | None:
        try:
            facts = self._do(lambda: self._request("info", f"{self._root}/{name}"))
        except FileNotFoundError:
            return None
        return int(facts["size"])

    def create(self, name: str, content: bytes) -> bool:
        path = f"{self._root}/{name}"
        try:
            self._do(lambda: self._request("pipe_file", path, content, mode="create"))
        except FileExistsError:
            return False
        return True

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        self._do(lambda: self._request("pipe_file", path, content))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._do(lambda: self._request("rm_file", f"{self._root}/{name}"))

    def items(self, folder: str) -> list[Item]:
        def listed() -> dict[str, dict[str, object]]:
            self._files.invalidate_cache()
            return self._request("find", f"{self._root}/{folder}", detail=True)

        start = len(self._root) + 1
        listing = sorted(self._do(listed).items())
        return [
            Item(name[start:], int(str(facts["size"])), _written(facts)) for name, facts in listing
        ]

    def _request(
        self, verb: str, *words: object, **options: object
    ):  # of any type: fsspec has none
        """One request, ended after a time where the file system can be interrupted."""
        coroutine = getattr(self._files, f"_{verb}", None) if self._files.async_impl else None
        if coroutine is None:
            return getattr(self._files, verb)(*words, **options)
        asynchronous = import_module("fsspec.asyn")
        return asynchronous.sync(self._files.loop, coroutine, *words, timeout=_SECONDS, **options)

    def _do(self, request: Callable[[], _T]) -> _T:
        try:
            return request()
        except OSError:
            raise
        except Exception as error:  # each library behind fsspec has errors of its own
            if "PreconditionFailed" in str(error) or "ConditionalRequestConflict" in str(error):
                raise FileExistsError(str(error)) from None
            raise OSError(f"{self.url}: {type(error).__name__}: {error}") from error


_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": 5,
            "read_timeout": 20,
            "retries": {"max_attempts": 2, "mode": "standard"},
        }
    }
}
"""Options by scheme: requests give up soon, since a result can always be made again."""


class _FileSystem(Protocol):
    """The used attributes of fsspec's file systems besides their requests."""

    async_impl: bool
    loop: object

    def invalidate_cache(self) -> None: ...


def _file_system(url: str) -> tuple[_FileSystem, str]:
    """fsspec's file system of a URL, and the root there."""
    scheme = urlsplit(url).scheme
    try:
        system_and_root = import_module("fsspec").core.url_to_fs(
            url, use_listings_cache=False, **_OPTIONS.get(scheme, {})
        )
        return system_and_root[0], str(system_and_root[1]).rstrip("/")
    except ImportError as error:
        raise HloError(
            f"{scheme}:// needs a package that is not installed: {error}",
            code="HLO-STORE-URL",
            place=url,
            remedy="pip install '.[s3]' in the checkout for s3://; gcsfs for gs://",
        ) from None
    except ValueError as error:
        raise HloError(
            f"no store can be there: {error}",
            code="HLO-STORE-URL",
            place=url,
            remedy="pass a folder, file:///FOLDER, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX",
        ) from None
    except Exception as error:
        raise HloFileError(
            f"the store cannot be opened: {type(error).__name__}: {error}",
            code="HLO-STORE",
            place=url,
            remedy="check the URL and the credentials",
        ) from error


def _written(facts: dict[str, object]) -> float:
    """When a file was written, as the file systems say it."""
    for name in ("LastModified", "updated", "mtime", "modified", "created", "last_modified"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, str):
            with suppress(ValueError):
                return datetime.fromisoformat(value).timestamp()
        if isinstance(value, (int, float)):
            return float(cast("float", value))
    return time.time()
