"""A module as Python source."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.evaluate.arguments import arrays_of
from hlo_tools.evaluate.recorded import Recorded, recorded_run
from hlo_tools.files.writing import write_bytes
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.python_source.constants import Constants, stored_array
from hlo_tools.python_source.main_function import Inputs, inputs_of, main_lines
from hlo_tools.python_source.names import Names, printable
from hlo_tools.python_source.site import Site, Target, UnwritableError
from hlo_tools.python_source.support import called_functions, needed_functions, support_functions
from hlo_tools.python_source.targets import target_of
from hlo_tools.python_source.wrapping import wrapped
from hlo_tools.types.element_types import Array
from hlo_tools.verify import check

__all__ = ["PythonSource", "to_python", "write_python"]

_RESERVED = frozenset({
    "CONSTANTS", "PARAMETERS", "Path", "argparse", "jax", "jnp", "lax", "main", "ml_dtypes", "np",
    "value_of", "math",
})  # fmt: skip
"""Names at the top of every generated file."""

CONSTANTS_SUFFIX = ".constants.npz"
"""Ends the name of the archive that a generated file reads."""

MAX_REFUSALS = 8
"""Further instructions without source are counted only."""


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A module as a Python file.

    Attributes:
        text: the file.
        arrays: the arrays of the file ``NAME.constants.npz`` beside ``NAME.py``; empty without one.
        entry: the name of the function that the entry has become.
    """

    text: str
    arrays: dict[str, Array]
    entry: str


def to_python(module: Module, target: str = "jax") -> PythonSource:
    """A module as source of a library: a function for each computation, and a ``main``.

    ``main`` runs the entry on the recorded inputs of the module's file, on files (``-i``), or on
    random values, the same as those of ``nki-hlo evaluate --fill random``.

    Args:
        module: the module; it is not changed.
        target: ``"jax"`` or ``"numpy"``.

    Raises:
        HloError: no such target (HLO-ARGUMENT).
        HloVerifyError: the module breaks a rule of HLO.
        UnwritableError: instructions that the target has no source for, by name
            (HLO-PYTHON-OPCODE).
    """
    module.require_known_fields()
    check(module)
    return _Writer(module, target_of(target)).source()


