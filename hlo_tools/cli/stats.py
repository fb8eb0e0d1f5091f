"""``nki-hlo stats``: what modules cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.inputs import module_files, open_module, open_outline
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.selection import module_target
from hlo_tools.cli.shared.targets import TargetName, target_for
from hlo_tools.stats import Statistics, statistics

__all__ = ["command"]

_TOTAL_FIELDS = (
    ("instructions", "instructions"),
    ("FLOPs", "flops"),
    ("transcendentals", "transcendentals"),
    ("bytes moved", "bytes"),
    ("FLOPs a byte", "intensity"),
    ("constants", "constants"),
    ("constant bytes", "constant_bytes"),
    ("parameter bytes", "parameter_bytes"),
    ("result bytes", "result_bytes"),
)
MAX_LAYER_DEPTH = 32
"""Levels of --layers."""
_COSTS = ("FLOPs", "transcendentals", "bytes")


def command(
    files: Annotated[
        list[str],
        typer.Argument(help="A module, two to compare, a folder of modules, or - for stdin."),
    ],
    by_computation: Annotated[
        bool, typer.Option("--computations", "-c", help="List each computation too.")
    ] = False,
    with_memory: Annotated[
        bool, typer.Option("--memory", "-m", help="Peak memory and what it consists of.")
    ] = False,
    with_roofline: Annotated[
        bool, typer.Option("--roofline", "-r", help="The least time on a core, and what bounds it.")
    ] = False,
    with_layers: Annotated[
        bool,
        typer.Option("--layers", "-l", help="Costs by layer: the model's scopes as a tree."),
    ] = False,
    depth: Annotated[int, typer.Option(min=1, max=MAX_LAYER_DEPTH, help="Levels of --layers.")] = 3,
    target: TargetName = "",
    top: Annotated[int, typer.Option(min=1, help="Rows of each table about one module.")] = 20,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Memory and roofline as a page, FILE.html.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Count operations, FLOPs, bytes, constants and kernels of a module, or of two side by side.

    A folder with several modules, or more than two modules, is one row each.

    Counted as XLA's cost analysis does: an operation on an element is one FLOP, a multiply-add
    two; bytes are operands and results of each instruction by itself. Loops count as often as they
    are known to run. What a kernel computes is not counted.

    --memory follows the module's schedule, or an order with operands first, and adds up what is
    alive; where XLA dumped its buffer assignment beside the module, both are compared. --roofline
    lets every instruction run by itself at the peak rates of one core. --layers adds both up by the
    model's scopes; backward and recomputed work counts for its layer.

    Example: nki-hlo stats before.pb after.pb

    Example: nki-hlo stats --memory --roofline --target trn2 before.pb -o costs.html

    Example: nki-hlo stats --layers --depth 2 before.pb
    """
    if with_layers and (with_memory or with_roofline or output):
        raise typer.BadParameter("--layers has memory and roofline in its columns; use it alone")
    if with_layers:
        return _layers(files, target, depth, top, as_json)
    if with_memory or with_roofline or output:
        return _costs(files, with_memory, with_roofline, target, top, output, as_json)
    compared = len(files) == 2
    files = files if compared else [path for name in files for path in module_files(name)]
    all_statistics = [_statistics(name) for name in files]
    if as_json:
        rows = [
            _as_json(name, module_statistics)
            for name, module_statistics in zip(files, all_statistics, strict=True)
        ]
        console.write_json("stats", modules=rows)
        return 0
    if len(all_statistics) > 1 and not compared:
        _print_rows(all_statistics)
    else:
        _print_totals(files, all_statistics)
        _print_opcodes(all_statistics)
        _print_kernels(all_statistics)
    if by_computation:
        _print_computations(all_statistics)
    _note_unknown_loops(files, all_statistics)
    return 0


def _note_unknown_loops(files: list[str], all_statistics: list[Statistics]) -> None:
    for name, module_statistics in zip(files, all_statistics, strict=True):
        if module_statistics.unknown_loops:
            loops = console.counted(module_statistics.unknown_loops, "loop counts", "loops count")
            console.note(f"{name}: {loops} counted as one iteration")


def _costs(
    names: list[str],
    with_memory: bool,
    with_roofline: bool,
    target: str,
    top: int,
    output: str,
    as_json: bool,
) -> int:
    """Memory and roofline of each module."""
    from hlo_tools.cli import stats_report as report
    from hlo_tools.stats.buffer_assignment import allocated_beside
    from hlo_tools.stats.memory import memory
    from hlo_tools.stats.page import render_page
    from hlo_tools.stats.roofline import roofline

    files = [path for name in names for path in module_files(name)]
    _check_output(output, files)
    reports_all = not (with_memory or with_roofline)
    documents: list[dict[str, object]] = []
    for file in files:
        module = open_module(file, to_inspect=True)
        needed = memory(module) if with_memory or reports_all else None
        allocated = allocated_beside(module.path) if needed and module.path else None
        least = None
        if with_roofline or reports_all:
            least = roofline(module, target_for(target, module.folder).target.name)
        if output:
            page = render_page(module.name, needed, least)
            console.write_binary(page.encode(), output)
        document: dict[str, object] = {"file": file, "name": module.name}
        if needed is not None:
            document["memory"] = report.memory_json(needed, allocated)
        if least is not None:
            document["roofline"] = report.roofline_json(least)
        documents.append(document)
        if as_json or output:
            continue
        console.line(f"module           {module.name}")
        if needed is not None:
            report.print_memory(needed, allocated, top)
        if least is not None:
            report.print_roofline(least, top)
    if as_json:
        console.write_json("stats", modules=documents)
    return 0


