"""Kernels on PyTorch/XLA tensors: one node in the lazy graph, one custom call in the HLO.

Importing this module imports torch and torch_xla.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Final

import torch
import torch_xla
import torch_xla.runtime

import hlo_tools
import nki_lang
from hlo_tools.frameworks.call_module import build_call_module
from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.plan import BoundCall, CallPlan
from hlo_tools.frameworks.torch_autograd import check_differentiable, without_gradient
from hlo_tools.frameworks.torch_kernel import (
    TORCH_DTYPES,
    neuron_dtype,
    torch_dtypes,
)
from hlo_tools.frameworks.torch_written import check_declared
from hlo_tools.ir.module import KERNEL_TARGET
from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of

__all__ = ["IR_NAME", "PyTorchXLAKernel"]

IR_NAME: Final = "xla::_op_<locals>CallImpl"
"""How the call reads in torch_xla's IR text."""

_xlac = import_module("torch_xla")._XLAC
_is_functional_tensor: Callable[[torch.Tensor], bool] = import_module("torch")._is_functional_tensor
_computations: dict[tuple[str, tuple[Any, ...]], Any] = {}
_lock = threading.Lock()


class PyTorchXLAKernel(FrameworkKernel):
    """A kernel that takes and returns XLA tensors.

    ``PyTorchXLAKernel(func=kernel)`` or with ``grid=``; ``nki.jit`` kernels come here when one
    of their arguments is an XLA tensor. Arguments that the kernel writes in place get the new
    value. The kernel runs when the graph does, on the "neuron" device.
    """

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        """The kernel language's dtype for a torch dtype."""
        return neuron_dtype(_dtype)

    def is_framework_tensor(self, t: object) -> bool:
        """True for tensors."""
        return isinstance(t, torch.Tensor)

    def map_framework_tensor(self, t: Any) -> tuple[torch.Size, torch.dtype]:
        """(torch.Size, torch.dtype)."""
        return t.shape, t.dtype

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Add the call to the lazy graph."""
        call = self.bind(*args, **kwargs)
        plan = call.plan
        check_differentiable(call, self.func)
        check_declared(call, self.func)
        _check_views(call, self.func)
        device = next((t.device for t in call.tensors if t.device.type == "xla"), None)
        operands = [t if t.device.type == "xla" else t.to(device) for t in call.operands]
        # Results take over the label of the first operand where that is narrower than its HLO
        # type, and would be cut to it: operands are labelled as they are carried.
        carriers = _carriers()
        operands = [
            t.to(TORCH_DTYPES[carriers[spec.dtype]]) if spec.dtype in carriers else t
            for t, spec in zip(operands, plan.inputs, strict=True)
        ]
        if not operands:
            raise TypeError(f"{self.func_name} needs at least one tensor that it reads")
        _warn_when_not_executable()
        kinds = torch_dtypes(call, self.func, lacking="float8_e8m0fnu", library="torch_xla")
        values = _xlac._xla_user_computation(IR_NAME, operands, _computation(plan))
        # torch_xla names the dtype of the HLO, which is another for what is carried wider.
        values = [value.to(kind) for value, kind in zip(values, kinds, strict=True)]
        values = without_gradient(values, call.tensors)
        for result, tensor in plan.written:
            call.tensors[tensor].copy_(values[result])
            values[result] = call.tensors[tensor]
        if not plan.returned:
            return None
        return plan.pack(values)


def _check_views(call: BoundCall, func: object) -> None:
    """Refuse a kernel that writes a view within an operator, where torch_xla's views are copies.

    Raises:
        NkiValidationError: ``NKI-WRITE-LOST``.
    """
    for result, operand in call.plan.written:
        tensor = call.tensors[operand]
        if tensor.device.type == "xla" and tensor._is_view() and not _is_functional_tensor(tensor):
            raise NkiValidationError(
                f"kernel {call.plan.func_name} writes {call.plan.output_names[result]}, a view of an "
                "XLA tensor within an operator: the write would be lost, views are copies there",
                code="NKI-WRITE-LOST",
                location=definition_of(func),
                remedy="write a whole tensor, or call the kernel outside of the operator",
            )


def _computation(plan: CallPlan) -> Any:
    """The XLA computation of a plan, made once."""
    key = (plan.backend_config, tuple((spec.shape, spec.dtype.name) for spec in plan.inputs))
    with _lock:
        computation = _computations.get(key)
        if computation is None:
            module = build_call_module(plan, carriers=_carriers())
            computation = _xlac._xla_op_computation_from_module_proto("CallImpl", module)
            _computations[key] = computation
        return computation


@functools.cache
def _carriers() -> dict[DType, DType]:
    """Return the dtypes that torch_xla keeps in a wider integer: on a Neuron device, 16-bit
    integers.
    """
    if torch_xla.runtime.device_type() != "NEURON":
        return {}
    return {BY_NAME["int16"]: BY_NAME["int32"], BY_NAME["uint16"]: BY_NAME["uint32"]}


@functools.cache
def _warn_when_not_executable() -> None:
    """torch_xla's own CPU runtime has no custom calls; warn once, and again where the
    graph fails."""
    if torch_xla.runtime.device_type() != "CPU":
        return
    warnings.warn(
        f"torch_xla runs on PJRT_DEVICE=CPU, which cannot execute NKI kernels; HLO can be "
        f"inspected, but running the graph will fail. {_REMEDY}",
        RuntimeWarning,
        stacklevel=_levels_to_the_user(),
    )
    sys.excepthook = _Explained(sys.excepthook)


_REMEDY: Final = (
    "Set PJRT_DEVICE=NEURON, or leave it unset and import nki before the first device is made; "
    "or use 'nki-hlo run SCRIPT'"
)

_OWN_FOLDERS: Final = tuple(
    os.path.abspath(package.__path__[0]) + os.sep for package in (hlo_tools, nki_lang)
)


def _is_own(file: str) -> bool:
    return file.startswith(_OWN_FOLDERS)


def _levels_to_the_user() -> int:
    """The ``stacklevel`` with which a warning of our caller names the first line not ours."""
    here = inspect.currentframe()
    frame, level = here and here.f_back, 1
    while frame is not None and frame.f_back and _is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


class _Explained:
    """An exception hook that adds the remedy to the error of a kernel that XLA:CPU was given.

    That error comes from compiled code when the graph runs, far from any function of ours.
    """

    def __init__(self, hook: Callable[..., object]) -> None:
        self._hook = hook

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        text = str(error)
        if KERNEL_TARGET in text and "No registered implementation" in text:
            error.add_note(
                f"[HLO-KERNEL-UNREWRITTEN] torch_xla ran an NKI kernel on PJRT_DEVICE=CPU, which "
                f"cannot execute kernels\n  help: {_REMEDY}"
            )
        self._hook(kind, error, trace)
