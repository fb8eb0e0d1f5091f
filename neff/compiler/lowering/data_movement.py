"""Lowers the opcodes that fill, move and place data: iota, concatenate, pad, update-slice, words."""

from __future__ import annotations

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import View
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.movement import iota_task, words_task
from nki_lang.base.dtypes import DType

__all__ = ["concatenate", "counting", "iota", "pad", "pair", "range_of", "update_slice", "word"]


def iota(lowerer: Lowerer, node: Node) -> None:
    """Fill a short buffer along one dimension, and broadcast it."""
    dimension: int = node.attributes["dimensions"][0]
    line = counting(lowerer, node.shape[dimension], held_as(node).tile, node)
    lowerer.place(node, line.broadcast(node.shape, (dimension,)))


def counting(lowerer: Lowerer, count: int, dtype: DType, node: Node) -> View:
    """Return the buffer 0, 1, 2, ... of a length and a type, which is filled once."""
    line = lowerer.iota(count, dtype)
    if line is None:
        line = lowerer.scratch((count,), dtype)
        lowerer.call(iota_task("iota", lowerer.port(line)), node)
        lowerer.keep_iota(line, dtype)
    return line


def word(lowerer: Lowerer, node: Node) -> None:
    """Copy the low or the high words of an input of 64-bit integers."""
    source = lowerer.port(lowerer.view(node.operands[0]))
    target = lowerer.port(lowerer.home(node))
    task = words_task("word", [(source, node.attributes["word"], target, 0)])
    lowerer.call(task, node)


def pair(lowerer: Lowerer, node: Node) -> None:
    """Copy words to an output of 64-bit integers."""
    parts = [lowerer.port(lowerer.view(operand)) for operand in node.operands]
    target = lowerer.port(lowerer.home(node))
    moves = [(word, 0, target, number) for number, word in enumerate(parts)]
    lowerer.call(words_task("pair", moves), node)


def concatenate(lowerer: Lowerer, node: Node) -> None:
    """Copy every operand to its range of the result."""
    dimension: int = node.attributes["dimensions"][0]
    target = lowerer.home(node)
    begin = 0
    for operand in node.operands:
        end = begin + operand.shape[dimension]
        _put(lowerer, operand, range_of(target, dimension, begin, end), node)
        begin = end


def range_of(view: View, dimension: int, begin: int, end: int) -> View:
    """Return the view of the elements ``begin`` to ``end - 1`` along one dimension."""
    starts = [0] * len(view.shape)
    limits = list(view.shape)
    starts[dimension], limits[dimension] = begin, end
    return view.slice(tuple(starts), tuple(limits), (1,) * len(view.shape))


def _put(lowerer: Lowerer, operand: Node, target: View, node: Node) -> None:
    if not target.size:
        return
    number = lowerer.number(operand)
    if number is not None:
        lowerer.fill(target, number, node)
    else:
        lowerer.copy(lowerer.view(operand), target, node)


def update_slice(lowerer: Lowerer, node: Node) -> None:
    """Copy the operand, and overwrite a slice of it."""
    operand, update = node.operands
    target = lowerer.home(node)
    _put(lowerer, operand, target, node)
    fields = node.attributes
    slice_view = target.slice(fields["starts"], fields["limits"], fields["strides"])
    _put(lowerer, update, slice_view, node)


def pad(lowerer: Lowerer, node: Node) -> None:
    """Fill with the padding value, then copy the operand to its location."""
    operand, value = node.operands
    target = lowerer.home(node)
    number = lowerer.number(value)
    if number is not None:
        lowerer.fill(target, number, node)
    else:
        lowerer.copy(lowerer.view(value).broadcast(node.shape, ()), target, node)
    if not operand.size:
        return
    inside: list[tuple[int, int]] = []
    starts: list[int] = []
    limits: list[int] = []
    steps: list[int] = []
    for extent, padded_extent, (low, _high, interior) in zip(
        operand.shape, node.shape, node.attributes["padding"], strict=True
    ):
        step = interior + 1
        first = -(-max(0, -low) // step)
        last = min(extent - 1, (padded_extent - 1 - low) // step)
        if last < first:
            return
        inside.append((first, last + 1))
        starts.append(low + first * step)
        limits.append(low + last * step + 1)
        steps.append(step)
    inner = lowerer.view(operand).slice(
        tuple(first for first, _ in inside), tuple(last for _, last in inside), (1,) * len(inside)
    )
    lowerer.copy(inner, target.slice(tuple(starts), tuple(limits), tuple(steps)), node)
