"""Errors for names that a module of the language does not have."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

__all__ = ["missing_attribute"]


def missing_attribute(
    module: str, names: Iterable[str], removed: dict[str, str] | None = None
) -> Callable[[str], Any]:
    """A module-level ``__getattr__`` that suggests close names.

    Args:
        module: name of the module as people import it.
        names: its public names.
        removed: names of earlier versions with what to write instead.
    """
    known = sorted(names)
    old = removed or {}

    def __getattr__(name: str) -> NoReturn:
        message = f"{module} has no {name!r}"
        if name in old:
            raise AttributeError(f"{message}: {old[name]}", name=name)
        close = difflib.get_close_matches(name, known, 3, 0.6)
        if close and not name.startswith("__"):
            message += f"; did you mean {' or '.join(close)}?"
        raise AttributeError(message, name=name)

    return __getattr__
