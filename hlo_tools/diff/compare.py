"""Compares two modules: pairs computations along calls, and instructions by structure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import zip_longest
from operator import eq
from typing import Any

from hlo_tools import schema
from hlo_tools._gc import no_collection
from hlo_tools.diff.describe import describe, one_line, property_changes, short
from hlo_tools.diff.fields import compared_fields
from hlo_tools.diff.keys import Body, Numbers, bodies_of, check_ignored
from hlo_tools.diff.matching import match
from hlo_tools.diff.result import Change, ComputationDiff, InstructionDiff, ModuleDiff
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.kernels.comparing import CalledKernel, first_difference
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape_text import print_shape

__all__ = ["Pairing", "diff_modules"]

Message = Any


def diff_modules(
    left: Module,
    right: Module,
    *,
    ignore: Collection[str] = ("metadata",),
    names: bool = False,
) -> ModuleDiff:
    """The differences between two modules.

    Names, ids and the order of instructions and computations make no difference.

    Args:
        left, right: the modules, before and after.
        ignore: what to leave out, of :data:`hlo_tools.diff.IGNORABLE`.
        names: names of instructions that stand for each other must be equal too.

    Raises:
        HloError: ``ignore`` has something else (HLO-ARGUMENT).
        HloFileError: a module refers to what it does not have, or in a circle.
    """
    check_ignored(ignore)
    with no_collection():
        return _Comparison(left, right, frozenset(ignore), names).run()


class Pairing:
    """The pairs of matching instructions of the modules ``left`` and ``right``.

    Asked for a pair of computations at a time.
    """

    def __init__(self, left: Module, right: Module) -> None:
        self._bodies = _Comparison(left, right, frozenset({"metadata"}), False).bodies

    def of(self, left: Computation, right: Computation) -> dict[Instruction, Instruction]:
        """Instructions of ``right`` by those of ``left``."""
        left_body, right_body = self._bodies[0][left.id], self._bodies[1][right.id]
        return {
            left.resolve(left_body.rows[a].id): right.resolve(right_body.rows[b].id)
            for a, b in match(left_body, right_body).items()
        }


class _Comparison:
    def __init__(self, left: Module, right: Module, ignore: frozenset[str], names: bool) -> None:
        self.modules = left, right
        self.ignore = ignore
        self.names = names
        numbers = Numbers()
        self.bodies = bodies_of(left, ignore, numbers), bodies_of(right, ignore, numbers)
        self.prints = tuple({n: b.fingerprint for n, b in side.items()} for side in self.bodies)
        self.pairs: dict[int, int] = {}
        self.matches: dict[int, dict[int, int]] = {}

    def run(self) -> ModuleDiff:
        left, right = self.modules
        self._pair_from(left.entry, right.entry)
        self._pair_rest()
        paired_ids = set(self.pairs.values())
        return ModuleDiff(
            left.path or left.name,
            right.path or right.name,
            tuple(self._module_changes()),
            tuple(self._compare(a, b) for a, b in self.pairs.items()),
            tuple(c.name for c in left.computations if c.id not in self.pairs),
            tuple(c.name for c in right.computations if c.id not in paired_ids),
        )

    # Pairs of computations

    def _pair_from(self, left: Computation, right: Computation) -> None:
        """Pair two computations and, along the calls of matched instructions, what they call."""
        queue = deque([(left.id, right.id)])
        paired_ids = set(self.pairs.values())
        while queue:
            a, b = queue.popleft()
            if a in self.pairs or b in paired_ids:
                continue
            self.pairs[a] = b
            paired_ids.add(b)
            left_body, right_body = self.bodies[0][a], self.bodies[1][b]
            matches = self.matches[a] = match(left_body, right_body)
            for x, y in sorted(matches.items()):
                if left_body.calls[x] and right_body.calls[y]:
                    queue.extend(zip(left_body.calls[x], right_body.calls[y], strict=False))

    def _pair_rest(self) -> None:
        """Pair the computations that no pair of calls reaches: equal ones, then equal names."""
        for keys in (
            self.prints,
            tuple({c.id: c.name for c in m.computations} for m in self.modules),
        ):
            paired_ids = set(self.pairs.values())
            free = {
                keys[1][c.id]: c for c in self.modules[1].computations if c.id not in paired_ids
            }
            for computation in self.modules[0].computations:
                partner = (
                    free.pop(keys[0][computation.id], None)
                    if computation.id not in self.pairs
                    else None
                )
                if partner is not None:
                    self._pair_from(computation, partner)

    # Differences

    def _compare(self, a: int, b: int) -> ComputationDiff:
        left, right = self.bodies[0][a], self.bodies[1][b]
        matches = self.matches[a]
        changed: list[InstructionDiff] = []
        for x, y in sorted(matches.items()):
            if self._is_same(left, x, right, y, matches):
                continue
            changes = tuple(self._changes(left, x, right, y, matches))
            if changes:
                changed.append(self._instruction(left, x, right, y, changes))
        matched_right = set(matches.values())
        removed = [n for n in range(len(left.rows)) if n not in matches]
        added = [n for n in range(len(right.rows)) if n not in matched_right]
        return ComputationDiff(
            left.computation.name,
            right.computation.name,
            len(matches) - len(changed),
            tuple(changed),
            tuple(one_line(left, n) for n in removed),
            tuple(one_line(right, n) for n in added),
            tuple(self._computation_changes(left, right, matches)),
        )

    def _instruction(
        self, left: Body, x: int, right: Body, y: int, changes: tuple[Change, ...]
    ) -> InstructionDiff:
        source = left.computation.resolve(left.rows[x].id).source
        names = left.names[x], right.names[y]
        return InstructionDiff(*names, left.opcodes[x], changes, str(source) if source else "")

    def _root_change(self, left: Body, right: Body, matches: dict[int, int]) -> Iterator[Change]:
        if matches.get(left.root) != right.root:
            yield Change("root", *(f"%{body.names[body.root]}" for body in (left, right)))

    def _computation_changes(
        self, left: Body, right: Body, matches: dict[int, int]
    ) -> Iterator[Change]:
        """Yield the differences between computations except their instructions."""
        left_row, right_row = left.computation.proto, right.computation.proto
        yield from self._root_change(left, right, matches)
        if self.names and left_row.name != right_row.name:
            yield Change("name", left_row.name, right_row.name)
        fields = compared_fields(left_row, self.ignore) - {"execution_thread"}
        yield from property_changes(left_row, right_row, fields)
        threads = [row.execution_thread or "main" for row in (left_row, right_row)]
        if threads[0] != threads[1]:
            yield Change("execution_thread", *threads)
        if not {"layout", "shape"} & self.ignore:
            shapes = left_row.program_shape, right_row.program_shape
            yield from _program_changes("program_shape", *shapes)
        yield from self._schedule_change(left, right, matches)

    def _schedule_change(
        self, left: Body, right: Body, matches: dict[int, int]
    ) -> Iterator[Change]:
        """The orders in which instructions run, where one side states one."""
        orders = [_scheduled(m.proto, b) for m, b in zip(self.modules, (left, right), strict=True)]
        before, after = orders
        mapped = None if before is None else [matches.get(place) for place in before]
        if mapped != after:
            yield Change(
                "schedule",
                *(
                    "" if order is None else short(" ".join(f"%{body.names[n]}" for n in order))
                    for body, order in zip((left, right), orders, strict=True)
                ),
            )

    def _is_same(self, left: Body, x: int, right: Body, y: int, matches: dict[int, int]) -> bool:
        """Return True if instructions without calls and control predecessors are equal."""
        if left.keys[x] != right.keys[y] or left.control[x] or right.control[y]:
            return False
        if left.calls[x] or right.calls[y]:
            return False
        if left.rows[x].custom_call_target == KERNEL_TARGET:
            return False
        if [matches.get(operand) for operand in left.operands[x]] != right.operands[y]:
            return False
        return not self.names or left.names[x] == right.names[y]

    def _changes(
        self, left: Body, x: int, right: Body, y: int, matches: dict[int, int]
    ) -> Iterator[Change]:
        if self.names and left.names[x] != right.names[y]:
            yield Change("name", left.names[x], right.names[y])
        if left.keys[x] != right.keys[y]:
            message = list(describe(left, x, right, y, self.ignore))
            yield from message or [Change("unknown fields", "", "differ")]
        yield from _operand_changes(left, x, right, y, matches, "operand-order" in self.ignore)
        yield from self._call_changes(left.calls[x], right.calls[y])
        yield from self._kernel_changes(left.rows[x], right.rows[y])
        yield from _control_changes(left, x, right, y, matches)

    def _kernel_changes(self, left_row: Message, right_row: Message) -> Iterator[Change]:
        """Yield the difference of the kernel files that two calls name."""
        if not left_row.custom_call_target == right_row.custom_call_target == KERNEL_TARGET:
            return
        kernels = [
            CalledKernel(row.backend_config, module.folder)
            for row, module in zip((left_row, right_row), self.modules, strict=True)
        ]
        difference = first_difference(*kernels, locations="metadata" not in self.ignore)
        if difference is not None and "backend_config" not in self.ignore:
            yield Change("kernel", *map(short, difference))

    def _call_changes(
        self, left_calls: tuple[int, ...], right_calls: tuple[int, ...]
    ) -> Iterator[Change]:
        """Calls of computations that neither are a pair nor alike."""
        for position, (a, b) in enumerate(zip_longest(left_calls, right_calls)):
            if a is not None and b is not None and self._same_call(a, b):
                continue
            texts = [
                "" if n is None else f"%{module.computation_by_id(n).name}"
                for module, n in zip(self.modules, (a, b), strict=True)
            ]
            yield Change(f"calls {position}", *texts)

    def _same_call(self, a: int, b: int) -> bool:
        return self.pairs.get(a) == b or self.prints[0].get(a) == self.prints[1].get(b, -1)

    def _module_changes(self) -> Iterator[Change]:
        left, right = (module.proto for module in self.modules)
        fields = compared_fields(left, self.ignore)
        yield from property_changes(left, right, fields | (_NAMES if self.names else set[str]()))
        yield from self._envelope_changes()
        before, after = (module.configuration for module in self.modules)
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield Change(name, before.get(name, ""), after.get(name, ""))
        if "layout" in self.ignore or "shape" in self.ignore:
            return
        shapes = left.host_program_shape, right.host_program_shape
        yield from _program_changes("entry_computation_layout", *shapes)

    def _envelope_changes(self) -> Iterator[Change]:
        """Yield differences of the envelopes of one kind: arguments, results, the platform."""
        left, right = (module.envelope for module in self.modules)
        if left is not None and right is not None and left.DESCRIPTOR is right.DESCRIPTOR:
            fields = compared_fields(left, self.ignore)
            yield from property_changes(left, right, fields)
            inner = [
                envelope.hlo
                for envelope in (left, right)
                if isinstance(envelope, schema.HloSnapshot)
            ]
            if inner:
                fields = compared_fields(inner[0], self.ignore)
                yield from property_changes(inner[0], inner[1], fields)


_NAMES = frozenset({"name", "entry_computation_name"})


def _scheduled(proto: Message, body: Body) -> list[int] | None:
    """Places of a computation's instructions in the order of the schedule; None without one."""
    sequences = proto.schedule.sequences
    number = body.computation.proto.id
    if number not in sequences:
        return None
    positions = {row.id & LOCAL_MASK: position for position, row in enumerate(body.rows)}
    ids = (inst_id & LOCAL_MASK for inst_id in sequences[number].instruction_ids)
    return [positions[inst_id] for inst_id in ids if inst_id in positions]


