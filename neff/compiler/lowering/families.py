"""The opcodes with kernels of their own: how each calls the kernels of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.movement import iota_task, words_task
from neff.compiler.lowering.over_rows import OverRows
from neff.compiler.lowering.product import Product, product_task
from neff.compiler.lowering.reduction import (
    MANY_ROWS,
    NARROW,
    REDUCERS,
    Reduction,
    changes_nothing,
    reduction_task,
)
from neff.compiler.lowering.rows import RowProduct, batch_extents
from neff.compiler.lowering.task import Port
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = [
    "concatenate", "counting", "dot", "iota", "pad", "pair", "reduce", "row_contraction", "row_product",
    "tile_type", "update_slice", "word",
]  # fmt: skip

F32 = BY_NAME["float32"]
_ACROSS = 64
"""Elements next to each other from which on sums across them are products with ones."""

_DEEP = 32
"""Summands from which on they are."""

_STACKED = 64
"""Products up to which they are."""

_FEW = 64
"""Kept elements below which a long reduction is done in two stages, to use all partitions."""

_EVEN = 64
"""Parts of equal size of which there are enough; of fewer, 128 and a rest are better."""


def iota(lowerer: Lowerer, node: Node) -> None:
    """One dimension counts, the others repeat: a short buffer and a view of it."""
    dimension: int = node.attributes["dimensions"][0]
    line = counting(lowerer, node.shape[dimension], held_as(node).tile, node)
    lowerer.place(node, line.broadcast(node.shape, (dimension,)))


def counting(lowerer: Lowerer, count: int, dtype: DType, node: Node) -> View:
    """The buffer 0, 1, 2, ... of that length, made once for each length and type."""
    line = lowerer.iota(count, dtype)
    if line is None:
        line = lowerer.scratch((count,), dtype)
        lowerer.call(iota_task("iota", lowerer.port(line)), node)
        lowerer.keep_iota(line, dtype)
    return line


def word(lowerer: Lowerer, node: Node) -> None:
    """The low or the high words of an input of 64-bit integers."""
    source = lowerer.port(lowerer.view(node.operands[0]))
    target = lowerer.port(lowerer.home(node))
    task = words_task("word", [(source, node.attributes["word"], target, 0)])
    lowerer.call(task, node)


def pair(lowerer: Lowerer, node: Node) -> None:
    """An output of 64-bit integers from its words."""
    parts = [lowerer.port(lowerer.view(operand)) for operand in node.operands]
    target = lowerer.port(lowerer.home(node))
    moves = [(part, 0, target, number) for number, part in enumerate(parts)]
    lowerer.call(words_task("pair", moves), node)


def concatenate(lowerer: Lowerer, node: Node) -> None:
    """Every operand is copied to its part of the result."""
    dimension: int = node.attributes["dimensions"][0]
    target = lowerer.home(node)
    begin = 0
    for operand in node.operands:
        end = begin + operand.shape[dimension]
        _put(lowerer, operand, _part(target, dimension, begin, end), node)
        begin = end


def _part(view: View, dimension: int, begin: int, end: int) -> View:
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
    """The operand, and a part of it written over."""
    operand, update = node.operands
    target = lowerer.home(node)
    _put(lowerer, operand, target, node)
    fields = node.attributes
    part = target.slice(fields["starts"], fields["limits"], fields["strides"])
    _put(lowerer, update, part, node)


def pad(lowerer: Lowerer, node: Node) -> None:
    """The padding value everywhere, then the operand where it belongs."""
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
    for extent, wide, (low, _high, interior) in zip(
        operand.shape, node.shape, node.attributes["padding"], strict=True
    ):
        step = interior + 1
        first = -(-max(0, -low) // step)
        last = min(extent - 1, (wide - 1 - low) // step)
        if last < first:
            return
        inside.append((first, last + 1))
        starts.append(low + first * step)
        limits.append(low + last * step + 1)
        steps.append(step)
    kept = lowerer.view(operand).slice(
        tuple(first for first, _ in inside), tuple(last for _, last in inside), (1,) * len(inside)
    )
    lowerer.copy(kept, target.slice(tuple(starts), tuple(limits), tuple(steps)), node)


def reduce(lowerer: Lowerer, node: Node) -> None:
    """Kept dimensions in front, reduced ones behind; long ones for few results in two stages.

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
    kept = [dim for dim in range(len(operand.shape)) if dim not in dims]
    source = lowerer.view(operand).transpose((*kept, *sorted(dims)))
    kind = held_as(operand).kind
    target = lowerer.home(node)
    number = lowerer.number(start)
    port = None if number is not None else lowerer.port(lowerer.view(start))
    if number is not None and changes_nothing(op, number, kind):
        number = None
    if not operand.size:
        lowerer.copy(lowerer.view(start).broadcast(node.shape, ()), target, node)
        return
    source = _narrow_rows(lowerer, node, source, len(kept))
    if op == "add" and kind == "float" and number is None and port is None:
        source = _summed_across(lowerer, node, source, len(kept), target)
        if source is target:
            return
    split = _split(source, len(kept))
    if split is not None and op == "add" and kind == "float" and node.size == 1:
        main, out = lowerer.port(split.main), lowerer.port(target)
        total = Reduction(main, out, len(kept) + 1, op, kind, number, port, True, split.rest)
        lowerer.call(reduction_task("sum", total), node)
        return
    if split is not None:
        source = _in_parts(lowerer, node, source, len(kept), split)
    last = Reduction(lowerer.port(source), lowerer.port(target), len(kept), op, kind, number, port)
    lowerer.call(reduction_task("reduce", last), node)


