"""Options that several commands share, added to the signature that typer reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

__all__ = ["Command", "with_options"]

Command = Callable[..., int | None]


def with_options(
    function: Command,
    options: Sequence[inspect.Parameter],
    context: Callable[[Mapping[str, object]], AbstractContextManager[None]],
) -> Command:
    """Return a command with more options, which runs within a context that depends on them.

    Args:
        function: the command; an option that it declares itself is not added again.
        options: keyword-only parameters with annotation and default.
        context: receives the value of each of ``options`` by name.
    """
    original = inspect.signature(function, eval_str=True)
    added = [option for option in options if option.name not in original.parameters]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in original.parameters.values()
    ]

    def command(**values: object) -> int | None:
        chosen = {option.name: values[option.name] for option in options}
        for option in added:
            del values[option.name]
        with context(chosen):
            return function(**values)

    signature = original.replace(parameters=[*parameters, *added])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command
