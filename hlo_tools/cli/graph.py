"""``nki-hlo graph``: a module as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.targets import TargetName, target_for
from hlo_tools.graph import Graph, graph_of, render_dot, render_explorer, render_page, render_svg
from hlo_tools.graph.dot import draw_with_dot

__all__ = ["command"]

_FORMATS: dict[str, Callable[[Graph], str]] = {
    "html": render_page,
    "svg": render_svg,
    "dot": render_dot,
    "explorer": render_explorer,
}
_BY_SUFFIX = {".html": "html", ".htm": "html", ".svg": "svg", ".dot": "dot", ".gv": "dot", ".json": "explorer"}  # fmt: skip
_LAYOUTS = ("own", "dot")


Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="html, svg, dot, explorer; else by -o's name.",
        metavar="FORMAT",
        autocompletion=completion.words(*_FORMATS),
    ),
]
Computation = Annotated[
    list[str] | None,
    typer.Option(
        "--computation",
        "-c",
        help="Only this computation; may be repeated.",
        autocompletion=completion.computations,
    ),
]
Layout = Annotated[
    str,
    typer.Option(
        "--layout",
        help="Layout of SVG: own, or dot (Graphviz).",
        autocompletion=completion.words(*_LAYOUTS),
    ),
]
Cost = Annotated[
    bool,
    typer.Option("--cost/--no-cost", help="The page shows costs, and kernels' lines and IR."),
]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    format: Format = "",
    computation: Computation = None,
    layout: Layout = "own",
    target: TargetName = "",
    cost: Cost = True,
    output: Annotated[str, typer.Option("--output", "-o", help="Output file, or -.")] = "-",
) -> int:
    """Draw a module: a page for a browser, SVG, Graphviz's dot, or Model Explorer's JSON.

    The page is one file and needs no network: search, folding by computation and by scope, shapes,
    source lines, what instructions cost at least on the target, and kernels' details and IR.

    Example: nki-hlo graph model.pb -o model.html
    """
    form = format or ("dot" if output == "-" else _BY_SUFFIX.get(Path(output).suffix.lower(), ""))
    if not form:
        raise typer.BadParameter(
            f"{output} does not determine the format; end it in {', '.join(_BY_SUFFIX)}, or give --format"
        )
    if form not in _FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(_FORMATS)}")
    if layout not in _LAYOUTS:
        raise typer.BadParameter(f"{layout!r} is not one of {', '.join(_LAYOUTS)}")
    module = open_module(file, to_inspect=True)
    counted = form == "html" and cost
    on = target_for(target, module.folder).target.name if counted else ""
    graph = graph_of(module, computation or (), target=on)
    render = draw_with_dot if form == "svg" and layout == "dot" else _FORMATS[form]
    text = render(graph)
    if output == "-":
        console.line(text.rstrip("\n"))
    else:
        console.write_binary(text.encode(), output)
        console.note(f"{output}: {console.counted(len(graph.nodes), 'instruction')}", verbose=True)
    return 0
