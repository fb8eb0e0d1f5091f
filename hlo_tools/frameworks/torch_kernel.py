"""Kernels on PyTorch CPU tensors: run through NumPy views of their memory.

Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch

from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.numpy_kernel import run_bound
from hlo_tools.frameworks.plan import BoundCall
from hlo_tools.frameworks.torch_autograd import check_differentiable, without_gradient
from hlo_tools.frameworks.torch_written import (
    check_declared,
    has_no_data,
    host_of,
    mark_written,
)
from hlo_tools.torch_device.tensors import device_view, is_neuron_tensor
from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of
from nki_lang.kernel import Kernel

if TYPE_CHECKING:
    from hlo_tools.types.element_types import Array

__all__ = [
    "DTYPES",
    "KERNEL_RECORDER",
    "TORCH_DTYPES",
    "TorchKernel",
    "neuron_dtype",
    "tensor_of",
    "torch_dtypes",
    "view_of",
]

DTYPES: dict[torch.dtype, DType] = {
    getattr(torch, name): BY_NAME[language]
    for name, language in {
        "bool": "bool",
        "int8": "int8",
        "int16": "int16",
        "int32": "int32",
        "int64": "int64",
        "uint8": "uint8",
        "uint16": "uint16",
        "uint32": "uint32",
        "uint64": "uint64",
        "float16": "float16",
        "float32": "float32",
        "bfloat16": "bfloat16",
        "float8_e4m3fn": "float8_e4m3fn",
        "float8_e5m2": "float8_e5m2",
        "float8_e8m0fnu": "float8_e8m0fnu",
    }.items()
    if hasattr(torch, name)
}
"""The kernel language's dtype for each torch dtype that has one."""


def neuron_dtype(kind: torch.dtype) -> DType:
    """The kernel language's dtype for a torch dtype.

    Raises:
        TypeError: there is none.
    """
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise TypeError(f"kernels take {', '.join(map(str, DTYPES))}")
    return dtype


TORCH_DTYPES: dict[DType, torch.dtype] = {language: kind for kind, language in DTYPES.items()}
"""The torch dtype of each of those."""


def torch_dtypes(
    call: BoundCall, func: object, *, lacking: str = "", library: str = "PyTorch"
) -> list[torch.dtype]:
    """The torch dtype of each result of a call.

    Args:
        call: the call.
        func: the kernel's function, for errors.
        lacking: a dtype of PyTorch's that the library lacks.
        library: what runs the call.

    Raises:
        NkiValidationError: ``NKI-DTYPE``; the library has no such dtype.
    """
    for spec in call.plan.results:
        if spec.dtype not in TORCH_DTYPES or spec.dtype.name == lacking:
            raise NkiValidationError(
                f"kernel {call.plan.func_name} returns {spec.name} in {spec.dtype}, "
                f"for which {library} has no dtype",
                code="NKI-DTYPE",
                location=definition_of(func),
                remedy="write it to HBM in another dtype, or as integers: tile.view(nl.uint8)",
                source="torch.dtype",
            )
    return [TORCH_DTYPES[spec.dtype] for spec in call.plan.results]


# NumPy lacks these; their bits are passed as integers of the same size.
_AS_BITS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    getattr(torch, name): (carrier, storage)
    for name, carrier, storage in (
        ("bfloat16", torch.int16, ml_dtypes.bfloat16),
        ("float8_e4m3fn", torch.uint8, ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", torch.uint8, ml_dtypes.float8_e5m2),
        ("float8_e8m0fnu", torch.uint8, ml_dtypes.float8_e8m0fnu),
    )
    if hasattr(torch, name)
}
_FROM_BITS = {np.dtype(storage): (carrier, kind) for kind, (carrier, storage) in _AS_BITS.items()}
_CARRIER_OF = {torch.int16: np.int16, torch.uint8: np.uint8}


