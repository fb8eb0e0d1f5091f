"""Kernel calls executed by XLA's own CPU backend, through the typed FFI and without a compiler.

XLA:CPU passes a custom call of API version 2 (the form that HLO for Neuron has) no configuration,
so it cannot tell which kernel is meant. The executable form of that call has API version 4 (typed
FFI) and carries the same ``backend_config`` as a string attribute. Both ABIs are registered
under the one target name: the typed handler runs kernels, the other one only reports that the
module was passed to XLA:CPU without being rewritten.

Handlers use NumPy alone. One that calls jitted JAX deadlocks as soon as every thread of XLA's
pool waits in such a handler.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import re
import threading
from collections.abc import Callable
from ctypes import c_char_p, c_size_t, c_uint8, c_void_p
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.frameworks import xla_ffi_abi as abi
from hlo_tools.frameworks.finalization import guarded
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels import ranks as kernel_ranks
from nki_lang.base.errors import NkiError, NkiFileError, NkiValidationError

__all__ = [
    "CONFIG_ATTRIBUTE",
    "ROOT_ATTRIBUTE",
    "TARGET",
    "register",
    "set_runner",
    "typed_config",
]

TARGET: Final = KERNEL_TARGET
CONFIG_ATTRIBUTE: Final = "nki_config"
"""Attribute of the typed call that holds the whole ``backend_config`` of the vendor's form."""
ROOT_ATTRIBUTE: Final = "nki_root"
"""Optional attribute: the folder to which the kernel's path is relative."""

_QUIET_SECONDS = 0.02

_INVALID_ARGUMENT, _NOT_FOUND, _INTERNAL, _DATA_LOSS = 3, 5, 13, 15

Arrays = list[np.ndarray[Any, Any]]
Runner = Callable[[str, "Path | None", Arrays, Arrays], object]

_lock = threading.Lock()
_registered = False
_immortal: list[Any] = []


def _run_kernel(config: str, root: Path | None, operands: Arrays, results: Arrays) -> object:
    return kernels.resolve(config, root).run(operands, results)


_runner: Runner = _run_kernel


def set_runner(runner: Runner | None) -> None:
    """Replace what executes a kernel call (None restores our executor).

    A runner takes (backend_config, root, operands, results) and writes the results in place. A
    result may share its memory with the operand that the call declares as its alias. A runner
    must not call JAX.
    """
    global _runner
    _runner = runner or _run_kernel


def typed_config(backend_config: str, root: Path | None = None) -> str:
    """The ``backend_config`` of the typed counterpart of a call, as HLO writes attributes.

    For rewriting a module: set the call's API version to 4 and its configuration to this.
    """
    attributes = [f"{CONFIG_ATTRIBUTE} = {_quoted(backend_config)}"]
    if root is not None:
        attributes.append(f"{ROOT_ATTRIBUTE} = {_quoted(str(root))}")
    return "{" + ", ".join(attributes) + "}"


def _quoted(text: str) -> str:
    """A string attribute in MLIR's syntax (UTF-8 bytes outside printable ASCII as hex pairs)."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())  # fmt: skip
    return '"' + "".join(plain) + '"'


class _Activity:
    """How many calls run now, and how many ever started."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._started = 0

    def __enter__(self) -> None:
        with self._changed:
            self._running += 1
            self._started += 1
            self._changed.notify_all()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait_until_quiet(self) -> None:
        """Return when nothing runs and, for a moment, nothing starts.

        The first call may be one that has been dispatched and has not started, so a moment passes
        in any case.
        """
        with self._changed:
            while True:
                started_before = self._started
                self._changed.wait_for(lambda: self._running == 0)
                self._changed.wait(_QUIET_SECONDS)
                if self._started == started_before:
                    return


_activity = _Activity()


def _drain() -> None:
    """Let calls that a script left behind finish while Python can still run them.

    XLA's threads call into Python; one that is in there when the interpreter shuts down is
    killed, and the process hangs. A program whose results nobody holds any more can only be
    recognised by what it does, hence the moment of silence. A kernel that starts later is not
    run at all (:mod:`hlo_tools.frameworks.finalization`).
    """
    from jax._src import xla_bridge

    # Where only the device's own client ran kernels, live_arrays would start JAX's backends.
    started = xla_bridge.backends_are_initialized()
    for array in import_module("jax").live_arrays() if started else ():
        with contextlib.suppress(Exception):  # its error was or will be reported elsewhere
            array.block_until_ready()
    _activity.wait_until_quiet()


