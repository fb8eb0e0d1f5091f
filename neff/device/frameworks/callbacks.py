"""Callbacks into Python (``jax.debug.print``, ``pure_callback``, ``io_callback``), on the device.

A NEFF runs without the host, so a program with a callback is refused where JAX lowers it, with the
user's line. Programs for JAX's own platforms are lowered as before.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from neff.device.pjrt.topology import PLATFORM
from neff.errors import NeffCompileError

__all__ = ["refuse_callbacks"]

_CALLBACKS = {
    "jax._src.debugging": ("debug_print_p", "debug_callback_p"),
    "jax._src.callback": ("pure_callback_p", "io_callback_p"),
}
"""Module of JAX -> its primitives that call Python; versions before 0.8 lack ``debug_print_p``."""
_REMEDY = (
    "return the value from the function and use it there, or run this part on the host: "
    "jax.default_device(jax.devices('cpu')[0]) with JAX_PLATFORMS=neuron,cpu"
)


def refuse_callbacks() -> None:
    """Register lowerings for platform ``neuron`` that refuse every callback by name and line."""
    mlir: Any = import_module("jax._src.interpreters.mlir")
    for module, names in _CALLBACKS.items():
        for name in names:
            primitive = getattr(import_module(module), name, None)
            if primitive is not None:
                mlir.register_lowering(primitive, _refuse, platform=PLATFORM)


def _refuse(context: Any, *operands: Any, **parameters: Any) -> NoReturn:
    source_info: Any = import_module("jax._src.source_info_util")
    traceback = getattr(context, "traceback", None)  # JAX 0.8 and later have it
    frame = source_info.user_frame(traceback) if traceback is not None else None
    raise NeffCompileError(
        f"{context.primitive.name} calls Python while the program runs, which a device program cannot",
        code="NEFF-HOST",
        place=f"{frame.file_name}:{frame.start_line}" if frame else "",
        remedy=_REMEDY,
    )