def _narrow_rows(lowerer: Lowerer, node: Node, source: View, kept: int) -> View:
    """Many short rows that lie behind each other, reduced to 128: each partition takes as many rows
    as the others, in one piece of memory. Any other source is left as it is.
    """
    rows, columns = (
        merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in dims])
        for dims in (range(kept, len(source.shape)), range(kept))
    )
    if len(rows) != 1 or len(columns) != 1 or columns[0].steps[0] != 1:
        return source
    count, (step,) = rows[0]
    width = columns[0].extent
    if step != width or not 1 < width < NARROW or count < MANY_ROWS:
        return source
    inner, left = divmod(count, 128)
    partial = _partial(lowerer, node, (128 + (left > 0), width))
    main = View(source.buffer, (128, width, inner), (inner * width, 1, width), source.offset)
    _reduce_part(lowerer, node, main, _part(partial, 0, 0, 128))
    if left:
        rest = View(source.buffer, (1, width, left), (0, 1, width), source.offset + main.size)
        _reduce_part(lowerer, node, rest, _part(partial, 0, 128, 129))
    shape = (*source.shape[:kept], partial.shape[0])
    return View(partial.buffer, shape, (*row_major(source.shape[:kept]), width), partial.offset)


def _partial(lowerer: Lowerer, node: Node, shape: tuple[int, ...]) -> View:
    """Scratch for what a reduce has of parts of its elements."""
    partial = lowerer.scratch(shape, held_as(node).tile)
    if held_as(node.operands[0]).kind == "float":
        lowerer.parts.variables[partial.buffer].dtype = F32
    return partial


def _reduce_part(lowerer: Lowerer, node: Node, source: View, target: View) -> None:
    """The source without its last dimensions: those that the target does not have."""
    op, kind = node.attributes["applied"], held_as(node.operands[0]).kind
    stage = Reduction(lowerer.port(source), lowerer.port(target), len(target.shape), op, kind)
    lowerer.call(reduction_task("reduce", stage), node)


def _summed_across(lowerer: Lowerer, node: Node, source: View, kept: int, target: View) -> View:
    """The source with the dimensions summed that lie across its rows, by products with ones; the same
    when there are none such, and the target when nothing is left to be summed.

    What is kept, or reduced afterwards, and stands next in memory are then columns of the products:
    a reduction along partitions would load it element by element.
    """
    outer = [dim for dim in range(kept, len(source.shape)) if source.shape[dim] > 1]
    inner = [dim for dim in outer if source.strides[dim] == 1]
    outer = [dim for dim in outer if dim not in inner]
    rest = [*range(kept), *inner]
    dims = merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in outer])
    columns = merge([Dim(source.shape[dim], (source.strides[dim],)) for dim in rest])
    if len(dims) != 1 or not columns or columns[-1].steps[0] != 1:
        return source
    (depth, (down,)), (width, _) = dims[0], columns[-1]
    batch = columns[:-1]
    if width < _ACROSS or depth < _DEEP or prod(dim.extent for dim in batch) > _STACKED:
        return source
    shape = tuple(dim.extent for dim in batch)
    steps = tuple(dim.steps[0] for dim in batch)
    one = held_as(node.operands[0]).tile.dtype.type(1)
    ones = Node("constant", (), (), node.operands[0].element, {"value": one})
    left = lowerer.view(ones).broadcast((*shape, 1, depth), ())
    right = View(source.buffer, (*shape, depth, width), (*steps, down, 1), source.offset)
    total = target
    out = None if inner else target.reshape((*shape, 1, width))
    if out is None:
        total = lowerer.scratch(tuple(source.shape[dim] for dim in rest), F32)
        out = total.reshape((*shape, 1, width))
    assert out is not None
    ports = (lowerer.port(left), lowerer.port(right), lowerer.port(out))
    exact = lowerer.parts.target.generation >= 3
    spec = Product(*ports, lowerer.port(source).dtype, "float", exact)
    lowerer.call(product_task("sum", spec), node)
    return total


