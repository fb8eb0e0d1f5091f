"""Neighbours become one unit, so that what is between them stays in SBUF.

A unit is a group of elementwise nodes of one shape; or, as soon as a reduction over the last
dimensions is among them, a group over *rows*: all its values have the same leading extents, and
each has a row of elements, or one element, for each of them. A broadcast of a row value back over
the row, and what reads it, stay in the unit: softmax and the normalisations are one unit each.

A node joins the unit of an operand when nothing outside has read it yet. A unit that somebody
outside has read is closed, so no path ever leaves a unit and comes back, and the unit can run at
the place of its last member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.graph.rows import product_rows, source_of, squeezed
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.rows.reduction import MAX_NARROW_COLUMNS, MIN_NARROW_ROWS
from neff.compiler.lowering.tiles.operations import ELEMENTWISE
from neff.compiler.plans import Tuning

__all__ = ["Reasons", "Unit", "fuse", "is_column_sum"]


_GROUP_LIMIT = 160
"""Nodes of one unit at most."""

_IS_READ_OUTSIDE = "another unit reads from its unit already, so nobody may join it any more"
"""Why most readers do not join."""

_ROW_REDUCTIONS = frozenset({"add", "maximum", "minimum"})
_FEWEST_ROWS = 32
"""Fewer rows than that would leave most partitions without work."""


@dataclass(slots=True, eq=False)
class Unit:
    """The work of one kernel: a group of fused nodes, or a single node.

    Attributes:
        nodes: operands first.
        last: place of its last member in the graph.
        elementwise: more nodes may join.
        rows: the leading extents that all values share, ones left out; None as long as the nodes
            are elementwise on one shape.
        resident: bytes of each partition that right operands of products take.
        summed: columns whose sums over all rows the unit makes, in PSUM.
        over: ``id`` of products that contract the rows; their sums are in PSUM too.
        is_blocked: the right operand comes in blocks of columns, so that no tile has whole rows.
    """

    nodes: list[Node]
    last: int
    elementwise: bool
    rows: tuple[int, ...] | None = None
    resident: int = 0
    summed: int = 0
    over: frozenset[int] = frozenset()
    is_blocked: bool = False
    is_open: bool = True
    merged: Unit | None = None

    def takes_rows(self, rows: tuple[int, ...]) -> bool:
        """True when the unit's values have these leading extents."""
        if self.rows is not None:
            return self.rows == rows
        return squeezed(self.nodes[0].shape)[: len(rows)] == rows


class Reasons(dict[tuple[int, int], str]):
    """(``id`` of a value, ``id`` of a reader) -> why the reader did not join the value's unit."""


