"""The memory of each input and output while a program runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neff.errors import NeffRuntimeError
from neff.program import Program, Variable
from nki_lang.base.dtypes import Array

__all__ = ["KeptArrays", "check_names", "check_writable", "choose_arrays", "kept_arrays"]

_MAX_KEPT_BYTES = 16 * 1024
"""Smaller arrays are copied in less time than closures over them are built."""

KeptArrays = Mapping[str, Array]
"""Small inputs and outputs that use the same arrays in every run, so that closures stay valid."""


def kept_arrays(program: Program) -> KeptArrays:
    """Arrays for the small inputs and outputs that share memory with no other."""
    variables = program.variables
    shared = {variable.alias for variable in variables.values()} | set(program.inputs) & set(
        program.outputs
    )
    return {
        name: np.empty(variables[name].shape, variables[name].dtype.dtype)
        for name in (*program.inputs, *program.outputs)
        if name not in shared
        and not variables[name].alias
        and variables[name].nbytes <= _MAX_KEPT_BYTES
    }


def choose_arrays(
    program: Program,
    sources: Mapping[str, Array],
    targets: Mapping[str, Array],
    *,
    written: set[str],
    kept_arrays: KeptArrays,
) -> tuple[dict[str, Array], set[str]]:
    """The array of each input and output for one run.

    Args:
        program: what is about to run.
        sources: the user's input arrays, right in shape and type.
        targets: the user's output arrays, likewise; may lack some.
        written: variables that the program writes to.
        kept: arrays that inputs are copied to, and results out of.

    Returns:
        The arrays, and the names of those that hold nothing yet. An input that is not kept is used
        where it lies unless it is written to or not C-contiguous; a target likewise, unless it
        shares memory with an input.
    """
    arrays: dict[str, Array] = {}
    fresh: set[str] = set()
    for name, array in sources.items():
        if (kept_array := kept_arrays.get(name)) is not None:
            np.copyto(kept_array, array)
            arrays[name] = kept_array
            continue
        copied = name in written and name not in program.outputs
        arrays[name] = array.copy() if copied else np.ascontiguousarray(array)
    for name in program.outputs:
        if (kept_array := kept_arrays.get(name)) is not None:
            arrays[name] = kept_array
            fresh.add(name)
            continue
        variable = program.variables[name]
        start = variable.alias or (name if name in sources else "")
        if start:
            arrays[name] = arrays[start] = _in_place(arrays[start], targets.get(name))
            continue
        arrays[name] = _result(variable, targets.get(name), sources)
        fresh.add(name)
    return arrays, fresh


def _in_place(source: Array, target: Array | None) -> Array:
    """An output that begins as the content of an input."""
    if target is None or not target.flags.c_contiguous:
        return source.copy()
    if not (target.ctypes.data == source.ctypes.data and target.nbytes == source.nbytes):
        np.copyto(target, source)
    return target


def _result(variable: Variable, target: Array | None, sources: Mapping[str, Array]) -> Array:
    if target is not None and target.flags.c_contiguous:
        is_separate = not any(np.may_share_memory(target, source) for source in sources.values())
        if is_separate:
            return target
    return np.empty(variable.shape, variable.dtype.dtype)


def check_names(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], program: Program, model: str
) -> None:
    """Refuse unknown names and missing inputs.

    Raises:
        NeffRuntimeError: ``NEFF-INPUT`` or ``NEFF-OUTPUT``.
    """
    for role, arrays, names in (
        ("input", inputs, program.inputs),
        ("output", outputs, program.outputs),
    ):
        unknown = [name for name in arrays if name not in names]
        if unknown:
            raise NeffRuntimeError(
                f"Unknown {role}(s) {unknown} for model {model!r}. Expected {role}s: {names}",
                code=f"NEFF-{role.upper()}",
                remedy=f"pass only {role}s that the model has",
            )
    missing = [name for name in program.inputs if name not in inputs]
    if missing:
        raise NeffRuntimeError(
            f"Missing input(s) {missing} for model {model!r}. Expected inputs: {program.inputs}",
            code="NEFF-INPUT",
            remedy="pass an array for every input",
        )


def check_writable(targets: Mapping[str, Array]) -> None:
    """Refuse read-only arrays for outputs.

    Raises:
        NeffRuntimeError: ``NEFF-OUTPUT``.
    """
    for name, array in targets.items():
        if not array.flags.writeable:
            raise NeffRuntimeError(
                f"the array for output {name!r} is read-only",
                code="NEFF-OUTPUT",
                remedy="pass a writable array, or none",
            )
