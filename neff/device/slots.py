"""The register of implemented slots: each module of the device adds its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neff.device import abi

__all__ = ["IMPLEMENTED", "SlotFunction", "slot"]

SlotFunction = Callable[[Any, Any], None]
"""(plugin, argument structure) -> None; failure is an exception."""

IMPLEMENTED: dict[str, SlotFunction] = {}
"""Slot name -> function. A slot that is missing here answers UNIMPLEMENTED."""

_BY_LOWER_NAME = {name.lower().replace("_", ""): name for name in abi.SLOTS}


def slot(function: SlotFunction | None = None, *, name: str = "") -> Any:
    """Register a function for the slot that it is named after (``buffer_is_deleted`` ->
    ``Buffer_IsDeleted``), or for ``name``, which may list several slots.

    Raises:
        LookupError: there is no such slot, or it has a function already.
    """

    def add(target: SlotFunction) -> SlotFunction:
        own = _BY_LOWER_NAME.get(target.__name__.replace("_", ""), "")
        for each in (name or own).split():
            if each not in abi.ARGUMENTS or each in IMPLEMENTED:
                raise LookupError(f"{target.__name__}: {each!r} is no free slot")
            IMPLEMENTED[each] = target
        return target

    return add if function is None else add(function)
