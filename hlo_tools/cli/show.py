"""``nki-hlo show``: what a module holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hlo_tools._messages import did_you_mean
from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import module_files, open_module, open_outline
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.selection import module_target
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.outline import shape_of
from hlo_tools.slicing import Query, parse_source, search
from hlo_tools.slicing.search import attributes_of
from hlo_tools.types.opcodes import OPCODES

__all__ = ["command"]

_MAX_SHOWN_CHARACTERS = 60
"""Longer shapes and details are cut, so that a line fits a wide terminal."""
_MAX_SHOWN_PARTS = 4
"""Longer lists are cut after so many parts."""
_MAX_SHOWN_PARAMETERS = 12
_LEFT_OUT = frozenset(
    {"custom_call_target", "backend_config", "api_version", "custom_call_has_side_effect",
     "literal", "to_apply", "calls", "condition", "body"}
)  # fmt: skip
"""Attributes that are no details: shown otherwise, or long."""


Files = Annotated[
    list[str], typer.Argument(help="Modules, folders of modules, or - for standard input.")
]
ComputationOption = Annotated[
    str | None,
    typer.Option(
        "--computation",
        "-c",
        help="Only this computation.",
        autocompletion=completion.computations,
    ),
]
Opcode = Annotated[
    list[str] | None,
    typer.Option(
        "--opcode", help="Only instructions of this opcode.", autocompletion=completion.opcodes
    ),
]
Grep = Annotated[
    str, typer.Option("--grep", "-g", help="Only instructions whose line has this pattern.")
]
Shape = Annotated[
    str, typer.Option("--shape", help="Only of this shape: f32[4,8], bf16, [*,8]; * is any.")
]
Source = Annotated[
    str, typer.Option("--source", help="Only from FILE, FILE:LINE or FILE:FIRST-LAST.")
]
Scope = Annotated[
    str, typer.Option("--scope", help="Only with these parts in the op name: while/body.")
]
Operands = Annotated[
    int, typer.Option("--operands", min=0, help="Also N levels of their operands.")
]
Users = Annotated[int, typer.Option("--users", min=0, help="Also N levels of their users.")]
Full = Annotated[
    bool,
    typer.Option("--full", help="Long shapes, signatures and details in full, also on a terminal."),
]


@dataclass(frozen=True, slots=True)
class QueryOptions(OptionGroup):
    """Which instructions are shown; see ``nki-hlo show --help``."""

    opcode: Opcode = None
    grep: Grep = ""
    shape: Shape = ""
    source: Source = ""
    scope: Scope = ""
    operands: Operands = 0
    users: Users = 0

    def query(self) -> Query:
        """Return the query.

        Raises:
            typer.BadParameter: an option names nothing, or only extends what no option selects.
        """
        opcodes = frozenset(self.opcode or ())
        _check_opcodes(set(opcodes))
        location = parse_source(self.source) if self.source else None
        query = Query(
            self.grep, opcodes, self.shape, location, self.scope, self.operands, self.users
        )
        search((), query)  # a pattern that is none is refused before anything is printed
        if (self.operands or self.users) and query.is_empty:
            raise typer.BadParameter("--operands and --users extend what --grep and the like find")
        return query


def command(
    files: Files,
    computation: ComputationOption = None,
    *,
    instructions: QueryOptions,
    full: Full = False,
    summary: Annotated[bool, typer.Option("--summary", "-s", help="No instructions.")] = False,
    text: Annotated[bool, typer.Option("--text", help="The whole module as HLO text.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show modules: summary, computations, instructions with shapes and source lines.

    Example: nki-hlo show model.hlo_module.pb --opcode custom-call
    Example: nki-hlo show hlo_artifacts --latest --kernels-only
    Example: nki-hlo show before.pb --grep 'broadcast|dot' --users 1
    """
    paths = [path for name in files for path in module_files(name)]
    query = instructions.query()
    if text:
        for path in paths:
            _print_text(open_module(path))
        return 0
    shown = (_shown(path, computation, instructions=not summary) for path in paths)
    if as_json:
        _print_json([_shown_as_json(facts, chosen, query) for facts, chosen in shown])
        return 0
    for number, (facts, chosen) in enumerate(shown):
        if number:
            console.line()
        _print_summary(facts, full)
        views_by_entry = [_found(entry, query) for entry in chosen]
        for entry, views in zip(chosen, views_by_entry, strict=True):
            _print_computation(entry, views, full)
        if chosen and not any(views_by_entry):
            console.line("\nno instructions match")
    return 0


def _shown(
    path: str, computation: str | None, *, instructions: bool
) -> tuple[dict[str, Any], list[Computation]]:
    """A module's summary, and the computations to list."""
    if not instructions:
        return _facts(open_outline(path)), []
    module = open_module(path, to_inspect=True)
    chosen = [module.computation(computation)] if computation else list(module.computations)
    return _facts(ModuleOutline.of(module)), chosen


def _print_text(module: Module) -> None:
    from hlo_tools.text import print_module

    shown = module.proto if module.has_kept_constants else module
    console.line(print_module(shown).rstrip("\n"))


