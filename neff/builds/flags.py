"""The flags of a build: those kept beside a module, then those of the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from neff.errors import NeffError
from neff.options import Flags, parse_flags
from nki_lang.base.plain_files import MAX_RECORD_BYTES, read_plain

__all__ = ["FLAGS_FILE", "flags_of", "given_flags"]

FLAGS_FILE: Final = "compile_flags.json"


def given_flags(arguments: Sequence[str]) -> Flags:
    """The flags of the command line.

    Raises:
        NeffError: ``NEFF-FLAG``: one of them is wrong.
    """
    parsed = parse_flags(arguments)
    if parsed.positional:
        raise NeffError(
            f"{parsed.positional[0]!r} is not a flag",
            code="NEFF-FLAG",
            remedy="quote a value that contains spaces",
        )
    return parsed


def flags_of(folder: Path, arguments: Sequence[str]) -> Flags:
    """Return the flags stored with the module in ``folder``, then those of the command line.

    Args:
        folder: the folder of the module.
        arguments: the flags of the command line.

    Raises:
        NeffError: ``NEFF-FLAG``: a flag of the command line is wrong; ``NEFF-FLAGS-FILE``: the
            list in the folder is.
    """
    command_flags = given_flags(arguments)
    path = folder / FLAGS_FILE
    if not path.exists():
        return command_flags
    stored = _stored_flags(path)
    try:
        parsed = parse_flags([*stored, *arguments])
    except NeffError as error:
        raise _damaged(path, error.message) from None
    if parsed.positional:
        raise _damaged(path, f"{parsed.positional[0]!r} is not a flag")
    if parsed.kernels != command_flags.kernels:
        raise _damaged(path, "it names registered kernels, which are code: pass --kernels yourself")
    return parsed


def _stored_flags(path: Path) -> list[str]:
    """The flags that the module was extracted with."""
    try:
        flags: object = json.loads(read_plain(path, MAX_RECORD_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, getattr(error, "strerror", None) or str(error)) from None
    words = cast("list[object]", flags) if isinstance(flags, list) else [None]
    if not all(isinstance(flag, str) for flag in words):
        raise _damaged(path, "it is not a list of strings")
    return [str(flag) for flag in words]


def _damaged(path: Path, reason: str) -> NeffError:
    return NeffError(
        f"not a usable list of flags: {reason}",
        code="NEFF-FLAGS-FILE",
        place=str(path),
        remedy="extract the module again, or remove this file and pass the flags yourself",
    )
