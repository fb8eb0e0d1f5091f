"""Operations in which devices communicate, as the few that the NEFF's instructions have.

Those work on whole arrays: what a device sends to each other one, or gets from it, stands along a
first dimension, and views put it in the place that HLO names. They add and compare floats in
float32; any other reduction is the exchange of the data, and arithmetic on each device.
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
"""Opcodes of a graph's nodes that need other devices, or the number of the own one."""

_NATIVE = ("add", "maximum", "minimum")
"""What the instructions reduce with, floats only."""

_CODE = "NEFF-COLLECTIVE"


@dataclass(frozen=True, slots=True)
class Collective:
    """One operation.

    Attributes:
        row: the instruction.
        node: its name and place.
        operands: what it is called with.
        devices: that run the program together; None when that is not known.
        applied: the operation of its reduction, "" for none and for any other computation.
        combine: its computation of two scalars, done on whole arrays.
        own: the number of the device; one node for the whole module.
    """

    row: HloInstructionProto
    node: Node
    operands: list[Node]
    devices: Devices | None
    applied: str
    combine: Callable[[list[Node], tuple[int, ...]], Node]
    own: Node

    def known_devices(self) -> Devices:
        """The devices.

        Raises:
            NeffCompileError: it is not known how many there are.
        """
        if self.devices is None:
            raise uncovered(
                self.node, "nothing states how many devices run the module",
                "build it with --replicas or --partitions", code=_CODE,
            )  # fmt: skip
        return self.devices

    def refuse(self, why: str, remedy: str = "") -> Exception:
        """The error for an operation that these devices cannot do together."""
        remedy = remedy or "nki-hlo verify checks groups; --replicas and --partitions must fit them"
        return uncovered(self.node, why, remedy, code=_CODE)

    def groups(self, *, complete: bool = True) -> Groups:
        """The groups.

        Args:
            complete: every device must be in one.

        Raises:
            NeffCompileError: they name a device twice, none, or one that there is not.
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
        """The groups, which have to be of one size."""
        groups = self.groups()
        if len({len(group) for group in groups}) > 1:
            raise self.refuse("its groups are of different sizes")
        return groups


# ------------------------------------------------------------- what instructions there are for


def gathered(like: Node, operand: Node, groups: Groups) -> Node:
    """The operands of all members, one behind the other along a new first dimension."""
    count = len(groups[0])
    shape = (count, *operand.shape)
    if count == 1:
        return derived(like, "reshape", (operand,), shape)
    return derived(like, "all-gather", (operand,), shape, groups=groups)


def exchanged(like: Node, operand: Node, groups: Groups) -> Node:
    """Row ``j`` of member ``i`` becomes row ``i`` of member ``j``."""
    if len(groups[0]) == 1:
        return operand
    return derived(like, "all-to-all", (operand,), operand.shape, groups=groups)


def permuted(like: Node, operand: Node, kept: Node, pairs: Sequence[tuple[int, int]]) -> Node:
    """The operand of the source for each target; ``kept`` for devices that are no target."""
    moved = tuple(sorted(pairs))
    return derived(like, "collective-permute", (operand, kept), operand.shape, pairs=moved)


def looked_up(call: Collective, table: Sequence[int], element: str = "s32") -> Node:
    """A device's own entry of a table, a scalar."""
    kind, like = BY_NAME[element], call.node
    if len(set(table)) == 1:
        return derived(like, "constant", (), (), kind, value=np.asarray(table[0], kind.dtype))
    if table == list(range(len(table))) and element == "u32":
        return call.own
    values = np.asarray(table, kind.dtype)
    entries = derived(like, "constant", (), values.shape, kind, value=values)
    entry = derived(like, "dynamic-slice", (entries, call.own), (1,), kind, sizes=(1,))
    return derived(like, "reshape", (entry,), (), kind)


# ----------------------------------------------------------------------------------- reductions


def _row_of(like: Node, rows: Node, at: int) -> Node:
    return derived(like, "reshape", (sliced(like, rows, 0, at, at + 1),), rows.shape[1:])


def _folded(call: Collective, rows: Node) -> Node:
    """The rows, reduced on the device in their order."""
    total = _row_of(call.node, rows, 0)
    for at in range(1, rows.shape[0]):
        total = call.combine([total, _row_of(call.node, rows, at)], total.shape)
    return total


