"""``nki-hlo opt``: run passes on modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import load_input, open_module
from hlo_tools.cli.shared.outputs import came_as_text, format_of, write_module, write_text
from hlo_tools.cli.shared.progress import step
from hlo_tools.cli.shared.rewriting import kernel_names, name_new_kernels
from hlo_tools.ir import formats
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import Prover
from hlo_tools.passes import Pipeline, Report, join_modules, split_modules

__all__ = ["command"]


Passes = Annotated[
    str | None,
    typer.Option(
        "--passes",
        "-p",
        help="Passes, as in dce,cse,'auto-cast{type=bf16}' or FILE.py:CLASS.",
        autocompletion=completion.pipelines,
    ),
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Output file: .hlo or .txt, .pb, .json, .pbtxt; or -.")
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="Format, whatever the output's name; - is the input's format.",
        autocompletion=completion.words(*formats.FORMATS),
        metavar="FORMAT",
    ),
]
Tolerance = Annotated[
    float, typer.Option(help="Largest difference for --prove, relative to the largest value.")
]


VerifyEach = Annotated[
    bool, typer.Option("--verify-each", help="Verify before the first and after every pass.")
]
TimePasses = Annotated[
    bool, typer.Option("--time-passes", help="Print each pass's time to stderr.")
]
PrintBetween = Annotated[
    bool, typer.Option("--print-between", help="Print the text after each pass to stderr.")
]
Proving = Annotated[
    bool,
    typer.Option("--prove", help="Compare results on random inputs after every pass."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Report each pass as one JSON document; requires -o.")
]
Force = Annotated[bool, typer.Option("--force", help="Write binary data to a terminal too.")]
Listing = Annotated[
    bool,
    typer.Option("--list", help="List all passes; with -p describe those, with their options."),
]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")] = "",
    passes: Passes = None,
    output: Output = "-",
    to: To = None,
    verify_each: VerifyEach = False,
    time_passes: TimePasses = False,
    print_between: PrintBetween = False,
    proving: Proving = False,
    tolerance: Tolerance = 1e-3,
    as_json: AsJson = False,
    force: Force = False,
    listing: Listing = False,
) -> int:
    """Run passes on a module, in order; --list shows which there are.

    Text may contain several modules separated by lines // -----; each is rewritten by itself.
    With {} in the output's name for their number, each is written to its own file, else all to one.

    Example: nki-hlo opt -p dce,cse model.hlo_module.pb -o smaller.pb
    Example: nki-hlo opt -p 'cse,auto-cast{type=bf16}' model.pb -o cast.pb --prove --tolerance 0.1
    Example: nki-hlo opt -p 'dce,passes.py:Doubling' model.pb -o doubled.pb --prove
    Example: nki-hlo opt --list -p auto-cast
    """
    if listing:
        from hlo_tools.cli.pass_list import list_passes

        return list_passes([name for name in (passes or "").split(",") if name], as_json=as_json)
    if not file or passes is None:
        missing = "argument FILE" if not file else "option --passes"
        raise typer.BadParameter(f"missing {missing}; --list shows the passes")
    if as_json and output == "-":
        raise typer.BadParameter("--json writes to stdout; write the module to a file with -o")
    if to is not None and to not in formats.FORMATS:
        raise typer.BadParameter(f"{to!r} is not one of {', '.join(formats.FORMATS)}")
    pipeline = Pipeline.parse(passes)
    modules = _modules(file)
    form = _form(output, modules, to)
    reports: list[Report] = []
    for module in modules:
        named = kernel_names(module)
        report = pipeline.run(
            module,
            verify_each=verify_each,
            time_passes=time_passes or as_json,
            print_between=_to_stderr if print_between else None,
            check=_comparison(module, tolerance) if proving else None,
            on_pass=lambda text, number: step(text, number, len(pipeline.passes)),
        )
        reports.append(report)
        name_new_kernels(module, named, output)
    _write(modules, form, output, force)
    _report(modules, reports, proved=proving, times=time_passes)
    if as_json:
        rows = [_as_json(*pair) for pair in zip(modules, reports, strict=True)]
        console.write_json("opt", passes=str(pipeline), modules=rows)
    return 0


def _comparison(module: Module, tolerance: float) -> Callable[[Module], None]:
    """A function that compares a rewritten module with its current state."""
    prover = Prover(module, tolerance=tolerance, root=module.folder or Path.cwd())

    def compare(rewritten: Module) -> None:
        proof = prover.compare(rewritten)
        console.note(
            f"equal on {proof.runs} random inputs (largest difference {proof.difference:.1e})",
            verbose=True,
        )

    return compare


def _modules(file: str) -> list[Module]:
    """The modules of a file: several only where text contains separators."""
    if file == "-":
        data = sys.stdin.buffer.read()
        texts = _separated(data)
        return [load_input(data)] if texts is None else [_parsed(text, "<stdin>") for text in texts]
    path = Path(file)
    small = path.is_file() and path.stat().st_size < 1 << 30
    texts = _separated(path.read_bytes()) if small else None
    return [open_module(file)] if texts is None else [_parsed(text, file) for text in texts]


def _separated(data: bytes) -> list[str] | None:
    """Texts between separators; None when there are none."""
    if b"// -----" not in data:
        return None
    try:
        texts = split_modules(data.decode())
    except UnicodeDecodeError:
        return None
    return texts or None


def _parsed(text: str, location: str) -> Module:
    from hlo_tools.text import parse_configured

    proto, configuration = parse_configured(text, name=location)
    module = Module(proto, path=location)
    module.configuration = configuration
    return module


def _form(output: str, modules: list[Module], to: str | None) -> str | None:
    """The format that the output's name selects; standard output gets what came in."""
    several = len(modules) > 1
    form = to or format_of(output, text=several or came_as_text(modules[0]))
    if several and form != "text" and "{}" not in output:
        raise typer.BadParameter(
            f"{len(modules)} modules cannot be written to one {output}; write text (.hlo), or put {{}} "
            "into the name for their number"
        )
    return form


