"""One call of a PyTorch operator, as the function that lowers it to HLO sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.graph import DType, Graph, Node, Operand
from neff.torch_graph.errors import TorchGraphError, not_lowered
from neff.torch_graph.pytorch import Tree, torch
from neff.torch_graph.pytorch_dtypes import NUMPY_DTYPES, TORCH_DTYPES

__all__ = ["BOOL", "F32", "S32", "S64", "OperatorCall", "Row", "Shape", "axes_of", "axis_of"]

BOOL, F32 = np.dtype(bool), np.dtype(np.float32)
S32, S64 = np.dtype(np.int32), np.dtype(np.int64)

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Where a call stands and what PyTorch says of its results.

    Attributes:
        graph: the graph that its instructions are added to.
        name: of the operator, for example ``aten.add.Tensor``.
        place: ``file:line`` of the user's code, or "".
        shapes, dtypes: of each result that is a tensor.
        is_contiguous: every operand lies in memory in C order.
    """

    graph: Graph
    name: str
    place: str
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]
    is_contiguous: bool

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.shapes[0]

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.dtypes[0]

    def node(self, value: Operand, dtype: DType | None = None, shape: Shape | None = None) -> Node:
        """A tensor or a number as a node, converted and broadcast when asked to."""
        if not isinstance(value, Node):
            value = hlo.constant(self.graph, value, dtype or _number_dtype(value))
        node: Node = value if dtype is None else converted(value, dtype)
        return node if shape is None else hlo.broadcast(node, shape)

    def promoted(self, *values: Operand) -> list[Node]:
        """Operands in the dtype that PyTorch promotes them to, all of the result's shape."""
        dtype = promoted_dtype(*values)
        return [self.node(value, dtype, self.shape) for value in values]

    def like_result(self, *values: Operand) -> list[Node]:
        """Operands in the dtype and the shape of the result."""
        return [self.node(value, self.dtype, self.shape) for value in values]

    def full(self, value: Operand, shape: Shape | None = None, dtype: DType | None = None) -> Node:
        """One number everywhere; of the result's shape and dtype by default."""
        return hlo.full(
            self.graph, self.shape if shape is None else shape, value, dtype or self.dtype
        )

    def refused(self, what: str) -> TorchGraphError:
        """The error of arguments that the lowering does not cover."""
        return not_lowered(self.name, self.place, what)


Row: TypeAlias = Callable[..., "Node | tuple[Node, ...]"]
"""Lowers one operator: takes an :class:`OperatorCall` and every argument of the operator's schema
in order, tensors as nodes."""


def converted(node: Node, dtype: DType) -> Node:
    """PyTorch's conversion between dtypes: truncation to integers, ``!= 0`` to booleans."""
    if node.dtype.kind == "c" and dtype.kind == "c":
        return (
            node if node.dtype == dtype else node.graph.emit("convert", node.shape, dtype, (node,))
        )
    return hlo.convert(node, dtype)


def promoted_dtype(*values: Operand) -> DType:
    """The dtype of the common type: tensors before scalar tensors before numbers."""
    prims: Tree = import_module("torch._prims_common")
    kinds = prims.ELEMENTWISE_TYPE_PROMOTION_KIND
    stand_ins = [_stand_in(value) if isinstance(value, Node) else value for value in values]
    _, result = prims.elementwise_dtypes(*stand_ins, type_promotion_kind=kinds.DEFAULT)
    return NUMPY_DTYPES[result]


def _stand_in(node: Node) -> Tree:
    """A tensor without data that promotes as the node does."""
    return torch.empty((1,) if node.shape else (), dtype=TORCH_DTYPES[node.dtype], device="meta")


def _number_dtype(value: Operand) -> DType:
    for kind, dtype in ((bool, BOOL), (int, S64), (float, F32)):
        if isinstance(value, kind):
            return dtype
    return np.dtype(np.complex64)


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + max(rank, 1) if dim < 0 else dim


def axes_of(dims: Operand, rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front, all of them for None and for an empty list."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(rank))
    listed = [dims] if isinstance(dims, int) else cast("Sequence[int]", dims)
    return tuple(sorted(axis_of(dim, rank) for dim in listed)) if rank else ()
