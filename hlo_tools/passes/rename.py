"""Rename: names that follow from the structure, whoever wrote the module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError

__all__ = ["Rename"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Rename(Pass):
    """Name instructions and computations anew: ``add.3`` by opcode, or ``v17`` by number.

    Parameters are ``arg0``, ``arg1``, ...; the entry is ``main``, other computations ``region_0``,
    ``region_1``, ... Instructions count through the whole module, the entry first.

    Attributes:
        scheme: by ``opcode``, by ``number``, or ``keep`` the names.
        module: the module's new name; as it is when empty.
    """

    name: ClassVar[str] = "rename"

    scheme: Literal["opcode", "number", "keep"] = "opcode"
    module: str = ""

    def __post_init__(self) -> None:
        if self.module and not _WORD.fullmatch(self.module):
            raise PassError(
                f"{self.module!r} is not a name for a module",
                code="HLO-PASS-ARGUMENT",
                remedy="take letters, digits, _, . and -, a letter or _ first",
            )

    def run(self, module: Module) -> bool:
        changed = bool(self.module) and self.module != module.name
        if changed:
            module.proto.name = self.module
        if self.scheme != "keep":
            changed |= _name_computations(module) | _name_instructions(module, self.scheme)
        if changed:
            module.touch()
        return changed


def _name_computations(module: Module) -> bool:
    changed = False
    names = (f"region_{number}" for number in range(len(module.computations)))
    for computation in module.computations:
        name = "main" if computation.is_entry else next(names)
        changed |= computation.name != name
        computation.proto.name = name
    module.proto.entry_computation_name = "main"
    return changed


def _name_instructions(module: Module, scheme: str) -> bool:
    namer = _Namer(scheme)
    before = [view.name for view in module.instructions]
    for computation in sorted(
        module.computations, key=lambda computation: not computation.is_entry
    ):
        parameters = computation.parameters
        instructions = [view for view in computation if view.opcode != "parameter"]
        for view in (*parameters, *instructions):
            view.proto.name = namer.name(view.opcode)
        programs = [computation.proto.program_shape]
        if computation.is_entry and module.proto.HasField("host_program_shape"):
            programs.append(module.proto.host_program_shape)
        for program in programs:
            if program.parameter_names:
                program.parameter_names[:] = [parameter.name for parameter in parameters]
    return before != [view.name for view in module.instructions]


class _Namer:
    """Yield names that count up, per opcode or for all instructions together."""

    def __init__(self, scheme: str) -> None:
        self._by_opcode = scheme == "opcode"
        self._counts: dict[str, int] = {}

    def name(self, opcode: str) -> str:
        word = opcode if self._by_opcode else ""
        number = self._counts[word] = self._counts.get(word, -1) + 1
        if not self._by_opcode:
            return f"v{number}"
        return f"arg{number}" if opcode == "parameter" else f"{opcode}.{number}"