def _write(modules: list[Module], form: str | None, output: str, force: bool) -> None:
    if "{}" in output:
        for number, module in enumerate(modules):
            write_module(module, output.replace("{}", str(number)), form)
    elif len(modules) > 1:
        texts = [formats.render(module, "text").decode() for module in modules]
        write_text(join_modules(texts), output)
    else:
        write_module(modules[0], output, form, force=force)


def _to_stderr(text: str) -> None:
    sys.stderr.write(text.rstrip("\n") + "\n\n")


def _report(modules: list[Module], reports: list[Report], *, proved: bool, times: bool) -> None:
    """Notes on what the passes did."""
    if proved:
        changed = sum(step.modified for report in reports for step in report.steps)
        passes = console.counted(changed, "pass that changed", "passes that changed")
        console.note(f"results on random inputs are unchanged after {passes} something")
    if times:
        _report_times(reports)
    for module, report in zip(modules, reports, strict=True):
        console.note(f"{module.name}: {_summary(report)}", verbose=True)


def _summary(report: Report) -> str:
    if not report.steps:
        return "no passes"
    first, last = report.steps[0].before, report.steps[-1].after
    changed = [step.text for step in report.steps if step.modified]
    return f"{console.counted(first, 'instruction')}, now {last}; changed by {', '.join(changed) or 'no pass'}"


def _report_times(reports: list[Report]) -> None:
    for report in reports:
        for pass_step in report.steps:
            did = "nothing"
            if pass_step.modified:
                did = f"{pass_step.before} -> {pass_step.after} instructions"
            console.note(f"{pass_step.seconds * 1000:10.2f} ms  {pass_step.text}: {did}")


def _as_json(module: Module, report: Report) -> dict[str, object]:
    steps = [
        {
            "pass": step.text,
            "modified": step.modified,
            "instructions_before": step.before,
            "instructions_after": step.after,
            "seconds": round(step.seconds, 6),
        }
        for step in report.steps
    ]
    return {"module": module.name, "modified": report.modified, "steps": steps}