def _layers(names: list[str], target: str, depth: int, top: int, as_json: bool) -> int:
    """The tree of scopes of each module."""
    from hlo_tools.cli.stats_layers import layer_json, print_layers
    from hlo_tools.stats.layers import layers

    documents: list[dict[str, object]] = []
    for file in [path for name in names for path in module_files(name)]:
        module = open_module(file, to_inspect=True)
        chosen_target = target_for(target, module.folder).target.name
        root = layers(module, chosen_target, depth=depth)
        documents.append(
            {"file": file, "name": module.name, "target": chosen_target, "layers": layer_json(root)}
        )
        if not as_json:
            console.line(f"module           {module.name}")
            console.line(f"target           one core of {chosen_target}")
            print_layers(root, top)
    if as_json:
        console.write_json("stats", modules=documents)
    return 0


def _check_output(output: str, files: list[str]) -> None:
    if output and not output.endswith((".html", ".htm")):
        raise typer.BadParameter(f"{output} does not end in .html: the page is the only format")
    if output and len(files) != 1:
        raise typer.BadParameter(f"-o is one page of one module; {len(files)} were given")


def _statistics(name: str) -> Statistics:
    """From the overview; only loops of unknown length need the module's messages."""
    outline = open_outline(name)
    counted = statistics(outline)
    if not counted.unknown_loops:
        return counted
    return statistics(outline.part(range(outline.instruction_count)))


def _print_totals(files: list[str], all_statistics: list[Statistics]) -> None:
    if len(all_statistics) == 1:
        module_statistics = all_statistics[0]
        target = module_target(files[0])
        rows = [
            ("module", module_statistics.name),
            ("file", "<stdin>" if files[0] == "-" else files[0]),
            *([("target", target)] if target else []),
            *(
                (title, _number(getattr(module_statistics, field)))
                for title, field in _TOTAL_FIELDS
            ),
        ]
        console.fields(rows, 16)
        return
    totals: list[tuple[object, ...]] = []
    for title, field in _TOTAL_FIELDS:
        values = [getattr(module_statistics, field) for module_statistics in all_statistics]
        totals.append((title, *map(_number, values), _change(*values)))
    console.table(("", *files, "change"), totals)


def _print_rows(all_statistics: list[Statistics]) -> None:
    """Several modules: one row each."""
    columns = ("module", "instructions", "kernels", *_COSTS, "constant bytes")
    rows = [
        (module_statistics.name, module_statistics.instructions, sum(kernel.calls for kernel in module_statistics.kernels),
         *map(_number, (module_statistics.flops, module_statistics.transcendentals, module_statistics.bytes, module_statistics.constant_bytes)))
        for module_statistics in all_statistics
    ]  # fmt: skip
    console.table(columns, rows)


def _print_opcodes(all_statistics: list[Statistics]) -> None:
    console.line()
    if len(all_statistics) == 1:
        costs = [
            (o.opcode, o.count, *map(_number, (o.flops, o.transcendentals, o.bytes)))
            for o in all_statistics[0].opcodes
        ]
        console.table(("opcode", "count", *_COSTS), costs)
        return
    tables = [
        {o.opcode: o for o in module_statistics.opcodes} for module_statistics in all_statistics
    ]
    rows: list[tuple[object, ...]] = []
    for opcode in dict.fromkeys(name for table in tables for name in table):
        pair = [table.get(opcode) for table in tables]
        counts = [o.count if o else 0 for o in pair]
        flops = [_number(o.flops) if o else "-" for o in pair]
        moved = [_number(o.bytes) if o else "-" for o in pair]
        rows.append((opcode, *counts, _change(*counts), *flops, *moved))
    header = ("opcode", "count", "count", "change", "FLOPs", "FLOPs", "bytes", "bytes")
    console.table(header, rows)


def _print_kernels(all_statistics: list[Statistics]) -> None:
    for position, module_statistics in enumerate(all_statistics):
        if module_statistics.kernels:
            console.line()
            rows = [
                (
                    kernel.name,
                    "x".join(map(str, kernel.grid)) or "-",
                    kernel.calls,
                    _number(kernel.bytes),
                    "-" if kernel.macs is None else _number(kernel.macs),
                )
                for kernel in module_statistics.kernels
            ]
            title = (
                "kernel"
                if len(all_statistics) == 1
                else f"kernel ({'first' if not position else 'second'})"
            )
            console.table((title, "grid", "calls", "bytes", "MACs a call"), rows)


def _print_computations(all_statistics: list[Statistics]) -> None:
    for module_statistics in all_statistics:
        console.line()
        rows = [
            (
                f"%{c.name}",
                c.instructions,
                c.runs,
                *map(_number, (c.flops, c.transcendentals, c.bytes)),
            )
            for c in module_statistics.computations
        ]
        console.table(("computation", "instructions", "runs", *_COSTS), rows)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


_FAR = 10**12
"""Times; a change is not told in percent beyond."""


def _change(before: float, after: float) -> str:
    if before == after:
        return "-"
    if not before or abs(after) > _FAR * abs(before):
        return f"+{_number(after)}"
    return f"{(after - before) / before:+.1%}"


def _as_json(name: str, module_statistics: Statistics) -> dict[str, object]:
    return {"file": name, **asdict(module_statistics), "intensity": module_statistics.intensity}
