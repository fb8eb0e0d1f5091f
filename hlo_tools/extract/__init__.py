"""From a script to its modules: every program that it compiles, in the compile cache's layout.

The device "neuron" hands each compiled program to :func:`write_bundle`;
:func:`~hlo_tools.extract.script.run_script` runs a whole script that way.
"""

from __future__ import annotations

from hlo_tools.extract.bundle import complete_entries, is_complete, write_bundle
from hlo_tools.extract.flags import cache_folder, flags_from_environment, flags_hash
from hlo_tools.extract.key import KeyParts, cache_key, explain_key
from hlo_tools.extract.script import CapturedModule, ScriptRun, run_script

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
