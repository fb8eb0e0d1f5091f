"""Options of a command that belong together: a dataclass that is declared once.

A command takes the dataclass as one parameter, and its ``--help`` lists the fields as options, in
their order and in the parameter's position::

    @dataclass(frozen=True, slots=True)
    class StoreOptions(OptionGroup):
        cache: Cache = ""
        read_only: ReadOnly = False

    def command(paths: Paths, *, store: StoreOptions, as_json: AsJson = False) -> int: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Any, get_type_hints

__all__ = ["OptionGroup", "with_groups"]


class OptionGroup:
    """Base of the frozen dataclasses whose fields are options of a command."""

    __slots__ = ()


def with_groups(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return a command whose parameters are all options, fields of its groups included.

    A command without groups is returned as it is.

    Raises:
        TypeError: two options have the same name.
    """
    original = inspect.signature(function, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: parameter.annotation
        for name, parameter in original.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup)
    }
    if not groups:
        return function
    parameters = list(_flattened(original.parameters, groups))
    names = [parameter.name for parameter in parameters]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"options declared twice: {', '.join(sorted(repeated))}")

    def command(**values: object) -> int | None:
        arguments = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        return function(**values, **arguments)

    signature = original.replace(parameters=parameters)
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


def _flattened(
    parameters: Mapping[str, Parameter], groups: Mapping[str, type[Any]]
) -> Iterator[Parameter]:
    """Yield the parameters with the fields of each group in its position."""
    for name, parameter in parameters.items():
        if name not in groups:
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
            continue
        annotations = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=annotations[field.name],
            )
