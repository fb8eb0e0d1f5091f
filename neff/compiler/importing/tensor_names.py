"""What a program's inputs are called: as the module states, or as the framework names them."""

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
_MADE_UP = re.compile(r"(parameter|param|Arg|p|input)_?\d*", re.IGNORECASE)
"""Names that importers give to parameters without one."""
_POSITIONAL = re.compile(r"(input|output)\d+")


def stated_names(module: HloModuleProto, entry: HloComputationProto) -> dict[str, str]:
    """Frontend attributes of the module; tensor names also from its parameters and its root.

    nkipy writes ``neff_input_names`` on each parameter and ``neff_output_names`` on the root.
    """
    found = dict(module.frontend_attributes.map)
    named = {
        row.parameter_number: row.frontend_attributes.map.get("neff_input_names", "")
        for row in entry.instructions
        if row.opcode == "parameter"
    }
    if named and all(named.values()):
        found.setdefault("neff_input_names", ",".join(named[number] for number in sorted(named)))
    for row in entry.instructions:
        if row.id == entry.root_id and "neff_output_names" in row.frontend_attributes.map:
            found.setdefault("neff_output_names", row.frontend_attributes.map["neff_output_names"])
    return found


def framework_names(entry: HloComputationProto) -> str:
    """The inputs' names in the framework's program, as a JSON list.

    JAX states an argument's path as the parameter's ``op_name`` (``params['w']``, here
    ``params.w``). Otherwise the instruction's name counts, without its number. An input that has
    neither is ``inputN``, and of several alike all but the first have a number.
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
        further = (f"{name}_{number}" for number in count(2))
        unique[next(one for one in chain([name], further) if one not in unique)] = None
    return json.dumps(list(unique))


def _name(row: HloInstructionProto) -> str:
    """The framework's name of a parameter, or ""."""
    path = row.metadata.op_name
    if not path or "/" in path:
        path = _NUMBER.sub("", row.name)
    name = re.sub(r"\W+", ".", path, flags=re.ASCII).strip(".")
    return "" if _MADE_UP.fullmatch(name) or _POSITIONAL.fullmatch(name) else name


def _leaves(shape: ShapeProto) -> int:
    if BY_NUMBER.get(shape.element_type, INVALID).name != "tuple":
        return 1
    return sum(map(_leaves, shape.tuple_shapes))
