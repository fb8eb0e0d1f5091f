"""``nki-hlo kernels``: the kernels that modules call."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.inputs import module_files, open_outline
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.errors import CodedError, HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.kernel_calls.description import cost_of, work_of
from hlo_tools.kernels.backend_config import BackendConfig, decode
from hlo_tools.kernels.calls import resolve
from hlo_tools.kernels.embedded import EMBEDDED
from hlo_tools.kernels.location import locate
from nki_lang.ir import KernelIR

__all__ = ["command"]

FINE, UNUSABLE = 0, 3


def command(
    paths: Annotated[list[str], typer.Argument(help="Modules, folders of modules, or -.")],
    ir: Annotated[bool, typer.Option("--ir/--no-ir", help="Print each kernel's IR.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost/--no-cost", help="Estimate what each kernel costs, by line.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Show every kernel call: decoded backend_config, operands, results, and what it costs.

    Costs are estimated by the timing model of nki-neff time, alike instructions in one row.

    A kernel file that is missing or damaged is reported after everything else (exit code 3).

    Example: nki-hlo kernels hlo_artifacts/ --no-cost
    """
    calls: list[dict[str, Any]] = []
    problems: list[HloError] = []
    for file in [file for path in paths for file in module_files(path)]:
        module = _with_calls(open_outline(file))
        for view in module.find_custom_calls():
            calls.append(_describe(module, view, ir, cost, problems))
    if as_json:
        console.write_json("kernels", calls=calls)
    else:
        _print(calls)
    if not problems:
        return FINE
    for problem in problems[:-1]:
        console.note(f"error[{problem.code}] {problem.place}: {problem.message}")
    raise problems[-1]


def _with_calls(outline: ModuleOutline) -> Module:
    """The part of a module that has its kernel calls and their operands."""
    first, operands = outline.operands
    rows = [call.row for call in outline.custom_calls(KERNEL_TARGET)]
    needed = [operand for row in rows for operand in operands[first[row] : first[row + 1]].tolist()]
    return outline.part([*rows, *(operand for operand in needed if operand >= 0)])


def _describe(
    module: Module, view: Instruction, with_ir: bool, with_cost: bool, problems: list[HloError]
) -> dict[str, Any]:
    """One call as plain data; what is wrong with it goes to ``problems`` as well."""
    fields: dict[str, Any] = {
        "module": module.path,
        "instruction": view.name,
        "source": str(view.source) if view.source else "",
    }
    try:
        config = decode(view.backend_config)
        fields |= _configuration(config, view)
        root = module.folder or Path.cwd()
        fields["binary"] = str(locate(config, root))
        kernel = resolve(view.backend_config, root).kernel
        fields["work"] = asdict(work_of(kernel))
        fields["target"], fields["cores"] = kernel.target, kernel.lnc
        if with_ir:
            fields["ir"] = str(kernel)
        if with_cost:
            fields["cost"] = _cost(kernel)
    except HloError as error:
        location = f"{module.path}:%{view.name}"
        where = f"{location}: {error.place}" if error.place else location
        problems.append(
            type(error)(error.message, code=error.code, place=where, remedy=error.remedy)
        )
        fields["error"] = {"code": error.code, "place": error.place, "message": error.message}
    return fields


def _cost(kernel: KernelIR) -> dict[str, Any]:
    """The estimate of one launch; what the compiler does not take has its error in its place."""
    try:
        return cost_of(kernel)
    except CodedError as error:
        return {"error": {"code": error.code, "message": error.message}}


def _configuration(config: BackendConfig, view: Instruction) -> dict[str, Any]:
    shape = view.shape
    results = shape.tuple_shapes if shape.is_tuple else (shape,)
    return {
        "kernel": config.func_name,
        "grid": list(config.grid),
        "has_collectives": config.has_collectives,
        "kernel_version": config.kernel_version,
        "binary": config.binary,
        "embedded": EMBEDDED in config.extra_binary,
        "operands": _named(config.input_names, [(o.name, o.shape) for o in view.operands]),
        "results": _named(config.output_names, [("", result) for result in results]),
        "aliases": [
            {"operand": alias.operand_index, "result": list(alias.output_shape_index)}
            for alias in view.proto.output_operand_aliasing
        ],
    }


def _named(names: Any, values: list[tuple[str, Any]]) -> list[dict[str, str]]:
    """The kernel's names beside the instruction's operands or results; "?" where one lacks."""
    count = max(len(names), len(values))
    return [
        {
            "name": names[i] if i < len(names) else "?",
            "instruction": values[i][0] if i < len(values) else "?",
            "shape": str(values[i][1]) if i < len(values) else "?",
        }
        for i in range(count)
    ]


def _print(calls: list[dict[str, Any]]) -> None:
    if not calls:
        console.line("no kernel calls")
    for number, call in enumerate(calls):
        if number:
            console.line()
        _print_call(call)


def _print_call(call: dict[str, Any]) -> None:
    console.line(f"kernel      {call.get('kernel', '?')}")
    console.line(f"call        %{call['instruction']} in {call['module']}")
    if call["source"]:
        console.line(f"source      {call['source']}")
    if "grid" in call:
        console.line(f"grid        {call['grid'] or 'none'}")
        where = " (embedded)" if call["embedded"] else ""
        console.line(f"binary      {call['binary']}{where}")
        console.line(f"version     {call['kernel_version']}")
        console.line(f"collectives {'yes' if call['has_collectives'] else 'no'}")
        rows = [("operand", o["name"], o["shape"], o["instruction"]) for o in call["operands"]]
        rows += [("result", r["name"], r["shape"], "") for r in call["results"]]
        console.table(("", "kernel's name", "shape", "instruction"), rows, indent="  ")
    if "work" in call:
        work = {key: "unknown" if n is None else f"{n:,}" for key, n in call["work"].items()}
        console.line(f"MACs        {work['macs']}")
        console.line(f"HBM bytes   {work['bytes_read']} read, {work['bytes_written']} written")
    if "cost" in call:
        _print_cost(call["cost"])
    if "error" in call:
        console.line(f"error       [{call['error']['code']}] {call['error']['message']}")
    if "ir" in call:
        console.line()
        console.line("\n".join("  " + text for text in call["ir"].splitlines()))


def _print_cost(cost: dict[str, Any]) -> None:
    if "error" in cost:
        console.line(f"cost        unknown: [{cost['error']['code']}] {cost['error']['message']}")
        return
    low, high = f"{cost['low_us']:,.1f}", f"{cost['high_us']:,.1f}"
    share = f"{cost['measured_share']:.0%} of it from measured costs"
    console.line(f"cost        {cost['total_us']:,.1f} µs ({low}–{high}), {share} (estimated)")
    rows = [
        (line["line"], line["engine"], line["opcode"], line["count"], f"{line['self_us']:,.1f}")
        for line in cost["lines"]
    ]
    console.table(("line", "engine", "opcode", "count", "µs"), rows, indent="  ")
