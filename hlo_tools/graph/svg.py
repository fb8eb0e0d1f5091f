"""A graph as SVG, drawn by ourselves."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hlo_tools.graph.colors import COLORS, kind_of
from hlo_tools.graph.layout import Drawing, Route, lay_out
from hlo_tools.graph.model import Computation, Graph, Node

__all__ = ["render_svg"]

_ROW, _GAP, _HIGH, _MARGIN, _TITLE = 84.0, 24.0, 46.0, 24.0, 28.0
_LETTER = 6.6
_STYLE = (
    "text{font:11px ui-monospace,monospace;fill:#fff;text-anchor:middle}"
    ".t{font-weight:700}.c{fill:#334155;text-anchor:start;font-weight:700;font-size:13px}"
    ".b{fill:#f8fafc;stroke:#cbd5e1}.e{fill:none;stroke:#7b8ba3;stroke-width:1.2;marker-end:url(#a)}"
    ".r{stroke:#0f172a;stroke-width:2.5}"
    "@media(prefers-color-scheme:dark){.c{fill:#e2e8f0}.b{fill:#111a2b;stroke:#334155}"
    ".r{stroke:#e2e8f0}}"
)


def render_svg(graph: Graph) -> str:
    """The graph as an SVG drawing.

    Computations stand below each other, the entry first; details are tooltips.
    """
    parts: list[str] = []
    y = width = _MARGIN
    wrappers = all(computation.wraps_kernel for computation in graph.computations)
    for computation in graph.computations:
        if computation.wraps_kernel and not wrappers:
            continue  # its kernel stands at the call
        nodes = graph.nodes[computation.begin : computation.end]
        operands = [[n - computation.begin for n in node.operands] for node in nodes]
        boxes = [_width(node) for node in nodes]
        drawing = lay_out(operands, boxes, row=_ROW, gap=_GAP, high=_HIGH)
        parts += _computation(computation, nodes, boxes, drawing, y)
        y += drawing.height + _TITLE + 2 * _MARGIN
        width = max(width, drawing.width + 4 * _MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{y:g}" '
        f'viewBox="0 0 {width:g} {y:g}"><title>{escape(graph.name)}</title>'
        f"<style>{_STYLE}</style><defs>"
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#7b8ba3"/></marker></defs>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _computation(
    computation: Computation,
    nodes: tuple[Node, ...],
    boxes: list[float],
    drawing: Drawing,
    y: float,
) -> Iterator[str]:
    mark = "ENTRY " if computation.is_entry else ""
    yield f'<g transform="translate({_MARGIN:g} {y:g})">'
    yield (
        f'<rect class="b" width="{drawing.width + 2 * _MARGIN:g}" '
        f'height="{drawing.height + _TITLE + _MARGIN:g}" rx="8"/>'
    )
    yield f'<text class="c" x="12" y="20">{escape(f"{mark}%{computation.name}")}</text>'
    yield f'<g transform="translate({_MARGIN:g} {_TITLE:g})">'
    for route in drawing.routes:
        yield _edge(route)
    for node, box, position in zip(nodes, boxes, drawing.places, strict=True):
        yield _node(node, box, position)
    yield "</g></g>"


def _edge(route: Route) -> str:
    (x, y), *corners = route.points
    path = [f"M{x:g} {y:g}"]
    for number, (to_x, to_y) in enumerate(corners):
        if route.is_lane or number % 2 or x == to_x:
            path.append(f"L{to_x:g} {to_y:g}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}")
        x, y = to_x, to_y
    return f'<path class="e" d="{"".join(path)}"/>'


def _node(node: Node, width: float, location: tuple[float, float]) -> str:
    x, y = location
    color = COLORS[kind_of(node.opcode, bool(node.kernel))]
    details = [("name", f"%{node.name}"), *node.kernel, *node.attributes]
    if node.source:
        details.append(("source", node.source))
    tip = escape("\n".join(f"{key}: {text}" for key, text in details))
    root = ' class="r"' if node.is_root else ""
    return (
        f'<g><title>{tip}</title><rect{root} x="{x - width / 2:g}" y="{y - _HIGH / 2:g}" '
        f'width="{width:g}" height="{_HIGH:g}" rx="5" fill="{color}"/>'
        f'<text class="t" x="{x:g}" y="{y - 9:g}">{escape(_title(node))}</text>'
        f'<text x="{x:g}" y="{y + 4:g}">{escape(_cut(f"%{node.name}"))}</text>'
        f'<text x="{x:g}" y="{y + 17:g}">{escape(_cut(node.shown_shape))}</text></g>'
    )


def _title(node: Node) -> str:
    return _cut(node.title)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _width(node: Node) -> float:
    longest = max(len(_title(node)), len(_cut(node.name)) + 1, len(_cut(node.shown_shape)))
    return round(max(longest * _LETTER + 16, 60.0), 1)