@dataclass(frozen=True, slots=True)
class _Split:
    """Reduced elements in parts that are reduced side by side.

    Attributes:
        main: the source with its parts as one more kept dimension, the last.
        rest: the elements behind them, which are one part more; None when there are none.
    """

    main: View
    rest: View | None


def _in_parts(lowerer: Lowerer, node: Node, source: View, kept: int, split: _Split) -> View:
    """The parts, each reduced to one element: the kept dimensions, and one of the parts."""
    front, count = source.shape[:kept], split.main.shape[kept]
    partial = _partial(lowerer, node, (*front, count + (split.rest is not None)))
    _reduce_part(lowerer, node, split.main, _part(partial, kept, 0, count))
    if split.rest is not None:
        last = _part(partial, kept, count, count + 1).reshape(front)
        assert last is not None
        _reduce_part(lowerer, node, split.rest, last)
    return partial


def _split(source: View, kept: int) -> _Split | None:
    """Parts for all partitions, of few results from many elements each."""
    results, total = prod(source.shape[:kept]), prod(source.shape[kept:])
    if results >= _FEW or total < 2048:
        return None
    reduced = merge(
        [
            Dim(count, (step,))
            for count, step in zip(source.shape[kept:], source.strides[kept:], strict=True)
        ]
    )
    at = max(range(len(reduced)), key=lambda number: reduced[number].extent)
    count, (step,) = reduced[at]
    parts = max(part for part in range(1, 129) if count % part == 0)
    if parts < _EVEN and count >= 2 * 128:
        parts = 128
    if parts < 8:
        return None

    def view(dims: list[tuple[int, int]], offset: int) -> View:
        dims = [*zip(source.shape[:kept], source.strides[:kept], strict=True), *dims]
        return View(
            source.buffer, tuple(one for one, _ in dims), tuple(one for _, one in dims),
            source.offset + offset,
        )  # fmt: skip

    inner, left = divmod(count, parts)
    dims = [(dim.extent, dim.steps[0]) for dim in reduced]
    main = [(parts, step * inner), *dims[:at], (inner, step), *dims[at + 1 :]]
    rest = [*dims[:at], (left, step), *dims[at + 1 :]]
    return _Split(view(main, 0), view(rest, (count - left) * step) if left else None)


def dot(lowerer: Lowerer, node: Node) -> None:
    """Batch dimensions, then rows and columns; operands are copied when they are in no such
    order that one stride walks each."""
    fields = node.attributes
    lhs, rhs = node.operands
    left = _arranged(lowerer, lhs, fields["lhs_batch"], fields["lhs_contracting"], True)
    right = _arranged(lowerer, rhs, fields["rhs_batch"], fields["rhs_contracting"], False)
    target = lowerer.home(node)
    batch = len(fields["lhs_batch"])
    rows, columns = left.shape[-2], right.shape[-1]
    if not left.shape[-1]:
        lowerer.fill(target, held_as(node).tile.dtype.type(0), node)
        return
    out = target.reshape((*node.shape[:batch], rows, columns))
    assert out is not None
    dtype = tile_type(lowerer, node, left.shape[-1])
    ports = (lowerer.port(left), lowerer.port(right), lowerer.port(out))
    spec = Product(*ports, dtype, held_as(node).kind, lowerer.parts.target.generation >= 3)
    lowerer.call(product_task("dot", spec), node)


def row_product(lowerer: Lowerer, node: Node, is_inside: bool) -> RowProduct:
    """What a unit over rows needs to know of a product; operands are copied as for :func:`dot`.

    Args:
        lowerer: of the graph.
        node: the product.
        is_inside: a member of the unit computes the left operand.
    """
    fields = node.attributes
    lhs, rhs = node.operands
    contracting: tuple[int, ...] = fields["lhs_contracting"]
    depth = prod(lhs.shape[dim] for dim in contracting)
    dtype = tile_type(lowerer, node, depth)
    right = _arranged(lowerer, rhs, fields["rhs_batch"], fields["rhs_contracting"], False)
    left: Port | None = None
    if not is_inside:
        left = lowerer.port(_rows_of(lowerer, lhs, fields["lhs_batch"], fields["lhs_contracting"]))
    return RowProduct(left, lowerer.port(_tight_batch(right)), dtype, batch_extents(node))