def _program_changes(field: str, left_shape: Message, right_shape: Message) -> Iterator[Change]:
    """Yield the differences between the types of two programs; parameter names do not count."""
    before, after = _program(left_shape), _program(right_shape)
    if before != after:
        yield Change(field, before, after)
        return
    fields = compared_fields(left_shape, frozenset())
    changes = property_changes(
        left_shape, right_shape, fields
    )  # the notation lacks some fields of shapes
    yield from (
        Change(f"{field}.{change.field}", change.before, change.after) for change in changes
    )


def _program(shape: Message) -> str:
    parameters = ", ".join(print_shape(parameter) for parameter in shape.parameters)
    return f"({parameters})->{print_shape(shape.result)}"


def _operand_changes(
    left: Body, x: int, right: Body, y: int, matches: dict[int, int], any_order: bool
) -> Iterator[Change]:
    left_operands, right_operands = left.operands[x], right.operands[y]
    if left.commuting[x] and right.commuting[y]:
        expected = [matches.get(operand) for operand in left_operands]
        if expected != right_operands and expected[::-1] == right_operands:
            if not any_order:
                before, after = (
                    ", ".join(f"%{body.names[o]}" for o in operands)
                    for body, operands in ((left, left_operands), (right, right_operands))
                )
                yield Change("operand order", before, after)
            return
        if sum(map(eq, expected[::-1], right_operands)) > sum(map(eq, expected, right_operands)):
            right_operands = right_operands[::-1]
    for slot in range(max(len(left_operands), len(right_operands))):
        a = left_operands[slot] if slot < len(left_operands) else None
        b = right_operands[slot] if slot < len(right_operands) else None
        if a is None or b is None or matches.get(a) != b:
            before = "" if a is None else f"%{left.names[a]}"
            after = "" if b is None else f"%{right.names[b]}"
            yield Change(f"operand {slot}", before, after)


def _control_changes(
    left: Body, x: int, right: Body, y: int, matches: dict[int, int]
) -> Iterator[Change]:
    before, after = left.control[x], right.control[y]
    if {matches.get(n) for n in before} != after:
        texts = [
            ", ".join(sorted(f"%{body.names[n]}" for n in chosen))
            for body, chosen in ((left, before), (right, after))
        ]
        yield Change("control-predecessors", *texts)
