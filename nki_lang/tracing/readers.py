"""Which functions of the standard library and NumPy read what no content tells: files, clocks, ...

They are recognised by the object, whatever name the code gives it. A kernel that reaches one is
traced at each call.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import importlib
import inspect
import io
import os
import sys
import types
from typing import Any, cast

import numpy as np

__all__ = ["BY_NAME", "ENVIRONMENT", "ORIGINAL_BUILTINS", "is_function", "reader", "reader_among"]

ENVIRONMENT = "the environment"
"""What :func:`reader` returns for functions that read environment variables alone."""

_MODULES = frozenset(
    {
        "time", "random", "secrets", "uuid", "os", "posix", "nt", "posixpath", "ntpath",
        "genericpath", "glob", "shutil", "tempfile", "socket", "_socket", "subprocess",
        "linecache", "fileinput", "getpass", "platform", "_io", "io",
    }
)  # fmt: skip
"""Modules whose functions read something, but for those of ``_PURE``."""

_PURE = frozenset(
    {
        "basename", "commonpath", "commonprefix", "cpu_count", "dirname", "fsdecode", "fsencode",
        "fspath", "isabs", "join", "normcase", "normpath", "sleep", "split", "splitdrive",
        "splitext", "splitroot", "strerror", "text_encoding",
    }
)  # fmt: skip

FILES = frozenset(
    {
        "open", "read_text", "read_bytes", "iterdir", "rglob", "exists", "is_file", "is_dir",
        "lstat",
    }
)  # fmt: skip
"""Methods that read files, of ``pathlib.Path`` for one."""

BY_NAME = FILES | {"_getframe", "f_globals", "f_locals", "f_back", "__globals__"}
"""Attributes that reach what no content tells, whose ever they are."""

_OF_ENVIRONMENT: frozenset[object] = frozenset(
    {os.getenv, os.path.expandvars, os.path.expanduser, getattr(os, "getenvb", os.getenv)}
)

_OF_NUMPY = (
    "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "geterr", "geterrcall",
    "getbufsize", "get_printoptions",
)  # fmt: skip

_EXACT: frozenset[object] = frozenset(
    {
        builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.globals,
        importlib.import_module, inspect.currentframe, inspect.stack, io.FileIO,
        sys._getframe,  # pyright: ignore[reportPrivateUsage]
        *(getattr(np, name) for name in _OF_NUMPY),
    }
)  # fmt: skip

_DATES: tuple[object, ...] = (datetime.date, datetime.datetime)

_CLOCKS = frozenset({"now", "today", "utcnow"})

ORIGINAL_BUILTINS: dict[str, object] = {
    name: value
    for name, value in vars(builtins).items()
    if name.startswith("__")
    or any(value is one for one in (None, True, False, ..., NotImplemented))
    or getattr(value, "__module__", "") in ("builtins", "io", "_io", "_sitebuiltins")
}
"""What Python itself puts there: it does not change."""


@functools.lru_cache(maxsize=8192)
def reader(value: object, /) -> str:
    """What a function or class of an opaque package reads; "" when nothing but its arguments."""
    if value in _OF_ENVIRONMENT:
        return ENVIRONMENT
    name = str(getattr(value, "__qualname__", value))
    if value in _EXACT:
        return f"what {name}() returns"
    owner = getattr(value, "__self__", None)
    if any(owner is one for one in _DATES):
        return f"what {name}() returns" if name.rpartition(".")[2] in _CLOCKS else ""
    home = str(getattr(value, "__module__", "") or "")
    if owner is not None and not isinstance(owner, types.ModuleType):
        home = type(owner).__module__
    chance = home == "random" or home.startswith("numpy.random")
    own = "" if isinstance(value, type) else str(getattr(value, "__name__", ""))
    read = own and home in _MODULES and own not in _PURE
    read = read or (home == "pathlib" and own in FILES)
    return f"what {name}() returns" if chance or read else ""


def is_function(value: object) -> bool:
    """Whether a value is a function or a class, whose hash is no user's."""
    kind: type = type(value)
    if issubclass(kind, type):
        return True
    return callable(value) and (kind.__module__ == "builtins" or kind.__name__.startswith("cython"))


def reader_among(owner: object, chains: frozenset[tuple[str, ...]]) -> str | None:
    """What the members of a module or class, reached by these attributes, read.

    None when one of them does not exist yet, a module that is imported when it is asked for.
    """
    known: str | None = ""
    for chain in chains:
        if not chain and isinstance(owner, types.ModuleType) and owner.__name__ in _MODULES:
            return f"what {owner.__name__} reads"
        found = owner
        for attribute in chain:
            found = _member(found, attribute)
            told = reader(found) if is_function(found) and attribute != "import_module" else ""
            if told and told != ENVIRONMENT:  # the names that read the environment are known
                return told
            if found is _LATER:
                known = None
    return known


_LATER = object()


def _member(owner: object, name: str) -> object:
    """The member of a module or class; None of anything else."""
    if isinstance(owner, types.ModuleType):
        found = vars(owner).get(name, _LATER)
        return sys.modules.get(f"{owner.__name__}.{name}", _LATER) if found is _LATER else found
    return getattr(cast(Any, owner), name, None) if isinstance(owner, type) else None