def _is_native(call: Collective, operand: Node) -> bool:
    return call.applied in _NATIVE and operand.element.kind == "float"


def _folded_unevenly(call: Collective, operand: Node, groups: Groups) -> Node:
    """Groups of different sizes: every device gets all operands, and takes those of its group."""
    devices, like = call.known_devices(), call.node
    everyone = gathered(like, operand, (tuple(range(devices.count)),))
    own = {member: group for group in groups for member in group}
    total: Node | None = None
    for at in range(max(map(len, groups))):
        table = [own[one][at] if at < len(own[one]) else 0 for one in range(devices.count)]
        row = _dynamic_row(like, everyone, looked_up(call, table))
        if total is None:
            total = row
            continue
        inside = [int(at < len(own[one])) for one in range(devices.count)]
        takes = looked_up(call, inside, "pred")
        made = call.combine([total, row], total.shape)
        chosen = derived(like, "broadcast", (takes,), total.shape, dimensions=())
        total = derived(like, "select", (chosen, made, total), total.shape, total.element)
    assert total is not None
    return total


def _dynamic_row(like: Node, rows: Node, at: Node) -> Node:
    zero = derived(like, "constant", (), (), at.element, value=np.asarray(0, at.element.dtype))
    indices = (at, *[zero] * (len(rows.shape) - 1))
    sizes = (1, *rows.shape[1:])
    row = derived(like, "dynamic-slice", (rows, *indices), sizes, rows.element, sizes=sizes)
    return derived(like, "reshape", (row,), rows.shape[1:])


def _all_reduce(call: Collective) -> list[Node]:
    groups = call.groups()
    if all(len(group) == 1 for group in groups):
        return call.operands
    native = list(
        {id(one): one for one in call.operands if one.size and _is_native(call, one)}.values()
    )
    found = dict(zip(map(id, native), _reduced_together(call, native, groups), strict=True))
    for one in call.operands:
        if id(one) in found:
            continue
        if not one.size:
            found[id(one)] = one
        elif len({len(group) for group in groups}) > 1:
            found[id(one)] = _folded_unevenly(call, one, groups)
        else:
            found[id(one)] = _folded(call, gathered(call.node, one, groups))
    return [found[id(one)] for one in call.operands]


def _reduced_together(call: Collective, operands: list[Node], groups: Groups) -> list[Node]:
    """One instruction for all operands."""
    if not operands:
        return []
    like, applied = call.node, call.applied
    node = derived(like, "all-reduce", operands, operands[0].shape, groups=groups, applied=applied)
    if len(operands) == 1:
        return [node]
    return [
        derived(like, "result", (node,), one.shape, one.element, index=index)
        for index, one in enumerate(operands)
    ]


def _reduce_scatter(call: Collective) -> list[Node]:
    groups, dim = call.even_groups(), call.row.dimensions[0]
    results: list[Node] = []
    for operand in call.operands:
        rows = _parts(call, operand, dim, len(groups[0]))
        if len(groups[0]) > 1 and _is_native(call, operand):
            made = derived(
                call.node, "reduce-scatter", (rows,), rows.shape[1:],
                groups=groups, applied=call.applied,
            )  # fmt: skip
        else:
            made = _folded(call, exchanged(call.node, rows, groups))
        results.append(made)
    return results


# ------------------------------------------------------------------------------------- movement


def _parts(call: Collective, operand: Node, dim: int, count: int) -> Node:
    """The operand, cut into equal parts along a dimension, one behind the other."""
    shape = operand.shape
    if shape[dim] % count:
        raise call.refuse(f"{shape[dim]} elements cannot be divided among {count} devices")
    cut = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    split = derived(call.node, "reshape", (operand,), cut)
    order = (dim, *(one for one in range(len(cut)) if one != dim))
    moved = [cut[one] for one in order]
    return derived(call.node, "transpose", (split,), moved, dimensions=order)


def _joined(call: Collective, rows: Node, dim: int) -> Node:
    """The rows, one behind the other along a dimension of theirs."""
    count, *part = rows.shape
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(rows.shape)))
    moved = [rows.shape[one] for one in order]
    turned = derived(call.node, "transpose", (rows,), moved, dimensions=order)
    return derived(
        call.node, "reshape", (turned,), [*part[:dim], count * part[dim], *part[dim + 1 :]]
    )


