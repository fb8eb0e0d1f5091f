"""``nki-hlo opt``: run passes on modules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools import converting
from hlo_tools.cli import console
from hlo_tools.cli.inputs import read_input
from hlo_tools.loading import load
from hlo_tools.module import Module
from hlo_tools.passes import Pipeline, Report, join_modules, split_modules

__all__ = ["command"]

_FORMS = {".hlo": "text", ".txt": "text", ".json": "json", ".pbtxt": "pbtxt", ".pb": "proto"}


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    passes: Annotated[
        str, typer.Option("--passes", "-p", help="Passes, as in dce,cse,'auto-cast{type=bf16}'.")
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Where to: .hlo or .txt, .pb, .json, .pbtxt; or -."),
    ] = "-",
    verify_each: Annotated[
        bool, typer.Option("--verify-each", help="Verify before the first and after every pass.")
    ] = False,
    time_passes: Annotated[
        bool, typer.Option("--time-passes", help="What each pass took, on stderr.")
    ] = False,
    print_between: Annotated[
        bool, typer.Option("--print-between", help="The text after each pass, on stderr.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="What each pass did as one JSON document; needs -o.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Binary data on a terminal too.")] = False,
) -> int:
    """Run passes on a module, in order; nki-hlo passes lists them.

    Text may hold several modules between lines // -----; each is rewritten by itself. With a
    number in the output's name as {}, each goes into a file of its own, else all into one text.

    Example: nki-hlo opt -p dce,cse model.hlo_module.pb -o smaller.pb
    """
    if as_json and output == "-":
        raise typer.BadParameter("--json writes to stdout; give the module a place with -o")
    pipeline = Pipeline.parse(passes)
    modules = _modules(file)
    form = _form(output, modules)
    reports = [
        pipeline.run(
            module,
            verify_each=verify_each,
            time_passes=time_passes or as_json,
            print_between=_to_stderr if print_between else None,
        )
        for module in modules
    ]
    _write(modules, form, output, force)
    if time_passes:
        _tell_times(reports)
    for module, report in zip(modules, reports, strict=True):
        console.note(f"{module.name}: {_summary(report)}", verbose=True)
    if as_json:
        rows = [_as_json(*pair) for pair in zip(modules, reports, strict=True)]
        console.write_json("opt", passes=str(pipeline), modules=rows)
    return 0


def _modules(file: str) -> list[Module]:
    """The modules of a file: several only where text holds separators."""
    data = read_input(file) if file == "-" else _bytes_of(file)
    place = "<stdin>" if file == "-" else file
    texts = _separated(data) if isinstance(data, bytes) else None
    if texts is None:
        module = load(data)
        module.path = module.path or place
        return [module]
    return [_parsed(text, place) for text in texts]


def _bytes_of(file: str) -> bytes | str:
    """Small files as bytes, to look for separators; what else there is, is the loader's matter."""
    path = Path(file)
    return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 30 else file


def _separated(data: bytes) -> list[str] | None:
    """Texts between separators; None when there are none."""
    if b"// -----" not in data:
        return None
    try:
        texts = split_modules(data.decode())
    except UnicodeDecodeError:
        return None
    return texts or None


def _parsed(text: str, place: str) -> Module:
    from hlo_tools.text import parse

    return Module(parse(text, name=place), path=place)


def _form(output: str, modules: list[Module]) -> str | None:
    """The format that the output's name asks for; standard output gets what came in."""
    if output == "-":
        return "text" if len(modules) > 1 or _is_text(modules[0]) else None
    suffixes = [suffix for suffix in Path(output).suffixes if suffix not in (".gz", ".zst")]
    form = _FORMS.get(suffixes[-1]) if suffixes else None
    if len(modules) > 1 and form != "text" and "{}" not in output:
        raise typer.BadParameter(
            f"{len(modules)} modules do not go into one {output}; write text (.hlo), or put {{}} "
            "into the name for their number"
        )
    return form


def _is_text(module: Module) -> bool:
    return module.is_changed and module.envelope is None


def _write(modules: list[Module], form: str | None, output: str, force: bool) -> None:
    if "{}" in output:
        for number, module in enumerate(modules):
            console.write_binary(_render(module, form), output.replace("{}", str(number)))
    elif len(modules) > 1:
        texts = [_render(module, "text").decode() for module in modules]
        _write_text(join_modules(texts), output)
    elif form == "text":
        _write_text(_render(modules[0], form).decode(), output)
    elif form is None and output != "-":
        modules[0].save(output)
    else:
        console.write_binary(_render(modules[0], form), output, force=force)


def _write_text(text: str, output: str) -> None:
    if output == "-":
        sys.stdout.write(text.rstrip("\n") + "\n")
        return
    console.write_binary((text.rstrip("\n") + "\n").encode(), output)


def _render(module: Module, form: str | None) -> bytes:
    return module.to_bytes() if form is None else converting.render(module, form)


def _to_stderr(text: str) -> None:
    sys.stderr.write(text.rstrip("\n") + "\n\n")


def _summary(report: Report) -> str:
    if not report.steps:
        return "no passes"
    first, last = report.steps[0].before, report.steps[-1].after
    changed = [step.text for step in report.steps if step.modified]
    return f"{first} instructions, now {last}; changed by {', '.join(changed) or 'no pass'}"


def _tell_times(reports: list[Report]) -> None:
    for report in reports:
        for step in report.steps:
            did = f"{step.before} -> {step.after} instructions" if step.modified else "nothing"
            console.note(f"{step.seconds * 1000:10.2f} ms  {step.text}: {did}")


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
