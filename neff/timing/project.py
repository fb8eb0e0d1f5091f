"""Tables of this project in a user's ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from neff.errors import NeffError
from nki_lang.base.plain_files import MAX_RECORD_BYTES, read_plain

__all__ = ["project_table"]


def project_table(name: str, folder: Path, code: str) -> Mapping[str, object]:
    """The table ``[tool.nki-neff.NAME]`` of the nearest ``pyproject.toml``, empty without one.

    Args:
        name: of the table.
        folder: where the search starts, upwards.
        code: of the error for a file that is no TOML.

    Raises:
        NeffError: the file is not TOML, no plain file or very large.
    """
    for parent in (folder, *folder.resolve().parents):
        path = parent / "pyproject.toml"
        if not path.exists():
            continue
        try:
            table: object = tomllib.loads(read_plain(path, MAX_RECORD_BYTES).decode())
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NeffError(
                f"not TOML: {reason}", code=code, place=str(path), remedy="correct it"
            ) from error
        for key in ("tool", "nki-neff", name):
            table = cast("dict[str, object]", table).get(key, {}) if isinstance(table, dict) else {}
        return cast("dict[str, object]", table) if isinstance(table, dict) else {}
    return {}
