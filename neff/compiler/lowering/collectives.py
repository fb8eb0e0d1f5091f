"""Kernels in which devices communicate: on contiguous buffers in HBM."""

from __future__ import annotations

from typing import Any

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import View
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.task import Task, window

__all__ = ["all_gather", "all_reduce", "all_to_all", "permute", "rank", "reduce_scatter"]


Tensors = dict[str, Any]
"""Tensors of a kernel by name."""


def _home(lowerer: Lowerer, node: Node) -> View:
    """Return a buffer for the result, of the type on chip: data is exchanged unchanged."""
    name, tile = lowerer.homes.get(id(node)), held_as(node).tile
    if name is None or lowerer.parts.variables[name].dtype == tile:
        return lowerer.home(node)
    view = lowerer.scratch(node.shape, tile)
    lowerer.place(node, view)
    return view


def _source(lowerer: Lowerer, node: Node) -> str:
    return lowerer.row_major_variable(node, held_as(node).tile)


def all_reduce(lowerer: Lowerer, node: Node) -> None:
    """Emit one instruction for all operands."""
    sources = [_source(lowerer, operand) for operand in node.operands]
    if len(sources) == 1:
        views = [_home(lowerer, node)]
    else:
        views = [lowerer.scratch(array.shape, held_as(array).tile) for array in node.operands]
        lowerer.results[id(node)] = views
    targets = [view.buffer for view in views]

    def body(tensors: Tensors) -> None:
        group = ncc.ReplicaGroup([list(members) for members in node.attributes["groups"]])
        inputs, outputs = [tensors[name] for name in sources], [tensors[name] for name in targets]
        ncc.all_reduce(inputs, outputs, group, getattr(nl, node.attributes["applied"]))

    lowerer.call(Task("all_reduce", sources, targets, body), node)


def _moved(lowerer: Lowerer, node: Node, name: str) -> None:
    """Emit an instruction with one operand, whose rows are along the first dimension."""
    source, target = _source(lowerer, node.operands[0]), _home(lowerer, node).buffer

    def body(tensors: Tensors) -> None:
        group = ncc.ReplicaGroup([list(members) for members in node.attributes["groups"]])
        applied: str = node.attributes.get("applied", "")
        operators = [getattr(nl, applied)] if applied else []
        getattr(ncc, name)([tensors[source]], [tensors[target]], group, 0, *operators)

    lowerer.call(Task(name, [source], [target], body), node)


def all_gather(lowerer: Lowerer, node: Node) -> None:
    """Gather the operands of all devices of the group."""
    _moved(lowerer, node, "all_gather")


def all_to_all(lowerer: Lowerer, node: Node) -> None:
    """Send a row to each device of the group."""
    _moved(lowerer, node, "all_to_all")


def reduce_scatter(lowerer: Lowerer, node: Node) -> None:
    """Reduce one row of each device."""
    _moved(lowerer, node, "reduce_scatter")


def permute(lowerer: Lowerer, node: Node) -> None:
    """Send to the target devices; fill the result of all other devices before."""
    operand, default = node.operands
    source, view = _source(lowerer, operand), _home(lowerer, node)
    number = lowerer.number(default)
    if number is not None:
        lowerer.fill(view, number, node)
    else:
        lowerer.copy(lowerer.view(default), view, node)

    def body(tensors: Tensors) -> None:
        pairs = node.attributes["pairs"]
        ncc.collective_permute([tensors[source]], [tensors[view.buffer]], list(pairs))

    lowerer.call(Task("collective_permute", [source, view.buffer], [view.buffer], body), node)


def rank(lowerer: Lowerer, node: Node) -> None:
    """Store the number of the device."""
    port = lowerer.port(lowerer.home(node))

    def body(tensors: Tensors) -> None:
        tile = nl.ndarray((1, 1), dtype=port.dtype, buffer=nl.sbuf)
        nisa.register_store(tile, ncc.rank_id())
        nisa.dma_copy(window(tensors[port.view.buffer], port, 0, [[1, 1], [1, 1]]), tile)

    lowerer.call(Task("rank", [], [port.view.buffer], body), node)
