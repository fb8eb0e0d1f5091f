"""Arguments of a kernel: binding, tensor specifications, and replacement of tensors in containers."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiTypeError, NkiValidationError, fail
from nki_lang.base.source import definition_of
from nki_lang.frontend.objects import NKIObject, is_mapping, is_sequence
from nki_lang.tracing.classes import attributes_of
from nki_lang.tracing.fingerprint import is_tensor

__all__ = [
    "TensorSpec",
    "bind_call",
    "dict_like",
    "is_tensor",
    "replace_tensors",
    "require_unmasked",
    "sequence_like",
    "spec_of_array",
]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor argument without its values.

    Attributes:
        shape: extents.
        dtype: element type.
        name: name of the kernel's input; the parameter's name when empty.
    """

    shape: tuple[int, ...]
    dtype: Any
    name: str = ""


def bind_call(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> inspect.BoundArguments:
    """Return the arguments of a call by the names of the kernel's parameters.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENTS``; they do not fit. The message has the kernel, its
            parameters and its location.
    """
    signature = inspect.signature(func)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        name, location = getattr(func, "__name__", repr(func)), definition_of(func)
        where = f", defined at {location}" if location is not None else ""
        raise NkiTypeError(
            f"{name}{signature}{where}: {error}",
            code="NKI-ARGUMENTS",
            remedy="call the kernel as it is defined",
        ) from None


def require_unmasked(array: object) -> None:
    """Refuse a masked array: a kernel would compute with its masked elements too.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENT``.
    """
    if isinstance(array, np.ma.MaskedArray):
        fail(
            "a masked array is passed to a kernel, which knows no masks",
            "NKI-ARGUMENT",
            "pass array.filled(0), or array.data and the mask",
            error=NkiTypeError,
        )


def spec_of_array(value: Any, name: str, func: Callable[..., Any] | None = None) -> TensorSpec:
    """Return shape and dtype of a tensor of any framework; ``func`` is the kernel that takes it.

    Raises:
        NkiValidationError: code ``NKI-DTYPE``, the kernel language has no such dtype;
            ``NKI-ARGUMENT``, a masked array.
    """
    require_unmasked(value)
    dtype_of_value = value.dtype
    text = str(dtype_of_value)
    try:
        is_numpy_dtype = isinstance(dtype_of_value, (DType, np.dtype))
        dtype = dtype_of(dtype_of_value if is_numpy_dtype else text.removeprefix("torch."))
    except TypeError:
        try:
            dtype = dtype_of(dtype_of_value)
        except TypeError:
            of = f" of {getattr(func, '__name__', func)}" if func is not None else ""
            raise NkiValidationError(
                f"argument {name!r}{of} has dtype {text}, which the kernel language does not have",
                code="NKI-DTYPE",
                location=definition_of(func) if func is not None else None,
                remedy="cast it first, for example to float32 or int32",
                source="nki/api/nki.api.shared.rst, nki-dtype",
            ) from None
    spec_name = getattr(value, "name", "") if isinstance(value, TensorSpec) else ""
    return TensorSpec(tuple(int(extent) for extent in value.shape), dtype, spec_name or name)


def replace_tensors(value: object, name: str, make: Callable[[Any, str], object]) -> Any:
    """Return ``value`` with each tensor in it replaced by ``make(tensor, name)``.

    Handles tuples, lists, dicts and NKI objects; objects of other classes are copied only when they
    contain tensors.
    """
    if value is None or isinstance(value, (bool, int, float, str, type)):
        return value
    if is_tensor(value):
        return make(value, name)
    if is_sequence(value):
        items = [replace_tensors(item, f"{name}_{i}", make) for i, item in enumerate(value)]
        return sequence_like(value, items)
    if is_mapping(value):
        replaced = {key: replace_tensors(v, f"{name}_{key}", make) for key, v in value.items()}
        unchanged = type(value) is not dict and all(
            map(operator.is_, replaced.values(), value.values())
        )
        return value if unchanged else dict_like(value, replaced)
    if isinstance(value, NKIObject) or dataclasses.is_dataclass(value):
        return _replace_in_object(value, name, make)
    return value


def sequence_like(value: Sequence[object], items: list[object]) -> Any:
    """Return the items in a list or tuple of the class of ``value``; ``value`` if the items are its
    own.
    """
    if type(value) is list:
        return items
    if type(value) is tuple:
        return tuple(items)
    if all(map(operator.is_, items, value)):
        return value
    if isinstance(value, list):
        duplicate: list[object] = copy.copy(value)
        duplicate[:] = items
        return duplicate
    kind: Any = type(value)
    # Its own __new__ may take other arguments.
    sequence: object = tuple.__new__(kind, items)  # pyright: ignore[reportUnknownMemberType]
    for name, content in (attributes_of(value) or {}).items():
        object.__setattr__(sequence, name, content)
    return sequence


def dict_like(value: dict[object, object], items: dict[object, object]) -> dict[Any, Any]:
    """Return the items in a dict of the class of ``value``: a defaultdict keeps its default."""
    if type(value) is dict:
        return items
    duplicate = copy.copy(value)
    for key, item in items.items():  # a subclass's update() may mean something else (Counter)
        duplicate[key] = item
    return duplicate


def _replace_in_object(value: object, name: str, make: Callable[[Any, str], object]) -> Any:
    fields = attributes_of(value) or {}
    changed: dict[str, Any] = {}
    for field, item in fields.items():
        new = replace_tensors(item, f"{name}_{field}", make)
        if new is not item:
            changed[field] = new
    if not changed:
        return value
    duplicate = copy.copy(value)
    for field, item in changed.items():
        object.__setattr__(duplicate, field, item)
    return duplicate