@dataclass(slots=True)
class _Fuser:
    excluded: frozenset[int]
    why: Reasons
    resident: int
    units: list[Unit] = field(default_factory=list[Unit])
    owner: dict[int, Unit] = field(default_factory=dict[int, Unit])
    totals: set[int] = field(default_factory=set[int])

    def unit_of(self, node: Node) -> Unit | None:
        unit = self.owner.get(id(node))
        while unit is not None and unit.merged is not None:
            unit = unit.merged
        return unit

    def close(self, node: Node) -> None:
        """Somebody outside reads this value: its unit takes nobody more."""
        while node.opcode in VIEWS:
            node = node.operands[0]
        unit = self.unit_of(node)
        if unit is not None:
            unit.is_open = False

    def joinable(self, node: Node, reader: Node) -> Unit | None:
        """The unit that has a node's value, when ``reader`` may join it."""
        unit = self.unit_of(node)
        if unit is None:
            return None
        if id(node) in self.totals:
            why = "a sum over all rows is there only when all rows are done"
        elif not unit.elementwise:
            why = f"{node.opcode} is a kernel of its own"
        elif not unit.is_open:
            why = _IS_READ_OUTSIDE
        elif len(unit.nodes) >= _GROUP_LIMIT:
            why = f"its unit has {len(unit.nodes)} operations already"
        else:
            return unit
        self.why[id(node), id(reader)] = why
        return None

    def refuse(self, node: Node, reader: Node, why: str) -> None:
        """Note why a reader does not join the unit of a value."""
        self.why[id(node), id(reader)] = why

    def add_elementwise(self, node: Node, position: int) -> None:
        """A node that is computed element by element."""
        shape = squeezed(node.shape)
        joined: Unit | None = None
        outside: list[Node] = []
        for operand in node.operands:
            source, axis = source_of(operand)
            unit = self.joinable(source, node)
            rows = squeezed(source.shape) if axis == "row" else None
            if unit is None or (rows is not None and not self._by_rows(unit, source, rows)):
                if unit is not None:
                    self.refuse(source, node, "it is repeated along rows that its unit cannot have")
                outside.append(operand)
                continue
            merged = unit if joined is None else self._merge(joined, unit, shape, rows)
            if merged is None:
                self.refuse(
                    source, node, "two units with other rows, or too much for SBUF together"
                )
                outside.append(operand)
            else:
                joined = merged
                if rows is not None:
                    joined.rows = rows
        for operand in outside:
            self.close(operand)
        if joined is None or not joined.is_open:
            joined = self._unit(position)
            for operand in node.operands:
                self.close(operand)
                self.why.setdefault((id(source_of(operand)[0]), id(node)), _IS_READ_OUTSIDE)
        self._join(joined, node, position)

    def _merge(
        self, first: Unit, second: Unit, shape: tuple[int, ...], rows: tuple[int, ...] | None
    ) -> Unit | None:
        """Both units as one; None when their rows differ."""
        if first is second:
            return first
        row_shape = rows or first.rows or second.rows
        summed = first.summed + second.summed
        if summed > (_SUMMED_BESIDE if first.resident or second.resident else _SUMMED):
            return None
        is_blocked = first.is_blocked or second.is_blocked
        if is_blocked:
            plain = second if first.is_blocked else first
            same = squeezed(first.nodes[0].shape) == squeezed(second.nodes[0].shape)
            if plain.is_blocked or plain.rows is not None or rows is not None or not same:
                return None
        elif first.resident + second.resident > self.resident:
            return None
        if row_shape is not None:
            if not (first.takes_rows(row_shape) and second.takes_rows(row_shape)):
                return None
            if shape[: len(row_shape)] != row_shape:
                return None
        elif squeezed(first.nodes[0].shape) != squeezed(second.nodes[0].shape):
            return None
        first.nodes += second.nodes
        first.last = max(first.last, second.last)
        first.rows = row_shape
        first.resident += second.resident
        first.is_blocked = is_blocked
        first.over |= second.over
        first.summed = summed
        second.nodes = []
        second.merged = first
        return first

    def _by_rows(self, unit: Unit, source: Node, rows: tuple[int, ...]) -> bool:
        if id(source) in self.excluded or unit.is_blocked:
            return False
        if unit.rows is not None:
            return unit.rows == rows
        return squeezed(unit.nodes[0].shape) == rows and prod(rows) >= _FEWEST_ROWS

    def add_reduction(self, node: Node, position: int) -> None:
        """A reduction over the last dimensions."""
        rows = _kept(node)
        source, axis = source_of(node.operands[0])
        unit = self.joinable(source, node) if axis == "same" else None
        if unit is not None and (unit.is_blocked or not unit.takes_rows(rows)):
            self.refuse(source, node, f"its unit does not have the rows {_by(rows)}")
            unit = None
        if unit is None:
            unit = self._unit(position)
            self.close(node.operands[0])
        unit.rows = rows
        self._join(unit, node, position)

    def add_rearrangement(self, node: Node, position: int) -> None:
        """Copies between columns of rows: the node joins the unit that has its operand's rows."""
        rows = squeezed(node.shape[: node.attributes["rows"]])
        source, axis = source_of(node.operands[0])
        unit = self.joinable(source, node) if axis == "same" else None
        if unit is not None and (
            unit.is_blocked or not unit.takes_rows(rows) or id(node) in self.excluded
        ):
            self.refuse(source, node, f"its unit does not have the rows {_by(rows)}")
            unit = None
        if unit is None:
            unit = self._unit(position)
            unit.is_open = id(node) not in self.excluded
            self.close(node.operands[0])
        unit.rows = rows
        self._join(unit, node, position)

    def add_column_sum(self, node: Node, position: int) -> None:
        """A sum over all rows, which :func:`is_column_sum` takes."""
        rows = summed_rows(node)
        source, axis = source_of(node.operands[0])
        unit = self.joinable(source, node) if axis == "same" else None
        if unit is not None and (
            unit.is_blocked
            or not unit.takes_rows(rows)
            or squeezed(source.shape) == rows
            or unit.summed + node.size > (_SUMMED_BESIDE if unit.resident else _SUMMED)
        ):
            fits = unit.takes_rows(rows) and squeezed(source.shape) != rows
            lack = "PSUM for more sums" if fits else f"the rows {_by(rows)}"
            self.refuse(source, node, f"its unit lacks {lack}")
            unit = None
        if unit is None:
            unit = self._unit(position)
            self.close(node.operands[0])
        unit.rows = rows
        unit.summed += node.size
        self._join(unit, node, position)
        self.totals.add(id(node))

    def add_product(self, node: Node, position: int) -> None:
        """A product that :func:`is_row_product` takes."""
        rows, size = product_rows(node), resident_bytes(node)
        left, right = node.operands
        self.close(right)
        self.refuse(source_of(right)[0], node, "all rows read the right operand of a product")
        source, axis = source_of(left)
        unit = self.joinable(source, node) if axis == "same" else None
        if unit is not None and (
            unit.is_blocked
            or not unit.takes_rows(rows)
            or not _has_rows_of(node, left)
            or unit.resident + size > self.resident
            or unit.summed > _SUMMED_BESIDE
            or squeezed(source.shape) == rows
        ):
            fits = unit.takes_rows(rows) and _has_rows_of(node, left)
            lack = f"SBUF for {size} more bytes a partition" if fits else f"the rows {_by(rows)}"
            self.refuse(source, node, f"its unit lacks {lack}")
            unit = None
        if unit is None:
            unit = self._unit(position)
            self.close(left)
        unit.rows = rows
        unit.resident += size
        unit.is_blocked = size > self.resident
        self._join(unit, node, position)

    def adds_contraction(self, node: Node, position: int) -> bool:
        """Let a product that contracts rows join the unit that makes one of its operands, or both."""
        size = summed_columns(node)
        rows = _contracted_rows(node)
        joined: Unit | None = None
        outside: list[Node] = []
        for operand in node.operands:
            source, axis = source_of(operand)
            unit = self.joinable(source, node) if axis == "same" else None
            if unit is None or not self._takes_contraction(unit, source, rows, size):
                outside.append(operand)
            elif joined is not None and unit is not joined:
                return False
            else:
                joined = unit
        if joined is None or any(self._root(operand) is joined for operand in outside):
            return False
        for operand in outside:
            self.close(operand)
        joined.rows = rows
        joined.summed += size
        joined.over |= {id(node)}
        self._join(joined, node, position)
        self.totals.add(id(node))
        return True

    def _takes_contraction(
        self, unit: Unit, source: Node, rows: tuple[int, ...], size: int
    ) -> bool:
        maximum = _SUMMED_BESIDE if unit.resident else _SUMMED
        return (
            not unit.is_blocked
            and unit.takes_rows(rows)
            and squeezed(source.shape) != rows
            and unit.summed + size <= maximum
        )

    def _root(self, node: Node) -> Unit | None:
        """The unit that has what a value is a view of."""
        while node.opcode in VIEWS:
            node = node.operands[0]
        return self.unit_of(node)

    def _unit(self, position: int) -> Unit:
        unit = Unit([], position, True)
        self.units.append(unit)
        return unit

    def _join(self, unit: Unit, node: Node, position: int) -> None:
        unit.nodes.append(node)
        unit.last = position
        self.owner[id(node)] = unit

    def is_row_reduction(self, node: Node) -> bool:
        """A reduction of floats over the last dimensions, with enough rows to fill partitions."""
        if node.opcode != "reduce" or len(node.operands) != 2 or id(node) in self.excluded:
            return False
        if node.attributes["applied"] not in _ROW_REDUCTIONS or not node.size:
            return False
        operand, start = node.operands
        if held_as(operand).kind != "float" or start.splat is None or not operand.size:
            return False
        wide = [dim for dim, extent in enumerate(operand.shape) if extent != 1]
        reduced = [dim for dim in wide if dim in node.attributes["dimensions"]]
        rows = prod(operand.shape[dim] for dim in wide if dim not in reduced)
        return bool(reduced) and wide[-len(reduced) :] == reduced and rows >= _FEWEST_ROWS


