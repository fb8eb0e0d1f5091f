"""Operations between devices, expressed by the few that the instructions of the NEFF have.

The instructions move whole arrays: the data for or from each device is a row along a first
dimension, and views move the rows to the dimension that HLO names. The instructions add and compare
floats in float32. Any other reduction is an exchange of the data and arithmetic on each device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.replica_groups import device_groups, permuted_devices
from neff.compiler.graph.nodes import Node, derived, sliced, uncovered
from neff.compiler.importing.devices import Devices
from neff.compiler.importing.loops import Tree

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto, ShapeProto

__all__ = ["COLLECTIVES", "COMMUNICATION", "Collective", "Groups"]

Groups = tuple[tuple[int, ...], ...]
"""Numbers of the devices that communicate, group by group."""

COMMUNICATION = frozenset(
    {"all-gather", "all-reduce", "all-to-all", "collective-permute", "rank", "reduce-scatter"}
)
"""Opcodes of the graph's nodes that need other devices, or the number of this device."""

_NATIVE_REDUCTIONS = ("add", "maximum", "minimum")
"""Reductions that the instructions do, for floats only."""

_CODE = "NEFF-COLLECTIVE"


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation to import.

    Attributes:
        row: the instruction.
        node: its name and place.
        operands: its operands.
        devices: the devices that run the program together; None if their number is unknown.
        applied: the opcode of its reduction; "" without one, and for any other computation.
        combine: applies its computation of two scalars to whole arrays.
        rank: the number of this device; one node of the module.
    """

    row: HloInstructionProto
    node: Node
    operands: list[Node]
    devices: Devices | None
    applied: str
    combine: Callable[[list[Node], tuple[int, ...]], Node]
    rank: Node

    def known_devices(self) -> Devices:
        """Return the devices.

        Raises:
            NeffCompileError: the number of devices is unknown.
        """
        if self.devices is None:
            raise uncovered(
                self.node, "nothing states how many devices run the module",
                "build it with --replicas or --partitions", code=_CODE,
            )  # fmt: skip
        return self.devices

    def refuse(self, why: str, remedy: str = "") -> Exception:
        """Return the error for an operation that these devices cannot do together."""
        remedy = remedy or "nki-hlo verify checks groups; --replicas and --partitions must fit them"
        return uncovered(self.node, why, remedy, code=_CODE)

    def groups(self, *, complete: bool = True) -> Groups:
        """Return the groups of devices that communicate.

        Args:
            complete: require that every device is in a group.

        Raises:
            NeffCompileError: a device is in two groups, in no group, or does not exist.
        """
        devices = self.known_devices()
        try:
            groups = device_groups(self.row, devices.replicas, devices.partitions)
        except (ValueError, HloError) as error:
            raise self.refuse(f"its groups do not fit {devices}: {error}") from None
        named = sorted(member for group in groups for member in group)
        if len(set(named)) < len(named):
            raise self.refuse("a device is in two of its groups")
        if complete and len(named) < devices.count:
            missing = min(set(range(devices.count)) - set(named))
            raise self.refuse(f"device {missing} of {devices.count} is in none of its groups")
        return tuple(tuple(group) for group in groups)

    def even_groups(self) -> Groups:
        """Return the groups; refuse groups of different sizes."""
        groups = self.groups()
        if len({len(group) for group in groups}) > 1:
            raise self.refuse("its groups are of different sizes")
        return groups


# -------------------------------------------------------- operations that have instructions


def gathered(like: Node, operand: Node, groups: Groups) -> Node:
    """Concatenate the operands of all members along a new first dimension."""
    count = len(groups[0])
    shape = (count, *operand.shape)
    if count == 1:
        return derived(like, "reshape", (operand,), shape)
    return derived(like, "all-gather", (operand,), shape, groups=groups)


def exchanged(like: Node, operand: Node, groups: Groups) -> Node:
    """Exchange rows: row ``j`` of member ``i`` becomes row ``i`` of member ``j``."""
    if len(groups[0]) == 1:
        return operand
    return derived(like, "all-to-all", (operand,), operand.shape, groups=groups)


def permuted(like: Node, operand: Node, default: Node, pairs: Sequence[tuple[int, int]]) -> Node:
    """Return the source's operand on each target, and ``default`` on devices that are no target."""
    moved = tuple(sorted(pairs))
    return derived(like, "collective-permute", (operand, default), operand.shape, pairs=moved)


