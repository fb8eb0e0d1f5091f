"""Builds the graph of an HLO module: calls inlined, tuples flattened, dead code dropped.

Loops and branches become nodes of the graph, or are unrolled (loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.types.comparison import is_total_order
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER, INVALID
from hlo_tools.types.source_frames import frames_of
from neff.compiler.expansions.argmax import extreme_of, picked, truth_of
from neff.compiler.expansions.arithmetic import REWRITES
from neff.compiler.expansions.custom_calls import CUSTOM_CALLS, IDENTITIES, CustomCall, shapes_of
from neff.compiler.expansions.expand import EXPANSIONS
from neff.compiler.expansions.random_bits import random_bits
from neff.compiler.expansions.reducers import reduced
from neff.compiler.expansions.selection import chosen, select_and_scatter
from neff.compiler.expansions.sort_keys import ordered
from neff.compiler.expansions.sorting import sorted_rows, top
from neff.compiler.expansions.windows import is_slid, reduce_long_window
from neff.compiler.graph.blocks import without_dead_state
from neff.compiler.graph.nodes import Graph, Node, derived, uncovered
from neff.compiler.importing.attributes import ATTRIBUTES
from neff.compiler.importing.collectives import COLLECTIVES, Collective
from neff.compiler.importing.computations import Needs, passed_on, root_of, single_op
from neff.compiler.importing.devices import Devices
from neff.compiler.importing.folding import fold
from neff.compiler.importing.loops import Branches, Tree, While, branched, leaves_of, looped
from neff.compiler.importing.tensor_names import stated_names
from neff.compiler.lowering.rows.reduction import REDUCERS
from neff.compiler.lowering.tiles.operations import OPERATIONS
from neff.compiler.lowering.tiles.region import Region
from neff.compiler.rewrites.simplify import live
from neff.errors import NeffCompileError
from nki_lang.ir import is_group

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto, ShapeProto

__all__ = ["Function", "Importer"]

_DEPTH_LIMIT = 200
"""Limit on nested calls; it stops modules that call themselves."""

_REMEDY = "the module is inconsistent; nki-hlo verify reports where. Create it again"


Function: TypeAlias = "Callable[[Importer, HloInstructionProto, list[Any]], Tree]"
"""Returns the results of an instruction, from the values of its operands."""


class Importer:
    """Builds the graph of one module.

    Args:
        module: the module.
        devices: the devices that run the program together; None if their number is unknown.
        functions: opcode -> its import, for opcodes that are not one node or its expansion.
    """

    def __init__(
        self, module: Module, devices: Devices | None, functions: Mapping[str, Function]
    ) -> None:
        self._functions = functions
        self._module, self._devices = module, devices
        count = devices.count if devices else 1
        self._rank = Node("rank", (), (), BY_NAME["u32"], {"count": count}, "rank")
        self._proto = proto = module.proto
        self._computations = {entry.id: entry for entry in proto.computations}
        self._needs = Needs(self._computations)
        self._parameters: dict[int, Node] = {}
        self._depth = self._imported_nodes = self._loops = 0
        self._shape: tuple[int, ...] | None = None

    def run(self) -> Graph:
        """Return the graph of the entry computation."""
        entry = self._entry()
        arguments = [
            self._parameter(instruction)
            for instruction in sorted(
                (row for row in entry.instructions if row.opcode == "parameter"),
                key=lambda row: row.parameter_number,
            )
        ]
        root = self._computation(entry, arguments)
        results = leaves_of(root)
        parameters = [leaf for argument in arguments for leaf in leaves_of(argument)]
        without_dead_state(results, live(results, parameters))
        return Graph(
            self._proto.name,
            parameters,
            live(results, parameters),
            results,
            isinstance(root, tuple),
            stated_names(self._proto, entry),
        )

    def _entry(self) -> HloComputationProto:
        entry = self._computations.get(self._proto.entry_computation_id)
        if entry is None and self._proto.entry_computation_name:
            for row in self._proto.computations:
                if row.name == self._proto.entry_computation_name:
                    return row
        if entry is None:
            raise NeffCompileError(
                "the module has no entry computation",
                code="NEFF-MODULE",
                place=self._proto.name,
                remedy=_REMEDY,
            )
        return entry

    def _parameter(self, instruction: HloInstructionProto) -> Tree:
        def make(shape: ShapeProto) -> Tree:
            if BY_NUMBER.get(shape.element_type, INVALID).name == "tuple":
                return tuple(make(element_shape) for element_shape in shape.tuple_shapes)
            node = self._array("parameter", (), shape, instruction)
            node.attributes["number"] = len(self._parameters)
            self._parameters[len(self._parameters)] = node
            return node

        return make(instruction.shape)

    def _computation(self, computation: HloComputationProto, arguments: list[Tree]) -> Tree:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise NeffCompileError(
                f"calls are nested more than {_DEPTH_LIMIT} deep",
                code="NEFF-MODULE",
                place=computation.name,
                remedy="a computation must not call itself; inline calls that nest this deep",
            )
        values: dict[int, Tree] = {}
        needed = self._needs.of(computation)
        try:
            for instruction in computation.instructions:
                if instruction.id in needed:
                    values[instruction.id] = self._instruction(instruction, values, arguments)
        finally:
            self._depth -= 1
        return _value_of(values, root_of(computation), computation.name)

    def _instruction(
        self, row: HloInstructionProto, values: dict[int, Tree], arguments: list[Tree]
    ) -> Tree:
        if row.opcode == "parameter":
            return _argument(row, arguments)
        operands = [_value_of(values, ident, row.name) for ident in row.operand_ids]
        function = self._functions.get(row.opcode)
        return function(self, row, operands) if function else self.operation(row, operands)

    def inlined(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Return the results of the called computation."""
        return self._computation(self._called(row), operands)

    def async_start(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Return operands, results and no context, the tuple that the shape of an async-start
        states.
        """
        return tuple(operands), self.inlined(row, operands), ()

    def operation(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Import an instruction that is a node of the graph, or is expanded into several."""
        opcode = row.opcode
        node = self._array(opcode, tuple(leaves_of(tuple(operands))), row.shape, row)
        node.attributes.update(self._attributes(row, node))
        if opcode == "constant" and self._shape is not None:
            return self._spread(node)
        if opcode == "compare" and is_total_order(row):
            node.operands = (ordered(node.operands[0]), ordered(node.operands[1]))
        if opcode in ("clamp", "select"):
            node.operands = tuple(_spread_scalar(operand, node) for operand in node.operands)
        if opcode == "select-and-scatter":
            return self._select_and_scatter(row, node)
        if opcode in REWRITES:
            folded = fold(node)
            node = REWRITES[opcode](node) if folded is node else folded
        if opcode == "reduce-window" and is_slid(node):
            region = self._called(row)
            results = reduce_long_window(node, partial(self._combined, region))
            return tuple(results) if len(results) > 1 else results[0]
        if opcode in EXPANSIONS:
            first, *more_results = EXPANSIONS[opcode](node)
            if opcode == "reduce-window" and first.attributes.get("applied") == "":
                return self._reduced(self._called(row), first)
            return (first, *more_results) if more_results else first
        if BY_NUMBER.get(row.shape.element_type, INVALID).kind == "none":
            raise uncovered(node)
        if opcode == "reduce" and not node.attributes["applied"]:
            return self._reduced(self._called(row), node)
        return fold(_with_known_starts(node))

    def reduce(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Import a reduce; argmax and argmin have instructions of their own."""
        if len(operands) <= 2:
            return self.operation(row, operands)
        node = self._array("reduce", tuple(operands), row.shape, row)
        node.attributes["dimensions"] = tuple(row.dimensions)
        region = self._called(row)
        if len(operands) == 4:
            extreme = extreme_of(
                lambda numbers: self._computation(region, numbers), operands[0], operands[1]
            )
            if extreme:
                return picked(node, extreme, tuple(row.shape.tuple_shapes[0].dimensions))
        return self._reduced(region, node)

    def _reduced(self, region: HloComputationProto, node: Node) -> Tree:
        """Return a reduce by a computation that the engines do not have."""
        half = len(node.operands) // 2
        operands, starts = node.operands[:half], node.operands[half:]
        combine = partial(self._combined, region)
        results = reduced(node, operands, starts, node.attributes["dimensions"], combine)
        return tuple(results) if half > 1 else results[0]

    def _combined(
        self, region: HloComputationProto, arguments: list[Node], shape: tuple[int, ...]
    ) -> list[Node]:
        """Return the results of a reduction's computation, applied to whole arrays."""
        results = self._applied_to_all(region, arguments, shape)
        return list(results) if isinstance(results, tuple) else [results]

    def collective(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Import an operation between devices."""
        reduces = bool(row.called_computation_ids)
        applied = single_op(self._called(row)) if reduces else ""

        def combine(pair: list[Node], shape: tuple[int, ...]) -> Node:
            return self._applied_to_all(self._called(row), pair, shape)

        node = self._placeholder(row)
        call = Collective(row, node, operands, self._devices, applied, combine, self._rank)
        return COLLECTIVES[row.opcode](call)

    def topk(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Return the largest or smallest elements of each row, and their indices."""
        return top(self._placeholder(row), operands[0], row.k, row.largest)

    def random_bits(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Return the new state and the bits of a counter-based generator."""
        shape = row.shape.tuple_shapes[1]
        bits = self._array(row.opcode, (), shape, row)
        return random_bits(bits, operands[0], row.rng_algorithm, bits.element)

    def sort(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Import a sort; its comparison takes whole arrays of paired elements."""
        region = self._called(row)

        def before(pairs: list[Node], shape: tuple[int, ...]) -> Node:
            return self._applied_to_all(region, pairs, shape)

        results = sorted_rows(self._placeholder(row), operands, row.dimensions[0], before)
        return tuple(results) if len(results) > 1 else results[0]

    def _applied_to_all(
        self, region: HloComputationProto, arguments: list[Node], shape: tuple[int, ...]
    ) -> Node:
        """Apply a computation of scalars to whole arrays."""
        self._shape = shape
        try:
            return self._computation(region, arguments)
        finally:
            self._shape = None

    def _spread(self, constant: Node) -> Node:
        """Broadcast a constant of a computation that is applied to whole arrays."""
        shape = self._shape or ()
        scalar = replace(constant, shape=())
        return replace(
            constant, opcode="broadcast", operands=(scalar,), shape=shape,
            attributes={"dimensions": ()},
        )  # fmt: skip

    def _called(self, row: HloInstructionProto, number: int = 0) -> HloComputationProto:
        idents = row.called_computation_ids
        computation = self._computations.get(idents[number]) if number < len(idents) else None
        if computation is None:
            raise NeffCompileError(
                f"{row.opcode} {row.name} calls a computation that the module does not have",
                code="NEFF-MODULE",
                place=self._place(row),
                remedy=_REMEDY,
            )
        return computation

    def loop(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Import a while: a loop on the device, or its iterations in sequence."""
        state = operands[0]
        body, condition = self._called(row, 0), self._called(row, 1)
        self._loops += 1
        loop = While(
            self._placeholder(row),
            self._loops,
            lambda carried: self._computation(body, [carried]),
            lambda carried: self._computation(condition, [carried]),
            lambda: self._imported_nodes,
            _leaf_numbers(state, passed_on(body)),
            frozenset(OPERATIONS),
        )
        return looped(loop, state)

    def conditional(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Return the branch's result if the index is known; else import a branch or a choice."""
        chosen_by, arguments = operands[0], operands[1:]
        bodies = [
            partial(self._on_one, self._called(row, index)) for index in range(len(arguments))
        ]
        if chosen_by.value is None:
            self._loops += 1
            branches = Branches(
                self._placeholder(row),
                self._loops,
                chosen_by,
                arguments,
                bodies,
                frozenset(OPERATIONS),
            )
            result, every = branched(branches)
            return self._choice(row, chosen_by, result) if every else result
        if chosen_by.value.dtype == np.bool_:
            branch = 0 if chosen_by.value.item() else 1
        else:
            branch = int(chosen_by.value.item())
            branch = branch if 0 <= branch < len(arguments) else len(arguments) - 1
        return bodies[branch](arguments[branch])

    def _on_one(self, computation: HloComputationProto, argument: Tree) -> Tree:
        return self._computation(computation, [argument])

    def _choice(self, row: HloInstructionProto, which: Node, results: list[Tree]) -> Tree:
        if not isinstance(results[0], tuple):
            return chosen(self._placeholder(row), which, results)
        return tuple(
            self._choice(row, which, list(elements)) for elements in zip(*results, strict=True)
        )

    def _select_and_scatter(self, row: HloInstructionProto, node: Node) -> Node:
        select, scatter = self._called(row, 0), self._called(row, 1)
        node.attributes["applied"] = single_op(scatter)

        def keeps(best: Node, candidate: Node, shape: tuple[int, ...]) -> Node:
            return self._applied_to_all(select, [best, candidate], shape)

        return select_and_scatter(node, keeps)

    def _array(
        self, opcode: str, operands: tuple[Any, ...], shape: ShapeProto, row: HloInstructionProto
    ) -> Node:
        element = BY_NUMBER.get(shape.element_type, INVALID)
        self._imported_nodes += 1
        extents = tuple(shape.dimensions) if self._shape is None else self._shape
        return Node(opcode, operands, extents, element, {}, row.name, self._place(row))

    def _placeholder(self, row: HloInstructionProto) -> Node:
        return self._array(row.opcode, (), row.shape, row)

    def _place(self, row: HloInstructionProto) -> str:
        """Return ``file:line`` of the user's program, or the framework's name of the operation."""
        metadata = self._module.resolve_metadata(row.metadata)
        frames = frames_of(metadata, self._proto.stack_frame_index)
        if frames:
            return f"{frames[0].file}:{frames[0].line}"
        return metadata.op_name or row.name

    def _attributes(self, row: HloInstructionProto, node: Node) -> dict[str, Any]:
        if row.sparsity_config.ByteSize():
            raise uncovered(node, "sparse operands are not covered", "store them dense")
        reader = ATTRIBUTES.get(row.opcode)
        attributes = reader(row) if reader else {}
        if row.opcode in ("reduce", "reduce-window"):
            attributes["applied"] = self._applied(row, node)
        return attributes

    def _applied(self, row: HloInstructionProto, node: Node) -> str:
        """Return the HLO opcode that a reduce applies; "" for a computation of several
        operations.
        """
        region = self._called(row)
        opcode = single_op(region)
        if not opcode and node.element.name == "pred":
            opcode = truth_of(lambda numbers: self._computation(region, numbers))
        return opcode if opcode in REDUCERS else ""

    def scatter(self, row: HloInstructionProto, operands: list[Node]) -> Tree:
        """Import a scatter; a scatter of several operands has a node for each result."""
        count = len(operands) // 2
        first = operands[0]
        node = self._array("scatter", tuple(operands), row.shape, row)
        node.shape, node.element = first.shape, first.element
        scalars = [
            derived(node, "parameter", (), (), operand.element)
            for operand in (*operands[:count], *operands[-count:])
        ]
        region = self._called(row)
        results = tuple(leaves_of(self._computation(region, scalars)))
        fields = {"region": Region(tuple(scalars), results), "applied": single_op(region)}
        node.attributes.update(ATTRIBUTES["scatter"](row), **fields)
        if count == 1:
            return node
        return tuple(
            derived(node, "result", (node,), operand.shape, operand.element, index=index)
            for index, operand in enumerate(operands[:count])
        )

    def custom_call(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Import a kernel call, an annotation, or a target that other operations replace."""
        target = row.custom_call_target
        if target in IDENTITIES:
            if not operands:
                raise NeffCompileError(
                    f"custom call {row.name} to {target} has no operand",
                    code="NEFF-MODULE",
                    place=self._place(row),
                    remedy=_REMEDY,
                )
            node = self._placeholder(row)
            if not is_group(operands[0]) and operands[0].shape != node.shape:
                raise uncovered(
                    node, "the module was not partitioned", code="NEFF-COLLECTIVE",
                    remedy="build what nki-hlo extract writes, which is partitioned, or run "
                    "it on the device",
                )  # fmt: skip
            return operands[0]
        if target in CUSTOM_CALLS:
            return self._known_call(row, operands)
        if target != KERNEL_TARGET:
            if "_python_" in target and target.endswith("_callback"):
                raise uncovered(
                    self._placeholder(row),
                    f"custom call to {target!r} calls Python while the program runs",
                    code="NEFF-HOST",
                )
            raise uncovered(
                self._placeholder(row),
                f"custom call to {target!r} is not covered",
                code="NEFF-CUSTOM-CALL",
            )
        kernel = self._array("kernel", tuple(leaves_of(tuple(operands))), row.shape, row)
        kernel.attributes["backend_config"] = bytes(row.backend_config).decode("utf-8", "replace")

        def result(shape: ShapeProto) -> Tree:
            if BY_NUMBER.get(shape.element_type, INVALID).name == "tuple":
                return tuple(result(element_shape) for element_shape in shape.tuple_shapes)
            node = self._array("result", (kernel,), shape, row)
            node.attributes["index"] = kernel.attributes.setdefault("results", 0)
            kernel.attributes["results"] += 1
            return node

        return result(row.shape)

    def _known_call(self, row: HloInstructionProto, operands: list[Tree]) -> Tree:
        """Import a custom call that is composed of other operations."""
        node = self._placeholder(row)
        shapes, elements = shapes_of(row.shape)
        node.shape, node.element = shapes[0], elements[0]

        def apply(arguments: list[Node], shape: tuple[int, ...]) -> Node:
            return self._applied_to_all(self._called(row), arguments, shape)

        config = bytes(row.backend_config).decode("utf-8", "replace")
        call = CustomCall(node, operands, shapes, config, apply)
        results = CUSTOM_CALLS[row.custom_call_target](call)
        converted = tuple(
            result
            if result.element == element
            else derived(node, "convert", (result,), result.shape, element)
            for result, element in zip(results, elements, strict=False)
        )
        return converted if row.shape.tuple_shapes else converted[0]


def _argument(row: HloInstructionProto, arguments: list[Tree]) -> Tree:
    """Return the argument of a parameter."""
    if not 0 <= row.parameter_number < len(arguments):
        raise NeffCompileError(
            f"parameter {row.parameter_number} is not passed by its caller",
            code="NEFF-MODULE",
            place=row.name,
            remedy=_REMEDY,
        )
    return arguments[row.parameter_number]


def _value_of(values: dict[int, Tree], ident: int, where: str) -> Tree:
    if ident not in values:
        raise NeffCompileError(
            f"operand {ident} is not defined before it",
            code="NEFF-MODULE",
            place=where,
            remedy=_REMEDY,
        )
    return values[ident]


def _with_known_starts(node: Node) -> Node:
    """Return a static slice if the starts are known while compiling (starts are clamped)."""
    if node.opcode not in ("dynamic-slice", "dynamic-update-slice"):
        return node
    updates = node.opcode == "dynamic-update-slice"
    sizes = node.operands[1].shape if updates else node.attributes["sizes"]
    indices = [row.value for row in node.operands[1 + updates :]]
    if any(value is None for value in indices):
        return node
    extents = node.operands[0].shape
    starts = tuple(
        min(max(int(value.item()), 0), extent - size)
        for value, extent, size in zip(indices, extents, sizes, strict=True)
        if value is not None
    )
    limits = tuple(start + size for start, size in zip(starts, sizes, strict=True))
    fields: dict[str, Any] = {"starts": starts, "limits": limits, "strides": (1,) * len(extents)}
    opcode = "update-slice" if updates else "slice"
    return node.like(opcode, *node.operands[: 1 + updates], **fields)


def _spread_scalar(operand: Node, node: Node) -> Node:
    """Broadcast a scalar bound of a clamp, or a scalar predicate of a select."""
    if operand.shape or not node.shape:
        return operand
    return derived(node, "broadcast", (operand,), node.shape, operand.element, dimensions=())


def _leaf_numbers(tree: Tree, indices: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the leaves of some elements of a tuple."""
    if not isinstance(tree, tuple):
        return frozenset()
    numbers: set[int] = set()
    number = 0
    for index, element in enumerate(cast("tuple[Tree, ...]", tree)):
        count = len(leaves_of(element))
        numbers.update(range(number, number + count) if index in indices else ())
        number += count
    return frozenset(numbers)
