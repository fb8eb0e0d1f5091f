"""A graph in Graphviz's language."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from hlo_tools.errors import HloError
from hlo_tools.graph.colors import COLORS, kind_of
from hlo_tools.graph.model import Graph, Node

__all__ = ["draw_with_dot", "render_dot"]

_SECONDS = 300


def render_dot(graph: Graph) -> str:
    """The graph as ``dot`` reads it: a box for each computation, dashed edges for calls."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"digraph {_quoted(graph.name)} {{"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10, fontcolor=white];'
    yield '  edge [arrowsize=0.6, color="#64748b"]; compound=true;'
    for position, computation in enumerate(graph.computations):
        mark = "ENTRY " if computation.is_entry else ""
        yield f"  subgraph cluster_{position} {{"
        yield f'    label={_quoted(f"{mark}%{computation.name}")}; style=rounded; fontname="sans-serif";'
        for number in range(computation.begin, computation.end):
            yield f"    n{number} [{_node(graph.nodes[number])}];"
        yield "  }"
    for number, node in enumerate(graph.nodes):
        for slot, operand in enumerate(node.operands):
            label = f' [taillabel="{slot}"]' if len(node.operands) > 3 else ""
            yield f"  n{operand} -> n{number}{label};"
        for called in node.calls:
            root = graph.computations[called].end - 1
            yield f"  n{root} -> n{number} [style=dashed, ltail=cluster_{called}, constraint=false];"
    yield "}"


def _node(node: Node) -> str:
    label = f"{node.title}\n%{node.name}\n{node.shown_shape}"
    parts = [
        f"label={_quoted(label)}",
        f'fillcolor="{COLORS[kind_of(node.opcode, bool(node.kernel))]}"',
    ]
    details = [*node.kernel, *node.attributes]
    if node.source:
        details.append(("source", node.source))
    if details:
        parts.append(f"tooltip={_quoted(chr(10).join(f'{k}: {v}' for k, v in details))}")
    if node.is_root:
        parts.append("penwidth=3")
    return ", ".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def draw_with_dot(graph: Graph) -> str:
    """An SVG drawn by Graphviz.

    Raises:
        HloError: there is no ``dot``, or it fails (HLO-GRAPHVIZ).
    """
    program = shutil.which("dot")
    if program is None:
        raise HloError(
            "Graphviz's dot is not installed",
            code="HLO-GRAPHVIZ",
            remedy="install graphviz, or use --layout own",
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=render_dot(graph),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise HloError(
            f"dot did not end in {_SECONDS} s",
            code="HLO-GRAPHVIZ",
            remedy="draw one computation with --computation, or use --layout own",
        ) from None
    if done.returncode:
        raise HloError(f"dot failed: {done.stderr.strip()[:300]}", code="HLO-GRAPHVIZ")
    return done.stdout
