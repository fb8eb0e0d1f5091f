"""The base class of the language's objects and of classes in users' kernels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, TypeGuard

__all__ = ["NKIObject", "is_mapping", "is_sequence"]

_MISSING = object()
_NON_FIELD_ANNOTATIONS = ("ClassVar", "KW_ONLY", "InitVar")
_VALUE_TYPES = (type(None), bool, int, float, str)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return True for a list or a tuple, which kernels treat alike."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeGuard[dict[Any, Any]]:
    """Return True for a dict."""
    return isinstance(value, dict)


class NKIObject:
    """Base class for classes that are used inside kernels.

    A subclass with annotated fields and without an ``__init__`` takes its fields in order, as the
    language guide specifies ("Class Support"); ``__post_init__`` runs after that. ``@dataclass``
    works as usual.
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Define the fields as the language does, before ``@dataclass`` sees them.

        A field without a value is None when it is not given, and plain values of a class
        without annotations are fields too.
        """
        super().__init_subclass__(**kwargs)
        space = cls.__dict__
        if "__init__" in space or "__slots__" in space:
            return
        annotations = space.get("__annotations__")
        if annotations is None:
            plain = [
                name
                for name, value in space.items()
                if not name.startswith("_") and isinstance(value, _VALUE_TYPES)
            ]
            if plain:
                cls.__annotations__ = dict.fromkeys(plain, Any)
            return
        for name, annotation in annotations.items():
            if name not in space and not any(
                mark in str(annotation) for mark in _NON_FIELD_ANNOTATIONS
            ):
                setattr(cls, name, None)

    def __init__(self, *args: object, **kwargs: object) -> None:
        fields = _fields(type(self))
        values = _field_values(type(self).__name__, fields, args, kwargs)
        for name, value in values.items():
            setattr(self, name, value)
        if fields and hasattr(self, "__post_init__"):
            self.__post_init__()  # type: ignore[attr-defined]

    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
    )


@functools.cache
def _fields(cls: type) -> dict[str, Any]:
    """Return annotated fields of the class and its bases, with their defaults."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name in inspect.get_annotations(base):
            fields[name] = base.__dict__.get(name, fields.get(name, _MISSING))
    return fields


def _field_values(
    owner: str, fields: dict[str, object], args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, Any]:
    """Return the value of each field: passed by position or name, else its default, else None."""
    if len(args) > len(fields):
        raise TypeError(f"{owner} takes {len(fields)} fields, but {len(args)} were passed")
    values = dict(zip(fields, args, strict=False))
    for name, value in kwargs.items():
        if name in values or (fields and name not in fields):
            raise TypeError(f"{owner} has no free field {name!r}")
        values[name] = value
    for name, default in fields.items():
        values.setdefault(name, None if default is _MISSING else default)
    return values
