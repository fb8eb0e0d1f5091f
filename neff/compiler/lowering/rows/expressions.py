"""Emits a unit's nodes on one tile: arithmetic on rows, adjacent steps in one instruction.

:data:`IDIOMS` names the combinations that are one instruction: two steps with numbers or row values
are a ``tensor_scalar``; scale, bias, function and the sum over the row an ``activation``; a step and
a reduction of its result a ``tensor_scalar_reduce``; a cast is done by the operand's instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.row_pieces import RowPiece
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.rows.comparisons import compared_as_floats, number_choice
from neff.compiler.lowering.rows.reduction import REDUCERS, is_neutral
from neff.compiler.lowering.rows.spreads import Lazy, RowEmitter, Spread, Step
from neff.compiler.lowering.tiles.balance import Balance
from neff.compiler.lowering.tiles.emitter import Tile, Value
from neff.compiler.lowering.tiles.operands import PSUM_COLUMNS
from neff.compiler.lowering.tiles.operations import FUNCTIONS, OPERATIONS, reciprocal_of
from neff.compiler.lowering.tiles.origins import computing
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["IDIOMS", "Evaluator", "Facts"]

F32 = dtype_of("float32")

_ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum"})
_NARROW_FLOAT_READERS = _ARITHMETIC | {"negate"} | set(FUNCTIONS) | {"convert", "reduce"}
_MIN_SHARE = 2.0**-20
"""A sum is scaled before it is computed only by factors that keep the digits of small elements."""

_STEP_REDUCTIONS = frozenset({"add", "maximum", "minimum"})

IDIOMS: dict[str, str] = {
    "two-steps": "two operations with numbers or row values: one tensor_scalar",
    "scale-and-bias": "a product and a sum in front of a function: scale and bias of its activation",
    "step-and-tile": "an operation with a number or row value and one with a tile: scalar_tensor_tensor",
    "function-and-sum": "a function and the sum of its values over the row: activation_reduce",
    "square": "a product of a value with itself: an activation",
    "step-and-reduction": "an operation and the reduction of its result: tensor_scalar_reduce",
    "mean": "a sum and its product with a number: scale of the activation that sums",
    "choice-and-maximum": "a choice of a value or a number and the row's maximum: select_reduce",
    "cast": "a cast of floats: done by the instruction that makes the operand",
    "reciprocal-of-rows": "a division by a row value: one reciprocal a row, and a product",
}
"""Combinations that the evaluator emits as one instruction, by name; test_rows.py tests each."""


class Facts:
    """Facts about a unit that hold for all of its tiles.

    Args:
        nodes: the nodes, operands first.
        outputs: ``id`` of the nodes that are stored.
        sources: ``id`` of an operand -> (``id`` of the node or input, ``same`` or ``row``).
        sums: ``id`` of sums over all rows, which are no reductions of a row.

    ``idioms`` has the names of the idioms that were used so far.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: set[int],
        sources: dict[int, tuple[int, str]],
        sums: frozenset[int] = frozenset(),
    ) -> None:
        self.nodes, self.outputs, self.sources = nodes, outputs, sources
        self.members = {id(node) for node in nodes}
        self.sums = sums
        self.idioms: set[str] = set()
        self.users: dict[int, list[Node]] = {}
        for node in nodes:
            for operand in node.operands:
                self.users.setdefault(sources[id(operand)][0], []).append(node)

    def only_user(self, node: Node) -> Node | None:
        """Return the only reader of a value, if it is in the unit and reads all elements in
        order.
        """
        users = self.users.get(id(node), [])
        if len(users) != 1 or id(node) in self.outputs:
            return None
        (user,) = users
        as_is = any(self.sources[id(operand)] == (id(node), "same") for operand in user.operands)
        return user if as_is else None

    def dtype(self, node: Node) -> DType:
        """Return the type that a node is computed in: a cast's type if only the cast reads it.

        Engines compute in float32, so a node of a smaller type is a rounding that must stay.
        """
        node_type = held_as(node).tile
        user = self.only_user(node)
        if (
            node_type.itemsize < F32.itemsize
            or user is None
            or user.opcode != "convert"
            or not is_float(user)
        ):
            return node_type
        cast_type = self.dtype(user)
        return cast_type if cast_type.itemsize < node_type.itemsize else node_type

    def reducer(self, node: Node) -> Node | None:
        """Return the only reduction over rows that reads a value, directly or in a wider type."""
        reducers: list[Node] = []
        for user in self.users.get(id(node), ()):
            if self.sources[id(user.operands[0])] != (id(node), "same"):
                continue
            if id(user) in self.sums:
                continue
            if user.opcode == "reduce":
                reducers.append(user)
            elif user.opcode == "convert" and user.element.bits > node.element.bits:
                reader = self.only_user(user)
                if reader is not None and reader.opcode == "reduce" and id(reader) not in self.sums:
                    reducers.append(reader)
        return reducers[0] if len(reducers) == 1 else None

    def is_read_beside(self, node: Node) -> bool:
        """Return True if the value has readers other than its only reduction."""
        return id(node) in self.outputs or len(self.users.get(id(node), [])) > 1

    def is_taken_along(self, node: Node) -> bool:
        """Return True if the only reader can do the node's steps in its own instruction."""
        user = self.only_user(node)
        if user is None or not is_float(user):
            return False
        return (
            user.opcode in FUNCTIONS
            or (
                user.opcode in _ARITHMETIC
                and self.sources[id(user.operands[0])] != self.sources[id(user.operands[-1])]
            )
            or user.opcode == "negate"
        )

    def is_arithmetic_alone(self, key: int) -> bool:
        """Return True if only arithmetic of floats, which takes any view, reads a value."""
        return all(
            user.opcode in _ARITHMETIC and is_float(user) and self._is_apart(key, user)
            for user in self.users.get(key, [])
        )

    def _is_apart(self, key: int, user: Node) -> bool:
        """Return True if the other operand of an operation is another value, of full rows."""
        sources = [self.sources[id(operand)] for operand in user.operands]
        return sources.count((key, "same")) == 1 and all(axis == "same" for _, axis in sources)

    def reads_any_float(self, node: Node) -> bool:
        """Return True if all readers accept a narrower float."""
        users = self.users.get(id(node), [])
        return id(node) not in self.outputs and all(
            user.opcode in _NARROW_FLOAT_READERS and is_float(user) and id(user) not in self.sums
            for user in users
        )


