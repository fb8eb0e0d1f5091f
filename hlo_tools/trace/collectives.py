"""Collectives as nkipy names them (``nkipy.distributed.collectives``).

Traced, each is the HLO instruction over the replicas of ``replica_groups``. With plain arrays
every replica is taken to hold the same data, as nkipy takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions.arguments import one_axis, xp
from hlo_tools.trace.graph import Array, Operand

__all__ = ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"]

Groups = Sequence[Sequence[int]]

_REDUCTIONS: dict[Any, str] = {
    np.add: "add", np.multiply: "multiply", np.maximum: "maximum", np.minimum: "minimum",
}  # fmt: skip


def all_gather(data: Operand, all_gather_dim: int, replica_groups: Groups, **_: object) -> Any:
    """Every replica's data one after the other along a dimension."""
    size, axis = _size(replica_groups), one_axis(all_gather_dim, data.ndim)
    if not isinstance(data, TracedArray):
        return np.concatenate([data] * size, axis)
    shape = _scaled(data.shape, axis, data.shape[axis] * size)
    return _emit("all-gather", data, shape, replica_groups, dimensions=(axis,))


def all_reduce(
    data: Operand, replica_groups: Groups, reduce_op: object = np.add, **_: object
) -> Any:
    """All replicas' data combined, element by element."""
    opcode = _opcode(reduce_op)
    if not isinstance(data, TracedArray):
        return _combined(data, _size(replica_groups), reduce_op)
    return _emit("all-reduce", data, data.shape, replica_groups, apply=(opcode, data.dtype))


def reduce_scatter(
    data: Operand,
    reduce_scatter_dim: int,
    replica_groups: Groups,
    reduce_op: object = np.add,
    **_: object,
) -> Any:
    """As :func:`all_reduce`; each replica gets its part along a dimension.

    Raises:
        ValueError: the dimension does not divide by the number of replicas.
    """
    size, axis = _size(replica_groups), one_axis(reduce_scatter_dim, data.ndim)
    extent = _part(data.shape, axis, size)
    opcode = _opcode(reduce_op)
    if not isinstance(data, TracedArray):
        return _combined(data, size, reduce_op).take(range(extent), axis=axis)
    shape = _scaled(data.shape, axis, extent)
    return _emit(
        "reduce-scatter", data, shape, replica_groups,
        dimensions=(axis,), apply=(opcode, data.dtype),
    )  # fmt: skip


def all_to_all(
    data: Operand, split_dimension: int, concat_dimension: int, replica_groups: Groups, **_: object
) -> Any:
    """Each replica sends its n-th part along one dimension to the n-th replica, which puts what it
    gets one after the other along another.

    Raises:
        ValueError: the dimension does not divide by the number of replicas.
    """
    size = _size(replica_groups)
    split = one_axis(split_dimension, data.ndim)
    joined = one_axis(concat_dimension, data.ndim)
    _part(data.shape, split, size)
    if isinstance(data, TracedArray):
        data = _emit("all-to-all", data, data.shape, replica_groups, dimensions=(split,))
    if split == joined:
        return data
    return xp.concatenate(xp.split(data, size, axis=split), axis=joined)


def _emit(
    opcode: str, data: TracedArray, shape: tuple[int, ...], groups: Groups, **attributes: object
) -> TracedArray:
    rows = [{"replica_ids": [int(replica) for replica in group]} for group in groups]
    node = data.node
    return TracedArray(
        node.graph.emit(opcode, shape, node.dtype, (node,), replica_groups=rows, **attributes)
    )


def _size(groups: Groups) -> int:
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"replica_groups are lists of replicas of one length, not {groups}")
    return sizes.pop()


def _part(shape: tuple[int, ...], axis: int, size: int) -> int:
    if shape[axis] % size:
        raise ValueError(f"dimension {axis} of {shape} does not divide by {size} replicas")
    return shape[axis] // size


def _scaled(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _opcode(reduce_op: object) -> str:
    opcode = _REDUCTIONS.get(reduce_op)
    if opcode is None:
        raise refuse(
            f"replicas cannot be combined with {reduce_op}",
            code="HLO-TRACE-ARGUMENT",
            remedy="use np.add, np.multiply, np.maximum or np.minimum",
        )
    return opcode


def _combined(data: Array, size: int, reduce_op: Any) -> Array:
    result = data
    for _ in range(size - 1):
        result = reduce_op(result, data)
    return result
