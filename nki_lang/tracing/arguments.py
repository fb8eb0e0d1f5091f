"""Arguments of a kernel: which are tensors, what the others are, and how a call is recognised."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nki_lang.dtypes import DType, dtype_of
from nki_lang.errors import NkiTypeError, NkiValidationError, fail
from nki_lang.frontend.objects import NKIObject, is_mapping, is_sequence
from nki_lang.source import definition_of
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
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call by the names of the kernel's parameters.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENTS``; they do not fit. The kernel, its parameters and its
            place are named.
    """
    signature = inspect.signature(func)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        name, place = getattr(func, "__name__", repr(func)), definition_of(func)
        where = f", defined at {place}" if place is not None else ""
        raise NkiTypeError(
            f"{name}{signature}{where}: {error}",
            code="NKI-ARGUMENTS",
            remedy="call the kernel as it is defined",
        ) from None


def require_unmasked(array: object) -> None:
    """Refuse a masked array, of which a kernel would compute what is masked too.

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
    """Shape and dtype of a tensor of any framework; ``func`` is the kernel that takes it.

    Raises:
        NkiValidationError: code ``NKI-DTYPE``, the kernel language has no such dtype;
            ``NKI-ARGUMENT``, a masked array.
    """
    require_unmasked(value)
    given = value.dtype
    text = str(given)
    try:
        known = isinstance(given, (DType, np.dtype))
        dtype = dtype_of(given if known else text.removeprefix("torch."))
    except TypeError:
        try:
            dtype = dtype_of(given)
        except TypeError:
            of = f" of {getattr(func, '__name__', func)}" if func is not None else ""
            raise NkiValidationError(
                f"argument {name!r}{of} has dtype {text}, which the kernel language does not have",
                code="NKI-DTYPE",
                location=definition_of(func) if func is not None else None,
                remedy="cast it first, for example to float32 or int32",
                source="nki/api/nki.api.shared.rst, nki-dtype",
            ) from None
    own = getattr(value, "name", "") if isinstance(value, TensorSpec) else ""
    return TensorSpec(tuple(int(extent) for extent in value.shape), dtype, own or name)


def replace_tensors(value: Any, name: str, make: Callable[[Any, str], Any]) -> Any:
    """``value`` with ``make(tensor, name)`` in the place of each tensor in it.

    Looks into tuples, lists, dicts and NKI objects; those of other classes are copied only when
    they hold tensors.
    """
    if value is None or isinstance(value, (bool, int, float, str, type)):
        return value
    if is_tensor(value):
        return make(value, name)
    if is_sequence(value):
        items = [replace_tensors(item, f"{name}_{i}", make) for i, item in enumerate(value)]
        return sequence_like(value, items)
    if is_mapping(value):
        found = {key: replace_tensors(v, f"{name}_{key}", make) for key, v in value.items()}
        same = type(value) is not dict and all(map(operator.is_, found.values(), value.values()))
        return value if same else dict_like(value, found)
    if isinstance(value, NKIObject) or dataclasses.is_dataclass(value):
        return _replace_in_object(value, name, make)
    return value


def sequence_like(value: Sequence[object], items: list[Any]) -> Any:
    """The items in a list or tuple of the class of ``value``; itself when they are its own."""
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
    made: object = tuple.__new__(kind, items)  # pyright: ignore[reportUnknownMemberType]
    for name, content in (attributes_of(value) or {}).items():
        object.__setattr__(made, name, content)
    return made


def dict_like(value: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """The items in a dict of the class of ``value``: a defaultdict keeps its default."""
    if type(value) is dict:
        return items
    duplicate = copy.copy(value)
    for key, item in items.items():  # a subclass's update() may mean something else (Counter)
        duplicate[key] = item
    return duplicate


def _replace_in_object(value: Any, name: str, make: Callable[[Any, str], Any]) -> Any:
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
