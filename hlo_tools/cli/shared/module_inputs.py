"""Arrays for a module's parameters: from files, zeros or random."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hlo_tools._messages import counted
from hlo_tools.errors import HloFileError
from hlo_tools.evaluate import Value
from hlo_tools.evaluate.arguments import filled
from hlo_tools.evaluate.limits import Limits, check_inputs
from hlo_tools.files.arrays import unusable_array
from hlo_tools.files.content import check_readable
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import Array
from hlo_tools.types.shape import Shape

__all__ = ["Inputs", "Tolerance", "gather"]


def _from_zero(value: float) -> float:
    if not value >= 0:
        raise typer.BadParameter(f"{value} is not a number of at least 0")
    return value


Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        help="FILE.npy in parameter order, NAME=FILE.npy, or FILE.npz with arrays by name.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(help="Largest difference, relative to the largest value.", callback=_from_zero),
]


def gather(
    module: Module,
    arguments: list[str],
    fill: str | None,
    limits: Limits | None = None,
    *,
    seed: int = 0,
) -> list[Any]:
    """One value for each parameter of the entry; tokens need no file.

    Args:
        arguments: ``FILE.npy`` in parameter order, ``NAME=FILE.npy`` / ``NUMBER=FILE.npy``, or
            ``FILE.npz``, whose arrays are called as the parameters are. A tuple is
            ``NAME=FILE.npz``, its arrays in order.
        fill: what the others are: ``zeros``, ``random`` or None for an error.
        limits: of the evaluation that they are for.
        seed: of random values.

    Raises:
        typer.BadParameter: an input that the module does not have, or a missing one.
        HloFileError: a file cannot be read (HLO-NPY), or contains something else (HLO-INPUTS).
        LimitError: inputs to fill are too large.
    """
    parameters = module.entry.parameters
    values = _from_files(module, arguments)
    if fill is not None:
        check_inputs(module, limits)
    random = np.random.default_rng(seed) if fill == "random" else None
    for number, parameter in enumerate(parameters):
        if number in values:
            continue
        if fill is None and any(shape.is_array for _, shape in parameter.shape.leaves()):
            raise typer.BadParameter(
                f"no value for parameter {number} (%{parameter.name}: {parameter.shape}); "
                "pass -i FILE.npy or --fill zeros|random"
            )
        values[number] = filled(parameter.shape, random)
    return [values[number] for number in range(len(parameters))]


def _from_files(module: Module, arguments: list[str]) -> dict[int, Value]:
    parameters = module.entry.parameters
    values: dict[int, Value] = {}
    for position, text in enumerate(arguments):
        name, equals, path = text.partition("=")
        if not equals and not os.path.exists(text) and not text.endswith((".npy", ".npz")):
            raise typer.BadParameter(
                f"-i takes FILE or NAME=FILE, and there is no file {text!r}; "
                f"for the parameter {text} write -i {text}=FILE.npy"
            )
        content = _read(path if equals else text)
        if isinstance(content, np.ndarray) or equals:
            number = _number(module, name) if equals else position
            if not 0 <= number < len(parameters):
                raise typer.BadParameter(
                    f"the module takes {counted(len(parameters), 'input')}, {text} would be "
                    f"parameter {number}"
                )
            values[number] = _fitting(content, parameters[number], text)
        else:
            for key, array in content.items():
                number = _number(module, key)
                values[number] = _fitting(array, parameters[number], f"{text}, {key}")
    return values


def _number(module: Module, name: str) -> int:
    if name.isdigit():
        return int(name)
    for parameter in module.entry.parameters:
        parameter_names = (
            parameter.name,
            parameter.frontend_attributes.get("neff_input_names", ""),
        )
        if name.removeprefix("%") in parameter_names:
            return parameter.proto.parameter_number
    names = ", ".join(parameter.name for parameter in module.entry.parameters) or "none"
    raise typer.BadParameter(f"the module has no parameter {name!r}; it has {names}")


def _read(path: str) -> Array | dict[str, Array]:
    """The array in a file, or the arrays in an archive by name."""
    try:
        check_readable(path)
        regular = Path(path).is_file()
        content: Array | Mapping[str, Array] = np.load(
            path if regular else io.BytesIO(Path(path).read_bytes()), allow_pickle=False
        )
        return dict(content) if isinstance(content, Mapping) else content
    except Exception as error:  # the header's parser evaluates a literal: anything comes out of it
        reason, remedy = unusable_array(path, error)
        raise HloFileError(reason, code="HLO-NPY", place=path, remedy=remedy) from error


def _fitting(
    content: Array | Mapping[str, Array],
    parameter: Instruction,
    location: str,
) -> Value:
    """A file's content as the value of a parameter."""
    shape = parameter.shape
    leaves = [leaf for _, leaf in shape.leaves() if leaf.is_array]
    arrays = [content] if isinstance(content, np.ndarray) else list(content.values())
    if len(arrays) != len(leaves) or isinstance(content, np.ndarray) == shape.is_tuple:
        content_text = (
            "an array" if isinstance(content, np.ndarray) else counted(len(arrays), "array")
        )
        raise HloFileError(
            f"parameter {parameter.proto.parameter_number} (%{parameter.name}) is {shape}, the file "
            f"contains {content_text}",
            code="HLO-INPUTS",
            place=location,
            remedy="pass a tuple as NAME=FILE.npz with its arrays in order, an array as .npy",
        )
    pairs = zip(arrays, leaves, strict=True)
    parts = iter([_in_type(array, leaf, parameter, location) for array, leaf in pairs])
    return _arranged(shape, parts)


def _arranged(shape: Shape, parts: Iterator[Array]) -> Value:
    if shape.is_tuple:
        return tuple(_arranged(element, parts) for element in shape.tuple_shapes)
    return next(parts) if shape.is_array else None


def _in_type(array: Array, shape: Shape, parameter: Instruction, location: str) -> Array:
    """An array in the type of a parameter; files have only NumPy's own types.

    Others come as their bits (in unsigned integers, or as ``numpy.save`` writes them), or as the
    float32 or int8 that results in these types are written in.
    """
    dtype = shape.dtype
    assert dtype is not None  # an array's
    if array.shape == tuple(shape.dimensions):
        if array.dtype == dtype:
            return array
        foreign = dtype.kind not in "biufc"
        if foreign and array.dtype.itemsize == dtype.itemsize and array.dtype.kind in "Vu":
            return array.view(dtype)
        if foreign and array.dtype.kind in "biuf":
            return array.astype(dtype)
    raise HloFileError(
        f"parameter {parameter.proto.parameter_number} (%{parameter.name}) is {shape}, the file "
        f"contains {array.dtype}{list(array.shape)}",
        code="HLO-INPUTS",
        place=location,
        remedy=f"save an array of that shape with .astype({dtype.name!r})",
    )