class _Writer:
    """Writes the functions of one module."""

    def __init__(self, module: Module, target: Target) -> None:
        self._module = module
        self._target = target
        self._constants = Constants()
        self._refusals: list[UnwritableError] = []
        self._taken = _RESERVED | support_functions(target.support).keys()
        self._function_names = Names(self._taken)
        self._functions: dict[int, str] = {}

    def source(self) -> PythonSource:
        """The file and its arrays."""
        computations = self._reached()
        for computation in computations:
            self._functions[computation.id] = self._function_names.unique(computation.name)
        self._taken |= frozenset(self._functions.values())
        functions = {
            self._functions[computation.id]: self._function(computation)
            for computation in computations
        }
        if self._refusals:
            raise _joined(self._refusals)
        entry = self._functions[self._module.entry.id]
        bodies = called_functions(functions, entry)
        recorded = recorded_run(self._module)
        inputs = inputs_of(self._module, self._target)
        if recorded is not None:
            self._record(recorded, inputs)
        bodies += main_lines(inputs, self._target, entry, recorded is not None)
        lines = self._head([line for body in bodies for line in body])
        for body in bodies:
            lines += ["", "", *body]
        text = "\n".join(line.rstrip() for line in lines) + "\n"
        return PythonSource(text, self._constants.arrays, entry)

    def _reached(self) -> list[Computation]:
        """The computations that the entry calls, callees first."""
        order: dict[int, Computation] = {}
        todo: list[tuple[Computation, bool]] = [(self._module.entry, False)]
        while todo:
            computation, is_done = todo.pop()
            if is_done:
                order[computation.id] = computation
            elif computation.id not in order:
                todo.append((computation, True))
                todo += [
                    (self._module.computation_by_id(number), False)
                    for number in computation.called_ids()
                ]
        return list(order.values())

    def _record(self, recorded: Recorded, inputs: Inputs) -> None:
        """Store the recorded inputs of the first device."""
        for name, array in zip(inputs.names, arrays_of(recorded.inputs[0]), strict=True):
            self._constants.arrays[f"recorded {name}"] = stored_array(array)

    def _head(self, lines: list[str]) -> list[str]:
        name = printable(self._module.name)
        head = [f'"""The HLO module {name}, written by nki-hlo convert."""', ""]
        head += ["import argparse"]
        if self._constants.arrays:
            head += ["from pathlib import Path"]
        head += ["", *self._target.imports.splitlines(), ""]
        if self._constants.arrays:
            head += [
                f'CONSTANTS = dict(np.load(Path(__file__).with_suffix("{CONSTANTS_SUFFIX}")))',
                "",
            ]
        for function in needed_functions(self._target.support, lines):
            head += ["", *function.splitlines(), ""]
        return head[:-1] if head[-1] == "" else head

    # -- functions ------------------------------------------------------------------------------

    def _function(self, computation: Computation) -> list[str]:
        names = Names(self._taken)
        by_id: dict[int, str] = {}
        for parameter in computation.parameters:
            by_id[parameter.local_id] = names.unique(parameter.name)
        arguments = ", ".join(by_id[parameter.local_id] for parameter in computation.parameters)
        lines = wrapped(f"def {self._functions[computation.id]}({arguments})")
        lines[-1] += ":"
        origin = ""
        for instruction in computation.post_order():
            if instruction.opcode == "parameter":
                self._checked(instruction)
                continue
            if instruction.opcode == "get-tuple-element" and not _is_read(instruction):
                continue
            expression = self._expression(instruction, by_id)
            by_id[instruction.local_id] = name = names.unique(instruction.name)
            if (here := _origin(instruction)) != origin and here:
                lines.append(f"    # {here}")
                origin = here
            lines += wrapped(f"    {name} = {expression}")
        lines.append(f"    return {by_id[computation.root.local_id]}")
        return lines

    def _expression(self, instruction: Instruction, by_id: dict[int, str]) -> str:
        """The expression of an instruction; ``...`` for one that is refused in the end."""
        site = Site(
            instruction,
            tuple(by_id[operand.local_id] for operand in instruction.operands),
            tuple(self._functions[called.id] for called in instruction.called_computations),
            self._target.dtypes,
        )
        try:
            if not self._checked(instruction):
                return "..."
            literal = instruction.literal
            if instruction.opcode == "constant" and literal is not None:
                return self._constants.expression(literal, site)
            row = self._target.rows.get(instruction.opcode)
            if row is None:
                raise site.refused("has no source")
            return row(site)
        except UnwritableError as error:
            self._refusals.append(error)
            return "..."

    def _checked(self, instruction: Instruction) -> bool:
        """Return False, and refuse, if the result has dimensions whose size changes."""
        leaves = [leaf for _, leaf in instruction.shape.leaves()]
        if not any(any(leaf.proto.is_dynamic_dimension) for leaf in leaves):
            return True
        site = Site(instruction, (), (), self._target.dtypes)
        self._refusals.append(site.refused("has a dimension whose size changes"))
        return False


def write_python(module: Module, path: str | Path, target: str = "jax") -> PythonSource:
    """Write a module as ``NAME.py``, and its arrays as ``NAME.constants.npz`` beside it.

    Raises:
        HloError: as :func:`to_python`.
        HloFileError: a file cannot be written (HLO-WRITE).
    """
    source = to_python(module, target)
    path = Path(path)
    if source.arrays:
        archive = io.BytesIO()
        np.savez(archive, **source.arrays)  # pyright: ignore[reportArgumentType]
        write_bytes(archive.getvalue(), path.with_suffix(CONSTANTS_SUFFIX))
    write_bytes(source.text.encode(), path)
    return source


def _is_read(instruction: Instruction) -> bool:
    return instruction.is_root or instruction.is_used


def _origin(instruction: Instruction) -> str:
    """The scope and the line that an instruction comes from, for a comment."""
    scope = instruction.metadata.op_name.rpartition("/")[0]
    frame = instruction.source
    line = f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else ""
    return printable(", ".join(text for text in (scope, line) if text))


def _joined(refusals: list[UnwritableError]) -> HloError:
    """One error that names the instructions that have no source."""
    if len(refusals) == 1:
        return refusals[0]
    first = refusals[0]
    shown = [f"{error.place} {error.message}" for error in refusals[:MAX_REFUSALS]]
    more = len(refusals) - len(shown)
    names = "; ".join(shown) + (f"; and {more} more" if more else "")
    return UnwritableError(
        f"{len(refusals)} instructions have no source: {names}",
        place=first.place,
        remedy=first.remedy,
    )
