"""Operations that call computations, custom calls, and communication on a single device."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.evaluate.values import Call, Value, operation

__all__: list[str] = []

_PASS_THROUGH = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"}
)
_MOST_TURNS = 10_000_000


@operation("call fusion")
def _call(call: Call) -> Value:
    return call.apply(0, call.operands)


@operation("while")
def _while(call: Call) -> Value:
    """Called computations stand in the order body, condition."""
    state = call.operands[0]
    for _ in range(_MOST_TURNS):
        if not bool(call.apply(1, [state])):
            return state
        state = call.apply(0, [state])
    raise call.fail(f"runs for more than {_MOST_TURNS} turns")


@operation("conditional")
def _conditional(call: Call) -> Value:
    index = call.operands[0]
    count = len(call.row.called_computation_ids)
    chosen = (0 if bool(index) else 1) if index.dtype == np.bool_ else int(index)
    if not 0 <= chosen < count:
        chosen = count - 1
    return call.apply(chosen, [call.operands[chosen + 1]])


@operation("scan")
def _scan(call: Call) -> Value:
    row = call.row
    carries = row.num_carries
    inputs = call.operands[: len(call.operands) - carries]
    state = list(call.operands[len(inputs) :])
    axis = row.dimensions[0]
    length = inputs[0].shape[axis]
    order = range(length - 1, -1, -1) if row.is_reverse else range(length)
    stacked: list[list[Any]] = []
    for at in order:
        value = call.apply(0, [*(np.take(one, at, axis) for one in inputs), *state])
        parts = list(value) if isinstance(value, tuple) else [value]
        outputs = parts[: len(parts) - carries] if carries else parts
        state = parts[len(parts) - carries :] if carries else []
        stacked.append(outputs)
    if row.is_reverse:
        stacked.reverse()
    joined = [
        np.stack([turn[i] for turn in stacked], axis)
        for i in range(len(stacked[0]) if stacked else 0)
    ]
    results = [*joined, *state]
    return results[0] if not row.shape.tuple_shapes else tuple(results)


@operation("custom-call")
def _custom_call(call: Call) -> Value:
    target = call.row.custom_call_target
    if target in _PASS_THROUGH:
        return call.operands[0]
    runner = call.evaluator.custom_calls.get(target)
    if runner is None:
        raise call.fail(f"calls {target!r}, which has no meaning here", "HLO-CUSTOM-CALL")
    values = runner(call.row, call.operands)
    return tuple(values) if call.row.shape.tuple_shapes else values[0]


# -- communication, with one participant ------------------------------------------------------------


def _alone(call: Call) -> None:
    row = call.row
    groups = row.collective_device_list.replica_groups or row.replica_groups
    others = ("iota_collective_device_list", "mesh_axes_replica_group_list")
    if row.WhichOneof("replica_group_list") in others or any(
        len(group.replica_ids) > 1 for group in groups
    ):
        raise call.fail("talks to other devices; this evaluates one", "HLO-COLLECTIVE")
    source = call.evaluator.shape_of(row.operand_ids[0])
    shape = row.shape.tuple_shapes[0] if row.shape.tuple_shapes else row.shape
    if source is not None and list(source.dimensions) != list(shape.dimensions):
        raise call.fail("joins what several devices have; this evaluates one", "HLO-COLLECTIVE")


@operation("all-reduce all-reduce-start collective-broadcast reduce-scatter all-to-all")
def _collective(call: Call) -> Value:
    _alone(call)
    return call.operands[0] if len(call.operands) == 1 else tuple(call.operands)


@operation("all-gather")
def _all_gather(call: Call) -> Value:
    _alone(call)
    return call.operands[0] if len(call.operands) == 1 else tuple(call.operands)


@operation("collective-permute")
def _permute(call: Call) -> Value:
    pairs = [(pair.source, pair.target) for pair in call.row.source_target_pairs]
    if pairs not in ([], [(0, 0)]):
        raise call.fail("talks to other devices; this evaluates one", "HLO-COLLECTIVE")
    return call.operands[0] if pairs else np.zeros_like(call.operands[0])


@operation("all-reduce-done")
def _done(call: Call) -> Value:
    return call.operands[0]


@operation("replica-id partition-id")
def _identity(call: Call) -> Value:
    return np.asarray(0, dtype=np.uint32)


@operation("async-start")
def _async_start(call: Call) -> Value:
    result = call.apply(0, call.operands)
    return (tuple(call.operands), result, None)


@operation("async-update")
def _async_update(call: Call) -> Value:
    return call.operands[0]


@operation("async-done")
def _async_done(call: Call) -> Value:
    return call.operands[0][1]


@operation("copy-start")
def _copy_start(call: Call) -> Value:
    return (call.operands[0], call.operands[0], None)


@operation("copy-done")
def _copy_done(call: Call) -> Value:
    return call.operands[0][0]
