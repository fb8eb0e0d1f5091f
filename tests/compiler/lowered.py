"""The kernels of a module in order, before the graph compiler places and schedules them."""

from __future__ import annotations

import re

import hlo_tools
from neff.compiler.complex_pairs.rewrite import as_pairs
from neff.compiler.importing.devices import devices_of
from neff.compiler.importing.import_hlo import import_module
from neff.compiler.units.lower import lower
from nki_lang.base.targets import target_of

__all__ = ["kernels_of"]

_PLACE = re.compile(r'(?: from)? @"[^"]*":\d+ in (?:[\w.]+|"[^"]*")')
_DEFAULTS = re.compile(r", (priority=None|oob_mode=error|dge_mode=unknown)(?=[,)])")


def kernels_of(text: str, target: str) -> str:
    """The kernels' text without the compiler's own lines and the defaults of transfers."""
    module = hlo_tools.load(text.encode())
    graph = import_module(as_pairs(module), devices_of(module, 0, 0))
    calls = lower(graph, target_of(target)).calls
    listing = "\n".join(str(call.kernel).strip() for call in calls) or "no kernel"
    return _DEFAULTS.sub("", _PLACE.sub("", listing))
