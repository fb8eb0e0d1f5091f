"""Arguments and NumPy results of published beta 1 kernels that no script or test calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from published.cases import Case

__all__ = ["cases_of"]

Cases = Callable[[Any], Iterator[Case]]


def cases_of(file: Path) -> Cases | None:
    """Return the cases of a file by the end of its path, or None."""
    path = file.as_posix()
    return next((cases for end, cases in _CASES.items() if path.endswith(end)), None)


_CASES: dict[str, Cases] = {}
