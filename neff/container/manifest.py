"""``x-nki-hlo.json``: the member that marks the file as ours and describes the program.

Everything that def.json has no documented field for is here, and only here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neff.container.known_keys import MANIFEST_KEYS, require_known_keys
from neff.container.strict_json import is_object
from neff.encoding import DTYPE_CODES, DTYPES, VERSION
from neff.errors import NeffFileError
from neff.program import Program, Variable
from nki_lang.base.dtypes import Array

__all__ = ["MANIFEST", "Manifest", "manifest_of", "parse_manifest"]

MANIFEST = "x-nki-hlo.json"
FORMAT = "nki-hlo-neff"
KINDS = ("input", "output", "constant", "scratch")

_TARGETS = ("trn1", "trn2", "trn3")
_MAX_RANK = 32
_MAX_CORES = 2


def manifest_of(program: Program, files: dict[str, str]) -> dict[str, Any]:
    """The document for a program.

    Args:
        program: the program.
        files: member that holds each constant, by the constant's name.
    """
    return {
        "format": FORMAT,
        "encoding": list(VERSION),
        "name": program.name,
        "target": program.target,
        "inputs": program.inputs,
        "outputs": program.outputs,
        "returns_tuple": program.returns_tuple,
        "scratch_bytes": program.scratch_bytes,
        "subgraphs": [{"semaphores": graph.semaphores} for graph in program.subgraphs],
        "variables": [_row(variable, files) for variable in program.variables.values()],
        "metadata": program.metadata,
    }


def _row(variable: Variable, files: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": variable.name,
        "kind": variable.kind,
        "dtype": variable.dtype.name,
        "shape": list(variable.shape),
    }
    if variable.kind == "scratch":
        row["offset"] = variable.offset
    if variable.alias:
        row["alias"] = variable.alias
    if variable.bounds is not None:
        row["bounds"] = list(variable.bounds)
    if variable.core >= 0:
        row["core"] = variable.core
    if variable.name in files:
        row["file"] = files[variable.name]
    return row


class Manifest:
    """A checked document.

    Attributes:
        program: the program with its variables, without steps and constant values.
        files: member that holds each constant, by the constant's name.
    """

    __slots__ = ("files", "program", "semaphores")

    def __init__(self, program: Program, files: dict[str, str], semaphores: list[int]) -> None:
        self.program, self.files, self.semaphores = program, files, semaphores


def parse_manifest(document: Any, location: str) -> Manifest:
    """Check a document.

    Raises:
        NeffFileError: ``NEFF-FORMAT`` when it is of another kind or version, ``NEFF-MANIFEST``
            when something in it cannot be.
    """
    fields = _Fields(document, location)
    if fields.text("format") != FORMAT:
        raise NeffFileError(
            f"its format is {fields.text('format')[:80]!r}, expected {FORMAT!r}",
            code="NEFF-FORMAT",
            place=location,
            remedy="build the NEFF again with nki-neff build",
        )
    version = fields.take("encoding", list)
    if len(version) != 2 or version[0] != VERSION[0] or version[1] > VERSION[1]:
        raise NeffFileError(
            f"encoding {version}; this reader reads {list(VERSION)}",
            code="NEFF-FORMAT",
            place=location,
            remedy="update nki-hlo, or build the NEFF again with this version",
        )
    require_known_keys(document, MANIFEST_KEYS, location)
    semaphores = [
        _Fields(row, f"{location}: subgraphs").number("semaphores")
        for row in fields.take("subgraphs", list)
    ]
    files: dict[str, str] = {}
    variables = _variables(fields.take("variables", list), files, location, len(semaphores))
    program = Program(
        name=fields.text("name"),
        target=fields.text("target"),
        inputs=fields.names("inputs"),
        outputs=fields.names("outputs"),
        variables=variables,
        subgraphs=[],
        scratch_bytes=fields.number("scratch_bytes"),
        returns_tuple=fields.take("returns_tuple", bool),
        metadata=fields.take("metadata", dict),
    )
    if program.target not in _TARGETS or not 1 <= len(semaphores) <= _MAX_CORES:
        raise fields.bad(f"target {program.target!r} with {len(semaphores)} subgraphs")
    _check_variables(program, fields)
    return Manifest(program, files, semaphores)


class _Fields:
    """A JSON object whose fields are read by type."""

    def __init__(self, document: object, place: str) -> None:
        if not is_object(document):
            raise NeffFileError("this is not a JSON object", code="NEFF-MANIFEST", place=place)
        self.document, self.place = document, place

    def bad(self, message: str) -> NeffFileError:
        return NeffFileError(message, code="NEFF-MANIFEST", place=self.place)

    def take(self, key: str, kind: type) -> Any:
        value: object = self.document.get(key)
        if type(value) is not kind:
            raise self.bad(f"{key!r} is {type(value).__name__}, expected {kind.__name__}")
        return value

    def text(self, key: str) -> str:
        return self.take(key, str)

    def number(self, key: str, lowest: int = 0) -> int:
        value = self.take(key, int)
        if not lowest <= value < 1 << 50:
            raise self.bad(f"{key!r} is {value}")
        return value

    def interval(self, key: str) -> tuple[int, int]:
        values = self.take(key, list)
        if len(values) != 2 or any(type(bound) is not int for bound in values):
            raise self.bad(f"{key!r} is not a pair of integers")
        if not -(1 << 63) <= values[0] <= values[1] < 1 << 64:
            raise self.bad(f"{key!r} is {values}")
        return values[0], values[1]

    def names(self, key: str) -> list[str]:
        values = self.take(key, list)
        if any(type(value) is not str for value in values) or len(set(values)) != len(values):
            raise self.bad(f"{key!r} is not a list of different names")
        return values


def _variables(
    rows: list[Any], files: dict[str, str], location: str, cores: int
) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for row in rows:
        fields = _Fields(row, f"{location}: variables")
        name, kind = fields.text("name"), fields.text("kind")
        code = DTYPE_CODES.get(fields.text("dtype"))
        shape = fields.take("shape", list)
        if code is None or kind not in KINDS or name in variables or not name:
            raise fields.bad(f"variable {name[:80]!r}: kind, dtype or name is not possible")
        if len(shape) > _MAX_RANK or any(type(n) is not int or n < 0 for n in shape):
            raise fields.bad(f"variable {name[:80]!r}: shape {str(shape)[:80]}")
        core = fields.number("core") if "core" in row else -1
        if core >= cores:
            raise fields.bad(f"variable {name[:80]!r}: there is no core {core}")
        variable = Variable(name, kind, DTYPES[code], tuple(shape), core=core)
        variable.offset = fields.number("offset") if kind == "scratch" else 0
        variable.alias = fields.text("alias") if "alias" in row else ""
        variable.bounds = fields.interval("bounds") if "bounds" in row else None
        if variable.nbytes >= 1 << 50:
            raise fields.bad(f"variable {name[:80]!r}: {variable.nbytes} bytes")
        if kind == "constant":
            files[name] = fields.text("file")
        variables[name] = variable
    return variables


def _check_variables(program: Program, fields: _Fields) -> None:
    of_kind = {
        kind: [name for name, variable in program.variables.items() if variable.kind == kind]
        for kind in KINDS
    }
    if sorted(program.inputs) != sorted(of_kind["input"]):
        raise fields.bad("'inputs' and the variables of kind input differ")
    missing = [name for name in program.outputs if name not in program.variables]
    if missing or set(of_kind["output"]) - set(program.outputs):
        raise fields.bad("'outputs' and the variables of kind output differ")
    for variable in program.variables.values():
        if variable.kind == "scratch" and variable.offset + variable.nbytes > program.scratch_bytes:
            raise fields.bad(
                f"scratch variable {variable.name[:80]!r} ends behind the scratch area"
            )
        aliased = program.variables.get(variable.alias) if variable.alias else variable
        if aliased is None or aliased.nbytes != variable.nbytes:
            raise fields.bad(f"{variable.name[:80]!r} is an alias of an unsuitable variable")


def plain_array(variable: Variable) -> Array:
    """The value of a constant: C-contiguous, little-endian, of the variable's type and shape.

    Raises:
        ValueError: it has none, or one of another type or shape.
    """
    value = variable.value
    if value is None:
        raise ValueError(f"constant {variable.name!r} has no value")
    expected = variable.dtype.dtype
    if value.shape != variable.shape or value.dtype.newbyteorder("<") != expected.newbyteorder("<"):
        raise ValueError(
            f"constant {variable.name!r} is {value.dtype}{list(value.shape)}, declared as "
            f"{variable.dtype}{list(variable.shape)}"
        )
    return np.ascontiguousarray(value, dtype=expected).reshape(variable.shape)