def looked_up(call: Collective, table: Sequence[int], element: str = "s32") -> Node:
    """Return a device's entry of a table, as a scalar."""
    kind, like = BY_NAME[element], call.node
    if len(set(table)) == 1:
        return derived(like, "constant", (), (), kind, value=np.asarray(table[0], kind.dtype))
    if table == list(range(len(table))) and element == "u32":
        return call.rank
    values = np.asarray(table, kind.dtype)
    entries = derived(like, "constant", (), values.shape, kind, value=values)
    entry = derived(like, "dynamic-slice", (entries, call.rank), (1,), kind, sizes=(1,))
    return derived(like, "reshape", (entry,), (), kind)


# ----------------------------------------------------------------------------------- reductions


def _row_of(like: Node, rows: Node, index: int) -> Node:
    return derived(like, "reshape", (sliced(like, rows, 0, index, index + 1),), rows.shape[1:])


def _folded(call: Collective, rows: Node) -> Node:
    """Reduce the rows on the device, in their order."""
    total = _row_of(call.node, rows, 0)
    for index in range(1, rows.shape[0]):
        total = call.combine([total, _row_of(call.node, rows, index)], total.shape)
    return total


def _is_native(call: Collective, operand: Node) -> bool:
    return call.applied in _NATIVE_REDUCTIONS and operand.element.kind == "float"


def _folded_unevenly(call: Collective, operand: Node, groups: Groups) -> Node:
    """Reduce over groups of different sizes: gather from all devices, then fold the own group's
    rows.
    """
    devices, like = call.known_devices(), call.node
    everyone = gathered(like, operand, (tuple(range(devices.count)),))
    group_of = {member: group for group in groups for member in group}
    total: Node | None = None
    for index in range(max(map(len, groups))):
        table = [
            group_of[device][index] if index < len(group_of[device]) else 0
            for device in range(devices.count)
        ]
        row = _dynamic_row(like, everyone, looked_up(call, table))
        if total is None:
            total = row
            continue
        inside = [int(index < len(group_of[device])) for device in range(devices.count)]
        takes = looked_up(call, inside, "pred")
        combined = call.combine([total, row], total.shape)
        chosen = derived(like, "broadcast", (takes,), total.shape, dimensions=())
        total = derived(like, "select", (chosen, combined, total), total.shape, total.element)
    assert total is not None
    return total


def _dynamic_row(like: Node, rows: Node, index: Node) -> Node:
    zero = derived(
        like, "constant", (), (), index.element, value=np.asarray(0, index.element.dtype)
    )
    indices = (index, *[zero] * (len(rows.shape) - 1))
    sizes = (1, *rows.shape[1:])
    row = derived(like, "dynamic-slice", (rows, *indices), sizes, rows.element, sizes=sizes)
    return derived(like, "reshape", (row,), rows.shape[1:])


def _all_reduce(call: Collective) -> list[Node]:
    groups = call.groups()
    if all(len(group) == 1 for group in groups):
        return call.operands
    native = list(
        {
            id(operand): operand
            for operand in call.operands
            if operand.size and _is_native(call, operand)
        }.values()
    )
    results = dict(zip(map(id, native), _reduced_together(call, native, groups), strict=True))
    for operand in call.operands:
        if id(operand) in results:
            continue
        if not operand.size:
            results[id(operand)] = operand
        elif len({len(group) for group in groups}) > 1:
            results[id(operand)] = _folded_unevenly(call, operand, groups)
        else:
            results[id(operand)] = _folded(call, gathered(call.node, operand, groups))
    return [results[id(operand)] for operand in call.operands]


