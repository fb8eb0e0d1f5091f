"""Plug-ins (passes, lint rules) that installed packages register by entry point."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

__all__ = ["BUILTIN_ORIGIN", "Plugin", "plugins"]

BUILTIN_ORIGIN = "nki-hlo"
"""The distribution that this package comes with."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A named object of some package.

    Attributes:
        name: its name.
        origin: the distribution that brings it.
        value: ``module:attribute``.
    """

    name: str
    origin: str
    value: str

    def get(self) -> Any:
        """The object; any exception that its module raises when it is imported."""
        module, _, attribute = self.value.partition(":")
        target = import_module(module)
        for name in attribute.split(".") if attribute else ():
            target = getattr(target, name)
        return target


def plugins(group: str) -> list[Plugin]:
    """The entry points of a group, each once, in order of their names."""
    points: Iterable[EntryPoint] = entry_points(group=group)
    return sorted(
        {_plugin(point) for point in points},
        key=lambda plugin: (plugin.name, plugin.origin, plugin.value),
    )


def _plugin(point: EntryPoint) -> Plugin:
    origin = point.dist.name if point.dist is not None else "an unknown distribution"
    return Plugin(point.name, origin, point.value)
