"""Kernels on PyTorch/XLA tensors: one node in the lazy graph, one custom call in the HLO.

Importing this module imports torch and torch_xla.
"""

from __future__ import annotations

import functools
import threading
import warnings
from typing import Any, Final

import torch
import torch_xla
import torch_xla.runtime

from hlo_tools.frameworks.call_module import build_call_module
from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.plan import CallPlan
from hlo_tools.frameworks.torch_kernel import neuron_dtype, without_gradient
from nki_lang.dtypes import DType

__all__ = ["IR_NAME", "PyTorchXLAKernel"]

IR_NAME: Final = "xla::_op_<locals>CallImpl"
"""How the call reads in torch_xla's IR text."""

_xlac: Any = torch_xla._XLAC
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

    def is_framework_tensor(self, t: Any) -> bool:
        """True for tensors."""
        return isinstance(t, torch.Tensor)

    def map_framework_tensor(self, t: Any) -> tuple[torch.Size, torch.dtype]:
        """(torch.Size, torch.dtype)."""
        return t.shape, t.dtype

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add the call to the lazy graph."""
        call = self.bind(*args, **kwargs)
        plan = call.plan
        device = next((t.device for t in call.tensors if t.device.type == "xla"), None)
        operands = [t if t.device.type == "xla" else t.to(device) for t in call.operands]
        if not operands:
            raise TypeError(f"{self.func_name} needs at least one tensor that it reads")
        _warn_when_not_executable()
        values = _xlac._xla_user_computation(IR_NAME, operands, _computation(plan))
        for result, tensor in plan.written:
            call.tensors[tensor].copy_(values[result])
            values[result] = call.tensors[tensor]
        if not plan.returned:
            return None
        return plan.pack(without_gradient(values, call.tensors))


def _computation(plan: CallPlan) -> Any:
    """The XLA computation of a plan, made once."""
    key = (plan.backend_config, tuple((spec.shape, spec.dtype.name) for spec in plan.inputs))
    with _lock:
        found = _computations.get(key)
        if found is None:
            found = _xlac._xla_op_computation_from_module_proto("CallImpl", build_call_module(plan))
            _computations[key] = found
        return found


@functools.cache
def _warn_when_not_executable() -> None:
    """torch_xla's own CPU runtime cannot be taught custom calls; say so once."""
    if torch_xla.runtime.device_type() == "CPU":
        warnings.warn(
            "torch_xla runs on PJRT_DEVICE=CPU, which cannot execute NKI kernels; HLO can be "
            "inspected, but running the graph will fail. Use PJRT_DEVICE=NEURON or 'nki-hlo run'",
            RuntimeWarning,
            stacklevel=3,
        )
