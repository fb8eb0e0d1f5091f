"""Communication: what each device sends, and receives from the others of its group."""

from __future__ import annotations

from typing import cast

import numpy as np

from hlo_tools.evaluate.applying import combine
from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, EvaluationError, Value
from hlo_tools.types.replica_groups import device_groups, permuted_devices

__all__: list[str] = []


def _members(call: Call) -> list[int]:
    """Numbers of the devices of this one's group, in the group's order; empty outside of all."""
    device = call.evaluator.device
    try:
        groups = device_groups(call.row, device.replicas, device.partitions)
    except ValueError:
        raise _too_few(call) from None
    for group in groups:
        if device.number in group:
            return group
    return []


def _too_few(call: Call) -> EvaluationError:
    count = call.evaluator.device.meeting.count
    device_count = "one" if count == 1 else str(count)
    return call.fail(
        f"communicates with other devices; this evaluates {device_count}", "HLO-COLLECTIVE"
    )


def _exchange(call: Call, members: list[int]) -> list[list[Array]]:
    """The operands of every member."""
    device = call.evaluator.device
    if members in ([], [device.number]):
        return [list(call.operands)] if members else []
    exchanged = device.meeting.exchange(call.row.id, device.number, members, list(call.values))
    return cast(list[list[Array]], exchanged)


def _one_or_more(values: list[Array]) -> Value:
    return values[0] if len(values) == 1 else tuple(values)


def _checked(call: Call, values: list[Array]) -> Value:
    """Return the results if their shapes are those that the instruction states."""
    shape = call.row.shape
    parts = list(shape.tuple_shapes) or [shape]
    if call.row.opcode == "all-gather-start":
        parts = list(parts[1].tuple_shapes) or [parts[1]]
    for value, element_shape in zip(values, parts, strict=True):
        if list(value.shape) != list(element_shape.dimensions):
            count = call.evaluator.device.meeting.count
            device_count = "one" if count == 1 else str(count)
            raise call.fail(
                f"joins the data of another number of devices; this evaluates {device_count}",
                "HLO-COLLECTIVE",
            )
    return _one_or_more(values)


def _reduced(call: Call) -> list[Array]:
    contributions = _exchange(call, _members(call))
    if not contributions:
        return list(call.operands)
    return [_folded(call, list(parts)) for parts in zip(*contributions, strict=True)]


def _folded(call: Call, parts: list[Array]) -> Array:
    """Apply the computation to the members' arrays in the group's order."""
    total = parts[0]
    for addend in parts[1:]:
        total = combine(call, 0, [total], [addend])[0]
    return np.asarray(total)


@operation("all-reduce all-reduce-start")
def _all_reduce(call: Call) -> Value:
    return _one_or_more(_reduced(call))


@operation("reduce-scatter")
def _reduce_scatter(call: Call) -> Value:
    members = _members(call)
    totals = _reduced(call)
    if len(members) > 1:
        position, axis = members.index(call.evaluator.device.number), call.row.dimensions[0]
        totals = [_split(call, total, len(members), axis)[position] for total in totals]
    return _checked(call, totals)


@operation("all-gather all-gather-start")
def _all_gather(call: Call) -> Value:
    contributions, axis = _exchange(call, _members(call)), call.row.dimensions[0]
    results = [np.concatenate(parts, axis) for parts in zip(*contributions, strict=True)]
    value = _checked(call, results or list(call.operands))
    return value if call.row.opcode == "all-gather" else (_one_or_more(call.operands), value)


@operation("all-to-all")
def _all_to_all(call: Call) -> Value:
    members = _members(call)
    contributions = _exchange(call, members)
    if not contributions:
        return _one_or_more(list(call.operands))
    position = members.index(call.evaluator.device.number)
    if call.row.shape.tuple_shapes:
        if len(members) != len(call.operands):
            raise call.fail(f"sends {len(call.operands)} parts to {len(members)}", "HLO-COLLECTIVE")
        return tuple(parts[position] for parts in contributions)
    axis = call.row.dimensions[0]
    parts = [_split(call, operands[0], len(members), axis)[position] for operands in contributions]
    return np.concatenate(parts, axis)


def _split(call: Call, value: Array, count: int, axis: int) -> list[Array]:
    if value.shape[axis] % count:
        raise call.fail(f"splits {value.shape[axis]} among {count} devices", "HLO-COLLECTIVE")
    return np.split(value, count, axis)


