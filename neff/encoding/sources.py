"""The places in the user's files that instructions come from, kept once for a whole program.

Only what a person needs to find the line goes into the file: a folder of the machine that
built it does not. ``/home/me/run7/matmul.py`` is stored as ``matmul.py``; two files of one name
keep as many folders as distinguish them.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, cast

from neff.errors import NeffFileError
from nki_lang.base.source import MAX_CALLERS, SourceLocation

__all__ = ["SourceTable"]


class SourceTable:
    """Numbered source locations, as the file keeps them."""

    def __init__(self) -> None:
        self._numbers: dict[SourceLocation, int] = {}
        self.locations: list[SourceLocation] = []

    def number(self, location: SourceLocation | None) -> int:
        """1-based number of a location; 0 for none."""
        if location is None:
            return 0
        number = self._numbers.get(location)
        if number is None:
            self.number(location.caller)
            self.locations.append(location)
            number = self._numbers[location] = len(self.locations)
        return number

    def at(self, number: int, location: str = "") -> SourceLocation | None:
        """The location of a number.

        Raises:
            NeffFileError: code ``NEFF-ENGINE-INDEX``; there is no such location.
        """
        if number == 0:
            return None
        if not 0 < number <= len(self.locations):
            raise NeffFileError(
                f"source location {number} of {len(self.locations)}",
                code="NEFF-ENGINE-INDEX",
                place=location,
            )
        return self.locations[number - 1]

    def to_json(self) -> dict[str, object]:
        """``{"files": [...], "functions": [...], "locations": [[file, line, column, function]]}``.

        ``callers``, if there are any: rows of a location and the one that called its function.
        """
        files = _short_names([location.file for location in self.locations])
        file_names = list(dict.fromkeys(files.values()))
        functions = list(dict.fromkeys(location.function for location in self.locations))
        file_at = {name: index for index, name in enumerate(file_names)}
        function_at = {name: index for index, name in enumerate(functions)}
        rows = [
            [file_at[files[entry.file]], entry.line, entry.column, function_at[entry.function]]
            for entry in self.locations
        ]
        document: dict[str, object] = {
            "files": file_names,
            "functions": functions,
            "locations": rows,
        }
        location_at = {entry: index for index, entry in enumerate(self.locations)}
        callers = [
            [index, location_at[entry.caller]]
            for index, entry in enumerate(self.locations)
            if entry.caller is not None
        ]
        return document | {"callers": callers} if callers else document

    @classmethod
    def from_json(cls, document: Any, location: str) -> SourceTable:
        """Read what :meth:`to_json` wrote.

        Raises:
            NeffFileError: code ``NEFF-SOURCES``; it is not such a document.
        """
        table = cls()
        try:
            files, functions = document["files"], document["functions"]
            callers = _callers(document.get("callers", []))
            depths: list[int] = []
            for file, line, column, function in document["locations"]:
                outer = callers.get(len(table.locations), -1)
                if not -1 <= outer < len(table.locations):
                    raise ValueError("a location is called by one that does not come before it")
                depths.append(0 if outer < 0 else depths[outer] + 1)
                if depths[-1] > MAX_CALLERS:
                    raise ValueError(f"more than {MAX_CALLERS} calls around a location")
                if min(file, function) < 0 or type(line) is not int or type(column) is not int:
                    raise ValueError("negative index or a line that is not a number")
                if not isinstance(files[file], str) or not isinstance(functions[function], str):
                    raise ValueError("a name that is not a string")
                caller = None if outer < 0 else table.locations[outer]
                table.locations.append(
                    SourceLocation(files[file], line, functions[function], column, caller)
                )
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise NeffFileError(
                f"this is not a table of source locations: {error}",
                code="NEFF-SOURCES",
                place=location,
            ) from None
        return table


def _callers(rows: object) -> dict[int, int]:
    """Location -> the one that called its function."""
    callers: dict[int, int] = {}
    for inner, outer in cast("list[tuple[object, object]]", rows):
        if type(inner) is not int or type(outer) is not int or outer < 0:
            raise ValueError("a caller that is not the number of a location")
        callers[inner] = outer
    return callers


def _short_names(paths: list[str]) -> dict[str, str]:
    """Return each path with the fewest trailing components that distinguish it."""
    parts = {path: PurePath(path).parts for path in dict.fromkeys(paths)}
    short: dict[str, str] = {}
    for path, names in parts.items():
        rivals = [rival for key, rival in parts.items() if key != path]
        count = 1
        while count < len(names) and any(rival[-count:] == names[-count:] for rival in rivals):
            count += 1
        short[path] = "/".join(name for name in names[-count:] if name not in ("/", "\\")) or path
    return short
