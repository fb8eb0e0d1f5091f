"""The shared definitions of the kernels of attention: the operands, and the order in which work is issued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neff.compiler.graph.bands import Band
from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.dots import tile_type
from neff.compiler.lowering.tiles.task import Port
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["F32", "GROUP_ROWS", "TILE_ROWS", "Later", "Spec", "offset_of", "operand_type"]

F32 = BY_NAME["float32"]

TILE_ROWS = 128
_TRANSPOSED_TYPES = {"tfloat32": "float32", "float8_e4m3": "bfloat16"}
"""Types of products that exponentials are not transposed in -> the next more precise type."""

GROUP_ROWS = 512
"""Queries of a group: the columns of one product instruction, a bank of PSUM."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Attention of every batch index and group index.

    Attributes:
        q, k, v, out: (batch..., group..., queries, depth), (batch..., keys, depth),
            (batch..., keys, columns) and (batch..., group..., queries, columns).
        batch: number of batch dimensions.
        scale: factor of the scores, positive.
        band: the pairs of queries and keys that count.
        dtype: type in which the tensor engine reads queries and keys.
        value_dtype: type in which it reads exponentials and values.
        exact: the tensor engine transposes bit for bit.
        span: keys whose scores of a tile are in SBUF at a time.
        is_resident: all keys and values of an index are in SBUF; else those of two spans.
        statistics: (batch..., group..., queries, 2), gets ``-scale * maximum`` of the scores and the
            sum of the exponentials.
    """

    q: Port
    k: Port
    v: Port
    out: Port
    batch: int
    scale: float
    band: Band
    dtype: DType
    value_dtype: DType
    exact: bool
    span: int = 2048
    is_resident: bool = True
    statistics: Port | None = None

    @property
    def queries(self) -> int:
        """Return the number of queries of an index."""
        return self.q.view.shape[-2]

    @property
    def keys(self) -> int:
        """Return the number of keys."""
        return self.k.view.shape[-2]

    @property
    def columns(self) -> int:
        """Return the columns of the values."""
        return self.v.view.shape[-1]


class Later:
    """Work that is issued some tiles later, so that no engine waits for it in its queue."""

    def __init__(self) -> None:
        self._step = 0
        self._jobs: list[tuple[int, Callable[[], None]]] = []

    def after(self, tiles: int, job: Callable[[], None]) -> None:
        """Issue a job when this many more tiles were issued."""
        self._jobs.append((self._step + tiles, job))
        self._jobs.sort(key=lambda due_job: due_job[0])

    def step(self) -> None:
        """Count a tile, and issue what is due."""
        self._step += 1
        while self._jobs and self._jobs[0][0] <= self._step:
            self._jobs.pop(0)[1]()

    def finish(self) -> None:
        """Issue all that is left."""
        while self._jobs:
            self._jobs.pop(0)[1]()


def offset_of(port: Port, index: tuple[int, ...]) -> int:
    """Return the element at which an index of the first dimensions begins."""
    return sum(position * step for position, step in zip(index, port.view.strides, strict=False))


def operand_type(lowerer: Lowerer, node: Node, *operands: Node) -> DType:
    """Return the type of the products of operands of a node of attention."""
    dtype = tile_type(lowerer, Node("dot", operands, (), node.element), 1)
    return BY_NAME[_TRANSPOSED_TYPES.get(dtype.name, dtype.name)]
