"""Checks operations beyond their result types: devices, pairs, states.

The rules are those of XLA's verifier (``hlo_verifier.cc``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.inference.reducers import check_chooser, check_reducer
from hlo_tools.inference.rule import Call
from hlo_tools.inference.types import Array, InferenceError, TupleType, Type, number, of, part_at
from hlo_tools.types.replica_groups import replica_groups_of

__all__ = ["CHECKED", "check_operation"]

_U32, _TOKEN = Array(number("u32")), Array(number("token"))
_CHECKS: dict[str, Callable[[Call], None]] = {}


def check_operation(call: Call) -> None:
    """Check one instruction whose operands and result have types.

    Raises:
        InferenceError: it breaks a rule of its opcode, or (HLO-V018) states another result.
    """
    check_opcode = _CHECKS.get(call.row.opcode)
    if check_opcode is not None:
        check_opcode(call)


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
        return TupleType(tuple(_plain(element) for element in kind.parts))
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
    try:
        groups = replica_groups_of(call.row)
    except HloError as error:
        raise call.broken(f"has {error.message}") from error
    call.check(all(groups), "has an empty replica group")
    devices: set[int] = set()
    for device in (device for group in groups for device in group):
        call.check(
            device not in devices, f"has device {device} in its replica groups more than once"
        )
        devices.add(device)
    return groups


def _alike(call: Call, parts: int, groups: list[list[int]], what: str) -> None:
    """Check that the size of groups equals the number of parts of the operand.

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


@_check("collective-reduce")
def _collective_reduce(call: Call) -> None:
    _groups(call)
    _reduces(call, len(call.operands) - call.row.has_dynamic_root)


def _reduces(call: Call, stop: int | None = None) -> None:
    for operand in call.arrays(0, stop):
        check_reducer(call, [operand])


@_check("all-gather")
def _all_gather(call: Call) -> None:
    groups = _groups(call)
    for operand, result in _pairs(call, of(call.row.shape)):
        _alike(call, _ratio(call, operand, result), groups, "makes")


@_check("all-gather-start")
def _all_gather_start(call: Call) -> None:
    """Returns a tuple of what it takes and what it gives."""
    groups = _groups(call)
    operand_type = call.one_or_tuple(list(call.operands))
    stated = of(call.row.shape)
    result = part_at(stated, [1])
    if result is None or _plain(part_at(stated, [0]) or _TOKEN) != _plain(operand_type):
        raise call.broken(f"returns ({operand_type}, result), the instruction states {stated}")
    for operand, result_part in _pairs(call, result):
        _alike(call, _ratio(call, operand, result_part), groups, "makes")


@_check("reduce-scatter")
def _reduce_scatter(call: Call) -> None:
    groups = _groups(call)
    _reduces(call)
    for operand, result in _pairs(call, of(call.row.shape)):
        _alike(call, _ratio(call, result, operand), groups, "makes")


def _pairs(call: Call, stated: Type) -> list[tuple[Array, Array]]:
    """Return each operand with its part of the result."""
    parts = stated.parts if isinstance(stated, TupleType) else (stated,)
    operands = call.arrays()
    call.check(
        len(parts) == len(operands),
        f"returns {counted(len(parts), 'result')} for {counted(len(operands), 'operand')}",
    )
    pairs: list[tuple[Array, Array]] = []
    for operand, stated_part in zip(operands, parts, strict=True):
        if not isinstance(stated_part, Array) or stated_part.element != operand.element:
            call.check(False, f"returns {stated_part} for {operand}")
        else:
            pairs.append((operand, stated_part))
    return pairs


def _axis(call: Call, operand: Array) -> int:
    """The one dimension that is divided or joined."""
    axes = call.axes(call.row.dimensions, operand.rank, "dimensions")
    call.check(len(axes) == 1, f"has dimensions {list(axes)}; it needs one")
    return axes[0]


def _ratio(call: Call, small: Array, large: Array) -> int:
    """Return the ratio of two arrays' extents along the dimension; their other extents are equal."""
    axis = _axis(call, small)
    call.check(small.rank == large.rank, f"changes {small} and {large} in rank")
    before, after = (
        (*small_extent.dimensions[:axis], *small_extent.dimensions[axis + 1 :])
        for small_extent in (small, large)
    )
    call.check(before == after, f"changes {small} and {large} in other dimensions than {axis}")
    small_extent, large_extent = small.dimensions[axis], large.dimensions[axis]
    call.check(
        large_extent == 0 if small_extent == 0 else large_extent % small_extent == 0,
        f"divides an extent of {large_extent} into parts of {small_extent}",
    )
    return large_extent // small_extent if small_extent else 1


@_check("all-to-all")
def _all_to_all(call: Call) -> None:
    groups = _groups(call)
    operands = call.arrays()
    if not call.row.dimensions:
        _alike(call, len(operands), groups, "exchanges")
        call.check(len(set(operands)) == 1, "exchanges operands of different shapes")
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


@_check("ragged-all-to-all")
def _ragged_all_to_all(call: Call) -> None:
    """Operands: input, output, then offsets and sizes of what is sent and received."""
    _groups(call)
    call.check(len(call.operands) == 6, f"takes 6 operands, not {len(call.operands)}")
    numbers = call.arrays(2)
    call.check(
        len(set(numbers)) == 1 and numbers[0].rank in (1, 2),
        f"takes offsets and sizes of one shape, not {', '.join(map(str, numbers))}",
    )
    _states(call, call.array(1))


