"""A graph as one HTML page: data, style and program in it, nothing fetched."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from hlo_tools.graph.colors import COLORS, kind_of
from hlo_tools.graph.model import Graph

__all__ = ["page_data", "render_page"]


def render_page(graph: Graph) -> str:
    """A page of HTML that shows the graph and needs no network."""
    folder = files("hlo_tools.graph")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    program = (folder / "viewer.js").read_text(encoding="utf-8")
    data = json.dumps(page_data(graph), ensure_ascii=False, separators=(",", ":"))
    # Data stands in a script element: nothing in it may end that element.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return page.replace("/*PROGRAM*/", program).replace("/*DATA*/", data)


def page_data(graph: Graph) -> dict[str, Any]:
    """What the page's program reads.

    ``strings`` has every text once; nodes name texts by number. A node is [name, opcode, shape,
    kind, scope, source, root, operands, calls, details]; details alternate key and text. A scope
    is a number in ``scopes``: [parent scope or -1, text], with scopes of one computation apart.
    """
    strings = _Numbers()
    scopes = _Numbers()
    kinds = list(COLORS)
    nodes: list[list[Any]] = []
    for node in graph.nodes:
        scope = -1
        for part in node.scope:
            scope = scopes[(scope, strings[part], node.computation)]
        details = [number for pair in (*node.kernel, *node.attributes) for text in pair for number in (strings[text],)]  # fmt: skip
        nodes.append(
            [
                strings[node.name],
                strings[dict(node.kernel).get("kernel") or node.opcode],
                strings[node.shape],
                kinds.index(kind_of(node.opcode, bool(node.kernel))),
                scope,
                strings[node.source],
                int(node.is_root),
                list(node.operands),
                list(node.calls),
                details,
            ]
        )
    return {
        "version": 1,
        "module": graph.name,
        "colors": [[kind, color] for kind, color in COLORS.items()],
        "computations": [[c.name, int(c.is_entry), c.begin, c.end] for c in graph.computations],
        "scopes": [list(scope) for scope in scopes.found],
        "strings": list(strings.found),
        "nodes": nodes,
    }


class _Numbers:
    """Numbers for values, in the order of their first use."""

    def __init__(self) -> None:
        self.found: dict[Any, int] = {}

    def __getitem__(self, value: Any) -> int:
        return self.found.setdefault(value, len(self.found))
