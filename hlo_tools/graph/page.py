"""A graph as one HTML page: data, style and program in it, nothing fetched."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from hlo_tools.graph.blocks import blocks_of
from hlo_tools.graph.colors import COLORS, kind_of
from hlo_tools.graph.model import Graph, Pairs

__all__ = ["page_data", "render_page"]

_PROGRAM = ("layout.js", "viewer.js", "panel.js")


def render_page(graph: Graph) -> str:
    """A page of HTML that shows the graph and needs no network."""
    folder = files("hlo_tools.graph")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    program = "\n".join((folder / name).read_text(encoding="utf-8") for name in _PROGRAM)
    data = json.dumps(page_data(graph), ensure_ascii=False, separators=(",", ":"))
    # Data stands in a script element: nothing in it may end that element.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return page.replace("/*PROGRAM*/", program).replace("/*DATA*/", data)


def page_data(graph: Graph) -> dict[str, Any]:
    """Return the data that the page's program reads.

    ``strings`` has every text once; nodes name texts by number. A node is [name, opcode, shape,
    kind, scope, source, root, operands, calls, opcode, attributes, sheet]. A list of pairs alternates
    key and text; ``sheets`` has each different [kernel, costs, listings] once, of such pairs. A scope
    is a number in ``scopes``: [parent scope or -1, text, computation, whether it is a block].
    """
    strings = _Numbers()
    scopes = _Numbers()
    kinds = list(COLORS)
    nodes: list[list[Any]] = []
    sheets = _Numbers()

    def numbers(pairs: Pairs) -> tuple[int, ...]:
        return tuple([strings[text] for pair in pairs for text in pair])

    for node, block in zip(graph.nodes, blocks_of(graph), strict=True):
        scope = -1
        for depth, scope_name in enumerate(block + node.scope):
            scope = scopes[(scope, strings[scope_name], node.computation, int(depth < len(block)))]
        nodes.append(
            [
                strings[node.name],
                strings[node.title],
                strings[node.shape],
                kinds.index(kind_of(node.opcode, bool(node.kernel))),
                scope,
                strings[node.source],
                int(node.is_root),
                list(node.operands),
                list(node.calls),
                strings[node.opcode],
                numbers(node.attributes),
                sheets[(numbers(node.kernel), numbers(node.costs), numbers(node.texts))],
            ]
        )
    return {
        "version": 2,
        "module": graph.name,
        "colors": [[kind, color] for kind, color in COLORS.items()],
        "computations": [
            [c.name, int(c.is_entry), c.begin, c.end, int(c.wraps_kernel)]
            for c in graph.computations
        ],
        "scopes": [list(scope) for scope in scopes.found],
        "strings": list(strings.found),
        "sheets": list(sheets.found),
        "nodes": nodes,
    }


class _Numbers:
    """Numbers for values, in the order of their first use."""

    def __init__(self) -> None:
        self.found: dict[Any, int] = {}

    def __getitem__(self, value: object) -> int:
        return self.found.setdefault(value, len(self.found))