_SUMMED, _SUMMED_BESIDE = 2048, 1024
"""Columns that a unit sums over all rows at most: half of PSUM; a quarter beside products."""


def summed_rows(node: Node) -> tuple[int, ...]:
    """The extents over which :func:`is_column_sum` sums."""
    shape = node.operands[0].shape
    dims: list[int] = sorted(node.attributes["dimensions"])
    return squeezed(tuple(shape[dim] for dim in dims))


def is_column_sum(node: Node) -> bool:
    """A sum of floats over the leading dimensions."""
    if node.opcode != "reduce" or len(node.operands) != 2 or node.attributes["applied"] != "add":
        return False
    operand, start = node.operands
    if operand.element.name not in _PRODUCT_TYPES or start.splat is None or start.splat != 0:
        return False
    wide = [dim for dim, extent in enumerate(operand.shape) if extent != 1]
    summed = [dim for dim in wide if dim in node.attributes["dimensions"]]
    if not summed or wide[: len(summed)] != summed or len(summed) == len(wide):
        return False
    rows = prod(summed_rows(node))
    if node.size < MAX_NARROW_COLUMNS and rows >= MIN_NARROW_ROWS:
        return False
    return rows >= 2 * _FEWEST_ROWS and 1 < node.size <= _SUMMED


