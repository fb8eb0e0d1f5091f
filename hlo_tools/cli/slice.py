"""``nki-hlo slice``: a part of a module as a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.outputs import format_of, write_module
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.slicing import (
    Slice,
    extract_slice,
    find_targets,
    grow,
    parse_source,
    select_scope,
    select_source,
)

__all__ = ["command"]


Names = Annotated[
    list[str] | None,
    typer.Option(
        "--instruction",
        "-i",
        help="NAME or COMPUTATION/NAME; may be repeated.",
        autocompletion=completion.instructions,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--computation",
        "-c",
        help="The computation that --source and --scope search.",
        autocompletion=completion.computations,
    ),
]
Scope = Annotated[
    str,
    typer.Option(
        "--scope",
        help="Instructions of a scope, forward and backward, as in layer3.",
        metavar="NAME",
    ),
]
Operands = Annotated[
    str,
    typer.Option(
        "--operands",
        help="Levels towards operands, or all. Default: all of -i, none of --source and --scope.",
        metavar="N",
    ),
]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    instruction: Names = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", "-s", help="Instructions from FILE, FILE:LINE or FILE:FIRST-LAST."
        ),
    ] = None,
    scope: Scope = "",
    computation: Where = None,
    operands: Operands = "",
    users: Annotated[int, typer.Option("--users", min=0, help="Levels towards users.")] = 0,
    constants: Annotated[
        bool,
        typer.Option("--constants/--no-constants", help="Include the constants that are used."),
    ] = True,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output file: .hlo or .txt, .pb, .json; or -.")
    ] = "-",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Report inputs and outputs as one JSON document; requires -o."),
    ] = False,
) -> int:
    """Extract part of a module as a module that runs.

    Values that the part uses and does not contain become parameters with the same names; what
    nothing in it uses is the result. Names, ids and source lines are kept. Standard output is text.

    Example: nki-hlo slice model.pb -i dot.3 --operands 2 -o part.pb
    Example: nki-hlo slice model.pb --scope layer3 -o layer3.pb
    """
    if as_json and output == "-":
        raise typer.BadParameter("--json writes to stdout; write the module to a file with -o")
    module = open_module(file)
    targets = _targets(module, instruction or [], source, scope, computation)
    selection = grow(targets, operands=_depth(operands, bool(instruction)), users=users)
    extracted = extract_slice(
        selection, targets=targets if instruction else (), constants=constants
    )
    write_module(extracted.module, output, format_of(output, text=True) or "proto")
    _print_slice(extracted, len(list(extracted.module.instructions)))
    if as_json:
        console.write_json(
            "slice",
            file=output,
            instructions=len(list(extracted.module.instructions)),
            inputs=[{"name": v.name, "shape": str(v.shape)} for v in extracted.inputs],
            outputs=[{"name": v.name, "shape": str(v.shape)} for v in extracted.outputs],
        )
    return 0


def _targets(
    module: Module, names: list[str], source: str | None, scope: str, computation: str | None
) -> list[Instruction]:
    if sum(map(bool, (names, source, scope))) != 1:
        raise typer.BadParameter(
            "select what to extract with -i NAME, --source FILE:LINE or --scope NAME, one of them"
        )
    if names:
        return find_targets(module, names)
    where = module.computation(computation) if computation else None
    if scope:
        return select_scope(module, scope, where)
    return select_source(module, parse_source(source or ""), where)


def _depth(text: str, by_name: bool) -> int | None:
    """Levels towards operands; None is all."""
    if not text:
        return None if by_name else 0
    if text == "all":
        return None
    if not text.isdigit():
        raise typer.BadParameter(f"--operands is a number or all, not {text!r}")
    return int(text)


def _print_slice(extracted: Slice, count: int) -> None:
    inputs = ", ".join(f"%{view.name}" for view in extracted.inputs) or "nothing"
    outputs = ", ".join(f"%{view.name}" for view in extracted.outputs)
    console.note(f"{console.counted(count, 'instruction')}: {inputs} -> {outputs}")
