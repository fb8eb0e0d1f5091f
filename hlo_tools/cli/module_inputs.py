"""Arrays for a module's parameters: from files, zeros or random."""

from __future__ import annotations

from typing import Any

import numpy as np
import typer

from hlo_tools.errors import HloFileError
from hlo_tools.evaluate.arguments import filled
from hlo_tools.evaluate.limits import Limits, check_inputs
from hlo_tools.module import Module
from hlo_tools.shape import Shape

__all__ = ["FILLS", "gather"]

FILLS = ("zeros", "random")


def gather(
    module: Module, given: list[str], fill: str | None, limits: Limits | None = None
) -> list[Any]:
    """One array for each parameter of the entry.

    Args:
        given: ``FILE.npy`` in parameter order, or ``NAME=FILE.npy`` / ``NUMBER=FILE.npy``.
        fill: what the others are: ``zeros``, ``random`` or None for an error.
        limits: of the evaluation that they are for.

    Raises:
        typer.BadParameter: an input that the module has not, or one is missing.
        HloFileError: a file cannot be read.
        LimitError: inputs to fill are too large.
    """
    parameters = module.entry.parameters
    found: dict[int, Any] = {}
    for place, text in enumerate(given):
        name, equals, path = text.partition("=")
        number = _number(module, name) if equals else place
        if not 0 <= number < len(parameters):
            raise typer.BadParameter(f"the module has no parameter {name if equals else place}")
        found[number] = _read(path if equals else text, parameters[number].shape)
    if fill is not None:
        check_inputs(module, limits)
    random = np.random.default_rng(0) if fill == "random" else None
    for number, parameter in enumerate(parameters):
        if number in found:
            continue
        if fill is None:
            raise typer.BadParameter(
                f"no value for parameter {number} (%{parameter.name}: {parameter.shape}); "
                "give -i FILE.npy or --fill zeros|random"
            )
        found[number] = filled(parameter.shape, random)
    return [found[number] for number in range(len(parameters))]


def _number(module: Module, name: str) -> int:
    if name.isdigit():
        return int(name)
    for parameter in module.entry.parameters:
        known = (parameter.name, parameter.frontend_attributes.get("neff_input_names", ""))
        if name.removeprefix("%") in known:
            return parameter.proto.parameter_number
    names = ", ".join(parameter.name for parameter in module.entry.parameters)
    raise typer.BadParameter(f"the module has no parameter {name!r}; it has {names}")


def _read(path: str, shape: Shape) -> Any:
    try:
        value = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise HloFileError(f"no usable .npy file: {error}", code="HLO-NPY", place=path) from error
    wanted = shape.dtype
    if (
        wanted is not None
        and value.dtype != wanted
        and value.dtype.kind in "Vu"
        and value.dtype.itemsize == wanted.itemsize
    ):
        return value.view(wanted)
    return value
