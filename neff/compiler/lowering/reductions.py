"""Lowers reductions: by which engine, in how many stages, and in which order of the dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.data_movement import range_of
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.product import Product, product_task
from neff.compiler.lowering.rows.reduction import (
    MAX_NARROW_COLUMNS,
    MIN_NARROW_ROWS,
    REDUCERS,
    Reduction,
    is_neutral,
    reduction_task,
)
from nki_lang.base.dtypes import BY_NAME

__all__ = ["reduce"]


F32 = BY_NAME["float32"]
_MIN_ONES_COLUMNS = 64
"""From this many adjacent elements on, sums across them are products with ones."""

_MIN_ONES_DEPTH = 32
"""From this many summands on, sums are products with ones."""

_MAX_ONES_PRODUCTS = 64
"""Up to this many products, sums are products with ones."""

_MAX_STAGED_RESULTS = 64
"""Below this many results a long reduction has two stages, to use all partitions."""

_MIN_EVEN_PARTS = 64
"""From this many equal parts on they are used; with fewer, 128 parts and a remainder are faster."""


def reduce(lowerer: Lowerer, node: Node) -> None:
    """Reduce with kept dimensions first; long reductions to few results have two stages.

    Raises:
        NeffCompileError: ``NEFF-OP``; several operands, or another operation than REDUCERS has.
    """
    if len(node.operands) != 2:
        raise uncovered(node, "a reduce of several operands at once is not covered")
    op = node.attributes["applied"]
    if op not in REDUCERS:
        raise uncovered(node, f"a reduce that applies {op} is not covered")
    operand, start = node.operands
    dims = node.attributes["dimensions"]
    kept_dims = [dim for dim in range(len(operand.shape)) if dim not in dims]
    source = lowerer.view(operand).transpose((*kept_dims, *sorted(dims)))
    kind = held_as(operand).kind
    target = lowerer.home(node)
    number = lowerer.number(start)
    port = None if number is not None else lowerer.port(lowerer.view(start))
    if number is not None and is_neutral(op, number, kind):
        number = None
    if not operand.size:
        lowerer.copy(lowerer.view(start).broadcast(node.shape, ()), target, node)
        return
    source = _narrow_rows(lowerer, node, source, len(kept_dims))
    if op == "add" and kind == "float" and number is None and port is None:
        source = _summed_across(lowerer, node, source, len(kept_dims), target)
        if source is target:
            return
    split = _split(source, len(kept_dims))
    if split is not None and op == "add" and kind == "float" and node.size == 1:
        main, out = lowerer.port(split.main), lowerer.port(target)
        total = Reduction(
            main, out, len(kept_dims) + 1, op, kind, number, port, True, split.remainder
        )
        lowerer.call(reduction_task("sum", total), node)
        return
    if split is not None:
        source = _in_parts(lowerer, node, source, len(kept_dims), split)
    last = Reduction(
        lowerer.port(source), lowerer.port(target), len(kept_dims), op, kind, number, port
    )
    lowerer.call(reduction_task("reduce", last), node)


def _narrow_rows(lowerer: Lowerer, node: Node, source: View, kept_dims: int) -> View:
    """Reduce many short contiguous rows to 128.

    Each partition takes the same number of rows, in one range of memory. Any other source is
    unchanged.
    """
    rows, columns = (
        merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in dims])
        for dims in (range(kept_dims, len(source.shape)), range(kept_dims))
    )
    if len(rows) != 1 or len(columns) != 1 or columns[0].steps[0] != 1:
        return source
    count, (step,) = rows[0]
    width = columns[0].extent
    if step != width or not 1 < width < MAX_NARROW_COLUMNS or count < MIN_NARROW_ROWS:
        return source
    inner, remainder_rows = divmod(count, 128)
    partial = _partial(lowerer, node, (128 + (remainder_rows > 0), width))
    main = View(source.buffer, (128, width, inner), (inner * width, 1, width), source.offset)
    _reduce_part(lowerer, node, main, range_of(partial, 0, 0, 128))
    if remainder_rows:
        remainder = View(
            source.buffer, (1, width, remainder_rows), (0, 1, width), source.offset + main.size
        )
        _reduce_part(lowerer, node, remainder, range_of(partial, 0, 128, 129))
    shape = (*source.shape[:kept_dims], partial.shape[0])
    return View(
        partial.buffer, shape, (*row_major(source.shape[:kept_dims]), width), partial.offset
    )


def _partial(lowerer: Lowerer, node: Node, shape: tuple[int, ...]) -> View:
    """Return scratch for partial results of a reduction."""
    partial = lowerer.scratch(shape, held_as(node).tile)
    if held_as(node.operands[0]).kind == "float":
        lowerer.parts.variables[partial.buffer].dtype = F32
    return partial


def _reduce_part(lowerer: Lowerer, node: Node, source: View, target: View) -> None:
    """Reduce the last dimensions of the source, which the target does not have."""
    op, kind = node.attributes["applied"], held_as(node.operands[0]).kind
    stage = Reduction(lowerer.port(source), lowerer.port(target), len(target.shape), op, kind)
    lowerer.call(reduction_task("reduce", stage), node)


def _summed_across(
    lowerer: Lowerer, node: Node, source: View, kept_dims: int, target: View
) -> View:
    """Sum the dimensions of the source with large strides, by products with ones.

    Return the source if it has none, and the target if nothing is left to be summed. Innermost
    dimensions that are kept, or reduced afterwards, are the columns of the products: a reduction along
    partitions would load them element by element.
    """
    outer = [dim for dim in range(kept_dims, len(source.shape)) if source.shape[dim] > 1]
    inner = [dim for dim in outer if source.strides[dim] == 1]
    outer = [dim for dim in outer if dim not in inner]
    column_dims = [*range(kept_dims), *inner]
    dims = merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in outer])
    columns = merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in column_dims])
    if len(dims) != 1 or not columns or columns[-1].steps[0] != 1:
        return source
    (depth, (down,)), (width, _) = dims[0], columns[-1]
    batch = columns[:-1]
    if (
        width < _MIN_ONES_COLUMNS
        or depth < _MIN_ONES_DEPTH
        or prod(dim.extent for dim in batch) > _MAX_ONES_PRODUCTS
    ):
        return source
    shape = tuple(dim.extent for dim in batch)
    steps = tuple(dim.steps[0] for dim in batch)
    unit = held_as(node.operands[0]).tile.dtype.type(1)
    ones = Node("constant", (), (), node.operands[0].element, {"value": unit})
    left = lowerer.view(ones).broadcast((*shape, 1, depth), ())
    right = View(source.buffer, (*shape, depth, width), (*steps, down, 1), source.offset)
    total = target
    out = None if inner else target.reshape((*shape, 1, width))
    if out is None:
        total = lowerer.scratch(tuple(source.shape[dim] for dim in column_dims), F32)
        out = total.reshape((*shape, 1, width))
    assert out is not None
    ports = (lowerer.port(left), lowerer.port(right), lowerer.port(out))
    exact = lowerer.parts.target.generation >= 3
    spec = Product(*ports, lowerer.port(source).dtype, "float", exact)
    lowerer.call(product_task("sum", spec), node)
    return total


@dataclass(frozen=True, slots=True)
class _Split:
    """Reduced elements in equal parts.

    Attributes:
        main: the source with its parts as an additional kept dimension, the last.
        remainder: the remaining elements, an additional part; None if all parts are equal.
    """

    main: View
    remainder: View | None


def _in_parts(lowerer: Lowerer, node: Node, source: View, kept_dims: int, split: _Split) -> View:
    """Return the parts reduced to one element each: the kept dimensions, and one of the parts."""
    front, count = source.shape[:kept_dims], split.main.shape[kept_dims]
    partial = _partial(lowerer, node, (*front, count + (split.remainder is not None)))
    _reduce_part(lowerer, node, split.main, range_of(partial, kept_dims, 0, count))
    if split.remainder is not None:
        last = range_of(partial, kept_dims, count, count + 1).reshape(front)
        assert last is not None
        _reduce_part(lowerer, node, split.remainder, last)
    return partial


def _split(source: View, kept_dims: int) -> _Split | None:
    """Return parts for all partitions, if few results have many elements each."""
    results, total = prod(source.shape[:kept_dims]), prod(source.shape[kept_dims:])
    if results >= _MAX_STAGED_RESULTS or total < 2048:
        return None
    reduced = merge(
        [
            Dim(count, (step,))
            for count, step in zip(
                source.shape[kept_dims:], source.strides[kept_dims:], strict=True
            )
        ]
    )
    longest = max(range(len(reduced)), key=lambda number: reduced[number].extent)
    count, (step,) = reduced[longest]
    parts = max(count_of_parts for count_of_parts in range(1, 129) if count % count_of_parts == 0)
    if parts < _MIN_EVEN_PARTS and count >= 2 * 128:
        parts = 128
    if parts < 8:
        return None

    def view(dims: list[tuple[int, int]], offset: int) -> View:
        dims = [*zip(source.shape[:kept_dims], source.strides[:kept_dims], strict=True), *dims]
        return View(
            source.buffer, tuple(extent for extent, _ in dims), tuple(step for _, step in dims),
            source.offset + offset,
        )  # fmt: skip

    inner, remainder_count = divmod(count, parts)
    dims = [(dim.extent, dim.steps[0]) for dim in reduced]
    main = [(parts, step * inner), *dims[:longest], (inner, step), *dims[longest + 1 :]]
    remainder = [*dims[:longest], (remainder_count, step), *dims[longest + 1 :]]
    return _Split(
        view(main, 0),
        view(remainder, (count - remainder_count) * step) if remainder_count else None,
    )
