"""Kernels on NumPy arrays: run here and now, outputs written in place as in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.plan import BoundCall
from hlo_tools.kernels import calls as kernels
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.execute.hosts import require_writable
from nki_lang.tracing.arguments import require_unmasked

__all__ = ["NumpyKernel", "check_written", "run_bound"]


def run_bound(call: BoundCall, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Run a bound call on NumPy views of its tensors.

    Args:
        call: the call.
        arrays: one array for each of ``call.tensors``; those that the kernel writes in place
            must be writeable and are written.

    Returns:
        one array for each result of the plan; for a tensor written in place, that array.
    """
    plan = call.plan
    check_written(call, arrays)
    operands = [np.asarray(arrays[index], order="C") for index in plan.operands]
    values = kernels.resolve(plan.backend_config).run([*operands, *plan.constants])
    for result, tensor in plan.written:
        np.copyto(arrays[tensor], values[result])
        values[result] = arrays[tensor]
    return values


def check_written(call: BoundCall, arrays: list[np.ndarray[Any, Any]]) -> None:
    """Refuse read-only arrays that the kernel writes, and two of them in the same memory.

    Raises:
        NkiExecutionError: code ``NKI-READ-ONLY`` or ``NKI-SHARED``.
    """
    plan = call.plan
    names = {tensor: plan.output_names[result] for result, tensor in plan.written}
    require_writable(plan.func_name, {name: arrays[index] for index, name in names.items()})


class NumpyKernel(FrameworkKernel):
    """A kernel that takes and returns NumPy arrays.

    Like the kernel itself, it writes in-place arguments in place. A function that returns
    nothing returns None.
    """

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        """The kernel language's dtype for a NumPy dtype."""
        return dtype_of(np.dtype(_dtype))

    def is_framework_tensor(self, t: object) -> bool:
        """True for arrays; NumPy scalars are constants."""
        return isinstance(t, np.ndarray)

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """(shape, dtype).

        Raises:
            NkiTypeError: code ``NKI-ARGUMENT``, a masked array.
        """
        require_unmasked(t)
        return t.shape, t.dtype

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the kernel."""
        call = self.bind(*args, **kwargs)
        values = run_bound(call, list(call.tensors))
        return call.plan.pack(values) if call.plan.returned else None
