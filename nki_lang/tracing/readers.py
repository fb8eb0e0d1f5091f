"""Functions of the standard library and NumPy that read state outside of objects: files, clocks, ...

They are recognized by the object, independent of the name in the code. A kernel that uses one is
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

__all__ = [
    "ENVIRONMENT",
    "ORIGINAL_BUILTINS",
    "READING_ATTRIBUTES",
    "is_function",
    "reader",
    "reader_among",
]

ENVIRONMENT = "the environment"
"""Result of :func:`reader` for functions that read only environment variables."""

_READING_MODULES = frozenset(
    {
        "time", "random", "secrets", "uuid", "os", "posix", "nt", "posixpath", "ntpath",
        "genericpath", "glob", "shutil", "tempfile", "socket", "_socket", "subprocess",
        "linecache", "fileinput", "getpass", "platform", "_io", "io",
    }
)  # fmt: skip
"""Modules whose functions read such state, except ``_PURE_FUNCTIONS``."""

_PURE_FUNCTIONS = frozenset(
    {
        "basename", "commonpath", "commonprefix", "cpu_count", "dirname", "fsdecode", "fsencode",
        "fspath", "isabs", "join", "normcase", "normpath", "sleep", "split", "splitdrive",
        "splitext", "splitroot", "strerror", "text_encoding",
    }
)  # fmt: skip

FILE_METHODS = frozenset(
    {
        "open", "read_text", "read_bytes", "iterdir", "rglob", "exists", "is_file", "is_dir",
        "lstat",
    }
)  # fmt: skip
"""Methods that read files, for example of ``pathlib.Path``."""

READING_ATTRIBUTES = FILE_METHODS | {"_getframe", "f_globals", "f_locals", "f_back", "__globals__"}
"""Attributes that reach such state on any object."""

_ENVIRONMENT_READERS: frozenset[object] = frozenset(
    {os.getenv, os.path.expandvars, os.path.expanduser, getattr(os, "getenvb", os.getenv)}
)

_NUMPY_READERS = (
    "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "geterr", "geterrcall",
    "getbufsize", "get_printoptions",
)  # fmt: skip

_READER_OBJECTS: frozenset[object] = frozenset(
    {
        builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.globals,
        importlib.import_module, inspect.currentframe, inspect.stack, io.FileIO,
        sys._getframe,  # pyright: ignore[reportPrivateUsage]
        *(getattr(np, name) for name in _NUMPY_READERS),
    }
)  # fmt: skip

_DATE_CLASSES: tuple[object, ...] = (datetime.date, datetime.datetime)

_CLOCK_METHODS = frozenset({"now", "today", "utcnow"})

ORIGINAL_BUILTINS: dict[str, object] = {
    name: value
    for name, value in vars(builtins).items()
    if name.startswith("__")
    or any(value is constant for constant in (None, True, False, ..., NotImplemented))
    or getattr(value, "__module__", "") in ("builtins", "io", "_io", "_sitebuiltins")
}
"""Python's own entries of ``builtins``, which do not change."""


@functools.lru_cache(maxsize=8192)
def reader(value: object, /) -> str:
    """Return what a function or class of an opaque package reads besides its arguments, or ""."""
    if value in _ENVIRONMENT_READERS:
        return ENVIRONMENT
    name = str(getattr(value, "__qualname__", value))
    if value in _READER_OBJECTS:
        return f"what {name}() returns"
    owner = getattr(value, "__self__", None)
    if any(owner is class_ for class_ in _DATE_CLASSES):
        return f"what {name}() returns" if name.rpartition(".")[2] in _CLOCK_METHODS else ""
    module = str(getattr(value, "__module__", "") or "")
    if owner is not None and not isinstance(owner, types.ModuleType):
        module = type(owner).__module__
    is_random = module == "random" or module.startswith("numpy.random")
    function_name = "" if isinstance(value, type) else str(getattr(value, "__name__", ""))
    read = function_name and module in _READING_MODULES and function_name not in _PURE_FUNCTIONS
    read = read or (module == "pathlib" and function_name in FILE_METHODS)
    return f"what {name}() returns" if is_random or read else ""


def is_function(value: object) -> bool:
    """Return True if a value is a function or a class, whose hash no user defines."""
    kind: type = type(value)
    if issubclass(kind, type):
        return True
    return callable(value) and (kind.__module__ == "builtins" or kind.__name__.startswith("cython"))


def reader_among(owner: object, chains: frozenset[tuple[str, ...]]) -> str | None:
    """Return what the members of a module or class, reached by these attributes, read.

    Return None when a member does not exist yet: a module that is imported on first access.
    """
    readers: str | None = ""
    for chain in chains:
        if not chain and isinstance(owner, types.ModuleType) and owner.__name__ in _READING_MODULES:
            return f"what {owner.__name__} reads"
        member = owner
        for attribute in chain:
            member = _member(member, attribute)
            description = (
                reader(member) if is_function(member) and attribute != "import_module" else ""
            )
            if (
                description and description != ENVIRONMENT
            ):  # names that read the environment are handled separately
                return description
            if member is _NOT_IMPORTED:
                readers = None
    return readers


_NOT_IMPORTED = object()


def _member(owner: object, name: str) -> object:
    """Return the member of a module or class; None for any other owner."""
    if isinstance(owner, types.ModuleType):
        member = vars(owner).get(name, _NOT_IMPORTED)
        return (
            sys.modules.get(f"{owner.__name__}.{name}", _NOT_IMPORTED)
            if member is _NOT_IMPORTED
            else member
        )
    return getattr(cast(Any, owner), name, None) if isinstance(owner, type) else None