def _reduced_together(call: Collective, operands: list[Node], groups: Groups) -> list[Node]:
    """Reduce all operands by one instruction."""
    if not operands:
        return []
    like, applied = call.node, call.applied
    node = derived(like, "all-reduce", operands, operands[0].shape, groups=groups, applied=applied)
    if len(operands) == 1:
        return [node]
    return [
        derived(like, "result", (node,), operand.shape, operand.element, index=index)
        for index, operand in enumerate(operands)
    ]


def _reduce_scatter(call: Collective) -> list[Node]:
    groups, dim = call.even_groups(), call.row.dimensions[0]
    results: list[Node] = []
    for operand in call.operands:
        rows = _parts(call, operand, dim, len(groups[0]))
        if len(groups[0]) > 1 and _is_native(call, operand):
            reduced = derived(
                call.node, "reduce-scatter", (rows,), rows.shape[1:],
                groups=groups, applied=call.applied,
            )  # fmt: skip
        else:
            reduced = _folded(call, exchanged(call.node, rows, groups))
        results.append(reduced)
    return results


# ------------------------------------------------------------------------------------- movement


def _parts(call: Collective, operand: Node, dim: int, count: int) -> Node:
    """Cut the operand into equal parts along a dimension, and stack them along a new first one."""
    shape = operand.shape
    if shape[dim] % count:
        raise call.refuse(f"{shape[dim]} elements cannot be divided among {count} devices")
    cut = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    split = derived(call.node, "reshape", (operand,), cut)
    order = (dim, *(axis for axis in range(len(cut)) if axis != dim))
    moved = [cut[axis] for axis in order]
    return derived(call.node, "transpose", (split,), moved, dimensions=order)


def _joined(call: Collective, rows: Node, dim: int) -> Node:
    """Concatenate the rows along dimension ``dim`` of a row."""
    count, *shape = rows.shape
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(rows.shape)))
    moved = [rows.shape[axis] for axis in order]
    transposed = derived(call.node, "transpose", (rows,), moved, dimensions=order)
    return derived(
        call.node, "reshape", (transposed,), [*shape[:dim], count * shape[dim], *shape[dim + 1 :]]
    )


def _all_gather(call: Collective) -> list[Node]:
    groups, dim = call.even_groups(), call.row.dimensions[0]
    return [_joined(call, gathered(call.node, operand, groups), dim) for operand in call.operands]


def _all_to_all(call: Collective) -> list[Node]:
    """Exchange parts of an array along a dimension, or the elements of a tuple, between devices."""
    groups = call.even_groups()
    count = len(groups[0])
    if not call.row.shape.tuple_shapes:
        dim = call.row.dimensions[0]
        return [
            _joined(call, exchanged(call.node, _parts(call, operand, dim, count), groups), dim)
            for operand in call.operands
        ]
    if len(call.operands) != count:
        raise call.refuse(f"{len(call.operands)} operands cannot go to {count} devices")
    shape = call.operands[0].shape
    rows = [derived(call.node, "reshape", (operand,), (1, *shape)) for operand in call.operands]
    stacked = derived(call.node, "concatenate", rows, (count, *shape), dimensions=(0,))
    received = exchanged(call.node, stacked, groups)
    return [_row_of(call.node, received, index) for index in range(count)]


def _zeros(like: Node, operand: Node) -> Node:
    zero = derived(
        like, "constant", (), (), operand.element, value=np.zeros((), operand.element.dtype)
    )
    return derived(like, "broadcast", (zero,), operand.shape, operand.element, dimensions=())


def _permute(call: Collective) -> list[Node]:
    devices = call.known_devices()
    if len(call.operands) > 1 and call.row.opcode.endswith("start"):
        raise call.refuse("it writes slices in place, which is not covered", "copy the slices")
    try:
        pairs = permuted_devices(call.row, devices.replicas, devices.partitions)
    except ValueError as error:
        raise call.refuse(f"its sources and targets do not fit {devices}: {error}") from None
    for side in zip(*pairs, strict=True):
        if len(set(side)) < len(side):
            raise call.refuse("a device is the source, or the target, of two pairs")
    zeros = [_zeros(call.node, operand) for operand in call.operands]
    if not pairs:
        return zeros
    return [
        permuted(call.node, operand, zero, pairs) if devices.count > 1 else operand
        for operand, zero in zip(call.operands, zeros, strict=True)
    ]


