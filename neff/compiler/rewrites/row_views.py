"""Rewrites joined parts of rows, as rotary embeddings have, to operations on whole rows.

``[-high, low] * sine`` reads slices of a row and writes them to other columns. In HBM each slice is
a transfer of short runs. On chip it is a copy between columns of a tile, so the concatenation moves
in front of the elementwise operations: ``concatenate(f(a), f(b))`` is ``f(concatenate(a, b))``, and a
concatenation of slices of the same row is one ``rearranged-row``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from neff.compiler.graph.nodes import Node, derived
from neff.compiler.graph.row_pieces import RowPiece
from neff.compiler.graph.rows import squeezed
from nki_lang.base.dtypes import Array

__all__ = ["rearranged", "reshaped"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_FLOATS = frozenset({"f32", "bf16", "f16"})
_Results = dict[tuple[tuple[int, ...], tuple[bool, ...]], tuple[Node | None, list[Node]]]

_MIN_ROWS = 32
"""Fewer rows than that would leave most partitions without work."""

_MAX_COLUMNS = 2048
"""Longer rows are worth transfers of their own."""

_MAX_PIECES = 4
_MAX_OPERATIONS = 64
"""Limit on the elementwise operations that a concatenation moves in front of."""

_SAME_SIGN_FUNCTIONS = frozenset({"convert"})
_FUNCTIONS = frozenset({"convert", "exponential", "tanh", "logistic", "abs", "sine", "cosine"})


def rearranged(node: Node, uses: Uses) -> Node | None:
    """Return a concatenation within rows as elementwise operations on rearranged rows, or None."""
    if node.element.name not in _FLOATS or not node.size or len(node.operands) > _MAX_PIECES:
        return None
    dim: int = node.attributes["dimensions"][0]
    is_innermost_pair = node.shape[dim] <= _MAX_PIECES
    for cut in (dim - 1, dim) if is_innermost_pair else (dim,):
        if cut < 1 or prod(node.shape[:cut]) < _MIN_ROWS:
            continue
        if not 2 <= prod(node.shape[cut:]) <= _MAX_COLUMNS:
            continue
        joiner = _Joiner(node, dim, cut)
        joined = joiner.joined(node.operands, (False,) * len(node.operands))
        if joined is not None and joiner.reads_rows:
            return joined
    return None


def reshaped(node: Node, uses: Uses) -> Node | None:
    """Return a reshaped row that was rearranged as a row of the new shape."""
    (source,) = node.operands
    if source.opcode != "rearranged-row" or uses.get(id(source), 0) > 1:
        return None
    cut: int = source.attributes["rows"]
    if node.shape[:cut] != source.shape[:cut]:
        return None
    return derived(source, "rearranged-row", source.operands, node.shape, **source.attributes)


@dataclass(slots=True)
class _Joiner:
    """Joins corresponding operands of the parts of a concatenation.

    Attributes:
        node: the concatenation.
        dim: its dimension.
        cut: first dimension of a row.
        reads_rows: a value is read as a row instead of in parts.
        operations: number of elementwise operations so far.
        results: parts -> what they are joined, and the parts, which keep their ``id``.
    """

    node: Node
    dim: int
    cut: int
    reads_rows: bool = False
    operations: int = 0
    results: _Results = field(default_factory=_Results)

    def joined(self, parts: Sequence[Node], negated: tuple[bool, ...]) -> Node | None:
        """Return the parts side by side, those that are ``negated`` with the other sign."""
        operands: list[Node] = []
        signs: list[bool] = []
        for segment, sign in zip(parts, negated, strict=True):
            segment = _pushed(segment)
            while segment.opcode == "negate":
                segment, sign = _pushed(segment.operands[0]), not sign
            operands.append(segment)
            signs.append(sign)
        negated = tuple(signs)
        key = (tuple(map(id, operands)), negated)
        if key not in self.results:
            joined = self._number(operands, negated) or self._row(operands, negated)
            joined = joined or self._repeated(operands, negated)
            joined = joined or self._operation(operands, negated)
            self.results[key] = (joined, operands)
        return self.results[key][0]

    def _number(self, parts: list[Node], negated: tuple[bool, ...]) -> Node | None:
        numbers = [segment.splat for segment in parts]
        if any(number is None for number in numbers) or len(set(negated)) > 1:
            return None
        if len({np.asarray(number).tobytes() for number in numbers}) > 1:
            return None
        value = np.asarray(-numbers[0] if negated[0] else numbers[0])
        constant = Node("constant", (), (), parts[0].element, {"value": value})
        return derived(self.node, "broadcast", (constant,), self.node.shape, dimensions=())

    # -- rows ------------------------------------------------------------------------------

    def _row(self, parts: list[Node], negated: tuple[bool, ...]) -> Node | None:
        """Return parts of the same row as the row, or as its columns in another order."""
        chains = [self._views(segment) for segment in parts]
        shared = set(map(id, chains[0])).intersection(*(map(id, chain) for chain in chains))
        source = next((value for value in reversed(chains[0]) if id(value) in shared), None)
        if source is None or any(chain[0] is source for chain in chains):
            return None
        axis = self.dim - self.cut
        columns = [self._columns(chain, source) for chain in chains]
        signs = [
            np.full(segment.shape[self.cut :], sign)
            for segment, sign in zip(parts, negated, strict=True)
        ]
        order = np.concatenate(columns, axis).reshape(-1)
        is_negated = np.concatenate(signs, axis).reshape(-1)
        row_length = prod(source.shape[self.cut :])
        if not is_negated.any() and np.array_equal(order, np.arange(row_length)):
            self.reads_rows = True
            return derived(source, "reshape", (source,), self.node.shape)
        pieces = _pieces(order, is_negated)
        if pieces is None or row_length > _MAX_COLUMNS:
            return None
        self.reads_rows = True
        shape, element = self.node.shape, source.element
        fields = {"rows": self.cut, "pieces": pieces}
        return derived(self.node, "rearranged-row", (source,), shape, element, **fields)

    def _views(self, segment: Node) -> list[Node]:
        """Return a segment and the values that it is a view of, as long as rows stay rows."""
        rows = self.node.shape[: self.cut]
        chain = [segment]
        while (
            segment.opcode in ("slice", "reshape") and segment.operands[0].shape[: self.cut] == rows
        ):
            segment = segment.operands[0]
            chain.append(segment)
        return chain

    def _columns(self, chain: list[Node], source: Node) -> Array:
        """Return the columns of ``source`` that the first view of a chain has."""
        views = chain[: next(index for index, view in enumerate(chain) if view is source)]
        row_shape = source.shape[self.cut :]
        columns = np.arange(prod(row_shape)).reshape(row_shape)
        for view in reversed(views):
            if view.opcode == "reshape":
                columns = columns.reshape(view.shape[self.cut :])
                continue
            fields = view.attributes
            bounds = zip(fields["starts"], fields["limits"], fields["strides"], strict=True)
            columns = columns[tuple(slice(*bound) for bound in list(bounds)[self.cut :])]
        return columns

    # -- repeated values -------------------------------------------------------------------

    def _repeated(self, parts: list[Node], negated: tuple[bool, ...]) -> Node | None:
        """Return parts that repeat smaller values as one repeated value."""
        sources = [_repeated_source(segment) for segment in parts]
        dims = {source_dims for _, source_dims in sources}
        if len(dims) > 1 or any(
            source.size * 4 > segment.size
            for (source, _), segment in zip(sources, parts, strict=True)
        ):
            return None
        (locations,) = dims
        if self.dim not in locations:
            if any(segment.shape[self.dim] != 1 for segment in parts):
                return None
            locations = tuple(sorted((*locations, self.dim)))
        lines: list[Node] = []
        for (source, _), segment, sign in zip(sources, parts, negated, strict=True):
            shape = [segment.shape[location] for location in locations]
            line = derived(source, "reshape", (source,), shape)
            lines.append(line.like("negate", line) if sign else line)
        axis = locations.index(self.dim)
        shape = [self.node.shape[location] for location in locations]
        line = derived(self.node, "concatenate", lines, shape, dimensions=(axis,))
        return derived(self.node, "broadcast", (line,), self.node.shape, dimensions=locations)

    # -- elementwise operations ------------------------------------------------------------

    def _operation(self, parts: list[Node], negated: tuple[bool, ...]) -> Node | None:
        """Return the elementwise operation that all parts have, of the joined operands."""
        self.operations += 1
        opcodes = {segment.opcode for segment in parts}
        elements = {segment.element.name for segment in parts}
        if self.operations > _MAX_OPERATIONS or len(elements) > 1 or not elements <= _FLOATS:
            return None
        if opcodes <= {"add", "subtract"}:
            return self._sum(parts, negated, opcodes)
        if opcodes == {"multiply"}:
            return self._product(parts, negated)
        if len(opcodes) > 1 or not opcodes <= _FUNCTIONS or len(parts[0].operands) != 1:
            return None
        if any(negated) and not opcodes <= _SAME_SIGN_FUNCTIONS:
            return None
        operand = self.joined([segment.operands[0] for segment in parts], negated)
        return None if operand is None else self._like(parts[0], parts[0].opcode, operand)

    def _sum(self, parts: list[Node], negated: tuple[bool, ...], opcodes: set[str]) -> Node | None:
        first = self.joined([segment.operands[0] for segment in parts], negated)
        is_difference = opcodes == {"subtract"}
        signs = tuple(
            sign != (segment.opcode == "subtract" and not is_difference)
            for segment, sign in zip(parts, negated, strict=True)
        )
        second = self.joined([segment.operands[1] for segment in parts], signs)
        if first is None or second is None:
            return None
        return self._like(parts[0], "subtract" if is_difference else "add", first, second)

    def _product(self, parts: list[Node], negated: tuple[bool, ...]) -> Node | None:
        positive = (False,) * len(parts)
        first = self.joined([segment.operands[0] for segment in parts], negated)
        second = self.joined([segment.operands[1] for segment in parts], positive)
        if first is None or second is None:
            return None
        return self._like(parts[0], "multiply", first, second)

    def _like(self, segment: Node, opcode: str, *operands: Node) -> Node:
        return derived(self.node, opcode, operands, self.node.shape, segment.element)


def _pushed(segment: Node) -> Node:
    """Return a reshaped elementwise operation as the operation of reshaped operands."""
    if segment.opcode != "reshape":
        return segment
    source = segment.operands[0]
    if source.opcode not in _FUNCTIONS | {"add", "subtract", "multiply", "negate"}:
        return segment
    operands = [derived(segment, "reshape", (value,), segment.shape) for value in source.operands]
    return derived(source, source.opcode, operands, segment.shape, source.element)


def _repeated_source(segment: Node) -> tuple[Node, tuple[int, ...]]:
    """Return the value that a segment repeats, and the segment's dimension of each of its dimensions.

    Dimensions of one element are left out.
    """
    dims: list[int | None] = list(range(len(segment.shape)))
    source = segment
    while source.opcode in ("broadcast", "reshape"):
        operand = source.operands[0]
        if source.opcode == "broadcast":
            dims = [dims[dim] for dim in source.attributes["dimensions"]]
        elif squeezed(operand.shape) == squeezed(source.shape):
            wide = iter(
                [
                    location
                    for location, extent in zip(dims, source.shape, strict=True)
                    if extent != 1
                ]
            )
            dims = [next(wide) if extent != 1 else None for extent in operand.shape]
        else:
            break
        source = operand
    locations = [
        location
        for location, extent in zip(dims, source.shape, strict=True)
        if location is not None and extent != 1
    ]
    if locations != sorted(locations):
        return segment, tuple(range(len(segment.shape)))
    return source, tuple(locations)


def _pieces(order: Array, negated: Array) -> tuple[RowPiece, ...] | None:
    """Return the runs of a row's columns, every second column apart if that gives fewer runs."""
    candidates: list[list[RowPiece]] = []
    for step in (1, 2):
        starts = [np.arange(residue, len(order), step) for residue in range(step)]
        candidates.append(
            [
                piece
                for locations in starts
                for piece in _runs(locations, order[locations], negated[locations], step)
            ]
        )
    best = min(candidates, key=len)
    return tuple(best) if len(best) <= _MAX_PIECES else None


def _runs(locations: Array, order: Array, negated: Array, step: int) -> list[RowPiece]:
    runs: list[RowPiece] = []
    begin = 0
    while begin < len(locations):
        end = begin + 1
        source_step = int(order[end] - order[begin]) if end < len(locations) else 1
        while (
            source_step > 0
            and end < len(locations)
            and order[end] - order[end - 1] == source_step
            and negated[end] == negated[begin]
        ):
            end += 1
        source_step = source_step if end - begin > 1 else 1
        runs.append(
            RowPiece(
                int(locations[begin]), step, int(order[begin]), source_step, end - begin,
                bool(negated[begin]),
            )
        )  # fmt: skip
        begin = end
    return runs
