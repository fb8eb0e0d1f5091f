"""The arrays of one run: the caller's arrays after checks, and the arrays allocated for the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute.program import Program
from nki_lang.ir.types import KernelIR, Tensor

__all__ = ["Bindings", "bindings_of"]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Every HBM array of a run by the name of its tensor, and the tensors without content."""

    arrays: dict[str, Array]
    fresh: set[str]


def bindings_of(
    program: Program, inputs: Sequence[Array], outputs: Sequence[Array | None] | None
) -> Bindings:
    """Return the arrays of a run.

    Raises:
        NkiExecutionError: code ``NKI-ARGUMENTS``; wrong number, shape or type of arrays.
    """
    kernel_ir = program.kernel_ir
    if len(inputs) != len(kernel_ir.inputs):
        raise NkiExecutionError(
            f"kernel {kernel_ir.name!r} takes {len(kernel_ir.inputs)} arrays, but {len(inputs)} "
            f"were passed",
            code="NKI-ARGUMENTS",
            remedy=f"pass {', '.join(tensor.name for tensor in kernel_ir.inputs)}",
        )
    arrays: dict[str, Array] = dict(program.constants)
    for tensor, array in zip(kernel_ir.inputs, inputs, strict=True):
        arrays[tensor.name] = np.ascontiguousarray(_checked(kernel_ir, tensor, array))
    fresh: set[str] = set()
    passed = outputs if outputs is not None else [None] * len(kernel_ir.outputs)
    aliases = kernel_ir.aliases
    for index, (tensor, array) in enumerate(zip(kernel_ir.outputs, passed, strict=True)):
        if array is not None:
            array = _require_separate(_checked(kernel_ir, tensor, array), inputs)
        start = arrays.get(tensor.name) if index in aliases else None
        if start is None:
            fresh.add(tensor.name)
        arrays[tensor.name] = _output(tensor, array, start)
    return Bindings(arrays, fresh)


def _checked(kernel_ir: KernelIR, tensor: Tensor, array: object) -> Array:
    array = np.asarray(array)
    if tuple(array.shape) == tensor.shape and array.dtype == tensor.dtype.dtype:
        return array
    raise NkiExecutionError(
        f"argument {tensor.name!r} of kernel {kernel_ir.name!r} was traced as {tensor.shape} "
        f"{tensor.dtype}, but the array is {tuple(array.shape)} {array.dtype}",
        code="NKI-ARGUMENTS",
        remedy="pass an array of that shape and type, or trace the kernel again",
    )


def _require_separate(output: Array, inputs: Sequence[Array]) -> Array:
    """Return the array to write into; refuse one that shares memory with an input."""
    if not output.flags.c_contiguous or not output.flags.writeable:
        raise NkiExecutionError(
            "an output array must be C-contiguous and writable",
            code="NKI-ARGUMENTS",
            remedy="pass np.empty(shape, dtype), or None to have the array allocated",
        )
    if any(np.may_share_memory(output, array) for array in inputs):
        raise NkiExecutionError(
            "an output array shares memory with an input",
            code="NKI-ARGUMENTS",
            remedy="pass a separate array; inputs that are written in place are copied anyway",
        )
    return output


def _output(tensor: Tensor, output: Array | None, start: Array | None) -> Array:
    if output is None:
        # Zeros make the elements that the kernel does not write the same on each run.
        return start.copy() if start is not None else np.zeros(tensor.shape, tensor.dtype.dtype)
    if start is not None:
        np.copyto(output, start)
    return output
