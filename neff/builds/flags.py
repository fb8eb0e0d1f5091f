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


def given_flags(given: Sequence[str]) -> Flags:
    """The flags of the command line.

    Raises:
        NeffError: ``NEFF-FLAG``: one of them is wrong.
    """
    own = parse_flags(given)
    if own.rest:
        raise NeffError(
            f"{own.rest[0]!r} is not a flag",
            code="NEFF-FLAG",
            remedy="quote a value that contains spaces",
        )
    return own


def flags_of(folder: Path, given: Sequence[str]) -> Flags:
    """The flags of the command line, ``given``, after those kept with the module in ``folder``.

    Raises:
        NeffError: ``NEFF-FLAG``: a flag of the command line is wrong; ``NEFF-FLAGS-FILE``: the
            list in the folder is.
    """
    own = given_flags(given)
    path = folder / FLAGS_FILE
    if not path.exists():
        return own
    kept = _kept_flags(path)
    try:
        parsed = parse_flags([*kept, *given])
    except NeffError as error:
        raise _damaged(path, error.message) from None
    if parsed.rest:
        raise _damaged(path, f"{parsed.rest[0]!r} is not a flag")
    if parsed.kernels != own.kernels:
        raise _damaged(path, "it names registered kernels, which are code: pass --kernels yourself")
    return parsed


def _kept_flags(path: Path) -> list[str]:
    """The flags that the module was extracted with."""
    try:
        flags: object = json.loads(read_plain(path, MAX_RECORD_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, getattr(error, "strerror", None) or str(error)) from None
    found = cast("list[object]", flags) if isinstance(flags, list) else [None]
    if not all(isinstance(flag, str) for flag in found):
        raise _damaged(path, "it is not a list of strings")
    return [str(flag) for flag in found]


def _damaged(path: Path, reason: str) -> NeffError:
    return NeffError(
        f"not a usable list of flags: {reason}",
        code="NEFF-FLAGS-FILE",
        place=str(path),
        remedy="extract the module again, or remove this file and pass the flags yourself",
    )
