"""Modules as pictures: Graphviz, SVG, Model Explorer, and a page for a browser."""

from hlo_tools.graph.dot import render_dot
from hlo_tools.graph.explorer import render_explorer
from hlo_tools.graph.model import Computation, Graph, Node, graph_of
from hlo_tools.graph.page import render_page
from hlo_tools.graph.svg import render_svg

__all__ = [
    "Computation",
    "Graph",
    "Node",
    "graph_of",
    "render_dot",
    "render_explorer",
    "render_page",
    "render_svg",
]
