"""Imports custom calls of frameworks other than kernels: top-k, resizing of images, QR.

``TopK`` is XLA's, ``AwsNeuronTopK`` the vendor's (nkipy writes it), ``ApproxTopK`` JAX's; the
resizing ones are torch_xla's (NHWC; the configuration holds two digits, ``align_corners`` and
``half_pixel_centers``); ``Qr`` and the product of reflections are JAX's for accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hlo_tools.types.element_types import BY_NAME, BY_NUMBER, ElementType
from neff.compiler.expansions.decompositions import householder_factors, householder_product
from neff.compiler.expansions.sorting import sorted_rows, top
from neff.compiler.graph.nodes import Node, derived, sliced, uncovered

if TYPE_CHECKING:
    from hlo_tools.schema.messages import ShapeProto

__all__ = ["CUSTOM_CALLS", "IDENTITIES", "CustomCall", "shapes_of"]

Apply = Callable[[list[Node], tuple[int, ...]], Node]

IDENTITIES = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding",
     "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", "xla.sdy.PropagationBarrier",
     "xla.sdy.Sharding", "xla.sdy.ShardingGroup", "annotate_device_placement"}
)  # fmt: skip
"""Custom calls that only state where data is; on one device they do nothing."""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A custom call to import.

    Attributes:
        node: a node with its name and location, of the first result's type.
        operands: its operands.
        shapes: shapes of its results.
        config: its backend configuration.
        apply: applies the computation that it names to whole arrays.
    """

    node: Node
    operands: list[Node]
    shapes: list[tuple[int, ...]]
    config: str
    apply: Apply


def shapes_of(shape: ShapeProto) -> tuple[list[tuple[int, ...]], list[ElementType]]:
    """Return the extents and the type of each result."""
    parts = list(shape.tuple_shapes) or [shape]
    return [tuple(element.dimensions) for element in parts], [
        BY_NUMBER[element.element_type] for element in parts
    ]


def _top_k(call: CustomCall) -> tuple[Node, ...]:
    (operand,) = call.operands
    if call.shapes[0][:-1] != operand.shape[:-1]:
        raise uncovered(call.node, "a top-k along another dimension than the last")
    return top(call.node, operand, call.shapes[0][-1], True)


def _approximate_top_k(call: CustomCall) -> tuple[Node, ...]:
    """Return an exact top-k: sort by the comparison, and take the first elements."""
    operand, positions = call.operands[:2]
    stated = re.search(r"reduction_dim\"?\s*[:=]\s*(\d+)", call.config)
    dim = int(stated.group(1)) if stated else len(operand.shape) - 1

    sorted_operands = sorted_rows(call.node, [operand, positions], dim, call.apply)
    return tuple(sliced(call.node, rows, dim, 0, call.shapes[0][dim]) for rows in sorted_operands)


# -- resizing -------------------------------------------------------------------------------------


def _weights(size: int, results: int, config: str, nearest: bool) -> npt.NDArray[np.float32]:
    """Return the weight of each of ``size`` elements in each of ``results`` results."""
    digits = re.findall(r"[01]", config)
    corners, centres = (digits[:2] == ["1", "0"], digits[1:2] == ["1"])
    position = np.arange(results, dtype=np.float32)
    if corners:
        position = position * np.float32((size - 1) / (results - 1) if results > 1 else 0)
    elif centres:
        position = (position + np.float32(0.5)) * np.float32(size / results) - np.float32(0.5)
    else:
        position = position * np.float32(size / results)
    if nearest:
        position = (
            np.round(position)
            if corners
            else np.floor(position + (np.float32(0.5) if centres else 0))
        )
    position = np.clip(position, 0, size - 1)
    low = np.floor(position).astype(int)
    share = (position - low).astype(np.float32)
    weights = np.zeros((results, size), np.float32)
    rows = np.arange(results)
    np.add.at(weights, (rows, low), 1 - share)
    np.add.at(weights, (rows, np.minimum(low + 1, size - 1)), share)
    return weights


def _resized(nearest: bool, gradient: bool) -> Callable[[CustomCall], tuple[Node, ...]]:
    """Return a rule that resizes images (N, H, W, C) by one dimension at a time, or their
    gradient.
    """

    def rule(call: CustomCall) -> tuple[Node, ...]:
        image, shape = call.operands[0], call.shapes[0]
        if len(shape) != 4 or image.element.kind != "float":
            raise uncovered(call.node, "only images (N, H, W, C) of floats are resized")
        element = image.element
        image = image if element.name == "f32" else image.like("convert", image, element="f32")
        for dim in (1, 2):
            size, wide = image.shape[dim], shape[dim]
            pair = (wide, size) if gradient else (size, wide)
            table = _weights(*pair, call.config, nearest)
            image = _weighted(call.node, image, table.T if gradient else table, dim)
        return (
            image if element.name == "f32" else image.like("convert", image, element=element.name),
        )

    return rule


def _weighted(like: Node, image: Node, table: npt.NDArray[np.float32], dim: int) -> Node:
    """Multiply with a table along one dimension."""
    weights = derived(
        like, "constant", (), table.shape, BY_NAME["f32"], value=np.ascontiguousarray(table)
    )
    other_extents = [extent for d, extent in enumerate(image.shape) if d != dim]
    product = derived(
        like, "dot", (image, weights), (*other_extents, table.shape[0]), lhs_batch=(), rhs_batch=(),
        lhs_contracting=(dim,), rhs_contracting=(1,),
    )  # fmt: skip
    order = [*range(dim), 3, *range(dim, 3)]
    shape = [product.shape[d] for d in order]
    return derived(like, "transpose", (product,), shape, dimensions=tuple(order))


CUSTOM_CALLS: dict[str, Callable[[CustomCall], tuple[Node, ...]]] = {
    "ApproxTopK": _approximate_top_k,
    "AwsNeuronTopK": _top_k,
    "ProductOfElementaryHouseholderReflectors": lambda call: (
        householder_product(call.node, *call.operands[:2]),
    ),
    "Qr": lambda call: householder_factors(call.node, call.operands[0]),
    "ResizeBilinear": _resized(False, False),
    "ResizeBilinearGrad": _resized(False, True),
    "ResizeNearest": _resized(True, False),
    "ResizeNearestGrad": _resized(True, True),
    "TopK": _top_k,
}
"""Target of a custom call -> rule that returns its results."""
