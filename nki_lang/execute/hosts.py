"""Conversion between framework arrays and NumPy, without importing a framework."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiError, NkiExecutionError
from nki_lang.tracing.arguments import require_unmasked

__all__ = [
    "Framework",
    "framework_of",
    "kind_of",
    "register_simulated",
    "require_writable",
    "share_memory",
    "to_kind",
    "to_numpy",
]

Foreign: TypeAlias = Any
"""A tensor of a framework that this module does not import."""


@dataclass(frozen=True, slots=True)
class Framework:
    """Hooks of a framework for simulated kernels that take its tensors.

    Attributes:
        check: refuses a kernel and the tensors among its arguments before it runs.
        refusal: returns the error if the kernel must not write that tensor, given its parameter's name.
        wrote: receives each tensor that was written.
        results: returns the caller's results, given results, written arguments, and arguments.
        host: returns the tensor in host memory that contains the elements of a tensor.
    """

    check: Callable[[object, Sequence[Foreign]], None] = lambda _func, _tensors: None
    refusal: Callable[[object, str, Foreign], NkiError | None] = lambda _func, _name, _tensor: None
    wrote: Callable[[Foreign], None] = lambda _tensor: None
    results: Callable[[list[Foreign], Sequence[Foreign], Sequence[Foreign]], list[Foreign]] = (
        lambda results, _written, _tensors: results
    )
    host: Callable[[Foreign], Foreign] = lambda tensor: tensor


_REGISTERED_FRAMEWORKS: dict[str, Callable[[], Framework]] = {}
_NO_FRAMEWORK = Framework()


def register_simulated(kind: str, framework: Callable[[], Framework]) -> None:
    """Register the hooks of a framework for kernels that are simulated with its tensors."""
    _REGISTERED_FRAMEWORKS[kind] = framework


def framework_of(value: object) -> Framework:
    """Return the hooks of the framework of an array; hooks that do nothing if it has none."""
    factory = _REGISTERED_FRAMEWORKS.get(kind_of(value))
    return _NO_FRAMEWORK if factory is None else factory()


_TORCH_ONLY_DTYPES = {
    "bfloat16": ("uint16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
}
"""torch dtypes that NumPy lacks: the integer type of their size, and the ml_dtypes equivalent."""


def kind_of(value: object) -> str:
    """Return ``"torch"``, ``"jax"``, ``"numpy"``, or ``""`` for a value that is no array.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENT``, a masked array.
    """
    if isinstance(value, np.ndarray):
        require_unmasked(cast("Array", value))
        return "numpy"
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return "torch"
    module = type(value).__module__.partition(".")[0]
    if module in ("jax", "jaxlib") and hasattr(value, "shape"):
        return "jax"
    return ""


def to_numpy(value: Foreign) -> Array:
    """Return the array as NumPy; it shares memory with a host array of a type that NumPy has."""
    if kind_of(value) != "torch":
        return np.asarray(value)
    torch: Any = sys.modules["torch"]
    host = framework_of(value).host(value).detach().cpu().resolve_conj().resolve_neg()
    name = str(host.dtype).removeprefix("torch.")
    special = _TORCH_ONLY_DTYPES.get(name)
    if special is None:
        return host.numpy()
    return host.view(getattr(torch, special[0])).numpy().view(special[1])


def _torch(array: Array) -> Foreign:
    torch: Any = sys.modules["torch"]
    for name, (unsigned, stand_in) in _TORCH_ONLY_DTYPES.items():
        if array.dtype == np.dtype(stand_in):
            bits = np.ascontiguousarray(array).view(unsigned)
            return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(array)


def _jax(array: Array) -> Foreign:
    return sys.modules["jax"].numpy.asarray(array)


_MAX_COMPARED_ELEMENTS = 1 << 22
"""Comparing the addresses of more elements takes too long; a larger array counts as overlapping."""


def require_writable(kernel: str, written: Mapping[str, Array]) -> None:
    """Refuse a call whose in-place results share memory or cannot be written.

    Args:
        kernel: its name.
        written: the arrays that it writes in place, by the names of its parameters.

    Raises:
        NkiExecutionError: code ``NKI-READ-ONLY`` or ``NKI-SHARED``.
    """
    for name, array in written.items():
        if not array.flags.writeable:
            raise NkiExecutionError(
                f"kernel {kernel!r} writes its argument {name!r}, but the array is read-only",
                code="NKI-READ-ONLY",
                remedy="pass a copy, or let the kernel write a tensor of its own and return it",
            )
        if overlaps_itself(array):
            raise NkiExecutionError(
                f"kernel {kernel!r} writes its argument {name!r}, of which elements share memory:"
                " the kernel treats them as separate elements, so one result would be lost",
                code="NKI-SHARED",
                remedy="pass a copy: .clone() in torch, .copy() in NumPy",
            )
    for (first_name, first), (second_name, second) in itertools.combinations(written.items(), 2):
        if share_memory(first, second):
            raise NkiExecutionError(
                f"kernel {kernel!r} writes its arguments {first_name!r} and {second_name!r}, which share memory:"
                " the kernel treats each argument as a separate array, so one result would be lost",
                code="NKI-SHARED",
                remedy="pass a copy of one of them",
            )


def overlaps_itself(array: Array) -> bool:
    """Return True if elements of an array share memory, or if the decision would take too long."""
    axes = sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    )
    reach, is_disjoint = array.itemsize, True
    for stride, extent in axes:
        is_disjoint &= stride >= reach
        reach += stride * (extent - 1)
    if is_disjoint or not array.size:
        return False
    if array.size > _MAX_COMPARED_ELEMENTS or any(stride == 0 for stride, _ in axes):
        return True
    begins: Array = np.zeros(1, np.int64)
    for stride, extent in axes:
        steps = np.arange(0, extent * stride, stride, dtype=np.int64) if stride else 0
        begins = np.asarray(begins[:, None] + steps, np.int64).reshape(-1)
    begins.sort()
    return bool((np.diff(begins) < array.itemsize).any())


def share_memory(first: Array, second: Array) -> bool:
    """Return True if two arrays share an element, or if the decision would take too long."""
    if not np.may_share_memory(first, second):
        return False
    try:
        # NumPy's stub lists only the two named limits; max_work may be any number of candidates.
        return np.shares_memory(first, second, max_work=10_000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


_CONVERTERS: dict[str, Callable[[Array], Foreign]] = {"torch": _torch, "jax": _jax}


def to_kind(array: Array, kind: str) -> Foreign:
    """Convert a NumPy array to an array of the framework."""
    converter = _CONVERTERS.get(kind)
    return array if converter is None else converter(array)
