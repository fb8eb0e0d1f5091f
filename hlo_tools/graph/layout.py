"""A layered drawing of one computation: operands above, users below.

Layers by longest path; chains of one operand each that begin at a source (a weight and its
transpose) end right above their first user. The order in a layer by the mean place of neighbours;
places by the same means, kept apart. Time is linear in instructions and edges for each of a fixed
number of sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Drawing", "lay_out"]

_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centres of nodes, and the size that holds all of them (units: pixels)."""

    places: tuple[tuple[float, float], ...]
    width: float
    height: float


def lay_out(
    operands: Sequence[Sequence[int]], widths: Sequence[float], *, row: float, gap: float
) -> Drawing:
    """Places for nodes.

    Args:
        operands: for each node, numbers of nodes before it.
        widths: of the nodes.
        row: height of a layer.
        gap: least space between neighbours of a layer.
    """
    users: list[list[int]] = [[] for _ in operands]
    for place, needed in enumerate(operands):
        for operand in needed:
            users[operand].append(place)
    layers = _layers(operands, users)
    x = [0.0] * len(operands)
    for layer in layers:
        _keep_apart(layer, [0.0] * len(layer), x, widths, gap)
    for sweep in range(_SWEEPS):
        above = sweep % 2 == 0
        near = operands if above else users
        for layer in layers if above else reversed(layers):
            wanted = [_mean([x[n] for n in near[node]], x[node]) for node in layer]
            order = sorted(range(len(layer)), key=wanted.__getitem__)
            layer[:] = [layer[i] for i in order]
            _keep_apart(layer, [wanted[i] for i in order], x, widths, gap)
    return _framed(layers, x, widths, row)


def _layers(operands: Sequence[Sequence[int]], users: list[list[int]]) -> list[list[int]]:
    level = [0] * len(operands)
    for place, needed in enumerate(operands):
        level[place] = max((level[n] + 1 for n in needed), default=0)
    chain = [False] * len(operands)
    for place, needed in enumerate(operands):
        chain[place] = all(chain[n] for n in needed) and len(set(needed)) <= 1
    for place in reversed(range(len(operands))):
        if chain[place] and users[place]:
            level[place] = max(level[place], min(level[user] for user in users[place]) - 1)
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for place, number in enumerate(level):
        layers[number].append(place)
    return layers


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _keep_apart(
    layer: list[int], wanted: list[float], x: list[float], widths: Sequence[float], gap: float
) -> None:
    """Places as wanted, pushed to the right where they touch, then moved back as a whole."""
    edge = float("-inf")
    for node, want in zip(layer, wanted, strict=True):
        x[node] = max(want, edge + widths[node] / 2)
        edge = x[node] + widths[node] / 2 + gap
    shift = _mean([want - x[n] for n, want in zip(layer, wanted, strict=True)], 0.0)
    for node in layer:
        x[node] += shift


def _framed(
    layers: list[list[int]], x: list[float], widths: Sequence[float], row: float
) -> Drawing:
    if not x:
        return Drawing((), 0.0, 0.0)
    left = min(place - width / 2 for place, width in zip(x, widths, strict=True))
    right = max(place + width / 2 for place, width in zip(x, widths, strict=True))
    y = {node: row * (number + 0.5) for number, layer in enumerate(layers) for node in layer}
    places = tuple((round(x[n] - left, 1), y[n]) for n in range(len(x)))
    return Drawing(places, round(right - left, 1), row * len(layers))
