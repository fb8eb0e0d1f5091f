"""Kernels on traced NumPy arrays: one custom call in the traced function's HLO."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.trace import TracedArray, custom_call
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["TracedKernel"]

TARGET: Final = KERNEL_TARGET
STATUS_RETURNING: Final = 2


class TracedKernel(FrameworkKernel):
    """A kernel inside a NumPy function that is being traced (``hlo_tools.trace``, nkipy).

    Arguments that the kernel writes in place are written as NumPy would: the traced array, and
    what it is a view of, change.
    """

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        """The kernel language's dtype for a NumPy dtype."""
        return dtype_of(np.dtype(_dtype))

    def is_framework_tensor(self, t: object) -> bool:
        """True for traced arrays and NumPy arrays."""
        return isinstance(t, (TracedArray, np.ndarray))

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """(shape, dtype)."""
        return t.shape, t.dtype

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Add the call to the traced function."""
        call = self.bind(*args, **kwargs)
        plan = call.plan
        attributes = {"has_collectives": "1"} if plan.has_collectives else None
        values: list[Any] = custom_call(
            TARGET,
            [*call.operands, *plan.constants],
            [(spec.shape, spec.dtype.dtype) for spec in plan.results],
            backend_config=plan.backend_config,
            aliases=dict(plan.aliases),
            api_version=STATUS_RETURNING,
            frontend_attributes=attributes,
        )
        for result, tensor in plan.written:
            call.tensors[tensor][...] = values[result]
            values[result] = call.tensors[tensor]
        return plan.pack(values) if plan.returned else None
