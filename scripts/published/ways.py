"""The ways in which a kernel runs: ``WAYS[name](kernel, args, kwargs)`` gives its results."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["WAYS"]


def _by_executor(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kernel(*args, **kwargs)


def _by_simulation(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import nki

    return nki.simulate(kernel)(*args, **kwargs)


def _by_jax(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As a custom call in a compiled JAX function, of which the arrays are the parameters."""
    import jax

    from nki_lang.arguments import replace_tensors

    arrays: list[Any] = []

    def replaced(take: Any) -> tuple[list[Any], dict[str, Any]]:
        return (
            [replace_tensors(value, "", take) for value in args],
            {name: replace_tensors(value, "", take) for name, value in kwargs.items()},
        )

    def call(*traced: Any) -> Any:
        rest = iter(traced)
        positional, named = replaced(lambda _value, _name: next(rest))
        return kernel(*positional, **named)

    replaced(lambda value, _name: arrays.append(value))
    return jax.jit(call)(*arrays)


def _by_neff(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as an HLO module, built into a NEFF that is written, read back and executed."""
    from neff.device.executors import VARIABLE
    from neff.device.numpy_calls import Calls

    os.environ[VARIABLE] = "neff"
    try:
        return Calls().run(kernel, args, kwargs)
    finally:
        del os.environ[VARIABLE]


WAYS: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "simulate": _by_simulation,
    "executor": _by_executor,
    "neff": _by_neff,
    "jax": _by_jax,
}