@operation("collective-broadcast")
def _broadcast(call: Call) -> Value:
    """Send the root's operands; a device outside of all groups receives zeros."""
    contributions = _exchange(call, _members(call))
    if not contributions:
        return _zeros(call)
    roots = _roots(call, contributions)
    return _one_or_more([contributions[root][position] for position, root in enumerate(roots)])


@operation("collective-reduce")
def _collective_reduce(call: Call) -> Value:
    """Reduce to the root; every other device receives zeros (StableHLO, ``collective_reduce``)."""
    members = _members(call)
    contributions = _exchange(call, members)
    if not contributions:
        return _zeros(call)
    position = members.index(call.evaluator.device.number)
    return _one_or_more(
        [
            _folded(call, [parts[index] for parts in contributions])
            if root == position
            else np.zeros_like(call.operands[index])
            for index, root in enumerate(_roots(call, contributions))
        ]
    )


def _zeros(call: Call) -> Value:
    data = call.operands[:-1] if call.row.has_dynamic_root else call.operands
    return _one_or_more([np.zeros_like(operand) for operand in data])


def _roots(call: Call, contributions: list[list[Array]]) -> list[int]:
    """For each operand that is data, the position of the root in the group.

    With ``has_dynamic_root`` the last operand states them, otherwise the first member is the root
    (XLA, ``CollectiveReduceThunk``).
    """
    if not call.row.has_dynamic_root:
        return [0] * len(call.operands)
    stated = [[int(root) for root in np.ravel(parts[-1])] for parts in contributions]
    roots, count = stated[0], len(contributions)
    if any(member_roots != roots for member_roots in stated):
        raise call.fail(f"has members with different roots: {stated}", "HLO-COLLECTIVE")
    if len(roots) != len(call.operands) - 1:
        raise call.fail(
            f"has {len(roots)} roots for {len(call.operands) - 1} operands", "HLO-COLLECTIVE"
        )
    for root in roots:
        if not 0 <= root < count:
            raise call.fail(f"has root {root} in a group of {count}", "HLO-COLLECTIVE")
    return roots


@operation("collective-permute collective-permute-start")
def _permute(call: Call) -> Value:
    """Send operands along the pairs; a device without a source receives zeros."""
    row, device = call.row, call.evaluator.device
    try:
        pairs = permuted_devices(row, device.replicas, device.partitions)
    except ValueError:
        raise _too_few(call) from None
    if any(
        isinstance(source_device, tuple) or source_device is None or source_device.shape == ()
        for source_device in call.values[2:]
    ):
        raise call.fail("writes slices in place, which cannot be evaluated", "HLO-COLLECTIVE")
    count, device_number = device.partitions, device.number
    across = range(
        device_number - device_number % count, device_number - device_number % count + count
    )
    members = list(
        across if row.channel_id else range(device_number % count, device.replicas * count, count)
    )
    contributions = dict(zip(members, _exchange(call, members), strict=True))
    source = next(
        (source_device for source_device, target in pairs if target == device_number), None
    )
    value = _one_or_more(
        [np.zeros_like(source_device) for source_device in call.operands]
        if source is None
        else contributions[source]
    )
    return (
        value
        if row.opcode == "collective-permute"
        else (_one_or_more(call.operands), value, None, None)
    )


@operation("ragged-all-to-all")
def _ragged_all_to_all(call: Call) -> Value:
    """Operands: rows, where they go, input offsets, send sizes, output offsets, receive sizes."""
    members = _members(call)
    position = members.index(call.evaluator.device.number)
    result = np.array(call.operands[1])
    for rows, _, starts, sizes, positions, _ in _exchange(call, members):
        updates = starts.size // len(members)
        for update in range(position * updates, (position + 1) * updates):
            start, size, location = int(starts[update]), int(sizes[update]), int(positions[update])
            result[location : location + size] = rows[start : start + size]
    return result


@operation("all-reduce-done")
def _reduce_done(call: Call) -> Value:
    return call.operands[0]


@operation("all-gather-done collective-permute-done")
def _done(call: Call) -> Value:
    started = call.values[0]
    assert isinstance(started, tuple)
    return started[1]


@operation("replica-id")
def _replica(call: Call) -> Value:
    return np.asarray(call.evaluator.device.replica, dtype=np.uint32)


@operation("partition-id")
def _partition(call: Call) -> Value:
    return np.asarray(call.evaluator.device.partition, dtype=np.uint32)
