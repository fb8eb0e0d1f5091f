"""A layered drawing of one computation: operands above, users below, edges around boxes.

Layers by longest path; chains of one operand each that begin at a source (a weight and its
transpose) end right above their first user. In each layer that a value crosses on its way it has a
narrow place of its own (K. Sugiyama's dummy vertices, one for all users of a value). The order in
a layer is by the mean place of neighbours; places are those of least squares that keep the order.
Edges that would need too many such places, and those that go up, run in lanes beside the drawing.
Time is linear in places and edges for each of a fixed number of sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo_tools.graph.layers import Layers, layers_of

__all__ = ["Drawing", "Route", "lay_out"]

_SWEEPS = 8
_STRAIGHT = 4.0
"""How much more a crossing value's place counts than a box: long edges are straight."""
_LANE, _LANES = 6.0, 24
_PORT = 18.0
"""Most space between the ends of edges at one box."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Route:
    """An edge from a node's lower side to another's upper side.

    Attributes:
        points: bends from below to above by turns: between the first and second, the third and
            fourth the edge changes its place in the space between layers; else it is vertical.
        is_lane: it runs beside the drawing; its points are joined by straight lines.
    """

    operand: int
    user: int
    points: tuple[Point, ...]
    is_lane: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centres of nodes, edges, and the size that holds all of them (units: pixels)."""

    places: tuple[Point, ...]
    routes: tuple[Route, ...]
    width: float
    height: float


def lay_out(
    operands: Sequence[Sequence[int]],
    widths: Sequence[float],
    *,
    row: float,
    gap: float,
    high: float,
) -> Drawing:
    """Places for nodes, and ways for edges that touch no other node's box.

    Args:
        operands: for each node, numbers of nodes; those after it are drawn but do not place it.
        widths: of the nodes.
        row: height of a layer.
        gap: least space between neighbours of a layer.
        high: height of a box, less than ``row``.
    """
    if not widths:
        return Drawing((), (), 0.0, 0.0)
    layers = layers_of(operands)
    wide = [*widths, *[2.0] * (len(layers.level) - len(widths))]
    return _Placing(layers, wide, len(widths), row, gap, high).drawing()