def view_of(tensor: Any) -> Array:
    """A NumPy view of a CPU tensor's memory (no copy; strides kept)."""
    plain = tensor.detach()
    bits = _AS_BITS.get(plain.dtype)
    if bits is None:
        return plain.numpy()
    carrier, storage = bits
    return plain.view(carrier).numpy().view(storage)


def tensor_of(array: Array) -> torch.Tensor:
    """A CPU tensor over an array's memory (copied only when it is read-only or not dense)."""
    array = np.require(array, requirements=["C", "W"]).reshape(array.shape)
    bits = _FROM_BITS.get(array.dtype)
    if bits is None:
        return torch.from_numpy(array)
    carrier, kind = bits
    return torch.from_numpy(array.view(_CARRIER_OF[carrier])).view(kind)


KERNEL_RECORDER: ContextVar[Callable[[BoundCall], list[torch.Tensor]] | None] = ContextVar(
    "kernel_recorder", default=None
)
"""While a graph is made: adds a kernel's call to it, and returns the call's results."""


class TorchKernel(FrameworkKernel):
    """A kernel that takes and returns PyTorch tensors of the host or of the device "neuron".

    Arguments that the kernel writes in place are written in place; autograd is notified, and one that
    requires a gradient is refused (``HLO-KERNEL-GRADIENT``). Autograd does not see
    through a kernel, so differentiating what it returns or writes raises: wrap it in a ``torch.autograd.Function`` with a gradient. Tensors
    without data (torch.compile, torch.export) have results without data.
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

    @classmethod
    @torch.compiler.disable(reason="wrap NKI kernels in torch_neuronx.nki_op to keep one graph")
    def call(cls, kernel: Kernel, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        """Call an ``nki.jit`` kernel; torch.compile breaks its graph here."""
        return super().call(kernel, args, kwargs)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the kernel."""
        call = self.bind(*args, **kwargs)
        record = KERNEL_RECORDER.get()
        if record is not None:
            torch_dtypes(call, self.func)
            recorded = record(call)
            return call.plan.pack(recorded) if call.plan.returned else None
        check_differentiable(call, self.func)
        check_declared(call, self.func)
        torch_dtypes(call, self.func)
        results = _shapes_only(call) if any(map(has_no_data, call.tensors)) else _execute(call)
        results = without_gradient(results, call.tensors)
        return call.plan.pack(results) if call.plan.returned else None


def _execute(call: BoundCall) -> list[torch.Tensor]:
    """The results, made by running the kernel on views of the tensors' memory."""
    device = next((t.device.index for t in call.tensors if is_neuron_tensor(t)), None)
    hosts = [host_of(tensor) for tensor in call.tensors]
    for tensor in hosts:
        if tensor.device.type != "cpu":
            raise TypeError(
                f"kernel {call.plan.func_name} cannot take a tensor of device {tensor.device}; "
                'it takes those of "cpu", "neuron" and XLA'
            )
    plain = [tensor.resolve_neg() for tensor in hosts]  # the imaginary part of a conjugate
    values = run_bound(call, [view_of(tensor) for tensor in plain])
    written = dict(call.plan.written)
    for operand in written.values():
        if plain[operand] is not hosts[operand]:
            hosts[operand].copy_(plain[operand])
        mark_written(call.tensors[operand])
    return [
        call.tensors[written[index]] if index in written else _on_device(tensor_of(value), device)
        for index, value in enumerate(values)
    ]


def _on_device(tensor: torch.Tensor, device: int | None) -> torch.Tensor:
    return tensor if device is None else device_view(tensor, device)


def _shapes_only(call: BoundCall) -> list[torch.Tensor]:
    """The results as tensors without data, on the device of the call's tensors."""
    written = dict(call.plan.written)
    return [
        call.tensors[written[index]]
        if index in written
        else call.tensors[0].new_empty(spec.shape, dtype=TORCH_DTYPES[spec.dtype])
        for index, spec in enumerate(call.plan.results)
    ]
