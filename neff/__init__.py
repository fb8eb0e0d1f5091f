"""From HLO to one NEFF and back: compiler, container, runtime.

``neff.compile`` makes a :class:`neff.program.Program` of an HLO module, ``neff.write`` and
``neff.read`` put it into a file and take it out, ``neff.runtime.load`` runs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from neff.version import __version__

if TYPE_CHECKING:
    from neff.compiler import compile
    from neff.container import read, write

__all__ = ["__version__", "compile", "read", "write"]

_HOMES = {"compile": "neff.compiler", "read": "neff.container", "write": "neff.container"}
"""Where each name lives; nothing is imported before it is used."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'neff' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
