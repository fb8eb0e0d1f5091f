"""Inference of elementwise opcodes."""

from __future__ import annotations

from collections.abc import Callable

from hlo_tools.inference.rule import Call, rule
from hlo_tools.inference.types import Array, Type, number
from hlo_tools.types.opcodes import OPCODES, opcodes_of_kind

__all__: list[str] = []

_PRED = number("pred")
_REAL_OF = {number("c64"): number("f32"), number("c128"): number("f64")}
_COMPLEX_OF = {real: complex_ for complex_, real in _REAL_OF.items()}

_FLOAT_OR_COMPLEX = frozenset({"float", "complex"})
_SIGNED = frozenset({"int", "float", "complex"})


def _need(call: Call, number: int, kinds: frozenset[str]) -> Array:
    operand = call.array(number)
    call.check(operand.kind in kinds, f"takes {' or '.join(sorted(kinds))} elements, not {operand}")
    return operand


def _unary(kinds: frozenset[str]):
    def infer(call: Call) -> Type:
        return _need(call, 0, kinds)

    return infer


for _name in opcodes_of_kind("elementwise", arity=1):
    if OPCODES[_name].element_kinds:
        rule(_name)(_unary(OPCODES[_name].element_kinds))


@rule("abs")
def _abs(call: Call) -> Type:
    operand = _need(call, 0, _SIGNED)
    return operand._replace(element=_REAL_OF.get(operand.element, operand.element))


@rule("real imag")
def _part(call: Call) -> Type:
    operand = _need(call, 0, _FLOAT_OR_COMPLEX)
    return operand._replace(element=_REAL_OF.get(operand.element, operand.element))


@rule("is-finite")
def _is_finite(call: Call) -> Type:
    return _need(call, 0, frozenset({"float"}))._replace(element=_PRED)


@rule("copy opt-barrier domain")
def _same(call: Call) -> Type:
    return call.operand(0)


def same_extents(call: Call, first: Array, second: Array) -> Array:
    """Return the operands' extents, which must agree; a dynamic dimension wins."""
    call.check(
        first.dimensions == second.dimensions,
        f"takes operands of one shape, not {first} and {second}",
    )
    if first.dynamic == second.dynamic:
        return first
    return first._replace(dynamic=tuple(sorted({*first.dynamic, *second.dynamic})))


def _binary(call: Call, kinds: frozenset[str]) -> Array:
    first, second = call.array(0), call.array(1)
    call.check(
        first.element == second.element, f"takes operands of one type, not {first} and {second}"
    )
    call.check(first.kind in kinds, f"takes {' or '.join(sorted(kinds))} elements, not {first}")
    return same_extents(call, first, second)


def _binary_rule(kinds: frozenset[str]) -> Callable[[Call], Array]:
    return lambda call: _binary(call, kinds)


for _name in opcodes_of_kind("elementwise", arity=2):
    if OPCODES[_name].element_kinds:
        rule(_name)(_binary_rule(OPCODES[_name].element_kinds))


@rule("complex")
def _complex(call: Call) -> Type:
    joined = _binary(call, frozenset({"float"}))
    call.check(joined.element in _COMPLEX_OF, f"takes f32 or f64, not {joined}")
    return joined._replace(element=_COMPLEX_OF[joined.element])


@rule("compare")
def _compare(call: Call) -> Type:
    first, second = call.array(0), call.array(1)
    call.check(first.element == second.element, f"compares one type, not {first} and {second}")
    return same_extents(call, first, second)._replace(element=_PRED)


@rule("select")
def _select(call: Call) -> Type:
    predicate = call.array(0)
    call.check(predicate.element == _PRED, f"takes a pred first, not {predicate}")
    first, second = call.array(1), call.array(2)
    call.check(
        first.element == second.element, f"takes two values of one type, not {first} and {second}"
    )
    joined = same_extents(call, first, second)
    call.check(
        predicate.rank == 0 or predicate.dimensions == joined.dimensions,
        f"takes a pred of {joined}'s extents, not {predicate}",
    )
    return joined


@rule("clamp")
def _clamp(call: Call) -> Type:
    low, value, high = (call.array(number) for number in range(3))
    call.check(low.element == value.element == high.element, "takes three values of one type")
    for bound in (low, high):
        call.check(
            bound.rank == 0 or bound.dimensions == value.dimensions,
            f"takes bounds that are scalars or of {value}'s extents, not {bound}",
        )
    return value


@rule("batch-norm-training batch-norm-grad batch-norm-inference")
def _batch_norm(call: Call) -> Type:
    operand = _need(call, 0, frozenset({"float"}))
    axis = call.row.feature_index
    call.check(0 <= axis < operand.rank, f"has no feature dimension {axis} in {operand}")
    feature = Array(operand.element, (operand.dimensions[axis],))
    last = {"batch-norm-grad": 4, "batch-norm-training": 3}.get(call.row.opcode, 5)
    for position in range(1, last):
        call.check(
            call.array(position).dimensions == feature.dimensions,
            f"operand {position} must be {feature}",
        )
    if call.row.opcode == "batch-norm-inference":
        return operand
    return call.tuple_of(operand, feature, feature)