_PRODUCT_TYPES = frozenset({"f32", "bf16", "f16"})


def _extent(node: Node, operand: int, dims: str) -> int:
    """Elements along the dimensions of an operand that an attribute names."""
    named: tuple[int, ...] = node.attributes[dims]
    return prod(node.operands[operand].shape[dim] for dim in named)


def resident_bytes(node: Node) -> int:
    """Bytes of each partition that the right operand of a product takes, whole."""
    depth = _extent(node, 0, "lhs_contracting")
    batch = _extent(node, 0, "lhs_batch")
    columns = node.operands[1].size // max(1, depth * batch)
    return -(-depth // 128) * columns * held_as(node.operands[1]).tile.itemsize


def _has_rows_of(node: Node, left: Node) -> bool:
    """True when the left operand's dimensions are batch, rows, contraction, in this order."""
    fields = node.attributes
    used_dims = (*fields["lhs_batch"], *fields["lhs_contracting"])
    free = [dim for dim in range(len(left.shape)) if dim not in used_dims]
    order = [*fields["lhs_batch"], *free, *fields["lhs_contracting"]]
    wide = [dim for dim in order if left.shape[dim] != 1]
    return wide == sorted(wide)


def is_row_product(node: Node) -> bool:
    """A product of floats with enough rows to fill partitions, that fits in blocks of columns."""
    if node.opcode != "dot" or not node.size or not node.operands[0].size:
        return False
    if any(value.element.name not in _PRODUCT_TYPES for value in (node, *node.operands)):
        return False
    depth = _extent(node, 0, "lhs_contracting")
    batch = _extent(node, 0, "lhs_batch")
    rows, columns = product_rows(node), node.operands[1].size // (depth * batch)
    return prod(rows) // batch >= _FEWEST_ROWS and columns > 1 and depth <= _DEEPEST


def contracts_rows(node: Node) -> bool:
    """A product of floats, both operands of which have the same rows, and contract them.

    Of the left operand a row is one dimension, of at least 128 elements: then its tiles are worth an
    instruction each, and each sum is a run of partitions.
    """
    if node.opcode != "dot" or not node.size or not node.operands[0].size:
        return False
    kinds = {value.element.name for value in node.operands}
    if len(kinds) > 1 or not kinds | {node.element.name} <= _PRODUCT_TYPES:
        return False
    left, right = (_wide_parts(node, side) for side in ("lhs", "rhs"))
    if left is None or right is None or not left[1]:
        return False
    columns = prod(right[2])
    return (
        prod(_contracted_rows(node)) >= 2 * _FEWEST_ROWS
        and len(left[2]) == 1
        and left[2][0] >= 128
        and 1 < columns <= 512
    )


def _wide_parts(node: Node, side: str) -> tuple[tuple[int, ...], ...] | None:
    """The extents of an operand's batch, contraction and other dimensions, ones left out; None when
    they are in another order."""
    operand, fields = node.operands[side == "rhs"], node.attributes
    batch, contracted = fields[f"{side}_batch"], fields[f"{side}_contracting"]
    free = [dim for dim in range(len(operand.shape)) if dim not in (*batch, *contracted)]
    wide = [dim for dim in (*batch, *contracted, *free) if operand.shape[dim] != 1]
    if wide != sorted(wide):
        return None
    named = (batch, contracted, free)
    return tuple(squeezed(tuple(operand.shape[dim] for dim in dims)) for dims in named)


def _contracted_rows(node: Node) -> tuple[int, ...]:
    """Batch and contraction of a product."""
    left, fields = node.operands[0], node.attributes
    dims: tuple[int, ...] = (*fields["lhs_batch"], *fields["lhs_contracting"])
    return squeezed(tuple(left.shape[dim] for dim in dims))


def summed_columns(node: Node) -> int:
    """Columns of PSUM that the sums of a product over rows take, those of two places of a batch."""
    batch = _extent(node, 0, "lhs_batch")
    rows = node.operands[0].size // max(1, batch * _extent(node, 0, "lhs_contracting"))
    columns = node.size // max(1, batch * rows)
    return -(-rows // 128) * columns * (2 if batch > 1 else 1)


_DEEPEST = 8192
"""Contractions beyond it do not stay in SBUF with a block of columns."""


def _by(rows: tuple[int, ...]) -> str:
    return " x ".join(map(str, rows)) or "1"


def _kept(node: Node) -> tuple[int, ...]:
    return squeezed(node.shape)


def fuse(
    graph: Graph,
    excluded: frozenset[int] = frozenset(),
    *,
    why: Reasons | None = None,
    resident: int = Tuning().resident,
) -> list[Unit]:
    """The graph's work in an order in which everything comes after what it reads.

    Parameters, constants and views are in no unit.

    Args:
        graph: what to fuse.
        excluded: ``id`` of nodes that are not to be in a unit over rows.
        why: gets the reason of each reader that did not join.
        resident: bytes of each partition that right operands of a unit's products take at most.
    """
    fuser = _Fuser(excluded, Reasons() if why is None else why, resident)
    order = {id(node): position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.opcode in VIEWS or node.opcode in ("parameter", "constant", "result"):
            continue
        position = order[id(node)]
        if node.opcode in ELEMENTWISE:
            fuser.add_elementwise(node, position)
            continue
        if node.opcode == "rearranged-row":
            fuser.add_rearrangement(node, position)
            continue
        if id(node) not in excluded and is_column_sum(node):
            fuser.add_column_sum(node, position)
            continue
        if fuser.is_row_reduction(node):
            fuser.add_reduction(node, position)
            continue
        is_contraction = id(node) not in excluded and contracts_rows(node)
        if is_contraction and fuser.adds_contraction(node, position):
            continue
        if id(node) not in excluded and is_row_product(node):
            fuser.add_product(node, position)
            continue
        for operand in node.operands:
            fuser.close(operand)
        unit = Unit([node], position, False)
        fuser.units.append(unit)
        fuser.owner[id(node)] = unit
    units = sorted((unit for unit in fuser.units if unit.nodes), key=lambda unit: unit.last)
    for unit in units:
        unit.nodes.sort(key=lambda node: order[id(node)])
    return units