def is_float(node: Node) -> bool:
    """Return True for a value that the engines hold as a float."""
    return held_as(node).kind == "float"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A product whose reader starts it."""

    node: Node


class Evaluator:
    """Computes the nodes of a unit for one tile.

    Args:
        facts: facts about the unit.
        emitter: returns the emitter for a node's shape.
        load: returns an input's value on this tile, by ``id``.
        numbers: the target's activations accept numbers as biases.
        balance: the work of each engine so far.
        product: the columns of a product of matrices, in pieces in PSUM, from the left operand
            when a member computes it.
    """

    def __init__(
        self,
        facts: Facts,
        emitter: Callable[[Node], RowEmitter],
        load: Callable[[int], Value],
        numbers: bool,
        balance: Balance,
        product: Callable[[Node], Iterable[tuple[int, Tile]]] | None = None,
    ) -> None:
        self._facts, self._emitter, self._load = facts, emitter, load
        self._numbers, self._busy = numbers, balance
        self._product = product
        self.values: dict[int, Value] = {}

    def compute(self, node: Node) -> None:
        """Compute a node whose operands are computed."""
        if id(node) not in self.values:
            with computing(node):
                self.values[id(node)] = self._node(node)

    def in_sbuf(self, operand: Node, dtype: DType | None = None) -> Tile:
        """Return an operand's rows as a tile in SBUF for the tensor engine, in ``dtype`` if not
        None.
        """
        e = self._emitter(operand)
        value = e.force(self._operand(operand))
        if isinstance(value, np.generic | Spread) or value.buffer is nl.psum:
            return e.copy(value, dtype or held_as(operand).tile)
        return value if dtype in (None, value.dtype) else e.copy(value, dtype)

    def is_done(self, node: Node) -> bool:
        """Return True if instructions on full rows have computed the node's value."""
        value = self.values[id(node)]
        has_columns = self._emitter(node).per_row is not None
        return has_columns and not isinstance(value, Lazy | Spread | np.generic | _Waiting)

    def result(self, node: Node) -> Tile:
        """Return a node's value as a tile of its type, to be stored."""
        e = self._emitter(node)
        value = e.tile(e.force(self.values[id(node)]), held_as(node).tile)
        dtype = held_as(node).tile
        in_sbuf = value.buffer is not nl.psum  # PSUM has no path to HBM
        return value if value.dtype == dtype and in_sbuf else e.copy(value, dtype)

    def _operand(self, operand: Node) -> Value:
        key, axis = self._facts.sources[id(operand)]
        if key not in self.values:
            self.values[key] = self._load(key)
        value: Value = self.values[key]
        if isinstance(value, _Waiting):
            value = self.values[key] = self._in_psum(value.node)
        if axis == "row" and not (isinstance(value, Spread) or np.isscalar(value)):
            if isinstance(value, Lazy):
                value = self._forced_row(value)
            return Spread(value, "row")
        return value

    def _forced_row(self, value: Lazy) -> Tile:
        assert self._rows is not None
        return self._rows.force(value)

    _rows: RowEmitter | None = None

    def with_rows(self, rows: RowEmitter) -> Evaluator:
        """Set the emitter of values of one element for each row."""
        self._rows = rows
        return self

    def _node(self, node: Node) -> Value:
        e = self._emitter(node)
        if node.opcode == "reduce":
            return self._reduce(e, node)
        if node.opcode == "dot":
            return self._multiplied(e, node)
        if node.opcode == "rearranged-row":
            return self._rearranged(e, node)
        operands = self._apart(e, [self._operand(operand) for operand in node.operands])
        spread = [operand for operand in operands if isinstance(operand, Spread)]
        if spread and e.per_row is not None and self._all_rows(operands):
            raw = [operand.tile if isinstance(operand, Spread) else operand for operand in operands]
            rows = self._rows
            assert rows is not None
            return Spread(rows.force(self._made(rows, node, raw, False)), "row")
        return self._made(e, node, operands, True)

    def _all_rows(self, operands: list[Value]) -> bool:
        return all(
            isinstance(operand, np.generic)
            or (isinstance(operand, Spread) and operand.axis == "row")
            for operand in operands
        )

    def _made(self, e: RowEmitter, node: Node, operands: list[Value], may_wait: bool) -> Value:
        if is_float(node) and all(is_float(operand) for operand in node.operands):
            if node.opcode in _ARITHMETIC:
                return self._arithmetic(e, node, operands[0], operands[1], may_wait)
            if node.opcode == "negate":
                minus = np.float32(-1)
                return self._arithmetic(e, node, operands[0], minus, may_wait)
            if node.opcode in FUNCTIONS:
                return self._function(e, node, FUNCTIONS[node.opcode], operands[0])
            if node.opcode == "convert" and not e.is_number(operands[0]):
                return self._cast(e, node, operands[0])
        if node.opcode == "compare":
            reader = self._facts.only_user(node) if may_wait else None
            if (compared := compared_as_floats(e, node, operands, reader)) is not None:
                return compared
        if node.opcode == "select" and is_float(node):
            chosen = self._chosen(e, node, operands, may_wait)
            if chosen is not None:
                return chosen
        plain_operands = [e.plain(e.force(operand)) for operand in operands]
        return OPERATIONS[node.opcode](e, node, *plain_operands)

    # -- arithmetic ------------------------------------------------------------------------

    def _arithmetic(self, e: RowEmitter, node: Node, a: Value, b: Value, may_wait: bool) -> Value:
        op, dtype = node.opcode, self._facts.dtype(node)
        op = "multiply" if op == "negate" else op
        if e.is_number(a) and e.is_number(b):
            return e.binary(op, a, b, dtype)
        if op == "divide":
            op = "multiply"
            if e.is_number(b):
                b = reciprocal_of(b)
            else:
                if isinstance(b, Spread):
                    self._facts.idioms.add("reciprocal-of-rows")
                b = e.reciprocal(e.force(b), F32)
        if op == "multiply" and a is b and not isinstance(a, Spread):
            summed = e.per_row is not None and self._facts.reducer(node) is not None
            if e.elements >= 64 and (summed or self._busy.is_free(e.elements)):
                self._facts.idioms.add("square")
                return self._function(e, node, "square", a)
            a = b = e.force(a)
        for x, second, reverse in ((a, b, False), (b, a, True)):
            scalar = e.scalar(second)
            if scalar is not None and not isinstance(x, Spread):
                step = Step(op, scalar, reverse and op == "subtract")
                return self._step(e, node, x, step, dtype, may_wait)
        for x, second, reverse in ((a, b, False), (b, a, True)):
            if isinstance(x, Lazy) and x.tile is None and not isinstance(second, Lazy):
                fused = self._with_a_tile(e, node, x, op, e.plain(second), reverse, may_wait)
                if fused is not None:
                    return fused
        a, b = e.plain(e.force(a)), e.plain(e.force(b))
        self._busy.spend_tiles(e.elements)
        return e.binary(op, a, b, dtype)

    def _with_a_tile(
        self,
        e: RowEmitter,
        node: Node,
        x: Lazy,
        op: str,
        tile: Value,
        reverse: bool,
        may_wait: bool,
    ) -> Value | None:
        """Do a waiting step and an operation with a tile in one instruction, or return None.

        A second step that is a product is done after a product with the tile. In two-byte types the
        vector engine is faster with two separate instructions.
        """
        if e.is_number(tile) or x.dtype != F32 or self._facts.dtype(node) != F32:
            return None
        step, *later_steps = x.steps
        if later_steps and (op != "multiply" or later_steps[0].op != "multiply"):
            return None
        if any(operand.dtype != F32 or operand.buffer is nl.psum for operand in (x.base, tile)):
            return None
        target = e.new(F32)
        nisa.scalar_tensor_tensor(
            target, x.base, getattr(nl, step.op), step.operand, getattr(nl, op), tile, step.reverse,
            reverse and op == "subtract",
        )  # fmt: skip
        self._facts.idioms.add("step-and-tile")
        self._busy.spend_both(e.elements)
        if not later_steps:
            return target
        waiting = Lazy(target, later_steps, F32)
        return waiting if may_wait and self._facts.is_taken_along(node) else e.force(waiting)

    def _step(
        self, e: RowEmitter, node: Node, x: Value, step: Step, dtype: DType, may_wait: bool
    ) -> Value:
        if isinstance(x, Lazy) and x.tile is None and len(x.steps) == 1:
            self._facts.idioms.add("two-steps")
            lazy = Lazy(x.base, [*x.steps, step], dtype)
        else:
            lazy = Lazy(e.force(x), [step], dtype)
        reducer = self._facts.reducer(node) if may_wait else None
        if reducer is not None and self._reduced_too(e, node, lazy, reducer):
            return lazy.tile
        if may_wait and self._facts.is_taken_along(node):
            return lazy
        self._busy.spend("vector", e.elements // 2)
        return e.force(lazy)

    def _reduced_too(self, e: RowEmitter, node: Node, lazy: Lazy, reducer: Node) -> bool:
        """Do a step and the reduction of its result in one instruction, if it exists."""
        op = reducer.attributes["applied"]
        if e.rows != 1 or e.per_row is None or op not in _STEP_REDUCTIONS:
            return False
        if len(lazy.steps) != 1 or lazy.steps[0].reverse:
            return False
        total = nl.ndarray((e.partitions, 1), dtype=F32, buffer=nl.sbuf)
        is_read = self._facts.is_read_beside(node)
        lazy.tile = e.new(lazy.dtype) if is_read else e.unread(lazy.dtype)
        (step,) = lazy.steps
        nisa.tensor_scalar_reduce(
            lazy.tile, lazy.base, getattr(nl, step.op), step.operand, getattr(nl, op), total
        )
        self._facts.idioms.add("step-and-reduction")
        self._busy.spend("vector", e.elements)
        self.values[id(reducer)] = self._finished(reducer, total)
        return True

    def _function(self, e: RowEmitter, node: Node, function: str, value: Value) -> Value:
        dtype = self._facts.dtype(node)
        data, scale, bias = e.affine(value)
        if isinstance(value, Lazy) and data is value.base:
            self._facts.idioms.add("scale-and-bias")
        bias = e.bias(bias, self._numbers)
        op = getattr(nl, function)
        self._busy.spend("scalar", e.elements)
        reducer = self._facts.reducer(node)
        is_summed = (
            reducer is not None
            and reducer.attributes["applied"] == "add"
            and e.rows == 1
            and e.per_row is not None
        )
        is_read = not is_summed or self._facts.is_read_beside(node)
        target = e.new(dtype) if is_read else e.unread(dtype)
        if reducer is not None and is_summed:
            self._facts.idioms.add("function-and-sum")
            total = nl.ndarray((e.partitions, 1), dtype=F32, buffer=nl.sbuf)
            nisa.activation_reduce(target, op, data, nl.add, total, bias, scale)
            self.values[id(reducer)] = self._finished(reducer, total)
        else:
            nisa.activation(target, op, data, bias, scale)
        return target

    def _chosen(
        self, e: RowEmitter, node: Node, operands: list[Value], may_wait: bool
    ) -> Value | None:
        """Select between two numbers, or between a value and a number and reduce the row to its
        maximum; None if impossible.
        """
        predicate, on_true, on_false = operands
        numbers = number_choice(e, predicate, on_true, on_false, self._facts.dtype(node))
        if numbers is not None or not may_wait:
            return numbers
        predicate = e.force(predicate)
        reverse = e.is_number(on_true)
        value, number = (on_false, on_true) if reverse else (on_true, on_false)
        if e.is_number(predicate) or not e.is_number(number) or e.is_number(value):
            return None
        reducer = self._facts.reducer(node)
        if (
            reducer is None
            or reducer.attributes["applied"] != "maximum"
            or e.rows != 1
            or e.per_row is None
        ):
            return None
        target = e.new(self._facts.dtype(node))
        total = nl.ndarray((e.partitions, 1), dtype=F32, buffer=nl.sbuf)
        nisa.select_reduce(
            target, e.plain(predicate), e.plain(e.force(value)), float(number), total,
            nisa.reduce_cmd.reset_reduce, nl.maximum, reverse,
        )  # fmt: skip
        self._facts.idioms.add("choice-and-maximum")
        self._busy.spend("vector", 2 * e.elements)
        self.values[id(reducer)] = self._finished(reducer, total)
        return target

    def _cast(self, e: RowEmitter, node: Node, value: Value) -> Value:
        dtype = self._facts.dtype(node)
        tile = value.tile if isinstance(value, Spread) else value
        if isinstance(value, Lazy):
            value = tile = e.force(value)
        if tile.dtype == dtype:
            self._facts.idioms.add("cast")
            return value
        if tile.dtype.itemsize < dtype.itemsize and self._facts.reads_any_float(node):
            return value
        return e.copy(value, dtype)

    def _rearranged(self, e: RowEmitter, node: Node) -> Tile:
        """Copy columns of each row to other columns."""
        (operand,) = node.operands
        wide = self._emitter(operand)
        source = wide.plain(wide.force(self._operand(operand)))
        if len(source.shape) != 3:
            source = source.reshape((wide.partitions, wide.rows, wide.columns))
        target = e.new(held_as(node).tile)
        columns = target.reshape((e.partitions, e.rows, e.columns))
        pieces: tuple[RowPiece, ...] = node.attributes["pieces"]
        for piece in pieces:
            read, written = source[:, :, piece.read], columns[:, :, piece.written]
            if piece.is_negated:
                nisa.tensor_scalar(written, read, nl.multiply, -1.0)
            else:
                nisa.tensor_copy(written, read)
        self._busy.spend("vector", e.elements)
        return target

    # -- products of matrices --------------------------------------------------------------

    def _multiplied(self, e: RowEmitter, node: Node) -> Value:
        """Copy a product to SBUF, or leave it in PSUM for its only reader."""
        user = self._facts.only_user(node)
        drains = (
            user is not None
            and user.opcode in _NARROW_FLOAT_READERS
            and id(user) not in self._facts.sums
        )
        if drains and e.columns <= PSUM_COLUMNS:
            return _Waiting(node)
        target = e.new(self._facts.dtype(node))
        for begin, total in self._pieces(node):
            nisa.tensor_copy(target[:, begin : begin + total.shape[1]], total)
        return target

    def left(self, node: Node) -> Tile | None:
        """Return a product's left operand that a member computed, or None."""
        operand = node.operands[0]
        if self._facts.sources[id(operand)][0] not in self._facts.members:
            return None
        wide = self._emitter(operand)
        return wide.plain(wide.force(self._operand(operand)))

    def _pieces(self, node: Node) -> Iterable[tuple[int, Tile]]:
        assert self._product is not None
        return self._product(node)

    def _in_psum(self, node: Node) -> Tile:
        with computing(node):
            ((_, total),) = self._pieces(node)
        return total

    def _apart(self, e: RowEmitter, operands: list[Value]) -> list[Value]:
        """Copy operands out of PSUM but one: no instruction reads two from PSUM."""
        has_psum = False
        for index, operand in enumerate(operands):
            if getattr(operand, "buffer", None) is nl.psum:
                if has_psum:
                    operands[index] = e.copy(operand, F32)
                has_psum = True
        return operands

    # -- reductions ------------------------------------------------------------------------

    def _reduce(self, e: RowEmitter, node: Node) -> Value:
        operand = node.operands[0]
        wide = self._emitter(operand)
        value = wide.plain(wide.force(self._operand(operand)))
        op = node.attributes["applied"]
        total = nl.ndarray((e.partitions, wide.rows), dtype=F32, buffer=nl.sbuf)
        if op == "add" and wide.rows == 1 and self._busy.is_free(wide.elements):
            self._busy.spend("scalar", wide.elements)
            share, mean = self._share(node)
            unread = wide.unread(value.dtype)
            nisa.activation_reduce(unread, nl.copy, value, nl.add, total, None, share)
            if mean is not None:
                self._facts.idioms.add("mean")
                self.values[id(mean)] = total
                return total
        else:
            self._busy.spend("vector", wide.elements)
            shaped = value
            if len(value.shape) != 3:
                shaped = value.reshape((wide.partitions, wide.rows, wide.columns))
            nisa.tensor_reduce(total, getattr(nl, REDUCERS[op]), shaped, 2)
        return self._finished(node, total)

    def _share(self, node: Node) -> tuple[float, Node | None]:
        """Return the factor of a sum's only reader, and this product; float32 without initial
        value.
        """
        user, start = self._facts.only_user(node), self._operand(node.operands[1])
        if user is None or user.opcode not in ("divide", "multiply"):
            return 1.0, None
        if {node.element.name, user.element.name} != {"f32"}:
            return 1.0, None
        if not is_neutral("add", start, "float"):
            return 1.0, None
        is_sum = [self._facts.sources[id(operand)][0] == id(node) for operand in user.operands]
        number = None if all(is_sum) else user.operands[is_sum.index(False)].splat
        if number is None or (user.opcode == "divide" and not is_sum[0]):
            return 1.0, None
        share = float(number)
        share = share if user.opcode == "multiply" else 1.0 / share if share else np.inf
        small = not np.isfinite(share) or abs(share) < _MIN_SHARE or abs(share) > 1
        return (1.0, None) if small else (share, user)

    def _finished(self, node: Node, total: Tile) -> Value:
        """Return the total with the initial value, in the reduction's type."""
        rows = self._rows
        assert rows is not None
        start = self._operand(node.operands[1])
        op, tile_type = node.attributes["applied"], held_as(node)
        if not is_neutral(op, start, tile_type.kind):
            total = rows.binary(REDUCERS[op], total, start, F32)
        if tile_type.tile != F32 and not self._facts.reads_any_float(node):
            total = rows.copy(total, tile_type.tile)
        return total
