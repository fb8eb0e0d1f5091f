"""The arguments of a kernel call: which of them are tensors, which are constants."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, cast

from nki_lang.frontend.objects import NKIObject
from nki_lang.tracing.arguments import bind_call, dict_like, sequence_like
from nki_lang.tracing.fingerprint import describe

__all__ = ["Arguments", "bind_arguments"]

Mapper = Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments by the names of the function's parameters, tensors replaced.

    Attributes:
        args, kwargs: what to call the function with; every framework tensor was replaced by
            what the mapper made of it.
        tensors: the framework tensors in the order of the parameters.
        specs: what the mapper made of each.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: tuple[Any, ...]
    specs: tuple[Any, ...]

    def describe(self) -> str:
        """The content of the arguments as a text, with tensors by what replaced them.

        Raises:
            Unidentifiable: a constant is an object that cannot be looked into.
        """
        return describe((self.args, self.kwargs))


def bind_arguments(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, Any],
    is_tensor: Callable[[Any], bool],
    to_spec: Mapper,
) -> Arguments:
    """Match arguments with parameters and take the tensors out.

    Tensors are found in tuples, lists, dicts and dataclass-like objects too.

    Raises:
        TypeError: the arguments do not fit the function's signature.
    """
    signature = inspect.signature(function)
    bound = bind_call(function, args, kwargs)
    collector = _TensorCollector(is_tensor, to_spec)
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(
                collector.replace(item, f"{name}_{index}") for index, item in enumerate(value)
            )
        elif kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {
                key: collector.replace(item, key) for key, item in value.items()
            }
        else:
            bound.arguments[name] = collector.replace(value, name)
    return Arguments(bound.args, bound.kwargs, tuple(collector.tensors), tuple(collector.specs))


class _TensorCollector:
    """The tensors found so far."""

    def __init__(self, is_tensor: Callable[[Any], bool], to_spec: Mapper) -> None:
        self._is_tensor = is_tensor
        self._to_spec = to_spec
        self.tensors: list[Any] = []
        self.specs: list[Any] = []

    def replace(self, value: Any, name: str) -> Any:
        """``value`` with a specification in the place of each tensor; itself without tensors."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if self._is_tensor(value):
            spec = self._to_spec(value, name)
            self.tensors.append(value)
            self.specs.append(spec)
            return spec
        if isinstance(value, (tuple, list)):
            return self._sequence(value, name)
        if isinstance(value, dict):
            return self._dict(cast(dict[Any, Any], value), name)
        if isinstance(value, type):
            return value
        if dataclasses.is_dataclass(value) or isinstance(value, NKIObject):
            return self._object(value, name)
        return value

    def _sequence(self, value: Any, name: str) -> Any:
        items = [self.replace(item, f"{name}_{index}") for index, item in enumerate(value)]
        return sequence_like(value, items)

    def _dict(self, value: dict[Any, Any], name: str) -> dict[Any, Any]:
        before = len(self.tensors)
        items = {key: self.replace(item, f"{name}_{key}") for key, item in value.items()}
        if type(value) is not dict and len(self.tensors) == before:
            return value
        return dict_like(value, items)

    def _object(self, value: object, name: str) -> Any:
        before = len(self.tensors)
        fields = {
            field: self.replace(getattr(value, field), f"{name}_{field}")
            for field in _field_names(value)
            if hasattr(value, field)
        }
        if len(self.tensors) == before:
            return value
        replaced = copy.copy(value)
        for field, item in fields.items():
            object.__setattr__(replaced, field, item)  # also for frozen ones
        return replaced


def _field_names(value: Any) -> list[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(vars(cast(object, value)))
