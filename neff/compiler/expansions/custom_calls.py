"""Custom calls that frameworks emit beside kernels: top-k, resizing of images, QR.

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
"""Custom calls that only say where data is; on one device they do nothing."""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One call.

    Attributes:
        node: its name and place; a node of the first result's type.
        operands: what it is called with.
        shapes: of its results.
        config: its backend configuration.
        apply: the computation that it names, done on whole arrays.
    """

    node: Node
    operands: list[Node]
    shapes: list[tuple[int, ...]]
    config: str
    apply: Apply


def shapes_of(shape: ShapeProto) -> tuple[list[tuple[int, ...]], list[ElementType]]:
    """The extents and the type of each result."""
    parts = list(shape.tuple_shapes) or [shape]
    return [tuple(part.dimensions) for part in parts], [BY_NUMBER[p.element_type] for p in parts]


def _top_k(call: CustomCall) -> tuple[Node, ...]:
    (operand,) = call.operands
    if call.shapes[0][:-1] != operand.shape[:-1]:
        raise uncovered(call.node, "a top-k along another dimension than the last")
    return top(call.node, operand, call.shapes[0][-1], True)


def _approximate_top_k(call: CustomCall) -> tuple[Node, ...]:
    """Exact: sorted by the comparison, and the first elements."""
    operand, places = call.operands[:2]
    stated = re.search(r"reduction_dim\"?\s*[:=]\s*(\d+)", call.config)
    dim = int(stated.group(1)) if stated else len(operand.shape) - 1

    found = sorted_rows(call.node, [operand, places], dim, call.apply)
    return tuple(sliced(call.node, one, dim, 0, call.shapes[0][dim]) for one in found)


# -- resizing -------------------------------------------------------------------------------------


def _weights(size: int, wide: int, config: str, nearest: bool) -> npt.NDArray[np.float32]:
    """What each of ``wide`` results takes of each of ``size`` elements."""
    digits = re.findall(r"[01]", config)
    corners, centres = (digits[:2] == ["1", "0"], digits[1:2] == ["1"])
    at = np.arange(wide, dtype=np.float32)
    if corners:
        at = at * np.float32((size - 1) / (wide - 1) if wide > 1 else 0)
    elif centres:
        at = (at + np.float32(0.5)) * np.float32(size / wide) - np.float32(0.5)
    else:
        at = at * np.float32(size / wide)
    if nearest:
        at = np.round(at) if corners else np.floor(at + (np.float32(0.5) if centres else 0))
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(int)
    share = (at - low).astype(np.float32)
    found = np.zeros((wide, size), np.float32)
    rows = np.arange(wide)
    np.add.at(found, (rows, low), 1 - share)
    np.add.at(found, (rows, np.minimum(low + 1, size - 1)), share)
    return found


def _resized(nearest: bool, gradient: bool) -> Callable[[CustomCall], tuple[Node, ...]]:
    """Images (N, H, W, C), one dimension after the other; the gradient goes back."""

    def rule(call: CustomCall) -> tuple[Node, ...]:
        found, shape = call.operands[0], call.shapes[0]
        if len(shape) != 4 or found.element.kind != "float":
            raise uncovered(call.node, "only images (N, H, W, C) of floats are resized")
        element = found.element
        found = found if element.name == "f32" else found.like("convert", found, element="f32")
        for dim in (1, 2):
            size, wide = found.shape[dim], shape[dim]
            pair = (wide, size) if gradient else (size, wide)
            table = _weights(*pair, call.config, nearest)
            found = _weighted(call.node, found, table.T if gradient else table, dim)
        return (
            found if element.name == "f32" else found.like("convert", found, element=element.name),
        )

    return rule


def _weighted(like: Node, image: Node, table: npt.NDArray[np.float32], dim: int) -> Node:
    """Along one dimension, the product with a table."""
    weights = derived(
        like, "constant", (), table.shape, BY_NAME["f32"], value=np.ascontiguousarray(table)
    )
    rest = [extent for d, extent in enumerate(image.shape) if d != dim]
    made = derived(
        like, "dot", (image, weights), (*rest, table.shape[0]), lhs_batch=(), rhs_batch=(),
        lhs_contracting=(dim,), rhs_contracting=(1,),
    )  # fmt: skip
    order = [*range(dim), 3, *range(dim, 3)]
    shape = [made.shape[d] for d in order]
    return derived(like, "transpose", (made,), shape, dimensions=tuple(order))


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
"""Target of a custom call -> its results."""
