"""``nki-hlo show``: what a module holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hlo_tools._messages import did_you_mean
from hlo_tools.cli import completion, console
from hlo_tools.cli.inputs import module_files, open_module, open_outline
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.outline import shape_of
from hlo_tools.types.opcodes import OPCODES

__all__ = ["command"]


def command(
    files: Annotated[
        list[str], typer.Argument(help="Modules, folders of modules, or - for standard input.")
    ],
    computation: Annotated[
        str | None,
        typer.Option(
            "--computation",
            "-c",
            help="Only this computation.",
            autocompletion=completion.computations,
        ),
    ] = None,
    opcode: Annotated[
        list[str] | None,
        typer.Option(
            "--opcode", help="Only instructions of this opcode.", autocompletion=completion.opcodes
        ),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", "-s", help="No instructions.")] = False,
    text: Annotated[bool, typer.Option("--text", help="The whole module as HLO text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> int:
    """Show modules: summary, computations, instructions with shapes and source lines.

    Example: nki-hlo show model.hlo_module.pb --opcode custom-call
    Example: nki-hlo show hlo_artifacts --latest --kernels-only
    """
    paths = [path for name in files for path in module_files(name)]
    wanted = set(opcode or ())
    _check_opcodes(wanted)
    if text:
        for path in paths:
            _print_text(open_module(path))
        return 0
    shown = (_shown(path, computation, instructions=not summary) for path in paths)
    if as_json:
        _print_json([_shown_as_json(facts, chosen, wanted) for facts, chosen in shown])
        return 0
    for number, (facts, chosen) in enumerate(shown):
        if number:
            console.line()
        _print_summary(facts)
        for entry in chosen:
            _print_computation(entry, wanted)
    return 0


def _shown(
    path: str, computation: str | None, *, instructions: bool
) -> tuple[dict[str, Any], list[Computation]]:
    """A module's summary, and the computations to list."""
    if not instructions:
        return _facts(open_outline(path)), []
    module = open_module(path)
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


def _print_summary(facts: dict[str, Any]) -> None:
    parameters = ", ".join(f"{p['name']}: {p['shape']}" for p in facts["parameters"])
    opcodes = ", ".join(f"{name} {count}" for name, count in facts["opcodes"].items())
    console.line(f"module        {facts['name']}")
    console.line(f"entry         %{facts['entry']}({parameters}) -> {facts['result']}")
    console.line(f"computations  {facts['computations']}")
    console.line(f"instructions  {facts['instructions']}: {opcodes}")
    console.line(f"kernels       {facts['kernels']}")
    console.line(f"constants     {facts['constant_bytes']:,} bytes")
    console.line(f"ids           {facts['ids']}")


def _check_opcodes(wanted: set[str]) -> None:
    for name in sorted(wanted - set(OPCODES)):
        raise typer.BadParameter(
            f"there is no opcode {name!r}; {did_you_mean(name, OPCODES)}".rstrip("; ")
        )


def _print_computation(computation: Computation, wanted: set[str]) -> None:
    views = [view for view in computation if not wanted or view.opcode in wanted]
    if not views:
        return
    mark = "ENTRY " if computation.is_entry else ""
    console.line(f"\n{mark}%{computation.name} -> {computation.result_shape}")
    rows = [
        (
            ("ROOT %" if view.is_root else "%") + view.name,
            view.shape,
            view.opcode,
            ", ".join(f"%{operand.name}" for operand in view.operands),
            _details(view),
            _source(view),
        )
        for view in views
    ]
    console.table(("name", "shape", "opcode", "operands", "details", "source"), rows, indent="  ")


def _details(view: Instruction) -> str:
    """What distinguishes instructions of one opcode, in a few words."""
    parts: list[str] = []
    if view.custom_call_target:
        parts.append(view.custom_call_target)
    if view.opcode == "parameter":
        parts.append(str(view.proto.parameter_number))
    if view.proto.dimensions:
        parts.append(f"dimensions={{{','.join(map(str, view.proto.dimensions))}}}")
    literal = view.literal
    if literal is not None and literal.shape.is_scalar and not literal.is_elided:
        parts.append(str(literal.numpy()))
    if view.proto.called_computation_ids:
        parts.append(" ".join(f"%{called.name}" for called in view.called_computations))
    return " ".join(parts)


def _source(view: Instruction) -> str:
    place = view.source
    return str(place) if place is not None else ""


def _print_json(modules: list[dict[str, Any]]) -> None:
    """One module's facts and computations, or a list of such documents for several."""
    content = modules[0] if len(modules) == 1 else {"modules": modules}
    console.write_json("show", **content)


def _shown_as_json(
    facts: dict[str, Any], chosen: list[Computation], wanted: set[str]
) -> dict[str, Any]:
    return {
        "module": facts,
        "computations": [
            {
                "name": computation.name,
                "entry": computation.is_entry,
                "instructions": [
                    _as_json(view) for view in computation if not wanted or view.opcode in wanted
                ],
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
        "op_name": view.metadata.op_name,
        "source": _source(view),
    }
