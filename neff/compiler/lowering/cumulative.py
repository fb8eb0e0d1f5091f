"""Computes cumulative sums, products and extremes: one ``tensor_tensor_scan`` along each row."""

from __future__ import annotations

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import tiles
from nki_lang.base.dtypes import BY_NAME

__all__ = ["cumulative"]

F32 = BY_NAME["float32"]
_MAX_COLUMNS = 2048
"""Elements of a row that are loaded at a time; the next chunk continues from the last element."""


def cumulative(lowerer: Lowerer, node: Node) -> None:
    """Put rows on partitions, and the scanned dimension in the free dimension."""
    source, target = lowerer.view(node.operands[0]), lowerer.home(node)
    dim: int = node.attributes["dimension"]
    if node.attributes["reverse"]:
        source, target = source.reverse((dim,)), target.reverse((dim,))
    order = (*(axis for axis in range(len(node.shape)) if axis != dim), dim)
    source, target = source.transpose(order), target.transpose(order)
    rows = View("", source.shape, row_major(source.shape))
    source, result = lowerer.straight(source, rows, node), target
    if lowerer.is_across(target, rows):
        result = lowerer.scratch(target.shape, lowerer.port(target).dtype)
    ports = lowerer.port(source), lowerer.port(result)
    lowerer.call(_task(*ports, node.attributes["applied"], _start(lowerer, node)), node)
    if result is not target:
        lowerer.copy(result, target, node)


def _start(lowerer: Lowerer, node: Node) -> float:
    start = lowerer.number(node.operands[1])
    assert start is not None
    return float(start)


def _task(source: Port, target: Port, op: str, start: float) -> Task:
    def body(tensors: dict[str, Tile]) -> None:
        views: list[View] = [source.view, target.view]
        extent = views[0].shape[-1]
        dims = merge(
            [
                Dim(extent, (a, b))
                for extent, a, b in zip(
                    views[0].shape[:-1], views[0].strides[:-1], views[1].strides[:-1], strict=True
                )
            ]
        )
        constants: Constants = {}
        read, write = tensors[views[0].buffer], tensors[views[1].buffer]
        for piece in tiles(dims, 1, 2, least=1):
            rows = piece.partition.extent
            before: Value = start
            for begin in range(0, extent, _MAX_COLUMNS):
                count = min(_MAX_COLUMNS, extent - begin)
                steps = [[view.strides[-1], count] for view in views]
                heads = [piece.pattern(number)[0] for number in (0, 1)]
                offsets = [
                    piece.offsets[number] + begin * view.strides[-1]
                    for number, view in enumerate(views)
                ]
                e = Emitter(rows, count, constants)
                values = nl.ndarray((rows, count), dtype=source.dtype, buffer=nl.sbuf)
                nisa.dma_copy(values, window(read, source, offsets[0], [heads[0], steps[0]]))
                scanned = e.new(F32)
                ones = e.filled(np.float32(1), F32)
                nisa.tensor_tensor_scan(scanned, ones, values, before, nl.multiply, getattr(nl, op))
                before = scanned[:, count - 1 : count]
                stored = scanned if target.dtype == F32 else e.copy(scanned, target.dtype)
                nisa.dma_copy(window(write, target, offsets[1], [heads[1], steps[1]]), stored)

    return Task("cumulative", [source.view.buffer], [target.view.buffer], body)
