"""Operations that call computations, custom calls, and the asynchronous forms of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from hlo_tools.evaluate.custom_calls import REFERENCES, evaluate_reference
from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.sorting import largest
from hlo_tools.evaluate.values import Array, Value, parts_of
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto

__all__: list[str] = []

_PASS_THROUGH = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
     "MoveToHost", "MoveToDevice", "LayoutConstraint"}
)  # fmt: skip
_MOST_ITERATIONS = 10_000_000
_SHORT_LOOP = 64


@operation("call fusion")
def _call(call: Call) -> Value:
    return call.apply(0, call.values)


@operation("while")
def _while(call: Call) -> Value:
    """Called computations are in the order body, condition."""
    state = call.values[0]
    for iteration in range(_MOST_ITERATIONS):
        if not call.holds(1, [state]):
            return state
        if iteration == _SHORT_LOOP and _is_endless(call):
            raise call.fail("never ends: its condition depends on nothing that changes")
        state = call.apply(0, [state])
    raise call.fail(f"runs for more than {_MOST_ITERATIONS} iterations")


def _is_endless(call: Call) -> bool:
    """Return True if the loop's condition reads only constants and values that the body preserves."""
    body, condition = map(call.evaluator.body, call.row.called_computation_ids)
    read_elements = _elements_read(condition)
    if read_elements is None:
        return False
    rows = {row.id & LOCAL_MASK: row for row in body.instructions}
    root = rows[body.root_id & LOCAL_MASK]
    if root.opcode != "tuple":
        return not read_elements
    passed_rows = (rows[root.operand_ids[index] & LOCAL_MASK] for index in read_elements)
    return all(
        row.opcode == "get-tuple-element"
        and row.tuple_index == index
        and rows[row.operand_ids[0] & LOCAL_MASK].opcode == "parameter"
        for index, row in zip(read_elements, passed_rows, strict=True)
    )


def _elements_read(condition: HloComputationProto) -> list[int] | None:
    """Return the elements of its parameter that a condition reads; None if undetermined."""
    rows = {row.id & LOCAL_MASK: row for row in condition.instructions}
    read_elements: set[int] = set()
    todo = [condition.root_id]
    done: set[int] = set()
    while todo:
        row = rows[todo.pop() & LOCAL_MASK]
        if row.id in done:
            continue
        done.add(row.id)
        if row.opcode in ("parameter", "custom-call", "while", "infeed", "recv"):
            return None
        if (
            row.opcode == "get-tuple-element"
            and rows[row.operand_ids[0] & LOCAL_MASK].opcode == "parameter"
        ):
            read_elements.add(row.tuple_index)
        else:
            todo += row.operand_ids
    return sorted(read_elements)


@operation("conditional")
def _conditional(call: Call) -> Value:
    index = call.operands[0]
    count = len(call.row.called_computation_ids)
    chosen = (0 if bool(index) else 1) if index.dtype == np.bool_ else int(index)
    if not 0 <= chosen < count:
        chosen = count - 1
    return call.apply(chosen, [call.values[chosen + 1]])


@operation("scan")
def _scan(call: Call) -> Value:
    row = call.row
    carries = row.num_carries
    inputs = call.operands[: len(call.operands) - carries]
    state = call.values[len(inputs) :]
    axis = row.dimensions[0]
    length = inputs[0].shape[axis]
    order = range(length - 1, -1, -1) if row.is_reverse else range(length)
    stacked: list[list[Array]] = []
    for index in order:
        parts = parts_of(
            call.apply(0, [*(np.take(array, index, axis) for array in inputs), *state])
        )
        outputs = parts[: len(parts) - carries] if carries else parts
        state = parts[len(parts) - carries :] if carries else []
        stacked.append(cast(list[Array], outputs))
    if row.is_reverse:
        stacked.reverse()
    joined = [
        np.stack([iteration[i] for iteration in stacked], axis)
        for i in range(len(stacked[0]) if stacked else 0)
    ] or _nothing(row)
    results = [*joined, *state]
    return results[0] if not row.shape.tuple_shapes else tuple(results)


def _nothing(row: HloInstructionProto) -> list[Array]:
    """Return the empty stacked results of a scan over no elements."""
    shapes = list(row.shape.tuple_shapes) or [row.shape]
    stacked = [Shape(shape) for shape in shapes[: len(shapes) - row.num_carries]]
    return [np.zeros(shape.dimensions, shape.dtype) for shape in stacked]


@operation("custom-call")
def _custom_call(call: Call) -> Value:
    target = call.row.custom_call_target
    if target in _PASS_THROUGH:
        return _passed_through(call)
    if target == "TopK":
        return _largest(call)
    runner = call.evaluator.custom_calls.get(target)
    reference = REFERENCES.get(target)
    if runner is None and reference is not None:
        return evaluate_reference(call, reference)
    if runner is None:
        raise call.fail(
            f"calls {target!r}, which cannot be evaluated",
            "HLO-CUSTOM-CALL",
            "jaxlib may support it (nki-hlo evaluate --with jaxlib); nki-hlo slice cuts a part out "
            "that does not call it",
        )
    try:
        values = runner(call.row, call.operands)
    except Exception as error:
        if hasattr(error, "code") or getattr(runner, "__module__", "").startswith("hlo_tools."):
            raise
        raise call.fail(
            f"calls {target!r}, whose function fails: {type(error).__name__}: {error}",
            "HLO-EVALUATE-FAILED",
            "mend the function that custom_calls has for this target",
        ) from error
    return tuple(values) if call.row.shape.tuple_shapes else values[0]


def _operand(call: Call) -> Value:
    """That of a custom call which takes one."""
    if not call.values:
        raise call.fail(
            f"calls {call.row.custom_call_target!r} without an operand",
            "HLO-CUSTOM-CALL",
            "it takes one; the module is damaged, or its writer has a bug",
        )
    return call.values[0]


def _largest(call: Call) -> Value:
    values, shapes = _operand(call), call.row.shape.tuple_shapes
    if (
        not isinstance(values, np.ndarray)
        or not values.ndim
        or not (shapes and shapes[0].dimensions)
    ):
        raise call.fail(
            "calls 'TopK' without a dimension to take the largest of",
            "HLO-CUSTOM-CALL",
            "it takes an array and returns a tuple of values and places",
        )
    return largest(values, shapes[0].dimensions[-1])


def _passed_through(call: Call) -> Value:
    value = _operand(call)
    if isinstance(value, np.ndarray) and value.shape != call.extents:
        raise call.fail("splits data among devices; this evaluates one", "HLO-COLLECTIVE")
    return value


@operation("outfeed")
def _outfeed(call: Call) -> Value:
    """The host's side is not modelled; the result is a token."""
    return None


@operation("async-start")
def _async_start(call: Call) -> Value:
    result = call.apply(0, call.values)
    return (tuple(call.values), result, None)


@operation("async-update")
def _async_update(call: Call) -> Value:
    return call.values[0]


@operation("async-done")
def _async_done(call: Call) -> Value:
    return _started(call)[1]


@operation("copy-start")
def _copy_start(call: Call) -> Value:
    return (call.values[0], call.values[0], None)


@operation("copy-done")
def _copy_done(call: Call) -> Value:
    return _started(call)[0]


def _started(call: Call) -> tuple[Value, ...]:
    """The result of the start of an asynchronous operation."""
    start_value = call.values[0]
    assert isinstance(start_value, tuple)
    return start_value
