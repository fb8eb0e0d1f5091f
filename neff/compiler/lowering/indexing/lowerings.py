"""Lowers opcodes with runtime indices: gather, scatter, dynamic-slice, dynamic-update-slice."""

from __future__ import annotations

from math import prod

from neff.compiler.graph.counters import Linear
from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.control import Term, counter_of
from neff.compiler.lowering.data_movement import counting
from neff.compiler.lowering.indexing.index_kernels import (
    Component,
    Scatter,
    gather_task,
    scatter_task,
    window_dims,
)
from neff.compiler.lowering.indexing.scattered_sums import adds, sums_task
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.region import Region
from neff.compiler.lowering.tiles.task import Port
from nki_lang.base.dtypes import BY_NAME

__all__ = ["dynamic_slice", "dynamic_update_slice", "gather", "scatter"]

I32 = BY_NAME["int32"]


def dynamic_slice(lowerer: Lowerer, node: Node) -> None:
    """Return a view of the operand, moved by the start (clamped to stay inside)."""
    operand, *starts = node.operands
    source = lowerer.view(operand)
    if min(source.strides, default=0) < 0:
        source = _dense(lowerer, operand)
    lowerer.place(node, _window_at(lowerer, source, node.shape, starts, node))


def dynamic_update_slice(lowerer: Lowerer, node: Node) -> None:
    """Overwrite a window of the operand at the start; in place if both share memory."""
    operand, update, *starts = node.operands
    target = _narrow_home(lowerer, node)
    _put(lowerer, operand, target, node)
    if update.size:
        _put(lowerer, update, _window_at(lowerer, target, update.shape, starts, node), node)


def _window_at(
    lowerer: Lowerer, base: View, shape: tuple[int, ...], starts: list[Node], node: Node
) -> View:
    """Return the window of a view that starts at runtime indices."""
    terms: list[Term] = []
    offset = base.offset
    for start, extent, size, stride in zip(starts, base.shape, shape, base.strides, strict=True):
        _require_words(start, node)
        last = extent - size
        number = lowerer.number(start)
        if number is not None:
            offset += min(max(int(number), 0), last) * stride
        elif start.opcode == "counter" and _is_inside(start, last):
            counter: Linear = start.attributes["linear"]
            first = counter.start * stride
            shrinks = counter.step * stride < 0
            offset += 0 if shrinks else first
            terms.append(Term(counter_of(start), counter.step * stride, start=first * shrinks))
        elif last:
            port = lowerer.port(lowerer.view(start))
            terms.append(Term(port, stride, last, start.element.kind == "uint"))
    window_view = View(base.buffer, shape, base.strides, offset)
    if not terms or not window_view.size:
        return window_view
    return lowerer.window(window_view, shape, terms, node)


def _is_inside(start: Node, last: int) -> bool:
    reach = start.attributes["linear"].range()
    return reach is not None and reach[0] >= 0 and reach[1] <= last


def gather(lowerer: Lowerer, node: Node) -> None:
    """Gather windows of the operand, one for each index; the result is a view of them in order."""
    operand, starts = node.operands
    fields = node.attributes
    source = _dense(lowerer, operand)
    sizes = fields["sizes"]
    dropped = (*fields["collapsed"], *fields["operand_batching"])
    window_dims_of_operand = tuple(dim for dim in range(len(sizes)) if dim not in dropped)
    mapped = (*fields["start_map"], *fields["operand_batching"])
    components = _components(source, mapped, tuple(sizes[dim] for dim in mapped))
    indices, batch = _index_rows(lowerer, starts, node, fields["start_batching"])
    window = tuple(sizes[dim] for dim in window_dims_of_operand)
    flat = lowerer.scratch((prod(batch), prod(window)), held_as(node).tile)
    dims = window_dims(window, tuple(source.strides[dim] for dim in window_dims_of_operand))
    ports = (lowerer.port(source), lowerer.port(indices), lowerer.port(flat))
    lowerer.call(gather_task("gather", *ports, components, dims), node)
    ordered = View(flat.buffer, (*batch, *window), row_major((*batch, *window)))
    lowerer.place(node, ordered.transpose(_result_order(len(node.shape), fields["offset_dims"])))


def _result_order(rank: int, offsets: tuple[int, ...]) -> tuple[int, ...]:
    """Return dimensions (batch..., window...) in the order of the result."""
    batch = [dim for dim in range(rank) if dim not in offsets]
    position_of = {dim: number for number, dim in enumerate((*batch, *sorted(offsets)))}
    return tuple(position_of[dim] for dim in range(rank))


