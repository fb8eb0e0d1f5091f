"""From a script to its modules: every program that it compiles, in the compile cache's layout.

The device "neuron" passes each compiled program to :func:`write_bundle`;
:func:`~hlo_tools.extract.script.run_script` runs a whole script that way.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.extract.bundle import complete_entries, is_complete, write_bundle
    from hlo_tools.extract.flags import cache_folder, flags_from_environment, flags_hash
    from hlo_tools.extract.key import KeyParts, cache_key, explain_key
    from hlo_tools.extract.protocol import CapturedModule
    from hlo_tools.extract.script import ScriptRun, run_script

__all__ = [
    "CapturedModule",
    "KeyParts",
    "ScriptRun",
    "cache_folder",
    "cache_key",
    "complete_entries",
    "explain_key",
    "flags_from_environment",
    "flags_hash",
    "is_complete",
    "run_script",
    "write_bundle",
]

_HOMES = {
    "CapturedModule": "protocol",
    "KeyParts": "key",
    "ScriptRun": "script",
    "cache_folder": "flags",
    "cache_key": "key",
    "complete_entries": "bundle",
    "explain_key": "key",
    "flags_from_environment": "flags",
    "flags_hash": "flags",
    "is_complete": "bundle",
    "run_script": "script",
    "write_bundle": "bundle",
}
"""Where each name lives. Nothing is imported before it is used: ``protocol`` is read whenever JAX
starts."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
