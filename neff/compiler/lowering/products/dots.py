"""Lowers dot: the operands as stacks of matrices, and the type in which they are multiplied."""

from __future__ import annotations

from math import prod

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.few_row_products import few_row_products_task, has_few_rows
from neff.compiler.lowering.products.product import Product, product_task
from neff.compiler.lowering.rows.over_rows import OverRows
from neff.compiler.lowering.rows.row_products import RowProduct, batch_extents
from neff.compiler.lowering.tiles.task import Port
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["dot", "row_contraction", "row_product", "tile_type"]

F32 = BY_NAME["float32"]


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
