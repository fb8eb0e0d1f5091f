"""The native part of the device: a small shared library.

It holds what Python cannot do from a callback:

* ``GetPjrtApi``: torch_xla takes a path, opens the library there and takes from it the function
  table. The library hands back whatever address Python wrote into its variable.
* ``nki_hlo_release``: what every ``*_Destroy`` slot points at. Frameworks destroy things while a
  Python exception is on its way and after the interpreter is gone; a callback into Python would
  lose the exception or crash. So the function notes the handle in a ring, and Python forgets it
  when the next slot is called.
* ``nki_hlo_handle``: precedes the handler of kernel calls in JAX's own programs. A program
  whose results nobody holds may start a kernel when the interpreter is ending; it gets none.
* ``nki_hlo_profiler``: the profiler that torch_xla looks for at every start. It records nothing.

A wheel brings the library, compiled from ``entry.c`` when the wheel was built (the hook is
``scripts/packaging/native_library.py``). Where it is not there, it is compiled when first needed
and kept in a folder of the user's cache (:mod:`.native_library`). Without a C compiler the slots are
callbacks into Python after all, and a warning lists what that cannot do.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import Final

from neff.device.pjrt.native_library import library
from neff.errors import NeffError

__all__ = ["PLACES", "Entry", "guarded", "open_entry"]

PLACES: Final = 1 << 20
"""Places in the ring of released handles; ``entry.c`` has the same number."""


class Entry:
    """The opened library.

    Attributes:
        path: its file.
        release_function: address of what the ``*_Destroy`` slots point at.
        extensions: address of the first extension of the function table.
    """

    def __init__(self, path: Path) -> None:
        loaded = ctypes.CDLL(str(path))
        self.path = path
        self._table = ctypes.c_void_p.in_dll(loaded, "nki_hlo_pjrt_api")
        self._count = ctypes.c_uint64.in_dll(loaded, "nki_hlo_released_count")
        self._ring = (ctypes.c_uint64 * PLACES).in_dll(loaded, "nki_hlo_released")
        self._taken = 0
        self._lock = threading.Lock()
        self.release_function = ctypes.cast(loaded.nki_hlo_release, ctypes.c_void_p).value
        self.extensions = ctypes.addressof(ctypes.c_char.in_dll(loaded, "nki_hlo_profiler"))

    def connect(self, address: int) -> None:
        """Let ``GetPjrtApi`` hand out the function table at ``address``."""
        self._table.value = address

    @property
    def has_released(self) -> bool:
        """Return whether handles wait in the ring."""
        return self._count.value != self._taken

    def released(self) -> list[int]:
        """Take the handles that were released since the last call.

        More than the ring holds can only be released while no slot is called; the oldest are
        then lost, and their objects stay.
        """
        with self._lock:
            last = self._count.value
            first = max(self._taken, last - PLACES)
            handles: list[int] = []
            for iteration in range(first, last):
                location = iteration % PLACES
                value = self._ring[location]
                if not value:  # counted and not yet written: next time
                    last = iteration
                    break
                self._ring[location] = 0
                handles.append(value - 1)
            self._taken = last
        return handles


def guarded(handler: int) -> int:
    """Address of a function that calls ``handler``, unless Python is ending.

    ``handler`` itself where the library cannot be had: a process whose last programs start kernels
    while it ends can then hang.

    Args:
        handler: address of a function made by ctypes that takes and returns a pointer.
    """
    try:
        loaded = ctypes.CDLL(str(library()))
    except (NeffError, OSError):
        return handler
    python = ctypes.pythonapi
    ends = getattr(python, "Py_IsFinalizing", None) or python._Py_IsFinalizing  # public in 3.13
    for name, address in (
        ("nki_hlo_handler", handler),
        ("nki_hlo_python_ends", ctypes.cast(ends, ctypes.c_void_p).value),
    ):
        ctypes.c_void_p.in_dll(loaded, name).value = address
    return ctypes.cast(loaded.nki_hlo_handle, ctypes.c_void_p).value or handler


@cache
def open_entry() -> Entry | None:
    """The library of this process; None, with a warning, where it cannot be had."""
    try:
        return Entry(library())
    except (NeffError, OSError) as error:
        warnings.warn(
            f"{error}\nWithout it an error in a JAX program may be lost while Python unwinds, and "
            "torch_xla cannot use the device.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