@_check("collective-permute collective-permute-start")
def _permute(call: Call) -> None:
    in_place = len(call.operands) == 4 and isinstance(call.operands[2], TupleType)
    maximum = _slices(call) if in_place else 1
    pairs = [(pair.source, pair.target) for pair in call.row.source_target_pairs]
    for what, devices in zip(("source", "target"), zip(*pairs, strict=True), strict=False):
        for device, count in Counter(devices).items():
            often = "once" if maximum == 1 else counted(maximum, "time")
            call.check(count <= maximum, f"has device {device} as {what} more than {often}")
    sources: list[Type] = [call.operand(1)] if in_place else list(call.operands)
    if call.row.opcode == "collective-permute":
        _states(call, call.one_or_tuple(sources))
        return
    sent, actual = (
        (call.operand(0), call.operand(1)) if in_place else [call.one_or_tuple(sources)] * 2
    )
    stated = of(call.row.shape)
    context = stated.parts[2:] if isinstance(stated, TupleType) else ()
    _states(call, TupleType((sent, actual, *context)))


def _slices(call: Call) -> int:
    """Return the number of slices that a device sends in place; operands are input, output and
    the offsets of their slices."""
    source, target, *offsets = call.operands
    call.check(
        isinstance(source, TupleType) is isinstance(target, TupleType),
        f"takes buffers of one kind, not {source} and {target}",
    )
    for buffers, positions in zip((source, target), offsets, strict=True):
        if not isinstance(buffers, TupleType):
            _check_offsets(call, buffers, positions)
            continue
        call.check(
            isinstance(positions, TupleType) and len(positions.parts) == len(buffers.parts),
            f"has the offsets {positions} for {buffers}",
        )
        assert isinstance(positions, TupleType)
        for buffer, position in zip(buffers.parts, positions.parts, strict=True):
            _check_offsets(call, buffer, position)
    call.check(
        not isinstance(source, TupleType)
        or (isinstance(target, TupleType) and len(source.parts) == len(target.parts)),
        f"takes as many buffers as it gives, not {source} and {target}",
    )
    first = part_at(offsets[0], [0]) if isinstance(source, TupleType) else offsets[0]
    return len(first.parts) if isinstance(first, TupleType) else 1


def _check_offsets(call: Call, buffer: Type, offsets: Type) -> None:
    """An offset for each dimension of a buffer, or several of those."""
    rank = buffer.rank if isinstance(buffer, Array) else -1
    parts = offsets.parts if isinstance(offsets, TupleType) else ()
    nested = [offset for offset in parts if isinstance(offset, TupleType)]
    fits = len(nested) == len(parts) if nested else isinstance(offsets, TupleType)
    counts = {len(offset.parts) for offset in nested} if nested else {len(parts)}
    call.check(fits and counts == {rank}, f"has the offsets {offsets} for {buffer}")


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


def _part(call: Call, position: int) -> None:
    element = part_at(call.operand(0), [position])
    call.check(element is not None, f"takes what its start returns, not {call.operand(0)}")
    _states(call, element)


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


_DRAWN = {1: frozenset({"float", "int", "uint", "pred"}), 2: frozenset({"float"})}
"""Distribution (uniform, normal) -> kinds of elements."""


@_check("rng")
def _rng(call: Call) -> None:
    stated = of(call.row.shape)
    for bound in call.arrays():
        call.check(
            bound.rank == 0 and isinstance(stated, Array) and bound.element == stated.element,
            f"takes scalars like {stated}, not {bound}",
        )
        call.check(
            bound.kind in _DRAWN.get(call.row.distribution, frozenset()),
            f"does not draw {bound} from the distribution {call.row.distribution}",
        )


@_check("rng-get-and-update-state")
def _state(call: Call) -> None:
    _states(call, Array(number("u64"), (2,)))


@_check("recv")
def _recv(call: Call) -> None:
    stated = of(call.row.shape)
    call.check(
        isinstance(stated, TupleType) and stated.parts[1:] == (_U32, _TOKEN),
        f"returns (data, u32[], token[]), the instruction states {stated}",
    )


@_check("infeed")
def _infeed(call: Call) -> None:
    """Takes a token; returns the data and a token."""
    stated = of(call.row.shape)
    call.check(call.operand(0) == _TOKEN, f"takes a token, not {call.operand(0)}")
    call.check(
        isinstance(stated, TupleType) and len(stated.parts) == 2 and stated.parts[1] == _TOKEN,
        f"returns (data, token[]), the instruction states {stated}",
    )


@_check("custom-call")
def _custom_call(call: Call) -> None:
    """Constrained layouts are those of shapes that the operands have."""
    constraints = call.row.operand_shapes_with_layout
    if not (call.row.constrain_layout or constraints):
        return
    call.check(
        len(constraints) == len(call.operands),
        f"constrains the layouts of {counted(len(constraints), 'operand')}, "
        f"it takes {len(call.operands)}",
    )
    for position, (shape, operand) in enumerate(zip(constraints, call.operands, strict=True)):
        call.check(
            _plain(of(shape)) == _plain(operand),
            f"constrains the layout of operand {position} as {of(shape)}, it is {operand}",
        )


CHECKED = frozenset(_CHECKS)
"""Opcodes whose stated shape a rule of this module checks."""
