"""Lowers the opcodes with kernels of their own: how each calls the kernels of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.few_row_products import few_row_products_task, has_few_rows
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.movement import iota_task, words_task
from neff.compiler.lowering.over_rows import OverRows
from neff.compiler.lowering.product import Product, product_task
from neff.compiler.lowering.reduction import (
    MAX_NARROW_COLUMNS,
    MIN_NARROW_ROWS,
    REDUCERS,
    Reduction,
    is_neutral,
    reduction_task,
)
from neff.compiler.lowering.row_products import RowProduct, batch_extents
from neff.compiler.lowering.task import Port
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = [
    "concatenate", "counting", "dot", "iota", "pad", "pair", "reduce", "row_contraction", "row_product",
    "tile_type", "update_slice", "word",
]  # fmt: skip

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
        _put(lowerer, operand, _range_of(target, dimension, begin, end), node)
        begin = end


def _range_of(view: View, dimension: int, begin: int, end: int) -> View:
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
    _reduce_part(lowerer, node, main, _range_of(partial, 0, 0, 128))
    if remainder_rows:
        remainder = View(
            source.buffer, (1, width, remainder_rows), (0, 1, width), source.offset + main.size
        )
        _reduce_part(lowerer, node, remainder, _range_of(partial, 0, 128, 129))
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
    _reduce_part(lowerer, node, split.main, _range_of(partial, kept_dims, 0, count))
    if split.remainder is not None:
        last = _range_of(partial, kept_dims, count, count + 1).reshape(front)
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


def dot(lowerer: Lowerer, node: Node) -> None:
    """Multiply matrices: batch dimensions, then rows and columns.

    Operands are copied if their dimensions have no common stride.
    """
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
    dtype = tile_type(lowerer, node, 1)  # longer sums of integers are split to be exact
    ports = (lowerer.port(left), lowerer.port(right), lowerer.port(out))
    exact = lowerer.parts.target.generation >= 3
    spec = Product(*ports, dtype, held_as(node).kind, exact, _exact_depth(node))
    if has_few_rows(spec):
        usual = ("index by index", lambda: product_task("dot", spec))
        lowerer.call_best(
            [("four indices at a time", lambda: few_row_products_task(spec))], node, [usual]
        )
        return
    lowerer.call(product_task("dot", spec), node)


_MAX_MAGNITUDES = {"int8": 128, "uint8": 255}
"""Largest magnitudes of small integers that bfloat16 holds, and of predicates."""


def _exact_depth(node: Node) -> int:
    """Return the summands of an integer product whose sum float32 holds exactly, in whole tiles;
    0 if the result is no integer.
    """
    if held_as(node).kind not in ("small", "word"):
        return 0
    magnitudes = [
        1 if held_as(operand).kind == "pred" else _MAX_MAGNITUDES[held_as(operand).tile.name]
        for operand in node.operands
    ]
    return (1 << 24) // prod(magnitudes) // 128 * 128


def row_product(lowerer: Lowerer, node: Node, is_inside: bool) -> RowProduct:
    """Return the data of a product for a unit over rows; operands are copied as for :func:`dot`.

    Args:
        lowerer: the lowerer of the graph.
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
    """Return the data of a product that contracts the rows of a unit."""
    contracting: tuple[int, ...] = node.attributes["lhs_contracting"]
    depth = prod(node.operands[0].shape[dim] for dim in contracting)
    return OverRows(out, tile_type(lowerer, node, depth), batch_extents(node))


def _tight_batch(view: View) -> View:
    """Return the view of a stack of matrices without batch dimensions of one element."""
    rank = len(view.shape)
    dims = [dim for dim in range(rank) if dim >= rank - 2 or view.shape[dim] != 1]
    return View(
        view.buffer,
        tuple(view.shape[dim] for dim in dims),
        tuple(view.strides[dim] for dim in dims),
        view.offset,
    )


def _rows_of(
    lowerer: Lowerer, node: Node, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> View:
    """Return batch and rows without extents of one, and the contraction as the last dimension."""
    free = tuple(
        dim for dim in range(len(node.shape)) if dim not in batch and dim not in contracting
    )
    order = (*(dim for dim in (*batch, *free) if node.shape[dim] != 1), *contracting)
    cut = len(order) - len(contracting)
    depth = prod(node.shape[dim] for dim in contracting)
    shape = tuple(node.shape[dim] for dim in order[:cut])
    ones = tuple(dim for dim in range(len(node.shape)) if dim not in order)
    ordered = lowerer.view(node).transpose((*ones, *order))
    view = View(
        ordered.buffer, ordered.shape[len(ones) :], ordered.strides[len(ones) :], ordered.offset
    )
    strided = _two_strides(view, cut, cut, (*shape, 1, depth))
    if strided is None:
        compact = lowerer.compact(view, node)
        return compact.reshape((*shape, depth)) or compact
    return View(
        view.buffer, (*shape, depth), (*view.strides[:cut], strided.strides[-1]), view.offset
    )


def _arranged(
    lowerer: Lowerer, node: Node, batch: tuple[int, ...], contracting: tuple[int, ...], left: bool
) -> View:
    free = tuple(
        dim for dim in range(len(node.shape)) if dim not in batch and dim not in contracting
    )
    order = (*batch, *free, *contracting) if left else (*batch, *contracting, *free)
    view = lowerer.view(node).transpose(order)
    first = prod(node.shape[dim] for dim in (free if left else contracting))
    second = prod(node.shape[dim] for dim in (contracting if left else free))
    shape = (*(node.shape[dim] for dim in batch), first, second)
    cut = len(batch) + len(free if left else contracting)
    strided = _two_strides(view, len(batch), cut, shape)
    if strided is not None:
        return strided
    return lowerer.compact(view, node).reshape(shape) or view


def _two_strides(view: View, batch: int, cut: int, shape: tuple[int, ...]) -> View | None:
    """Return the view as (batch..., first, second) if each of the two has one stride, else None."""
    strides = list(view.strides[:batch])
    for dim_range in (slice(batch, cut), slice(cut, None)):
        dims = merge(
            [
                Dim(count, (step,))
                for count, step in zip(view.shape[dim_range], view.strides[dim_range], strict=True)
            ]
        )
        if len(dims) > 1:
            return None
        strides.append(dims[0].steps[0] if dims else 0)
    return View(view.buffer, shape, tuple(strides), view.offset)


_CASTS = {"bf16": "bfloat16", "fp16": "float16", "tf32": "tfloat32", "fp8_e4m3": "float8_e4m3"}


def tile_type(lowerer: Lowerer, node: Node, depth: int) -> DType:
    """Return the type in which the tensor engine reads the operands."""
    kinds = [held_as(operand) for operand in node.operands]
    names = {held_type.tile.name for held_type in kinds}
    if (
        any(held_type.kind == "word" for held_type in kinds)
        or "int16" in names
        or "uint16" in names
    ):
        raise uncovered(node, "the tensor engine multiplies floats only", "cast to float32")
    if any(held_type.kind in ("small", "pred") for held_type in kinds):
        if held_as(node).kind != "pred" and depth * 255 * 255 >= 1 << 24:
            raise uncovered(node, "an integer product this long is not exact in float32")
        return BY_NAME["bfloat16"]
    if "float32" in names:
        cast = lowerer.dot_cast
        return BY_NAME[_CASTS[cast]] if cast else F32
    if len(names) > 1 or ("float8_e4m3fn" in names and lowerer.parts.target.generation < 4):
        return BY_NAME["bfloat16"] if "float16" not in names else F32
    return kinds[0].tile
