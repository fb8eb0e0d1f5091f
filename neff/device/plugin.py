"""The plugin: all state of the device in one process, and the function table that serves it."""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_void_p, cast
from functools import cache
from importlib import import_module
from typing import Any, Final

from neff.device.activation import capture_is_wanted, dump_is_wanted, extract_only
from neff.device.executables import ProgramHost
from neff.device.executors.executor import LoadedProgram, chosen_executor
from neff.device.executors.rendezvous import Rendezvous
from neff.device.pjrt import abi
from neff.device.pjrt.buffers import Buffer
from neff.device.pjrt.entry import open_entry
from neff.device.pjrt.errors import ErrorObject, status_of
from neff.device.pjrt.handles import HandleTable
from neff.device.pjrt.slots import IMPLEMENTED, SlotFunction
from neff.device.pjrt.status import Status
from neff.device.pjrt.topology import Device, Topology, device_count
from neff.device.programs import capture
from neff.device.programs.program import CompileOptions, Program
from nki_lang.base.targets import current_target

__all__ = ["Plugin", "the_plugin"]

VERSION_TEXT: Final = "nki-hlo simulated device"

_SLOT_MODULES: Final = (
    "pjrt.client",
    "pjrt.topology",
    "pjrt.events",
    "pjrt.buffers",
    "executables",
    "launching",
)

_DESTROY: Final = "_Destroy"
_AFTER_EXIT: Final = (_DESTROY, "_Delete")
"""Slots that C++ destructors still call when the interpreter is gone."""

_LIVES_ON: Final = ("TopologyDescription_Destroy",)
"""Objects that survive when a framework destroys them."""


class Plugin:
    """The state behind the function table.

    Attributes:
        handles: every object that the framework holds.
        topology: devices and memories.
        version: text for people.
        errors_belong_to_results: a program that fails leaves its error in its results, where
            whoever uses them finds it; otherwise the launch itself fails.
        when_connected: called each time a framework makes a client.
        when_read: called each time a value goes to the host.
        no_operation: address of a C function that does nothing, for deleters.
    """

    def __init__(self) -> None:
        self.handles = HandleTable()
        self.no_operation = _harmless_function()
        self.topology = Topology.make(self.handles, current_target(), device_count())
        self.version = VERSION_TEXT
        self.extract_only = extract_only()
        self.errors_belong_to_results = False
        self.executor = chosen_executor(self.topology)
        self.when_connected: list[Callable[[], None]] = []
        self.when_read: list[Callable[[], None]] = []
        self.rendezvous = Rendezvous()
        self._thunks: dict[str, Any] = {}
        self.drop_function = self._make_drop_function()
        self.entry = open_entry()
        self.api = abi.api_of({name: self._address(name) for name in abi.SLOTS})
        if self.entry is not None:
            self.api.extension_start = self.entry.extensions
            self.entry.connect(self.address)
        self._keep_forever()
        atexit.register(self._let_go)

    def _address(self, name: str) -> int:
        if self.entry is not None and name.endswith(_DESTROY):
            return self.no_operation if name in _LIVES_ON else self.entry.release_function or 0
        thunk = self._thunks[name] = abi.Slot(
            _guarded(self, name, IMPLEMENTED.get(name), self.forget_released)
        )
        return cast(thunk, c_void_p).value or 0

    def forget_released(self) -> None:
        """Drop the handles that were destroyed since the last slot was called."""
        if self.entry is not None and self.entry.has_released:
            for handle in self.entry.released():
                self.handles.drop(handle)

    def _make_drop_function(self) -> int:
        """Address of a deleter that forgets the handle that it is given."""
        thunk = self._thunks["deleter"] = CFUNCTYPE(None, c_void_p)(self.handles.drop)
        return cast(thunk, c_void_p).value or 0

    @staticmethod
    def is_independent(program: Program, options: CompileOptions) -> bool:
        """Return whether every device runs the program without the others."""
        return options.num_partitions == 1 and not program.communicates

    def load(self, program: Program, options: CompileOptions) -> LoadedProgram | None:
        """The program ready to run, or None when nothing is to be run.

        A program over several partitions is compiled all the same: only partitioning informs the
        shapes of its results.
        """
        if self.extract_only and options.num_partitions == 1:
            return None
        if self.is_independent(program, options):
            options = options.alone()
        return self.executor.load(program, options)

    def error_handle(self, code: int, message: str) -> int:
        """A ``PJRT_Error*`` for the framework, which destroys it."""
        return self.handles.add(ErrorObject(code, message))

    def bytes_in_use(self, device: Device) -> int:
        """Bytes of the live buffers of a device."""
        self.forget_released()
        live = self.handles.all(Buffer)
        return sum(
            buffer.nbytes for buffer in live if buffer.device is device and not buffer.deleted
        )

    @property
    def address(self) -> int:
        """Address of the function table."""
        return ctypes.addressof(self.api)

    def capsule(self) -> Any:
        """The function table as the capsule that JAX takes."""
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [c_void_p, ctypes.c_char_p, c_void_p]
        return make(self.address, b"pjrt_c_api", None)

    def _keep_forever(self) -> None:
        # Frameworks call the table from C++ destructors, after Python has cleared its modules:
        # neither the table nor the thunks may be collected before that.
        for immortal in (self, self.api, self._thunks, *self._thunks.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))

    def _let_go(self) -> None:
        """At exit: point the slots that destructors call at a function that needs no Python."""
        for name in abi.SLOTS:
            if name.endswith(_AFTER_EXIT) and name in self._thunks:
                setattr(self.api, name, self.no_operation)


def _harmless_function() -> int:
    """Address of a C function that may stand for any slot and any deleter.

    It takes a pointer, changes nothing and returns NULL, which PJRT reads as success. ``getenv``
    does that: the pointer leads to an argument structure, which starts with its size, a small
    number whose bytes are no variable's name. So nothing has to be compiled and no page of
    machine code has to be made.
    """
    return cast(ctypes.CDLL(None).getenv, c_void_p).value or 0


def _guarded(
    host: ProgramHost,
    name: str,
    function: SlotFunction | None,
    forget_released: Callable[[], None],
) -> Callable[[int], int | None]:
    """A slot that never lets an exception into C: it becomes an error handle."""
    if function is None:
        message = f"[NEFF-DEVICE-UNIMPLEMENTED] the simulated device has no {name}"

        def missing(_: int) -> int | None:
            return host.error_handle(Status.UNIMPLEMENTED, message)

        return missing
    from_address = abi.ARGUMENTS[name].from_address

    def call(address: int) -> int | None:
        try:
            forget_released()
            function(host, from_address(address))
        except BaseException as error:
            return host.error_handle(*status_of(error))
        return None

    return call


_making = threading.Lock()


@cache
def _make() -> Plugin:
    for module in _SLOT_MODULES:
        import_module(f"neff.device.{module}")
    if capture_is_wanted():
        capture.add(import_module("neff.device.programs.extraction").extract)
    if dump_is_wanted():
        capture.add(import_module("neff.device.programs.extraction").dump)
    return Plugin()


def the_plugin() -> Plugin:
    """The one plugin of this process (a framework loads a platform once)."""
    with _making:
        return _make()