class _Placing:
    """Order and places in the layers, then the edges."""

    def __init__(
        self, layers: Layers, widths: list[float], count: int, row: float, gap: float, high: float
    ) -> None:
        self.layers, self.widths, self.count = layers, widths, count
        self.row, self.gap, self.high = row, gap, high
        self.x = [0.0] * len(widths)

    def drawing(self) -> Drawing:
        rows, x = self.layers.rows, self.x
        above, below = self.layers.above, self.layers.below
        for layer in rows:
            self._place(layer, [0.0] * len(layer))
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = above if down else below
            for layer in rows if down else reversed(rows):
                targets = [_mean([x[n] for n in near[node]], x[node]) for node in layer]
                order = sorted(range(len(layer)), key=targets.__getitem__)
                layer[:] = [layer[i] for i in order]
                self._place(layer, [targets[i] for i in order])
        for layer in (*rows, *reversed(rows)):
            self._place(layer, [_mean([x[n] for n in (*above[v], *below[v])], x[v]) for v in layer])
        return self._framed()

    def _place(self, layer: list[int], targets: list[float]) -> None:
        """The places nearest to those wanted that keep the order and the space between."""
        offsets: list[float] = []
        edge = 0.0
        for position, node in enumerate(layer):
            if position:
                before = layer[position - 1]
                space = self.gap if before < self.count and node < self.count else self.gap / 2
                edge += (self.widths[before] + self.widths[node]) / 2 + space
            offsets.append(edge)
        weights = [1.0 if node < self.count else _STRAIGHT for node in layer]
        moved = [expected - offset for expected, offset in zip(targets, offsets, strict=True)]
        for node, value, offset in zip(layer, _ascending(moved, weights), offsets, strict=True):
            self.x[node] = value + offset

    def _framed(self) -> Drawing:
        x, widths, count = self.x, self.widths, self.count
        left = min(location - width / 2 for location, width in zip(x, widths, strict=True))
        right = max(location + width / 2 for location, width in zip(x, widths, strict=True))
        lanes = _lanes(self.layers.far, self.layers.level)
        margin = _LANE * (max(lanes.values(), default=-1) + 1)
        margin += self.gap / 2 if lanes else 0.0
        self.x = [round(location - left + margin, 1) for location in x]
        positions = tuple((self.x[n], self._y(n)) for n in range(count))
        return Drawing(
            positions,
            tuple(self._routes(lanes)),
            round(right - left + margin, 1),
            self.row * len(self.layers.rows),
        )

    def _y(self, node: int) -> float:
        return self.row * (self.layers.level[node] + 0.5)

    def _routes(self, lanes: dict[int, int]) -> list[Route]:
        half = self.high / 2
        ports = self._ports()
        routes: list[Route] = []
        for (operand, user), dummies in self.layers.near.items():
            points = [(self.x[operand], self._y(operand) + half)]
            for step in dummies:
                points += [(self.x[step], self._y(step) - half), (self.x[step], self._y(step) + half)]  # fmt: skip
            points.append((ports[operand, user], self._y(user) - half))
            routes.append(Route(operand, user, tuple(points), False))
        space = (self.row - self.high) / 4
        for operand, user in self.layers.far:
            lane = _LANE * (lanes[operand] + 0.5)
            start, end = self._y(operand) + half, self._y(user) - half
            x, port = self.x[operand], ports[operand, user]
            points = [(x, start), (x, start + space), (lane, start + space), (lane, end - space), (port, end - space), (port, end)]  # fmt: skip
            routes.append(Route(operand, user, tuple(points), True))
        return routes

    def _ports(self) -> dict[tuple[int, int], float]:
        """Where edges end on their user's upper side: in the order in which they arrive."""
        arriving: dict[int, list[tuple[float, int]]] = {}
        for (operand, user), dummies in self.layers.near.items():
            arriving.setdefault(user, []).append(
                (self.x[dummies[-1] if dummies else operand], operand)
            )
        for operand, user in self.layers.far:
            arriving.setdefault(user, []).append((-1.0, operand))
        ports: dict[tuple[int, int], float] = {}
        for user, ends in arriving.items():
            step = min(_PORT, (self.widths[user] - 12) / len(ends))
            first = self.x[user] - step * (len(ends) - 1) / 2
            for position, (_, operand) in enumerate(sorted(ends)):
                ports[operand, user] = round(first + step * position, 1)
        return ports


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _ascending(values: list[float], weights: list[float]) -> list[float]:
    """The ascending values nearest to some (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, count
    for value, weight in zip(values, weights, strict=True):
        count = 1
        while blocks and blocks[-1][0] > value:
            merged_mean, heavy, merged_count = blocks.pop()
            value = (merged_mean * heavy + value * weight) / (heavy + weight)
            weight, count = weight + heavy, count + merged_count
        blocks.append((value, weight, count))
    return [merged_mean for merged_mean, _, count in blocks for _ in range(count)]


def _lanes(far: list[tuple[int, int]], level: list[int]) -> dict[int, int]:
    """A lane for each value with far users, the least that is free over its layers."""
    spans: dict[int, tuple[int, int]] = {}
    for operand, user in far:
        ends = (level[operand], level[user])
        low, high = spans.get(operand, ends)
        spans[operand] = (min(low, *ends), max(high, *ends))
    free: list[int] = []  # the last layer of each lane
    lanes: dict[int, int] = {}
    for operand, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        lane = next((n for n, end in enumerate(free) if end < low), len(free))
        if lane == len(free) < _LANES:
            free.append(high)
        lane %= _LANES
        free[lane] = max(free[lane], high)
        lanes[operand] = lane
    return lanes
