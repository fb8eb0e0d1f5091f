"""Arguments of a kernel: which are tensors, what the others are, and how a call is recognised."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nki_lang.dtypes import DType, dtype_of
from nki_lang.errors import NkiValidationError
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.operators import Operator
from nki_lang.source import definition_of
from nki_lang.tracing.fingerprint import is_user_class

__all__ = [
    "TensorSpec",
    "bind_call",
    "classes_of",
    "fingerprint",
    "is_tensor",
    "replace_tensors",
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
        TypeError: they do not fit; the kernel, its parameters and its place are named.
    """
    signature = inspect.signature(func)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        name, place = getattr(func, "__name__", repr(func)), definition_of(func)
        where = f", defined at {place}" if place is not None else ""
        raise TypeError(f"{name}{signature}{where}: {error}") from None


def is_tensor(value: Any) -> bool:
    """True for whatever has a shape and a dtype and is not a NumPy scalar."""
    if isinstance(value, (np.generic, type)):
        return False
    return hasattr(value, "shape") and hasattr(value, "dtype")


def spec_of_array(value: Any, name: str, func: Callable[..., Any] | None = None) -> TensorSpec:
    """Shape and dtype of a tensor of any framework; ``func`` is the kernel that takes it.

    Raises:
        NkiValidationError: code ``NKI-DTYPE``; the kernel language has no such dtype.
    """
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

    Looks into tuples, lists, dicts and NKI objects, which are copied when they hold tensors.
    """
    if value is None or isinstance(value, (bool, int, float, str, type)):
        return value
    if is_tensor(value):
        return make(value, name)
    if isinstance(value, (list, tuple)):
        items = [replace_tensors(item, f"{name}_{i}", make) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: replace_tensors(item, f"{name}_{key}", make) for key, item in value.items()}
    if isinstance(value, NKIObject) or dataclasses.is_dataclass(value):
        return _replace_in_object(value, name, make)
    return value


def _replace_in_object(value: Any, name: str, make: Callable[[Any, str], Any]) -> Any:
    fields = getattr(value, "__dict__", {})
    changed = {}
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


def fingerprint(value: Any, depth: int = 0) -> Any:
    """A hashable stand-in for the content of a value; tensors by shape and dtype.

    Objects that cannot be looked into count by identity.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, value)
    if isinstance(value, (types.FunctionType, type, types.ModuleType, types.BuiltinFunctionType)):
        return ("id", id(value))
    if is_tensor(value):
        return ("tensor", tuple(value.shape), repr(value.dtype), getattr(value, "name", ""))
    if depth > 8:
        return ("id", id(value))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(fingerprint(item, depth + 1) for item in value))
    if isinstance(value, dict):
        return ("dict", *((str(k), fingerprint(v, depth + 1)) for k, v in value.items()))
    content = getattr(value, "__dict__", None)
    if isinstance(content, dict) and not isinstance(value, Operator):
        return (type(value).__qualname__, fingerprint(dict(content), depth + 1))
    try:
        hash(value)
    except TypeError:
        return ("id", id(value))
    return (type(value).__qualname__, value)


def classes_of(value: Any, depth: int = 0) -> Iterator[type]:
    """The classes of the user's objects in a value: kernels call their methods."""
    if depth > 8 or is_tensor(value):
        return
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from classes_of(item, depth + 1)
    elif isinstance(value, dict):
        yield from classes_of(list(value.values()), depth + 1)
    elif is_user_class(type(value)):
        yield type(value)
        yield from classes_of(getattr(value, "__dict__", {}), depth + 1)
