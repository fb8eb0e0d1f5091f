"""The slots of PJRT's function table that are implemented: each module of the device adds its own.

A slot is one member of ``PJRT_Api``, a pointer to a function that takes one argument structure.
The functions here take that structure and the state they work on, and report failure by an
exception; ``plugin.py`` turns both into the C function that the table holds.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import Structure
from typing import Any, TypeVar, overload

from neff.device.pjrt import abi

__all__ = ["IMPLEMENTED", "SlotFunction", "slot"]

SlotFunction = Callable[[Any, Structure], None]
"""(host, argument structure) -> None; failure is an exception."""

IMPLEMENTED: dict[str, SlotFunction] = {}
"""Slot name -> function. A slot that is missing here answers UNIMPLEMENTED."""

# PJRT writes Buffer_IsDeleted, we buffer_is_deleted: both are looked up without case and bars, so
# that a slot's name is written once.
_BY_LOWER_NAME = {name.lower().replace("_", ""): name for name in abi.SLOTS}


Slot = TypeVar("Slot", bound=SlotFunction)


@overload
def slot(function: Slot) -> Slot: ...


@overload
def slot(*, name: str) -> Callable[[Slot], Slot]: ...


def slot(function: SlotFunction | None = None, *, name: str = "") -> Any:
    """Register a function for the slot that it is named after (``buffer_is_deleted`` ->
    ``Buffer_IsDeleted``), or for ``name``, which may list several slots.

    Raises:
        LookupError: there is no such slot, or it has a function already.
    """

    def add(target: SlotFunction) -> SlotFunction:
        default_name = _BY_LOWER_NAME.get(target.__name__.replace("_", ""), "")
        for slot_name in (name or default_name).split():
            if slot_name not in abi.ARGUMENTS or slot_name in IMPLEMENTED:
                raise LookupError(f"{target.__name__}: {slot_name!r} is no free slot")
            IMPLEMENTED[slot_name] = target
        return target

    return add if function is None else add(function)
