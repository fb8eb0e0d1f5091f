"""The tensors of a model as its users see them, and the arrays they pass for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neff.errors import NeffRuntimeError
from neff.program import Variable
from nki_lang.base.dtypes import Array, DType

__all__ = ["TensorMetadata", "array_for", "in_memory", "metadata_of"]


@dataclass(slots=True)
class TensorMetadata:
    """``size`` in bytes, dtype name and shape of an input or output."""

    size: int
    dtype: str
    shape: list[int]

    def __repr__(self) -> str:
        return f"TensorMetadata(size={self.size}, dtype={self.dtype!r}, shape={self.shape})"


def metadata_of(variable: Variable) -> TensorMetadata:
    """The metadata of a variable."""
    return TensorMetadata(variable.nbytes, variable.dtype.name, list(variable.shape))


_STANDS_FOR = {"int8": 1, "uint8": 1, "uint16": 2, "void16": 2}
"""Array types that may carry the bits of another type of that size: frameworks without fp8,
bfloat16 or bool hand these over (the runtimes of the vendor report fp8 as int8)."""


def array_for(variable: Variable, array: Any, role: str, model: str) -> Array:
    """An array of the variable's own type and shape over the memory of ``array``.

    Args:
        variable: the input or output.
        array: what the user passed.
        role: ``"input"`` or ``"output"``.
        model: the model's name, for errors.

    Raises:
        NeffRuntimeError: ``NEFF-SHAPE``, ``NEFF-DTYPE`` or, for 64-bit integers of an input
            that are beyond what the program was built for, ``NEFF-INT64``.
    """
    source = np.asarray(array)
    if source.shape != variable.shape:
        raise NeffRuntimeError(
            f"{role} {variable.name!r} of model {model!r} has shape {list(source.shape)}, "
            f"expected {list(variable.shape)}",
            code="NEFF-SHAPE",
            remedy="a NEFF is built for fixed shapes; build it again for this one",
        )
    expected = variable.dtype.dtype
    if source.dtype == expected:
        _check_bounds(variable, source, role, model)
        return source
    if _same_bits(source.dtype, variable.dtype) or _predicates(source.dtype, variable, role):
        return source.view(expected)
    raise NeffRuntimeError(
        f"{role} {variable.name!r} of model {model!r} has dtype {source.dtype}, expected "
        f"{variable.dtype}",
        code="NEFF-DTYPE",
        remedy=f"convert it, for example with .astype({expected.name!r}), or build the NEFF again",
    )


def in_memory(array: Array) -> Array:
    """The array as instructions access it: of a complex number two real ones, side by side."""
    if array.dtype.kind != "c":
        return array
    return array.reshape(-1).view(array.real.dtype).reshape(*array.shape, 2)


def _predicates(dtype: np.dtype[Any], variable: Variable, role: str) -> bool:
    """True for booleans as an input of bytes, which is what predicates are outside."""
    return role == "input" and dtype == np.bool_ and variable.dtype.name == "uint8"


def _check_bounds(variable: Variable, array: Array, role: str, model: str) -> None:
    if role != "input" or variable.bounds is None or not array.size:
        return
    low, high = variable.bounds
    least, greatest = int(array.min()), int(array.max())
    if low <= least and greatest <= high:
        return
    raise NeffRuntimeError(
        f"input {variable.name!r} of model {model!r} holds {least if least < low else greatest}; "
        f"beyond {low} to {high} its 64-bit integers could leave the 32 bits they are computed in",
        code="NEFF-INT64",
        remedy="compute what is larger outside of the model, or in float32",
    )


def _same_bits(dtype: np.dtype[Any], expected: DType) -> bool:
    name = "void16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name
    if dtype.kind == "V" and dtype.names is not None:
        return False
    narrow = expected.kind in ("bool", "packed") or expected.name.startswith(("float8", "bfloat"))
    return narrow and _STANDS_FOR.get(name) == expected.itemsize