def _error_code(error: BaseException) -> int:
    """The status code that XLA should report for an error."""
    if isinstance(error, FileNotFoundError) or getattr(error, "code", "") == "HLO-KERNEL-MISSING":
        return _NOT_FOUND
    if isinstance(error, NkiFileError) or getattr(error, "code", "") == "HLO-KERNEL-DAMAGED":
        return _DATA_LOSS
    if isinstance(error, (NkiValidationError, HloVerifyError)):
        return _INVALID_ARGUMENT
    return _INTERNAL


def _message(error: BaseException) -> str:
    text = str(error)
    return text if isinstance(error, (NkiError, HloError)) else f"{type(error).__name__}: {text}"


def _answer_metadata(metadata: abi.Metadata, version: tuple[int, int]) -> None:
    """Say which interface version this handler follows: the framework's own."""
    metadata.api_version.major, metadata.api_version.minor = version
    metadata.traits = 0
    if version >= (0, 2):  # struct_size stops at the traits in every version
        metadata.state_type_id = 0


def _make_handler(version: tuple[int, int]) -> Any:
    def handle(pointer: Any) -> int | None:
        frame = pointer.contents
        metadata = abi.metadata_of(frame)
        if metadata is not None:
            _answer_metadata(metadata, version)
            return None
        if frame.stage != abi.EXECUTE:
            return None
        with _activity:
            return _execute(frame)

    return abi.Handler(handle)


def _execute(frame: abi.CallFrame) -> int | None:
    """Run the kernel of one call; None, or the error for XLA."""
    try:
        config = abi.string_attribute(frame, CONFIG_ATTRIBUTE)
        if config is None:
            raise HloVerifyError(
                f"a typed call of {TARGET} has no attribute {CONFIG_ATTRIBUTE!r}",
                code="HLO-KERNEL-CONFIG",
            )
        root = abi.string_attribute(frame, ROOT_ATTRIBUTE)
        operands, results = abi.argument_arrays(frame), abi.result_arrays(frame)
        where = abi.place_of(frame)
        with kernel_ranks.at(kernel_ranks.Place(*where) if where else None):
            _runner(config, Path(root) if root else None, operands, results)
    except BaseException as error:  # nothing may unwind through XLA's frames
        return abi.create_error(frame, _error_code(error), _message(error))
    return None


_UNREWRITTEN = (
    f"[HLO-KERNEL-UNREWRITTEN] a {TARGET} call of API version 2 reached XLA:CPU, which passes such "
    "a call no configuration; help: run the module through the 'neuron' device (nki-hlo run), "
    "or rewrite the call to the typed FFI first"
)


def _set_failure(status: int, message: bytes) -> None:
    """Store a failure in an ``XlaCustomCallStatus``.

    XLA exports no function for it. The structure is a ``std::optional<std::string>``; this
    writes libstdc++'s layout: data pointer, size, 16 bytes of buffer or capacity, engaged flag.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = c_void_p, [c_size_t]
    data = libc.malloc(len(message) + 1)
    if not data:
        return
    ctypes.memmove(data, c_char_p(message), len(message) + 1)
    c_void_p.from_address(status).value = data
    c_size_t.from_address(status + 8).value = len(message)
    c_size_t.from_address(status + 16).value = len(message)
    c_uint8.from_address(status + 32).value = 1


def _guard(_results: object, _operands: object, status: int) -> None:
    _set_failure(status, _UNREWRITTEN.encode())


def _framework_version(include_dir: str) -> tuple[int, int]:
    """(major, minor) of the FFI that this jaxlib speaks, from the header it ships.

    XLA refuses a handler that names another version, and older releases leave the version in
    the API pointer at 0.0, so only the header always has it.
    """
    header = Path(include_dir, "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    return int(numbers["MAJOR"]), int(numbers["MINOR"])


def register() -> None:
    """Make XLA:CPU of this process's jaxlib able to execute kernel calls. Does so once."""
    global _registered
    with _lock:
        if _registered:
            return
        ffi = import_module("jax").ffi
        headers = str(ffi.include_dir())
        typed = _make_handler(_framework_version(headers))
        guard = abi.LegacyHandler(_guard)
        _immortal.extend((typed, guard))  # XLA calls them until the process ends
        for function, version in ((typed, 1), (guard, 0)):
            address = ctypes.cast(function, c_void_p).value or 0
            if version == 1:
                address = guarded(address)
            ffi.register_ffi_target(
                TARGET, ffi.pycapsule(address), platform="cpu", api_version=version
            )
        atexit.register(_drain)
        _registered = True
