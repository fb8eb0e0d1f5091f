"""The names of a program's inputs: stated in the module, or given by the framework."""

from __future__ import annotations

import json
import re
from itertools import chain, count
from typing import TYPE_CHECKING

from hlo_tools.types.element_types import BY_NUMBER, INVALID

if TYPE_CHECKING:
    from hlo_tools.schema.messages import (
        HloComputationProto,
        HloInstructionProto,
        HloModuleProto,
        ShapeProto,
    )

__all__ = ["framework_names", "stated_names"]

_NUMBER = re.compile(r"(\.\d+)+$")
_GENERATED_NAME = re.compile(r"(parameter|param|Arg|p|input)_?\d*", re.IGNORECASE)
"""Names that importers generate for parameters without a name."""
_POSITIONAL = re.compile(r"(input|output)\d+")


def stated_names(module: HloModuleProto, entry: HloComputationProto) -> dict[str, str]:
    """Return the module's frontend attributes, with tensor names from its parameters and its root.

    nkipy writes ``neff_input_names`` on each parameter and ``neff_output_names`` on the root.
    """
    attributes = dict(module.frontend_attributes.map)
    input_names = {
        row.parameter_number: row.frontend_attributes.map.get("neff_input_names", "")
        for row in entry.instructions
        if row.opcode == "parameter"
    }
    if input_names and all(input_names.values()):
        attributes.setdefault(
            "neff_input_names", ",".join(input_names[number] for number in sorted(input_names))
        )
    for row in entry.instructions:
        if row.id == entry.root_id and "neff_output_names" in row.frontend_attributes.map:
            attributes.setdefault(
                "neff_output_names", row.frontend_attributes.map["neff_output_names"]
            )
    return attributes


def framework_names(entry: HloComputationProto) -> str:
    """Return the inputs' names in the framework's program, as a JSON list.

    JAX states an argument's path as the parameter's ``op_name`` (``params['w']``, here
    ``params.w``). Otherwise the instruction's name without its number is used. An input that has
    neither is ``inputN``; repeated names get a number, except the first.
    """
    rows = sorted(
        (row for row in entry.instructions if row.opcode == "parameter"),
        key=lambda row: row.parameter_number,
    )
    names: list[str] = []
    for row in rows:
        leaves = _leaves(row.shape)
        base = _name(row)
        parts = [base] if leaves == 1 else [f"{base}.{index}" for index in range(leaves)]
        names += parts if base else [f"input{len(names) + index}" for index in range(leaves)]
    unique: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        unique[
            next(candidate for candidate in chain([name], numbered) if candidate not in unique)
        ] = None
    return json.dumps(list(unique))


def _name(row: HloInstructionProto) -> str:
    """Return the framework's name of a parameter, or ""."""
    path = row.metadata.op_name
    if not path or "/" in path:
        path = _NUMBER.sub("", row.name)
    name = re.sub(r"\W+", ".", path, flags=re.ASCII).strip(".")
    return "" if _GENERATED_NAME.fullmatch(name) or _POSITIONAL.fullmatch(name) else name


def _leaves(shape: ShapeProto) -> int:
    if BY_NUMBER.get(shape.element_type, INVALID).name != "tuple":
        return 1
    return sum(map(_leaves, shape.tuple_shapes))
