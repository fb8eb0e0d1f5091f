"""A graph as SVG, drawn by ourselves."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hlo_tools.graph.colors import COLORS, kind_of
from hlo_tools.graph.layout import Drawing, lay_out
from hlo_tools.graph.model import Computation, Graph, Node

__all__ = ["render_svg"]

_ROW, _GAP, _HIGH, _MARGIN, _TITLE = 84.0, 24.0, 46.0, 24.0, 28.0
_LETTER = 6.6
_STYLE = (
    "text{font:11px ui-monospace,monospace;fill:#fff;text-anchor:middle}"
    ".t{font-weight:700}.c{fill:#334155;text-anchor:start;font-weight:700;font-size:13px}"
    ".b{fill:#f8fafc;stroke:#cbd5e1}.e{fill:none;stroke:#94a3b8;marker-end:url(#a)}"
    ".r{stroke:#0f172a;stroke-width:2.5}"
)


def render_svg(graph: Graph) -> str:
    """The graph as an SVG drawing.

    Computations stand below each other, the entry first; details are tooltips.
    """
    parts: list[str] = []
    y = width = _MARGIN
    for computation in graph.computations:
        nodes = graph.nodes[computation.begin : computation.end]
        operands = [[n - computation.begin for n in node.operands] for node in nodes]
        boxes = [_width(node) for node in nodes]
        drawing = lay_out(_before(operands), boxes, row=_ROW, gap=_GAP)
        parts += _computation(computation, nodes, operands, boxes, drawing, y)
        y += drawing.height + _TITLE + 2 * _MARGIN
        width = max(width, drawing.width + 4 * _MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{y:g}" '
        f'viewBox="0 0 {width:g} {y:g}"><title>{escape(graph.name)}</title>'
        f"<style>{_STYLE}</style><defs>"
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#94a3b8"/></marker></defs>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _before(operands: list[list[int]]) -> list[list[int]]:
    """Operands that stand before their user in the file; others are drawn but do not place it."""
    return [[n for n in needed if n < place] for place, needed in enumerate(operands)]


def _computation(
    computation: Computation,
    nodes: tuple[Node, ...],
    operands: list[list[int]],
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
    for place, needed in enumerate(operands):
        for operand in needed:
            yield _edge(drawing.places[operand], drawing.places[place])
    for node, box, place in zip(nodes, boxes, drawing.places, strict=True):
        yield _node(node, box, place)
    yield "</g></g>"


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    (a, b), (c, d) = start, end
    b, d = b + _HIGH / 2, d - _HIGH / 2
    bend = (d - b) / 2
    return f'<path class="e" d="M{a:g} {b:g}C{a:g} {b + bend:g} {c:g} {d - bend:g} {c:g} {d:g}"/>'


def _node(node: Node, width: float, place: tuple[float, float]) -> str:
    x, y = place
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
    return _cut(dict(node.kernel).get("kernel") or node.opcode)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _width(node: Node) -> float:
    longest = max(len(_title(node)), len(_cut(node.name)) + 1, len(_cut(node.shown_shape)))
    return round(max(longest * _LETTER + 16, 60.0), 1)
