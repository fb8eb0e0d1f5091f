"""A NEFF's inputs and outputs under the names of the vendor's ``metaneff``, as JSON.

The vendor's tools keep a message ``MetaNeff`` beside a NEFF (``metaneff.pb``). The names of its
fields are public (Apache-2.0 users: transformers-neuronx, optimum-neuron), their numbers are not, so
this is no ``metaneff.pb``; what a build cannot know is null.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from neff.program import Program, Variable

__all__ = ["SUFFIX", "metaneff", "write_metaneff"]

SUFFIX: Final = ".metaneff.json"

_TYPES: Final = {
    "bool": "UINT8", "uint8": "UINT8", "int8": "INT8", "int16": "INT16", "uint16": "INT16",
    "int32": "INT32", "uint32": "INT32", "int64": "INT64", "uint64": "INT64",
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT", "float64": "DOUBLE",
    "float8_e4m3fn": "INT8",
}  # fmt: skip
"""dtype -> name in MetaNeff's DataType; null for what it has no name for."""


def metaneff(program: Program) -> dict[str, object]:
    """The document of a program.

    ``type`` is INPUT_STATE for an input that an output aliases in the NEFF (of a kernel that writes
    its argument; aliases of a module are not part of it), else USER_INPUT: a compiled module does
    not say which inputs are weights. ``checkpoint_key`` and ``user_input_key`` are null, unknown here.
    """
    aliases = {
        str(number): program.inputs.index(alias)
        for number, name in enumerate(program.outputs)
        if (alias := program.variables[name].alias) in program.inputs
    }
    states = {program.inputs[number] for number in aliases.values()}
    return {
        "input_tensors": [
            _tensor(program.variables[name], "INPUT_STATE" if name in states else "USER_INPUT")
            for name in program.inputs
        ],
        "output_tensors": [_tensor(program.variables[name], None) for name in program.outputs],
        "output_aliases_to": aliases,
    }


def _tensor(variable: Variable, kind: str | None) -> dict[str, object]:
    row: dict[str, object] = {
        "name": variable.name,
        "shape": list(variable.shape),
        "data_type": _TYPES.get(variable.dtype.name),
    }
    keys = {"type": kind, "checkpoint_key": None, "user_input_key": None}
    return row | (keys if kind else {})


def write_metaneff(program: Program, output: Path) -> Path:
    """Write the document beside a NEFF: its name and :data:`SUFFIX`.

    Raises:
        HloFileError: the file cannot be written.
    """
    from hlo_tools.files.writing import write_bytes

    file = output.with_name(output.name + SUFFIX)
    write_bytes(f"{json.dumps(metaneff(program), indent=1)}\n".encode(), file)
    return file
