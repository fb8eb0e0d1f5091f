"""Integers of 2 and 4 bits as 8-bit ones: module -> module.

The engines have no type for them. Each becomes a byte that holds its value, in the module's inputs
and outputs too; what an operation adds beyond its bits is cut off behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.emitting import constant, plain, with_element
from hlo_tools.types.element_types import BY_NAME
from hlo_tools.types.shape import Shape
from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.importing.computations import single_op

if TYPE_CHECKING:
    from hlo_tools.schema.messages import ShapeProto

__all__ = ["as_bytes"]

_BYTES = {"s2": "s8", "s4": "s8", "u2": "u8", "u4": "u8"}
_NUMBERS = {BY_NAME[one].number: BY_NAME[other].number for one, other in _BYTES.items()}
_CUT = frozenset(
    {
        "abs", "add", "all-reduce", "convert", "convolution", "divide", "dot", "iota", "multiply", "negate",
        "not", "popcnt", "reduce", "reduce-scatter", "reduce-window", "scatter", "select-and-scatter",
        "shift-left", "shift-right-arithmetic", "shift-right-logical", "subtract",
    }
)  # fmt: skip
"""Opcodes whose result, taken in bytes, may have more bits; all are the same modulo a power of two."""

_MASKED = {"shift-right-logical": 0, "popcnt": 0, "count-leading-zeros": 0}
"""Opcodes that look at the bits of an operand -> which."""

_REFUSED = frozenset(
    {"bitcast-convert", "custom-call", "mulhi", "power", "rng", "rng-bit-generator"}
)
"""Opcodes that mean something else in bytes."""

_COMBINING = frozenset(
    {"all-reduce", "reduce", "reduce-scatter", "reduce-window", "scatter", "select-and-scatter"}
)


def as_bytes(module: Module) -> Module:
    """The module without integers of 2 and 4 bits; itself when it has none.

    Raises:
        NeffCompileError: ``NEFF-DTYPE``; an operation on them has no form in bytes.
    """
    if not any(
        _is_narrow(row.shape) for one in module.proto.computations for row in one.instructions
    ):
        return module
    proto = type(module.proto)()
    proto.CopyFrom(module.whole())
    made = Module(proto, path=module.path)
    plainly = {
        called.id
        for one in made.instructions
        if one.opcode in _COMBINING
        for called in one.called_computations
        if single_op(called.proto)
    }
    for computation in made.computations:
        narrow = [one for one in computation.instructions if _touches(one)]
        before = [(one.shape.element.name, _operands(one)) for one in narrow]
        for one, kinds in zip(narrow, before, strict=True):
            _require(one)
            _settle(one, *kinds, cut=computation.id not in plainly)
    for computation in made.computations:
        for shape in (
            *computation.proto.program_shape.parameters,
            computation.proto.program_shape.result,
        ):
            _widen(shape)
    for shape in (*proto.host_program_shape.parameters, proto.host_program_shape.result):
        _widen(shape)
    return made


def _leaves(shape: ShapeProto) -> Iterator[ShapeProto]:
    yield shape
    for part in shape.tuple_shapes:
        yield from _leaves(part)


def _is_narrow(shape: ShapeProto) -> bool:
    return any(leaf.element_type in _NUMBERS for leaf in _leaves(shape))


def _widen(shape: ShapeProto) -> None:
    for leaf in _leaves(shape):
        if leaf.element_type in _NUMBERS:
            leaf.element_type = _NUMBERS[leaf.element_type]
            if leaf.HasField("layout"):
                leaf.layout.ClearField("element_size_in_bits")


def _touches(one: Instruction) -> bool:
    return _is_narrow(one.proto.shape) or any(_is_narrow(each.proto.shape) for each in one.operands)


def _operands(one: Instruction) -> list[str]:
    return [each.shape.element.name for each in one.operands]


def _require(one: Instruction) -> None:
    if one.opcode in _REFUSED:
        kind = one.shape.element
        node = Node(
            one.opcode, (), tuple(one.shape.dimensions), kind, {}, one.name, one.metadata.op_name
        )
        raise uncovered(
            node, f"{one.opcode} of 2 and 4 bits has no form in bytes", code="NEFF-DTYPE"
        )


def _settle(one: Instruction, kind: str, operands: list[str], *, cut: bool) -> None:
    """Give an instruction a result of bytes; mask what it reads and cut what it makes.

    Args:
        one: the instruction.
        kind, operands: element types of its result and its operands, before anything changed.
        cut: whether what it makes has to be cut here.
    """
    masked = _MASKED.get(one.opcode)
    if masked is not None and operands[masked] in _BYTES:
        one.replace_operand(masked, _bits_of(one, one.operands[masked], operands[masked]))
    if one.opcode == "shift-right-arithmetic" and kind.startswith("u") and kind in _BYTES:
        one.replace_operand(0, _raised(one, one.operands[0], kind))
    if one.opcode == "convert" and kind in _BYTES:
        _saturate(one, kind, operands[0])
    if one.opcode == "constant" and kind in _BYTES and one.literal is not None:
        value = one.literal.numpy().astype(BY_NAME[_BYTES[kind]].dtype)
        _replaced(one, constant(one, value, with_element(one.shape, _BYTES[kind])))
        return
    _widen(one.proto.shape)
    one.module.touch()
    if one.opcode == "count-leading-zeros" and kind in _BYTES:
        spare = constant(one, 8 - BY_NAME[kind].bits, one.shape)
        _behind(one, _cut(plain(one, "subtract", one.shape, [one, spare]), kind))
    elif cut and one.opcode in _CUT and kind in _BYTES:
        _behind(one, _cut(one, kind))


def _replaced(old: Instruction, new: Instruction) -> None:
    old.replace_uses(new)
    if not old.is_root:
        old.remove()


def _behind(one: Instruction, last: Instruction) -> None:
    """Let all that read an instruction read what was made of it."""
    first = last
    while first.operands[0].local_id != one.local_id:
        first = first.operands[0]
    one.replace_uses(last)
    first.replace_operand(0, one)


def _cut(one: Instruction, kind: str) -> Instruction:
    bits = BY_NAME[kind].bits
    if kind.startswith("u"):
        return plain(one, "and", one.shape, [one, constant(one, (1 << bits) - 1, one.shape)])
    return _raised(one, one, kind)


def _raised(one: Instruction, operand: Instruction, kind: str) -> Instruction:
    """The operand with the bits above the type's like its highest one."""
    shape = with_element(operand.shape, _BYTES[kind])
    spare = constant(one, 8 - BY_NAME[kind].bits, shape)
    up = plain(one, "shift-left", shape, [operand, spare])
    return plain(one, "shift-right-arithmetic", shape, [up, spare])


def _bits_of(one: Instruction, operand: Instruction, kind: str) -> Instruction:
    """The operand's bits, without those that repeat its sign."""
    shape = with_element(operand.shape, _BYTES[kind])
    mask = constant(one, (1 << BY_NAME[kind].bits) - 1, shape)
    return plain(one, "and", shape, [operand, mask])


def _saturate(one: Instruction, kind: str, source: str) -> None:
    """A float beyond the type's limits becomes the limit, as in other integer types."""
    if BY_NAME[source].kind != "float":
        return
    operand = one.operands[0]
    bits = BY_NAME[kind].bits
    low, high = (
        (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )
    shape: Shape = operand.shape
    limits = [constant(one, limit, shape) for limit in (low, high)]
    one.replace_operand(0, plain(one, "clamp", shape, [limits[0], operand, limits[1]]))
