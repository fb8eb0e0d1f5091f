"""Encodes the calls around each location, of functions that the kernel's function calls."""

from __future__ import annotations

from typing import Any

from nki_lang.base.errors import NkiFileError
from nki_lang.base.source import MAX_CALLERS, SourceLocation

__all__ = ["CallerReader", "CallerWriter"]


class CallerWriter:
    """Collects the calls around locations, in order.

    Args:
        files: source file -> its name in the kernel file.
    """

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files
        self._frames: list[list[Any]] = []
        self._numbers: dict[SourceLocation, int] = {}
        self._runs: list[list[int]] = []

    def add(self, location: SourceLocation) -> None:
        """Add the next location."""
        number = self._number(location.caller)
        if self._runs and self._runs[-1][1] == number:
            self._runs[-1][0] += 1
        else:
            self._runs.append([1, number])

    def _number(self, frame: SourceLocation | None) -> int:
        if frame is None:
            return -1
        number = self._numbers.get(frame)
        if number is None:
            outer = self._number(frame.caller)
            row = [self._files[frame.file], frame.line, frame.function, frame.column, outer]
            self._frames.append(row)
            number = self._numbers[frame] = len(self._frames) - 1
        return number

    def record(self) -> dict[str, Any] | None:
        """Return ``{"frames": [...], "runs": [...]}``; None when no function was called."""
        return {"frames": self._frames, "runs": self._runs} if self._frames else None


class CallerReader:
    """Restores the calls around each location.

    Args:
        record: the result of :meth:`CallerWriter.record`, or None.

    Raises:
        NkiFileError: ``NKI-FILE-COMPANION``; a frame is called by a later one, or too deep.
    """

    def __init__(self, record: dict[str, object] | None) -> None:
        fields: dict[str, Any] = record or {"frames": [], "runs": []}
        self._frames: list[SourceLocation] = []
        depths: list[int] = []
        for file, line, function, column, called_by in fields["frames"]:
            outer = int(called_by)
            if not -1 <= outer < len(self._frames):
                raise _damaged(f"frame {len(self._frames)} is called by frame {outer}")
            depths.append(0 if outer < 0 else depths[outer] + 1)
            if depths[-1] > MAX_CALLERS:
                raise _damaged(f"frame {len(self._frames)} is called too deep")
            caller = None if outer < 0 else self._frames[outer]
            self._frames.append(
                SourceLocation(str(file), int(line), str(function), int(column), caller)
            )
        self._runs = [(int(count), int(number)) for count, number in fields["runs"]]
        for _, number in self._runs:
            if number >= len(self._frames):
                raise _damaged(f"call {number} of {len(self._frames)}")
        self._run_index = self._used = 0

    def next(self) -> SourceLocation | None:
        """Return the call around the next location."""
        if self._run_index >= len(self._runs):
            return None
        count, number = self._runs[self._run_index]
        self._used += 1
        if self._used >= count:
            self._run_index, self._used = self._run_index + 1, 0
        return None if number < 0 else self._frames[number]


def _damaged(message: str) -> NkiFileError:
    return NkiFileError(
        f"the companion record is damaged: {message}",
        code="NKI-FILE-COMPANION",
        remedy="write the kernel again",
    )
