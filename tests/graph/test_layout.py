"""Layouts: boxes do not overlap, and edges pass beside every box that is not theirs.

The page's own layout (layout.js) is held to the same in Node, where that is installed.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_tools.graph import graph_of, render_svg
from hlo_tools.graph.layers import layers_of
from hlo_tools.graph.layout import lay_out
from hlo_tools.text import parse
from tests.graph.test_graph import TEXT, module

Point = tuple[float, float]
ROW, GAP, HIGH = 50.0, 8.0, 30.0
NODE = shutil.which("node")


def bends(points: Sequence[Point], is_lane: bool) -> Iterator[Point]:
    """Points along a route, as it is drawn: curves with vertical ends, and straight lines."""
    for number, ((a, b), (c, d)) in enumerate(pairwise(points)):
        for step in range(21):
            t = step / 20
            if is_lane or number % 2:
                yield a + (c - a) * t, b + (d - b) * t
                continue
            middle, u = (b + d) / 2, 1 - t
            x = u**3 * a + 3 * u * u * t * a + 3 * u * t * t * c + t**3 * c
            yield x, u**3 * b + 3 * u * u * t * middle + 3 * u * t * t * middle + t**3 * d


def crossed(
    points: Sequence[Point],
    is_lane: bool,
    boxes: Sequence[tuple[float, float, float]],
    own_boxes: set[int],
) -> list[int]:
    """Boxes (center, width), except those of the edge, that a route touches."""
    path = list(bends(points, is_lane))
    return [
        number
        for number, (x, y, width) in enumerate(boxes)
        if number not in own_boxes
        and any(abs(u - x) < width / 2 - 0.1 and abs(v - y) < HIGH / 2 - 0.1 for u, v in path)
    ]


def dag(rows: list[list[int]]) -> list[list[int]]:
    return [[n % position for n in row] if position else [] for position, row in enumerate(rows)]


EDGE_LISTS = st.lists(st.lists(st.integers(0, 1 << 16), max_size=4), max_size=40)


@given(EDGE_LISTS)
def test_nodes_never_overlap_and_operands_are_above(rows: list[list[int]]) -> None:
    operands = dag(rows)
    widths = [40.0 + 10 * (position % 5) for position in range(len(rows))]
    drawing = lay_out(operands, widths, row=ROW, gap=GAP, high=HIGH)
    for position, needed in enumerate(operands):
        assert all(drawing.places[n][1] < drawing.places[position][1] for n in needed)
    for position, (x, y) in enumerate(drawing.places):
        assert widths[position] / 2 <= x + 0.1 and x + widths[position] / 2 <= drawing.width + 0.2
        for number in range(position):
            u, v = drawing.places[number]
            assert y != v or abs(x - u) >= (widths[position] + widths[number]) / 2 + 7


@given(EDGE_LISTS)
@settings(max_examples=60)
def test_no_edge_crosses_a_box_that_is_not_its_own(rows: list[list[int]]) -> None:
    widths = [40.0 + 10 * (position % 5) for position in range(len(rows))]
    operands = dag(rows)
    check(operands, widths)


@pytest.mark.parametrize("seed", range(2))
def test_edges_that_there_is_no_room_for_run_beside_the_drawing(seed: int) -> None:
    """A chain, each of its nodes also used far below."""
    draw = random.Random(seed)
    operands = [
        [position - 1, draw.randrange(position)] if position else [] for position in range(110)
    ]
    assert layers_of(operands).far
    check(operands, [60.0] * 110)


def test_operands_after_their_user_are_drawn() -> None:
    drawing = lay_out([[1], [2], []], [40.0] * 3, row=ROW, gap=GAP, high=HIGH)
    assert {(route.operand, route.user) for route in drawing.routes} == {(1, 0), (2, 1)}
    check([[1], [2], []], [40.0] * 3)


def check(operands: list[list[int]], widths: list[float]) -> None:
    drawing = lay_out(operands, widths, row=ROW, gap=GAP, high=HIGH)
    boxes = [(*position, width) for position, width in zip(drawing.places, widths, strict=True)]
    edges = {(operand, user) for user, needed in enumerate(operands) for operand in needed}
    assert {(route.operand, route.user) for route in drawing.routes} == edges
    assert len(drawing.routes) == len(edges)
    for route in drawing.routes:
        (x, y), (u, v) = drawing.places[route.operand], drawing.places[route.user]
        assert route.points[0] == (x, y + HIGH / 2)
        assert route.points[-1][1] == v - HIGH / 2
        assert abs(route.points[-1][0] - u) <= widths[route.user] / 2
        assert not crossed(route.points, route.is_lane, boxes, {route.operand, route.user})
        assert all(0 <= a <= drawing.width and 0 <= b <= drawing.height for a, b in route.points)


def test_a_long_chain_is_laid_out_without_recursion() -> None:
    count = 10_000
    operands = [[position - 1] if position else [] for position in range(count)]
    drawing = lay_out(operands, [10.0] * count, row=2, gap=1, high=1)
    assert drawing.height == 2 * count
    assert len({x for x, _ in drawing.places}) == 1  # straight


def test_svg_draws_the_routes() -> None:
    """A parameter used three layers below passes beside the boxes between."""
    drawn = module()
    svg = render_svg(graph_of(drawn))
    assert svg.count('class="e"') == 7 + 1  # distinct operands of main and square
    assert "marker-end" in svg


# The page's layout

PROGRAM = """
const graphs = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(graphs.map(edges => {
  const count = edges.length, above = edges.map(e => new Set(e)), below = edges.map(() => new Set());
  above.forEach((set, to) => set.forEach(from => below[from].add(to)));
  return layeredDrawing(above, below, { wide: 60, high: 30, row: 50, gap: 8 });
})));
"""


def drawn_by_the_page(graphs: list[list[list[int]]], folder: Path) -> list[dict[str, Any]]:
    assert NODE is not None
    source = (files("hlo_tools.graph") / "layout.js").read_text(encoding="utf-8")
    script = folder / "layout.cjs"
    script.write_text(source + PROGRAM)
    done = subprocess.run(
        [NODE, str(script)], input=json.dumps(graphs), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_the_page_leads_edges_around_boxes(tmp_path: Path) -> None:
    """Random graphs, some with circles as collapsed scopes make them, some beyond the room."""
    draw = random.Random(7)
    graphs: list[list[list[int]]] = []
    for number in range(20):
        count = draw.choice([1, 2, 8, 30, 110])
        rows = [
            [draw.randrange(p) for _ in range(draw.randrange(4))] if p else [] for p in range(count)
        ]
        if number % 3 == 0 and count > 2:
            rows[draw.randrange(count - 1)].append(count - 1)
        graphs.append([sorted(set(row)) for row in rows])
    graphs.append(
        [[position - 1, draw.randrange(position)] if position else [] for position in range(110)]
    )
    graphs[-1] = [sorted(set(row)) for row in graphs[-1]]
    lanes = 0
    for edges, drawing in zip(graphs, drawn_by_the_page(graphs, tmp_path), strict=True):
        boxes = [
            (x, (level + 0.5) * ROW, 60.0)
            for x, level in zip(drawing["x"], drawing["level"], strict=True)
        ]
        drawn_edges = {(route["from"], route["to"]) for route in drawing["routes"]}
        assert drawn_edges == {(a, to) for to, row in enumerate(edges) for a in row}
        for route in drawing["routes"]:
            points = [(x, y) for x, y in route["points"]]
            assert not crossed(points, route["lane"], boxes, {route["from"], route["to"]})
            lanes += route["lane"]
        for number, (x, y, width) in enumerate(boxes):
            assert all(y != v or abs(x - u) >= width + 7.9 for u, v, _ in boxes[:number])
    assert lanes


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_both_layouts_have_the_same_layers(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [sorted({draw.randrange(p) for _ in range(2)}) if p else [] for p in range(40)]
    (drawing,) = drawn_by_the_page([rows], tmp_path)
    assert drawing["level"] == layers_of(rows).level[:40]


def test_programs_of_the_page_are_in_it() -> None:
    from hlo_tools.graph import render_page

    page = render_page(graph_of(module(TEXT)))
    for name in ("layeredDrawing", "function draw", "function showDetails"):
        assert re.search(name, page)
    assert parse(TEXT)