def _all_gather(call: Collective) -> list[Node]:
    groups, dim = call.even_groups(), call.row.dimensions[0]
    return [_joined(call, gathered(call.node, one, groups), dim) for one in call.operands]


def _all_to_all(call: Collective) -> list[Node]:
    """An array is cut along a dimension; of a tuple each element goes to one device."""
    groups = call.even_groups()
    count = len(groups[0])
    if not call.row.shape.tuple_shapes:
        dim = call.row.dimensions[0]
        return [
            _joined(call, exchanged(call.node, _parts(call, one, dim, count), groups), dim)
            for one in call.operands
        ]
    if len(call.operands) != count:
        raise call.refuse(f"{len(call.operands)} operands cannot go to {count} devices")
    shape = call.operands[0].shape
    rows = [derived(call.node, "reshape", (one,), (1, *shape)) for one in call.operands]
    whole = derived(call.node, "concatenate", rows, (count, *shape), dimensions=(0,))
    made = exchanged(call.node, whole, groups)
    return [_row_of(call.node, made, at) for at in range(count)]


def _zeros(like: Node, one: Node) -> Node:
    zero = derived(like, "constant", (), (), one.element, value=np.zeros((), one.element.dtype))
    return derived(like, "broadcast", (zero,), one.shape, one.element, dimensions=())


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
    zeros = [_zeros(call.node, one) for one in call.operands]
    if not pairs:
        return zeros
    return [
        permuted(call.node, one, zero, pairs) if devices.count > 1 else one
        for one, zero in zip(call.operands, zeros, strict=True)
    ]


def _broadcast(call: Collective) -> list[Node]:
    """From the first of each group to as many others as have it already, again and again."""
    groups = call.groups(complete=False)
    first = [(group[0], group[0]) for group in groups if group]
    results: list[Node] = []
    for one in call.operands:
        found = one
        if len(first) < call.known_devices().count:
            found = permuted(call.node, one, _zeros(call.node, one), first)
        reached = 1
        while any(len(group) > reached for group in groups):
            sides = [(group[:reached], group[reached : 2 * reached]) for group in groups]
            pairs = [pair for side in sides for pair in zip(*side, strict=False)]
            found = permuted(call.node, found, found, pairs)
            reached *= 2
        results.append(found)
    return results


# -------------------------------------------------------------------------------------- numbers


def _number(call: Collective) -> list[Node]:
    devices = call.known_devices()
    every = range(devices.count)
    of_partitions = call.row.opcode == "partition-id"
    table = [
        one % devices.partitions if of_partitions else one // devices.partitions for one in every
    ]
    return [looked_up(call, table, "u32")]


_MEANINGS: dict[str, Callable[[Collective], list[Node]]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "partition-id": _number,
    "reduce-scatter": _reduce_scatter,
    "replica-id": _number,
}


def _meaning(call: Collective) -> Tree:
    """The results: one, or as many as the shape has; with a start, what its end takes."""
    name, started = call.row.opcode.removesuffix("-start"), call.row.opcode.endswith("-start")
    results = _MEANINGS[name](call)
    shape = call.row.shape
    if started and name != "all-reduce":
        shape = shape.tuple_shapes[1]
    _check(call, results, shape)
    value = tuple(results) if shape.tuple_shapes else results[0]
    if not started or name == "all-reduce":
        return value
    given = tuple(call.operands) if len(call.operands) > 1 else call.operands[0]
    return (given, value, *((), ()) * (name == "collective-permute"))


def _check(call: Collective, results: list[Node], shape: ShapeProto) -> None:
    """Refuse a module that was made for another number of devices."""
    parts = list(shape.tuple_shapes) or [shape]
    for made, stated in zip(results, parts, strict=True):
        if made.shape != tuple(stated.dimensions):
            raise call.refuse(
                f"{call.known_devices()} make {list(made.shape)}, the module states "
                f"{list(stated.dimensions)}"
            )


COLLECTIVES: dict[str, Callable[[Collective], Tree]] = {
    **dict.fromkeys(_MEANINGS, _meaning),
    **dict.fromkeys(("all-gather-start", "all-reduce-start", "collective-permute-start"), _meaning),
}
"""Opcode -> its results as nodes, in the form of its shape."""
