"""From HLO to one NEFF and back: compiler, container, runtime.

``neff.compile`` makes a :class:`neff.program.Program` of an HLO module, ``neff.write`` and
``neff.read`` put it into a file and take it out, ``neff.runtime.load`` runs it. Importing the
package imports nothing else, as of ``hlo_tools``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from neff.compiler import compile
    from neff.container import read, write
    from neff.version import __version__

__all__ = ["__version__", "compile", "read", "write"]

_HOMES = {
    "__version__": "neff.version",
    "compile": "neff.compiler",
    "read": "neff.container",
    "write": "neff.container",
}
"""Where each name lives; nothing is imported before it is used."""


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'neff' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
