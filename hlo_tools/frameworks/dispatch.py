"""Which framework a call of an ``nki.jit`` kernel belongs to.

A framework is looked for only when it is imported already: arguments of a framework that nobody
imported cannot exist. So installing the dispatch costs nothing and imports nothing.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.jax_versions import check_version
from nki_lang.execute.hosts import Framework, register_simulated
from nki_lang.kernel import Kernel, register_framework

__all__ = ["KINDS", "Kind", "install"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A framework whose tensors a kernel may be called with.

    Attributes:
        name: for people.
        package: the import that must have happened before its tensors can exist.
        owns: whether an object is a tensor of this framework.
        module, cls: the FrameworkKernel of this framework, imported at the first call.
        check: raises when the installed version of the framework is none that we support.
    """

    name: str
    package: str
    owns: Callable[[Any], bool]
    module: str
    cls: str
    check: Callable[[], None] = lambda: None

    def kernel_class(self) -> type[FrameworkKernel]:
        """The class that calls kernels for this framework."""
        self.check()
        return getattr(importlib.import_module(self.module), self.cls)


def _is_xla_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor) and value.device.type == "xla"


def _is_torch_tensor(value: object) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def _is_jax_array(value: object) -> bool:
    return isinstance(value, sys.modules["jax"].Array)


def _is_traced_array(value: object) -> bool:
    return isinstance(value, sys.modules["hlo_tools.trace"].TracedArray)


_FRAMEWORKS_PACKAGE = "hlo_tools.frameworks"

KINDS = (
    Kind(
        "traced NumPy",
        "hlo_tools.trace",
        _is_traced_array,
        f"{_FRAMEWORKS_PACKAGE}.traced_kernel",
        "TracedKernel",
    ),
    Kind(
        "JAX", "jax", _is_jax_array, f"{_FRAMEWORKS_PACKAGE}.jax_kernel", "JaxKernel", check_version
    ),
    Kind(
        "PyTorch/XLA",
        "torch_xla",
        _is_xla_tensor,
        f"{_FRAMEWORKS_PACKAGE}.torch_xla_kernel",
        "PyTorchXLAKernel",
    ),
    Kind(
        "PyTorch", "torch", _is_torch_tensor, f"{_FRAMEWORKS_PACKAGE}.torch_kernel", "TorchKernel"
    ),
)
"""In the order of precedence: one XLA tensor among CPU tensors makes it an XLA call. Calls with
NumPy arrays alone need no framework."""


def _detector(kind: Kind) -> Callable[[Any], bool]:
    def detects(value: object) -> bool:
        return kind.package in sys.modules and kind.owns(value)

    return detects


def _caller(kind: Kind) -> Callable[[Kernel, tuple[Any, ...], dict[str, Any]], Any]:
    def call(kernel: Kernel, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        return kind.kernel_class().call(kernel, args, kwargs)

    return call


def install() -> None:
    """Let ``nki.jit`` kernels be called with the tensors of every framework."""
    for kind in KINDS:
        register_framework(kind.name, _detector(kind), _caller(kind))
    register_simulated("torch", _simulated_torch)


@functools.cache
def _simulated_torch() -> Framework:
    return importlib.import_module(f"{_FRAMEWORKS_PACKAGE}.torch_simulated").SIMULATED
