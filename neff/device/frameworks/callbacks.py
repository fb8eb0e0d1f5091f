"""Callbacks into Python (``jax.debug.print``, ``pure_callback``, ``io_callback``), on the device.

A NEFF runs without the host, so a program with a callback is refused where JAX lowers it, with the
user's line. The executor ``cpu`` runs callbacks, because it executes graphs with XLA:CPU: JAX's
rules for its platform ``cpu`` lower them to custom calls with the number of a Python function.
Programs for JAX's own platforms are lowered as before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Final, NoReturn, Protocol

from hlo_tools.extract.protocol import EXECUTOR
from neff.device.pjrt.topology import PLATFORM
from neff.device.programs.python_functions import PYTHON_FUNCTIONS
from neff.errors import NeffCompileError

__all__ = ["register_callbacks"]

_RULES: Final = {
    "jax._src.debugging": {
        "debug_print_p": "debug_print_lowering_rule",
        "debug_callback_p": "debug_callback_lowering",
    },
    "jax._src.callback": {
        "pure_callback_p": "pure_callback_lowering",
        "io_callback_p": "io_callback_lowering",
    },
}
"""Module of JAX -> its primitives that call Python -> their rules; before 0.8 there is no
``debug_print_p``, and the custom calls have another form."""
_FIRST_VERSION: Final = (0, 8)
"""The first JAX whose callbacks are calls of the typed FFI with an index."""
_REMEDY: Final = (
    "return the value from the function and use it there, or run this part on the host: "
    f"{EXECUTOR}=cpu (one device, JAX 0.8 and later), or "
    "jax.default_device(jax.devices('cpu')[0]) with JAX_PLATFORMS=neuron,cpu"
)

Rule = Callable[..., object]


class _ModuleContext(Protocol):
    axis_context: object

    def replace(self, **changes: object) -> _ModuleContext: ...


class _Context(Protocol):
    """The parts of JAX's context of a lowering that are used here."""

    module_context: _ModuleContext
    primitive: object
    tokens_out: object | None

    def replace(self, *, module_context: _ModuleContext) -> _Context: ...

    def set_tokens_out(self, tokens: object) -> None: ...


def register_callbacks() -> None:
    """Register a lowering for platform ``neuron`` for every primitive that calls Python."""
    mlir = import_module("jax._src.interpreters.mlir")
    version: tuple[int, ...] = import_module("jax").__version_info__
    for module_name, rules in _RULES.items():
        module = import_module(module_name)
        for name, rule_name in rules.items():
            primitive = getattr(module, name, None)
            if primitive is None:
                continue
            rule = getattr(module, rule_name, None) if version >= _FIRST_VERSION else None
            mlir.register_lowering(primitive, _lowering(rule), platform=PLATFORM)


def _lowering(rule: Rule | None) -> Rule:
    def lower(context: _Context, *operands: object, **parameters: object) -> object:
        runs_on_cpu = os.environ.get(EXECUTOR, "").replace(" ", "") in ("", "cpu")
        if rule is None or not runs_on_cpu or _device_count(context.module_context) > 1:
            _refuse(context)
        as_on_cpu = context.module_context.replace(
            platforms=("cpu",),
            backend=SimpleNamespace(platform="cpu"),
            host_callbacks=PYTHON_FUNCTIONS,
        )
        lowered = context.replace(module_context=as_on_cpu)
        results = rule(lowered, *operands, **parameters)
        if lowered.tokens_out is not None:  # the order of callbacks with effects
            context.set_tokens_out(lowered.tokens_out)
        return results

    return lower


def _device_count(module_context: _ModuleContext) -> int:
    """Return the number of devices that the program is divided among."""
    axes = module_context.axis_context
    mesh = getattr(axes, "mesh", None)
    return int(mesh.size if mesh is not None else getattr(axes, "num_devices", 1))


def _refuse(context: _Context) -> NoReturn:
    source_info = import_module("jax._src.source_info_util")
    traceback = getattr(context, "traceback", None)  # JAX 0.8 and later have it
    frame = source_info.user_frame(traceback) if traceback is not None else None
    raise NeffCompileError(
        f"{context.primitive} calls Python while the program runs, which a device program cannot",
        code="NEFF-HOST",
        place=f"{frame.file_name}:{frame.start_line}" if frame else "",
        remedy=_REMEDY,
    )
