"""Arrays of the frameworks as NumPy arrays and back, without importing a framework."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from nki_lang.dtypes import Array
from nki_lang.errors import NkiError, NkiExecutionError
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
"""A tensor of a framework that is not imported here."""


@dataclass(frozen=True, slots=True)
class Framework:
    """What a framework has to say of simulated kernels that take its tensors.

    Attributes:
        check: refuses a kernel and the tensors among its arguments before it runs.
        refusal: the error if the kernel writes that tensor, with the name of its parameter.
        wrote: told of each tensor that was written.
        results: what the caller gets, given results, arguments that were written, and arguments.
        host: the tensor in host memory that holds the elements of one.
    """

    check: Callable[[object, Sequence[Foreign]], None] = lambda _func, _tensors: None
    refusal: Callable[[object, str, Foreign], NkiError | None] = lambda _func, _name, _tensor: None
    wrote: Callable[[Foreign], None] = lambda _tensor: None
    results: Callable[[list[Foreign], Sequence[Foreign], Sequence[Foreign]], list[Foreign]] = (
        lambda results, _written, _tensors: results
    )
    host: Callable[[Foreign], Foreign] = lambda tensor: tensor


_FRAMEWORKS: dict[str, Callable[[], Framework]] = {}
_PLAIN = Framework()


def register_simulated(kind: str, framework: Callable[[], Framework]) -> None:
    """Let a framework have its say of kernels that are simulated with its tensors."""
    _FRAMEWORKS[kind] = framework


def framework_of(value: object) -> Framework:
    """What the framework of an array says; nothing if it is none's."""
    found = _FRAMEWORKS.get(kind_of(value))
    return _PLAIN if found is None else found()


_TORCH_SPECIAL = {
    "bfloat16": ("uint16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
}
"""torch dtypes that NumPy does not know: the integer of their size, and the NumPy stand-in."""


def kind_of(value: object) -> str:
    """``"torch"``, ``"jax"``, ``"numpy"`` or ``""`` for what is no array.

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
    """The array as NumPy; it shares memory when the array lies in host memory as it is."""
    if kind_of(value) != "torch":
        return np.asarray(value)
    torch: Any = sys.modules["torch"]
    host = framework_of(value).host(value).detach().cpu().resolve_conj().resolve_neg()
    name = str(host.dtype).removeprefix("torch.")
    special = _TORCH_SPECIAL.get(name)
    if special is None:
        return host.numpy()
    return host.view(getattr(torch, special[0])).numpy().view(special[1])


def _torch(array: Array) -> Foreign:
    torch: Any = sys.modules["torch"]
    for name, (unsigned, stand_in) in _TORCH_SPECIAL.items():
        if array.dtype == np.dtype(stand_in):
            bits = np.ascontiguousarray(array).view(unsigned)
            return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(array)


def _jax(array: Array) -> Foreign:
    return sys.modules["jax"].numpy.asarray(array)


_MOST_COMPARED = 1 << 22
"""Elements of an array whose places in memory are compared; a larger one counts as overlapping."""


def require_writable(kernel: str, written: Mapping[str, Array]) -> None:
    """Refuse a call whose in-place results could not be distinguished, or not be kept.

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
                " each counts as an element of its own, and one result would be lost",
                code="NKI-SHARED",
                remedy="pass a copy: .clone() in torch, .copy() in NumPy",
            )
    for (one, first), (other, second) in itertools.combinations(written.items(), 2):
        if share_memory(first, second):
            raise NkiExecutionError(
                f"kernel {kernel!r} writes its arguments {one!r} and {other!r}, which share memory:"
                " each argument counts as an array of its own, and one result would be lost",
                code="NKI-SHARED",
                remedy="pass a copy of one of them",
            )


def overlaps_itself(array: Array) -> bool:
    """Elements of an array share memory, or it would take long to decide."""
    axes = sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    )
    reach, apart = array.itemsize, True
    for stride, extent in axes:
        apart &= stride >= reach
        reach += stride * (extent - 1)
    if apart or not array.size:
        return False
    if array.size > _MOST_COMPARED or any(stride == 0 for stride, _ in axes):
        return True
    begins: Array = np.zeros(1, np.int64)
    for stride, extent in axes:
        moved = np.arange(0, extent * stride, stride, dtype=np.int64) if stride else 0
        begins = np.asarray(begins[:, None] + moved, np.int64).reshape(-1)
    begins.sort()
    return bool((np.diff(begins) < array.itemsize).any())


def share_memory(one: Array, other: Array) -> bool:
    """Two arrays have an element in common, or it would take long to decide."""
    if not np.may_share_memory(one, other):
        return False
    try:
        # NumPy's stub has the two named limits only; any number of candidates is one.
        return np.shares_memory(one, other, max_work=10_000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


_BACK: dict[str, Callable[[Array], Foreign]] = {"torch": _torch, "jax": _jax}


def to_kind(array: Array, kind: str) -> Foreign:
    """A NumPy array as an array of the framework."""
    back = _BACK.get(kind)
    return array if back is None else back(array)