def _broadcast(call: Collective) -> list[Node]:
    """Send from the first member of each group, doubling the members that have the data in each
    step.
    """
    _refuse_dynamic_root(call)
    groups = call.groups(complete=False)
    first = [(group[0], group[0]) for group in groups if group]
    results: list[Node] = []
    for operand in call.operands:
        received = operand
        if len(first) < call.known_devices().count:
            received = permuted(call.node, operand, _zeros(call.node, operand), first)
        reached = 1
        while any(len(group) > reached for group in groups):
            sides = [(group[:reached], group[reached : 2 * reached]) for group in groups]
            pairs = [pair for side in sides for pair in zip(*side, strict=False)]
            received = permuted(call.node, received, received, pairs)
            reached *= 2
        results.append(received)
    return results


def _refuse_dynamic_root(call: Collective) -> None:
    if call.row.has_dynamic_root:
        raise call.refuse(
            "it chooses its root while it runs, which is not covered",
            "fix the root: the first device of each group; NKI_HLO_EXECUTOR=cpu runs every collective",
        )


def _collective_reduce(call: Collective) -> list[Node]:
    """Reduce on every member; devices that are not the first of their group return zeros."""
    _refuse_dynamic_root(call)
    first = {group[0] for group in call.groups()}
    is_root = [int(device in first) for device in range(call.known_devices().count)]
    takes = looked_up(call, is_root, "pred")
    results: list[Node] = []
    for total in _all_reduce(call):
        chosen = derived(
            call.node, "broadcast", (takes,), total.shape, BY_NAME["pred"], dimensions=()
        )
        operands = (chosen, total, _zeros(call.node, total))
        results.append(derived(call.node, "select", operands, total.shape, total.element))
    return results


# -------------------------------------------------------------------------------------- numbers


def _number(call: Collective) -> list[Node]:
    devices = call.known_devices()
    every = range(devices.count)
    of_partitions = call.row.opcode == "partition-id"
    table = [
        device % devices.partitions if of_partitions else device // devices.partitions
        for device in every
    ]
    return [looked_up(call, table, "u32")]


_RESULTS_BY_OPCODE: dict[str, Callable[[Collective], list[Node]]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "collective-reduce": _collective_reduce,
    "partition-id": _number,
    "reduce-scatter": _reduce_scatter,
    "replica-id": _number,
}


def _results(call: Collective) -> Tree:
    """Return the results in the form of the shape: an array, a tuple, or the state of a start."""
    name, started = call.row.opcode.removesuffix("-start"), call.row.opcode.endswith("-start")
    results = _RESULTS_BY_OPCODE[name](call)
    shape = call.row.shape
    if started and name != "all-reduce":
        shape = shape.tuple_shapes[1]
    _check(call, results, shape)
    value = tuple(results) if shape.tuple_shapes else results[0]
    if not started or name == "all-reduce":
        return value
    operands = tuple(call.operands) if len(call.operands) > 1 else call.operands[0]
    return (operands, value, *((), ()) * (name == "collective-permute"))


def _check(call: Collective, results: list[Node], shape: ShapeProto) -> None:
    """Refuse a module whose shapes were computed for another number of devices."""
    parts = list(shape.tuple_shapes) or [shape]
    for result, stated in zip(results, parts, strict=True):
        if result.shape != tuple(stated.dimensions):
            raise call.refuse(
                f"{call.known_devices()} make {list(result.shape)}, the module states "
                f"{list(stated.dimensions)}"
            )


COLLECTIVES: dict[str, Callable[[Collective], Tree]] = {
    **dict.fromkeys(_RESULTS_BY_OPCODE, _results),
    **dict.fromkeys(("all-gather-start", "all-reduce-start", "collective-permute-start"), _results),
}
"""Opcode -> function that returns its results as nodes, in the form of its shape."""
