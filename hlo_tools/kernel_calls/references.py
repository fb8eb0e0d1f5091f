"""Modules that people pass: HLO as a module, text or file, or a Python function of arrays.

A function is turned into HLO for the shapes that are needed: one that ``jax.jit`` made by JAX, any
other by :mod:`hlo_tools.trace`, so it is written with NumPy. ``FILE.py:NAME`` names a function (or
any of the others) in a Python file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.extract.python_file import load_named, names_python
from hlo_tools.ir.loading import load
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.patterns import Pattern
from hlo_tools.types.shape import Shape

__all__ = ["Given", "Reference", "as_module", "as_pattern", "read_named"]

Reference = Module | str | Path | Callable[..., Any]
"""A module, HLO text (it has ``HloModule`` in it), a path, ``FILE.py:NAME``, or a function."""

Given = Reference | Pattern
"""A pattern: a reference, or one that is built with :func:`hlo_tools.rewrite.patterns.op`."""


def as_module(reference: Reference, shapes: Sequence[Shape]) -> Module:
    """Return the module of a reference; a function is traced for parameters of some shapes.

    A function that takes fewer arrays than there are shapes gets the first ones.

    Raises:
        HloError: it cannot be read, or the function fails (HLO-REFERENCE-FUNCTION).
    """
    named = read_named(reference)
    if isinstance(named, Module):
        return named
    if isinstance(named, str) and "HloModule" in named:
        return load(named.encode())
    if isinstance(named, (str, Path)):
        return load(str(named))
    if callable(named):
        return _traced(named, shapes, str(reference) if isinstance(reference, str) else "")
    raise _unusable(named, reference)


def as_pattern(pattern: Given, shapes: Sequence[Shape]) -> Module | Pattern:
    """Return the pattern of a reference for inputs of some shapes; see :func:`as_module`."""
    named = read_named(pattern)
    return named if isinstance(named, Pattern) else as_module(named, shapes)


def read_named(reference: object) -> Any:
    """Return the object that ``FILE.py:NAME`` names; anything else unchanged."""
    if isinstance(reference, str) and "HloModule" not in reference:
        if names_python(reference):
            return load_named(reference)
        if reference.endswith(".py"):
            raise HloError(
                "this is a Python file", code="HLO-NO-NAME", place=reference,
                remedy=f"name a function or pattern in it: {reference}:NAME",
            )  # fmt: skip
    return reference


def _traced(function: Callable[..., object], shapes: Sequence[Shape], location: str) -> Module:
    used_shapes = shapes[: _count(function, len(shapes))]
    arrays = [np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions) for shape in used_shapes]
    try:
        if hasattr(function, "lower"):
            return _lowered(function, arrays)
        from hlo_tools.trace import trace

        return trace(function, *arrays).to_module()
    except HloError:
        raise
    except Exception as error:  # a person's function may fail in any way
        name = getattr(function, "__name__", type(function).__name__)
        raise HloError(
            f"{name} cannot be turned into HLO for {', '.join(map(str, used_shapes))}: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}",
            code="HLO-REFERENCE-FUNCTION",
            place=location,
            remedy="write it with NumPy for arrays of these shapes, or decorate it with jax.jit",
        ) from error


def _count(function: Callable[..., object], maximum: int) -> int:
    """Return the number of arrays of a function: positional parameters without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return maximum
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return maximum
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        parameter.kind in positional and parameter.default is parameter.empty
        for parameter in parameters
    )


def _lowered(function: Any, arrays: Sequence[Any]) -> Module:
    """The HLO of a function that ``jax.jit`` made, before any optimisation."""
    computation = function.lower(*arrays).compiler_ir("hlo")
    return load(computation.as_serialized_hlo_module_proto())


def _unusable(named: object, reference: object) -> HloError:
    return HloError(
        f"{type(named).__name__} is neither HLO nor a function nor a pattern",
        code="HLO-REFERENCE-KIND",
        place=reference if isinstance(reference, str) else "",
        remedy="pass HLO, a NumPy function, a function decorated with jax.jit, or a pattern of "
        "hlo_tools.rewrite.patterns",
    )
