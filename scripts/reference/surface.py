"""The public names of the packages: listed as text, and as pages of the site."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import os
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["MODULES", "lines", "members", "public", "signature"]

MODULES: dict[str, str] = {
    "nki": "nki_lang",
    "nki.language": "nki_lang.language",
    "nki.isa": "nki_lang.isa",
    "nki.collectives": "nki_lang.collectives",
    **{name: name for name in (
        "hlo_tools", "hlo_tools.passes", "hlo_tools.rewrite.patterns", "hlo_tools.lint",
        "hlo_tools.verify", "hlo_tools.kernel_calls", "hlo_tools.frameworks", "hlo_tools.trace",
        "hlo_tools.evaluate", "hlo_tools.diff", "hlo_tools.extract", "hlo_tools.graph",
        "hlo_tools.slicing", "hlo_tools.stats",
        "neff", "neff.runtime", "neff.timing", "neff.profile", "neff.container", "neff.builds",
    )},
}  # fmt: skip
"""Public name of a module -> where it is."""


def public(module: str) -> Iterator[tuple[str, Any]]:
    """The names that a module lists in ``__all__``, in order, with their values."""
    imported = importlib.import_module(MODULES[module])
    for name in sorted(imported.__all__):
        value = getattr(imported, name)
        if not isinstance(value, types.ModuleType):
            yield name, value


def members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class itself or a base of ours defines."""
    own_bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in _OURS]
    names = sorted({name for base in own_bases for name in vars(base) if not name.startswith("_")})
    for name in names:
        value = inspect.getattr_static(kind, name)
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        if inspect.isfunction(value) or isinstance(value, property):
            yield name, value


def signature(value: Any) -> str:
    """The parameters, or "" for what has none that Python knows."""
    try:
        inspected = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [parameter.replace(default=_Shown(parameter.default)) if parameter.default is not parameter.empty else parameter
             for parameter in inspected.parameters.values()]  # fmt: skip
    return str(inspected.replace(parameters=shown)).replace("'", "")


class _Shown:
    """A default as the list shows it: nothing of this machine or process."""

    def __init__(self, value: Any) -> None:
        self._text = "os.environ" if value is os.environ else repr(value)
        if isinstance(value, str):
            self._text = json.dumps(value)
        if len(self._text) > 60 or " at 0x" in self._text or self._text == "<factory>":
            self._text = "..."

    def __repr__(self) -> str:
        return self._text


def lines() -> Iterator[str]:
    """One line for each public name, method and property."""
    for module in MODULES:
        for name, value in public(module):
            shown = f"{module}.{name}"
            if isinstance(value, type):
                yield f"{shown}: class" + _bases(value)
                if issubclass(value, enum.Enum):
                    yield from (f"{shown}.{member}" for member in value.__members__)
                    continue
                if not issubclass(value, BaseException):
                    yield f"{shown}{signature(value)}"
                for member, what in members(value):
                    kind = ": property" if isinstance(what, property) else signature(what)
                    yield f"{shown}.{member}{kind}"
            elif callable(value):
                yield f"{shown}{signature(value)}"
            else:
                yield f"{shown}: {type(value).__name__}"


_OURS = frozenset({"nki_lang", "hlo_tools", "neff"})


def _bases(kind: type[Any]) -> str:
    names = [base.__name__ for base in kind.__bases__ if base is not object]
    return f" of {', '.join(names)}" if names else ""