def _facts(outline: ModuleOutline) -> dict[str, Any]:
    entry = outline.entry
    kinds = outline.shapes()
    return {
        "name": outline.name,
        "file": outline.path,
        "target": module_target(outline.path) if outline.path else "",
        "ids": outline.id_scheme,
        "entry": entry.name,
        "parameters": [
            {"name": parameter.name, "shape": str(parameter.shape)}
            for parameter in outline.parameters(entry)
        ],
        "result": str(outline.root(entry).shape),
        "computations": len(outline.bodies),
        "instructions": outline.instruction_count,
        "kernels": len(outline.custom_calls(KERNEL_TARGET)),
        "constant_bytes": sum(
            shape_of(shape).byte_size * count
            for (opcode, shape), count in kinds.items()
            if opcode == "constant"
        ),
        "opcodes": outline.opcodes(),
    }


def _found(computation: Computation, query: Query) -> list[Instruction]:
    if query.is_empty:
        return list(computation)
    return search([computation], query)


def _print_summary(facts: dict[str, Any], full: bool) -> None:
    all_parameters = facts["parameters"]
    shown = (
        all_parameters
        if full or len(all_parameters) <= _MAX_SHOWN_PARAMETERS
        else all_parameters[: _MAX_SHOWN_PARAMETERS - 1]
    )
    names = [f"{p['name']}: {_short(p['shape'], full)}" for p in shown]
    left = len(all_parameters) - len(shown)
    parameters = ", ".join([*names, *([f"{left} more"] if left else [])])
    opcodes = ", ".join(f"{name} {count}" for name, count in facts["opcodes"].items())
    signature = f"%{facts['entry']}({parameters}) -> {_short(facts['result'], full)}"
    rows = [
        ("module", facts["name"]),
        *((fact, facts[fact]) for fact in ("file", "target") if facts[fact]),
        ("entry", signature),
        ("computations", facts["computations"]),
        ("instructions", f"{facts['instructions']}: {opcodes}"),
        ("kernels", facts["kernels"]),
        ("constants", f"{facts['constant_bytes']:,} bytes"),
        ("ids", facts["ids"]),
    ]
    console.fields(rows, 13, is_complete=full)


def _check_opcodes(selected: set[str]) -> None:
    for name in sorted(selected - set(OPCODES)):
        raise typer.BadParameter(
            f"there is no opcode {name!r}; {did_you_mean(name, OPCODES)}".rstrip("; ")
        )


def _print_computation(computation: Computation, views: list[Instruction], full: bool) -> None:
    if not views:
        return
    mark = "ENTRY " if computation.is_entry else ""
    result = _short(str(computation.result_shape), full)
    console.line(f"\n{mark}%{computation.name} -> {result}")
    rows = [
        (
            ("ROOT %" if view.is_root else "%") + view.name,
            _short(str(view.shape), full),
            view.opcode,
            _short_list([f"%{operand.name}" for operand in view.operands], full),
            _details(view, full),
            _source(view),
        )
        for view in views
    ]
    columns = ("name", "shape", "opcode", "operands", "details", "source")
    console.table(columns, rows, indent="  ", is_complete=full)


def _details(view: Instruction, full: bool) -> str:
    """Return a few words that distinguish instructions of one opcode."""
    parts: list[str] = []
    if view.custom_call_target:
        parts.append(view.custom_call_target)
    if view.opcode == "parameter":
        parts.append(str(view.proto.parameter_number))
    literal = view.literal
    if literal is not None and literal.shape.is_scalar and not literal.is_elided:
        parts.append(str(literal.numpy()))
    if view.proto.called_computation_ids:
        parts.append(" ".join(f"%{called.name}" for called in view.called_computations))
    for name, text in attributes_of(view):
        if name not in _LEFT_OUT:
            cut = (
                text
                if full or len(text) <= _MAX_SHOWN_CHARACTERS
                else f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"
            )
            parts.append(f"{name}={cut}")
    return " ".join(parts)


def _short(shape: str, full: bool) -> str:
    """A shape; of a tuple with many parts, the first few."""
    if full or len(shape) <= _MAX_SHOWN_CHARACTERS or not shape.startswith("("):
        return shape
    parts = re.sub(r"/\*index=\d+\*/", "", shape[1:-1]).split(", ")
    return f"({', '.join(parts[:_MAX_SHOWN_PARTS])}, … {len(parts) - _MAX_SHOWN_PARTS} more)" if len(parts) > _MAX_SHOWN_PARTS else shape  # fmt: skip


def _short_list(names: list[str], full: bool) -> str:
    if full or len(names) <= 2 * _MAX_SHOWN_PARTS:
        return ", ".join(names)
    return f"{', '.join(names[:_MAX_SHOWN_PARTS])}, … {len(names) - _MAX_SHOWN_PARTS} more"


def _source(view: Instruction) -> str:
    location = view.source
    return str(location) if location is not None else ""


def _print_json(modules: list[dict[str, Any]]) -> None:
    """One module's facts and computations, or a list of such documents for several."""
    content = modules[0] if len(modules) == 1 else {"modules": modules}
    console.write_json("show", **content)


def _shown_as_json(
    facts: dict[str, Any], chosen: list[Computation], query: Query
) -> dict[str, Any]:
    return {
        "module": facts,
        "computations": [
            {
                "name": computation.name,
                "entry": computation.is_entry,
                "instructions": [_as_json(view) for view in _found(computation, query)],
            }
            for computation in chosen
        ],
    }


def _as_json(view: Instruction) -> dict[str, Any]:
    return {
        "name": view.name,
        "opcode": view.opcode,
        "shape": str(view.shape),
        "operands": [operand.name for operand in view.operands],
        "root": view.is_root,
        "calls": [called.name for called in view.called_computations],
        "custom_call_target": view.custom_call_target,
        "attributes": dict(attributes_of(view)),
        "op_name": view.metadata.op_name,
        "source": _source(view),
    }