def row_contraction(lowerer: Lowerer, node: Node, out: Port) -> OverRows:
    """What a unit over rows needs to know of a product that contracts its rows."""
    contracting: tuple[int, ...] = node.attributes["lhs_contracting"]
    depth = prod(node.operands[0].shape[dim] for dim in contracting)
    return OverRows(out, tile_type(lowerer, node, depth), batch_extents(node))


def _tight_batch(view: View) -> View:
    """The view of a stack of matrices without batch dimensions of one element."""
    rank = len(view.shape)
    kept = [dim for dim in range(rank) if dim >= rank - 2 or view.shape[dim] != 1]
    return View(
        view.buffer,
        tuple(view.shape[dim] for dim in kept),
        tuple(view.strides[dim] for dim in kept),
        view.offset,
    )


def _rows_of(
    lowerer: Lowerer, node: Node, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> View:
    """Batch and rows as they are, without ones, and the contraction as one dimension behind."""
    free = tuple(d for d in range(len(node.shape)) if d not in batch and d not in contracting)
    order = (*(d for d in (*batch, *free) if node.shape[d] != 1), *contracting)
    cut = len(order) - len(contracting)
    depth = prod(node.shape[d] for d in contracting)
    shape = tuple(node.shape[d] for d in order[:cut])
    ones = tuple(d for d in range(len(node.shape)) if d not in order)
    whole = lowerer.view(node).transpose((*ones, *order))
    view = View(whole.buffer, whole.shape[len(ones) :], whole.strides[len(ones) :], whole.offset)
    found = _two_strides(view, cut, cut, (*shape, 1, depth))
    if found is None:
        compact = lowerer.compact(view, node)
        return compact.reshape((*shape, depth)) or compact
    return View(view.buffer, (*shape, depth), (*view.strides[:cut], found.strides[-1]), view.offset)


def _arranged(
    lowerer: Lowerer, node: Node, batch: tuple[int, ...], contracting: tuple[int, ...], left: bool
) -> View:
    free = tuple(d for d in range(len(node.shape)) if d not in batch and d not in contracting)
    order = (*batch, *free, *contracting) if left else (*batch, *contracting, *free)
    view = lowerer.view(node).transpose(order)
    first = prod(node.shape[d] for d in (free if left else contracting))
    second = prod(node.shape[d] for d in (contracting if left else free))
    shape = (*(node.shape[d] for d in batch), first, second)
    cut = len(batch) + len(free if left else contracting)
    found = _two_strides(view, len(batch), cut, shape)
    if found is not None:
        return found
    return lowerer.compact(view, node).reshape(shape) or view


def _two_strides(view: View, batch: int, cut: int, shape: tuple[int, ...]) -> View | None:
    """The view as (batch..., first, second) when each of the two is walked by one stride."""
    strides = list(view.strides[:batch])
    for part in (slice(batch, cut), slice(cut, None)):
        dims = merge(
            [
                Dim(count, (step,))
                for count, step in zip(view.shape[part], view.strides[part], strict=True)
            ]
        )
        if len(dims) > 1:
            return None
        strides.append(dims[0].steps[0] if dims else 0)
    return View(view.buffer, shape, tuple(strides), view.offset)


_CASTS = {"bf16": "bfloat16", "fp16": "float16", "tf32": "tfloat32", "fp8_e4m3": "float8_e4m3"}


def tile_type(lowerer: Lowerer, node: Node, depth: int) -> DType:
    """The type in which the tensor engine reads the operands."""
    kinds = [held_as(operand) for operand in node.operands]
    names = {held.tile.name for held in kinds}
    if any(held.kind == "word" for held in kinds) or "int16" in names or "uint16" in names:
        raise uncovered(node, "the tensor engine multiplies floats only", "cast to float32")
    if any(held.kind in ("small", "pred") for held in kinds):
        if held_as(node).kind != "pred" and depth * 255 * 255 >= 1 << 24:
            raise uncovered(node, "an integer product this long is not exact in float32")
        return BY_NAME["bfloat16"]
    if "float32" in names:
        cast = lowerer.dot_cast
        return BY_NAME[_CASTS[cast]] if cast else F32
    if len(names) > 1 or ("float8_e4m3fn" in names and lowerer.parts.target.generation < 4):
        return BY_NAME["bfloat16"] if "float16" not in names else F32
    return kinds[0].tile
