"""What must hold of an operation although no result type follows from it: devices, pairs, states.

The rules are those of XLA's verifier (``hlo_verifier.cc``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hlo_tools._messages import counted
from hlo_tools.inference.reducers import check_chooser, check_reducer
from hlo_tools.inference.rule import Call
from hlo_tools.inference.types import Array, InferenceError, TupleType, Type, number, of, part_at
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.replica_groups import replica_groups_of

__all__ = ["check_operation"]

_U32, _TOKEN = Array(number("u32")), Array(number("token"))
_CHECKS: dict[str, Callable[[Call], None]] = {}


def check_operation(call: Call) -> None:
    """Check one instruction whose operands and result have types.

    Raises:
        InferenceError: it breaks a rule of its opcode, or (HLO-V018) states another result.
    """
    found = _CHECKS.get(call.row.opcode)
    if found is not None:
        found(call)


def _check(names: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    def register(function: Callable[[Call], None]) -> Callable[[Call], None]:
        _CHECKS.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _states(call: Call, expected: Type | None) -> None:
    """The instruction states the type, whatever is dynamic in it."""
    stated = of(call.row.shape)
    if expected is not None and _plain(expected) != _plain(stated):
        message = f"{call.row.opcode} returns {expected}, the instruction states {stated}"
        raise InferenceError(message, code="HLO-V018", place=call.row.name)


def _plain(kind: Type) -> Type:
    if isinstance(kind, TupleType):
        return TupleType(tuple(_plain(part) for part in kind.parts))
    return Array(kind.element, kind.dimensions)


# Computations that are called


@_check("sort")
def _sort(call: Call) -> None:
    check_chooser(call, call.arrays(), "comparator")


@_check("topk")
def _topk(call: Call) -> None:
    check_chooser(call, call.arrays(), "comparator")


# Devices


def _groups(call: Call) -> list[list[int]]:
    """The replica groups; every device is in one of them once."""
    groups = replica_groups_of(call.row)
    call.check(all(groups), "has an empty replica group")
    seen: set[int] = set()
    for device in (device for group in groups for device in group):
        call.check(device not in seen, f"has device {device} in its replica groups more than once")
        seen.add(device)
    return groups


def _alike(call: Call, parts: int, groups: list[list[int]], what: str) -> None:
    """Groups have as many devices as the operand has, or gets, parts.

    With a channel and no global ids each replica of a group stands for all its partitions, whose
    number the module does not state.
    """
    unknown = call.row.channel_id and not call.row.use_global_device_ids
    for group in groups:
        size = len(group)
        call.check(
            size in (1, parts) or (bool(unknown) and parts % size == 0),
            f"{what} {counted(parts, 'part')} among groups of {counted(size, 'device')}",
        )


@_check("all-reduce all-reduce-start")
def _all_reduce(call: Call) -> None:
    _groups(call)
    _reduces(call)
    _states(call, call.one_or_tuple(list(call.operands)))


def _reduces(call: Call) -> None:
    for operand in call.arrays():
        check_reducer(call, [operand])


@_check("all-gather")
def _all_gather(call: Call) -> None:
    groups = _groups(call)
    for operand, result in _pairs(call):
        _alike(call, _ratio(call, operand, result), groups, "makes")


@_check("reduce-scatter")
def _reduce_scatter(call: Call) -> None:
    groups = _groups(call)
    _reduces(call)
    for operand, result in _pairs(call):
        _alike(call, _ratio(call, result, operand), groups, "makes")


def _pairs(call: Call) -> list[tuple[Array, Array]]:
    """Each operand with its part of the result."""
    stated = of(call.row.shape)
    parts = stated.parts if isinstance(stated, TupleType) else (stated,)
    operands = call.arrays()
    call.check(
        len(parts) == len(operands),
        f"returns {counted(len(parts), 'result')} for {counted(len(operands), 'operand')}",
    )
    found: list[tuple[Array, Array]] = []
    for operand, part in zip(operands, parts, strict=True):
        if not isinstance(part, Array) or part.element != operand.element:
            call.check(False, f"returns {part} for {operand}")
        else:
            found.append((operand, part))
    return found


def _axis(call: Call, operand: Array) -> int:
    """The one dimension that is divided or joined."""
    axes = call.axes(call.row.dimensions, operand.rank, "dimensions")
    call.check(len(axes) == 1, f"has dimensions {list(axes)}; it needs one")
    return axes[0]


def _ratio(call: Call, small: Array, large: Array) -> int:
    """How often one array's extent along the dimension is in the other's; the others are equal."""
    axis = _axis(call, small)
    call.check(small.rank == large.rank, f"changes {small} and {large} in rank")
    before, after = (
        (*one.dimensions[:axis], *one.dimensions[axis + 1 :]) for one in (small, large)
    )
    call.check(before == after, f"changes {small} and {large} in other dimensions than {axis}")
    one, other = small.dimensions[axis], large.dimensions[axis]
    call.check(
        other == 0 if one == 0 else other % one == 0,
        f"divides an extent of {other} into parts of {one}",
    )
    return other // one if one else 1


@_check("all-to-all")
def _all_to_all(call: Call) -> None:
    groups = _groups(call)
    operands = call.arrays()
    if not call.row.dimensions:
        _alike(call, len(operands), groups, "exchanges")
        _states(call, TupleType(tuple(operands)))
        return
    call.check(bool(operands), "needs an operand")
    axis = _axis(call, operands[0])
    extent = operands[0].dimensions[axis]
    for group in groups:
        call.check(
            extent % len(group) == 0,
            f"divides an extent of {extent} among {counted(len(group), 'device')}",
        )
    _states(call, operands[0])


@_check("collective-permute collective-permute-start")
def _permute(call: Call) -> None:
    pairs = [(one.source, one.target) for one in call.row.source_target_pairs]
    for what, devices in zip(("source", "target"), zip(*pairs, strict=True), strict=False):
        seen: set[int] = set()
        for device in devices:
            call.check(device not in seen, f"has device {device} as {what} more than once")
            seen.add(device)
    if call.row.opcode == "collective-permute" and len(call.operands) == 1:
        _states(call, call.operands[0])


# Pairs of a start and a done


@_check("all-reduce-done")
def _same(call: Call) -> None:
    _states(call, call.operand(0))


@_check("all-gather-done collective-permute-done")
def _second(call: Call) -> None:
    _part(call, 1)


@_check("copy-done")
def _first(call: Call) -> None:
    _part(call, 0)


def _part(call: Call, place: int) -> None:
    found = part_at(call.operand(0), [place])
    call.check(found is not None, f"takes what its start returns, not {call.operand(0)}")
    _states(call, found)


@_check("copy-start")
def _copy_start(call: Call) -> None:
    operand = call.operand(0)
    _states(call, TupleType((operand, operand, _U32)))


@_check("async-start")
def _async_start(call: Call) -> None:
    if not call.called:
        return
    parameters, result = call.program()
    stated = of(call.row.shape)
    call.check(
        isinstance(stated, TupleType)
        and len(stated.parts) >= 2
        and _plain(stated.parts[0]) == _plain(TupleType(tuple(call.operands)))
        and _plain(stated.parts[1]) == _plain(result),
        f"returns (({', '.join(map(str, call.operands))}), {result}, ...), "
        f"the instruction states {stated}",
    )
    call.check(
        [*map(_plain, parameters)] == [*map(_plain, call.operands)],
        f"passes its computation ({', '.join(map(str, call.operands))}), "
        f"which takes ({', '.join(map(str, parameters))})",
    )


@_check("async-update")
def _async_update(call: Call) -> None:
    _states(call, call.operand(0))


@_check("async-done")
def _async_done(call: Call) -> None:
    _part(call, 1)


# States and bits


@_check("rng-bit-generator")
def _bits(call: Call) -> None:
    stated = of(call.row.shape)
    state = call.operand(0)
    if isinstance(stated, TupleType):
        call.check(len(stated.parts) == 2, f"returns a state and bits, not {stated}")
        call.check(
            _plain(stated.parts[0]) == _plain(state),
            f"takes the state {state} and returns the state {stated.parts[0]}",
        )


@_check("rng")
def _rng(call: Call) -> None:
    stated = of(call.row.shape)
    for bound in call.arrays():
        call.check(
            bound.rank == 0 and isinstance(stated, Array) and bound.element == stated.element,
            f"takes scalars like {stated}, not {bound}",
        )


@_check("recv")
def _recv(call: Call) -> None:
    stated = of(call.row.shape)
    call.check(
        isinstance(stated, TupleType) and stated.parts[1:] == (_U32, _TOKEN),
        f"returns (data, u32[], token[]), the instruction states {stated}",
    )


@_check("bitcast")
def _bitcast(call: Call) -> None:
    stated = of(call.row.shape)
    operand = call.operand(0)
    if not isinstance(stated, Array) or not isinstance(operand, Array):
        return
    sizes = [math.prod(one.dimensions) for one in (operand, stated)]
    bits = [
        size * (known.bits if (known := BY_NUMBER.get(one.element)) else 0)
        for size, one in zip(sizes, (operand, stated), strict=True)
    ]
    call.check(
        sizes[0] == sizes[1] or bits[0] == bits[1], f"makes {stated} of {operand}, of another size"
    )
