"""Inputs of a program from ``.npy`` files, as ``--input NAME=FILE`` names them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hlo_tools.cli.shared.fills import check_fill
from hlo_tools.evaluate.arguments import filled_array
from hlo_tools.files.arrays import unusable_array
from hlo_tools.files.content import check_readable
from neff.errors import NeffError, NeffRuntimeError
from neff.program import Program

__all__ = ["read_inputs"]


def read_inputs(
    inputs: list[str], program: Program, fill: str | None, seed: int = 0
) -> dict[str, npt.NDArray[np.generic]]:
    """An array for each ``NAME=FILE.npy``; ``fill`` (one of FILLS) makes those that are not given.

    Raises:
        typer.BadParameter: there is no such way to fill.
        NeffError: ``NEFF-INPUT``, ``NEFF-NPY``; no such input, given twice, without a value, or no
            array.
    """
    check_fill(fill)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for text in inputs:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise NeffError(
                f"-i takes NAME=FILE.npy, not {text!r}",
                code="NEFF-INPUT",
                place="--input",
                remedy=_input_form(name, program),
            )
        if name in arrays:
            raise NeffError(
                f"input {name!r} is passed twice",
                code="NEFF-INPUT",
                place="--input",
                remedy="pass each input once",
            )
        if name not in program.inputs:
            raise NeffRuntimeError(
                f"there is no input {name!r}; there are {', '.join(sorted(program.inputs))}",
                code="NEFF-INPUT",
                place="--input",
                remedy="'nki-neff info' shows the inputs",
            )
        arrays[name] = _load(path)
    random = np.random.default_rng(seed) if fill == "random" else None
    for name in program.inputs:
        if fill is None and name not in arrays:
            raise _without_value(name, program)
        if name not in arrays:
            variable = program.variables[name]
            arrays[name] = filled_array(variable.shape, variable.dtype.dtype, random)
    return arrays


def _without_value(name: str, program: Program) -> NeffError:
    variable = program.variables[name]
    shape = ", ".join(map(str, variable.shape))
    return NeffError(
        f"no value for input {name!r} ({variable.dtype}[{shape}])",
        code="NEFF-INPUT",
        place="--input",
        remedy=f"pass -i {name}=FILE.npy, or --fill zeros|random",
    )


def _input_form(name: str, program: Program) -> str:
    """The form of ``-i``, for the input that was meant or for one of the program."""
    example = name if name in program.inputs else next(iter(sorted(program.inputs)), "NAME")
    return f"write -i {example}=FILE.npy"


def _load(path: str) -> npt.NDArray[np.generic]:
    try:
        check_readable(path)
        loaded: Any = np.load(path, allow_pickle=False, mmap_mode="r")
    except Exception as error:  # the header's parser evaluates a literal: anything comes out of it
        reason, remedy = unusable_array(path, error)
        raise NeffError(reason, code="NEFF-NPY", place=path, remedy=remedy) from None
    if not isinstance(loaded, np.ndarray):
        raise NeffError(
            "this is an archive of arrays, not one array",
            code="NEFF-NPY",
            place=path,
            remedy="write each array with numpy.save",
        )
    return cast("npt.NDArray[np.generic]", loaded)
