"""Operators: what ``op=`` parameters take, and what ``nl.add(x, y)`` calls.

An operator is one value with two uses: passed to an instruction it stands for an operation of
the engines (its ``name``); called on tiles it emits the instructions that compute it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["BY_NAME", "Operator", "operator"]

BY_NAME: dict[str, Operator] = {}


class Operator:
    """An operation of the engines.

    Attributes:
        name: what the kernel IR calls it (``"add"``).
        public: what the language calls it; the same except for aliases such as ``max``.
    """

    def __init__(
        self, name: str, call: Callable[..., Any] | None = None, public: str = "", doc: str = ""
    ) -> None:
        self.name = name
        self.public = self.__name__ = public or name
        self._call = call
        self.__doc__ = doc or (call.__doc__ if call else None)
        self.__signature__ = inspect.signature(call) if call else inspect.Signature()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._call is None:
            raise TypeError(f"nl.{self.public} is an operator for op= parameters, not a function")
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.public}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_public_name, (self.public,))


def operator(name: str, public: str = "") -> Callable[[Callable[..., Any]], Operator]:
    """Decorator: make a function of the language an operator called ``name`` in the IR."""

    def wrap(function: Callable[..., Any]) -> Operator:
        made = Operator(name, function, public or function.__name__)
        BY_NAME[made.public] = made
        return made

    return wrap


def _by_public_name(name: str) -> Operator:
    return BY_NAME[name]