def scatter(lowerer: Lowerer, node: Node) -> None:
    """Combine updates into the operands in sequence; updates out of bounds are dropped."""
    count = len(node.operands) // 2
    operands, starts, updates = node.operands[:count], node.operands[count], node.operands[-count:]
    fields = node.attributes
    targets = _targets(lowerer, node, operands)
    if not updates[0].size:
        return
    shape, window = operands[0].shape, updates[0].shape
    windowed = fields["window_dims"]
    batch_dims = tuple(dim for dim in range(len(window)) if dim not in windowed)
    dropped = (*fields["inserted"], *fields["operand_batching"])
    window_dims_of_operand = tuple(dim for dim in range(len(shape)) if dim not in dropped)
    sizes = dict.fromkeys(range(len(shape)), 1)
    sizes |= {
        dim: window[index]
        for dim, index in zip(window_dims_of_operand, sorted(windowed), strict=True)
    }
    mapped = (*fields["start_map"], *fields["operand_batching"])
    components = _components(targets[0], mapped, tuple(sizes[dim] for dim in mapped))
    indices, _ = _index_rows(lowerer, starts, node, fields["start_batching"])
    order = (*batch_dims, *sorted(windowed))
    ordered = [_in_a_row(lowerer, update, order, len(batch_dims), node) for update in updates]
    region: Region = fields["region"]
    spec = Scatter(
        [lowerer.port(target) for target in targets], lowerer.port(indices), ordered,
        components, tuple(targets[0].strides[dim] for dim in window_dims_of_operand), region.on_tiles,
    )  # fmt: skip
    task = sums_task if adds(spec, fields["applied"]) else scatter_task
    lowerer.call(task("scatter", spec), node)


def _in_a_row(
    lowerer: Lowerer, update: Node, order: tuple[int, ...], batch: int, node: Node
) -> Port:
    """Return updates with their dimensions in ``order``, the first ``batch`` joined to one."""
    view = _dense(lowerer, update).transpose(order)
    rows = merge(
        [
            Dim(*dim)
            for dim in zip(view.shape[:batch], ((stride,) for stride in view.strides), strict=False)
        ]
    )
    if len(rows) > 1:
        view = lowerer.compact(view, node)
        rows = [Dim(prod(view.shape[:batch]), (prod(view.shape[batch:]),))]
    first = rows[0] if rows else Dim(1, (0,))
    shape, strides = view.shape[batch:], view.strides[batch:]
    return lowerer.port(
        View(view.buffer, (first.extent, *shape), (first.steps[0], *strides), view.offset)
    )


def _targets(lowerer: Lowerer, node: Node, operands: tuple[Node, ...]) -> list[View]:
    """Return buffers with the operands' values, which become the results."""
    if len(operands) == 1:
        views = [_narrow_home(lowerer, node)]
    else:
        views = [lowerer.scratch(array.shape, held_as(array).tile) for array in operands]
        lowerer.results[id(node)] = views
    for operand, view in zip(operands, views, strict=True):
        _put(lowerer, operand, view, node)
    return views


def _components(view: View, dims: tuple[int, ...], sizes: tuple[int, ...]) -> list[Component]:
    return [
        Component(view.strides[dim], view.shape[dim] - size)
        for dim, size in zip(dims, sizes, strict=True)
    ]


def _dense(lowerer: Lowerer, node: Node) -> View:
    """Return the node's value without gaps and in narrow elements."""
    view = lowerer.view(node)
    plain = view.contiguous and view.buffer not in lowerer.windows
    if plain and not lowerer.port(view).wide:
        return view
    target = lowerer.scratch(node.shape, held_as(node).tile)
    lowerer.copy(view, target, node)
    return target


def _narrow_home(lowerer: Lowerer, node: Node) -> View:
    """Return the node's home, or scratch if its elements have two words."""
    home = lowerer.home(node)
    if not lowerer.port(home).wide:
        return home
    home = lowerer.scratch(node.shape, held_as(node).tile)
    lowerer.place(node, home)
    return home


def _put(lowerer: Lowerer, operand: Node, target: View, node: Node) -> None:
    number = lowerer.number(operand)
    if number is not None:
        lowerer.fill(target, number, node)
    else:
        lowerer.copy(lowerer.view(operand), target, node)


def _index_rows(
    lowerer: Lowerer, starts: Node, node: Node, batching: tuple[int, ...]
) -> tuple[View, tuple[int, ...]]:
    """Return (components, N), and the batch dimensions whose product is N.

    Batching dimensions of the indices are components that count through their extent. Without any
    component there is a row of zeros, which the kernels read all the same.
    """
    _require_words(starts, node)
    vector_dim: int = node.attributes["index_vector"]
    view = lowerer.view(starts)
    if vector_dim == len(view.shape):
        view = View(view.buffer, (*view.shape, 1), (*view.strides, 0), view.offset)
    batch = view.shape[:vector_dim] + view.shape[vector_dim + 1 :]
    count = view.shape[vector_dim]
    indices = lowerer.scratch((max(1, count + len(batching)), prod(batch)), I32)
    if not count + len(batching):  # windows as large as the operand: no component says where
        lowerer.fill(indices, 0, node)
    for row in range(count):
        offset = view.offset + row * view.strides[vector_dim]
        strides = view.strides[:vector_dim] + view.strides[vector_dim + 1 :]
        source = View(view.buffer, batch, strides, offset)
        lowerer.copy(source, _row(indices, row, batch), node)
    for row, dim in enumerate(batching, start=count):
        batch_dim = dim if dim < vector_dim else dim - 1
        line = counting(lowerer, batch[batch_dim], I32, node)
        lowerer.copy(line.broadcast(batch, (batch_dim,)), _row(indices, row, batch), node)
    return indices, batch


def _row(indices: View, row: int, batch: tuple[int, ...]) -> View:
    start = row * indices.strides[0]
    return View(indices.buffer, batch, row_major(batch), indices.offset + start)


def _require_words(indices: Node, node: Node) -> None:
    if held_as(indices).kind not in ("word", "small"):
        raise uncovered(node, f"indices of type {indices.element} are not covered")
