"""Rewrites a module's integers of 2 and 4 bits to 8-bit integers.

The engines have no type for them. Each becomes a byte with the same value, in the module's inputs
and outputs too; bits that an operation adds beyond the type are cut off after it.
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
_BYTE_NUMBERS = {BY_NAME[narrow].number: BY_NAME[byte].number for narrow, byte in _BYTES.items()}
_CUT_OPCODES = frozenset(
    {
        "abs", "add", "all-reduce", "convert", "convolution", "divide", "dot", "iota", "multiply", "negate",
        "not", "popcnt", "reduce", "reduce-scatter", "reduce-window", "scatter", "select-and-scatter",
        "shift-left", "shift-right-arithmetic", "shift-right-logical", "subtract",
    }
)  # fmt: skip
"""Opcodes whose result may have more bits in bytes; all agree modulo a power of two."""

_MASKED_OPERANDS = {"shift-right-logical": 0, "popcnt": 0, "count-leading-zeros": 0}
"""Opcode -> the operand whose bits it inspects."""

_REFUSED_OPCODES = frozenset(
    {"bitcast-convert", "custom-call", "mulhi", "power", "rng", "rng-bit-generator"}
)
"""Opcodes that have other semantics in bytes."""

_COMBINING_OPCODES = frozenset(
    {"all-reduce", "reduce", "reduce-scatter", "reduce-window", "scatter", "select-and-scatter"}
)


def as_bytes(module: Module) -> Module:
    """Return the module without integers of 2 and 4 bits; the same module if it has none.

    Raises:
        NeffCompileError: ``NEFF-DTYPE``; an operation on them has no form in bytes.
    """
    if not any(
        _is_narrow(row.shape) for inst in module.proto.computations for row in inst.instructions
    ):
        return module
    proto = type(module.proto)()
    proto.CopyFrom(module.whole())
    widened = Module(proto, path=module.path)
    uncut = {
        called.id
        for inst in widened.instructions
        if inst.opcode in _COMBINING_OPCODES
        for called in inst.called_computations
        if single_op(called.proto)
    }
    for computation in widened.computations:
        narrow = [inst for inst in computation.instructions if _touches(inst)]
        before = [(inst.shape.element.name, _operands(inst)) for inst in narrow]
        for inst, kinds in zip(narrow, before, strict=True):
            _require(inst)
            _settle(inst, *kinds, cut=computation.id not in uncut)
    for computation in widened.computations:
        for shape in (
            *computation.proto.program_shape.parameters,
            computation.proto.program_shape.result,
        ):
            _widen(shape)
    for shape in (*proto.host_program_shape.parameters, proto.host_program_shape.result):
        _widen(shape)
    return widened


def _leaves(shape: ShapeProto) -> Iterator[ShapeProto]:
    yield shape
    for element in shape.tuple_shapes:
        yield from _leaves(element)


def _is_narrow(shape: ShapeProto) -> bool:
    return any(leaf.element_type in _BYTE_NUMBERS for leaf in _leaves(shape))


def _widen(shape: ShapeProto) -> None:
    for leaf in _leaves(shape):
        if leaf.element_type in _BYTE_NUMBERS:
            leaf.element_type = _BYTE_NUMBERS[leaf.element_type]
            if leaf.HasField("layout"):
                leaf.layout.ClearField("element_size_in_bits")


def _touches(inst: Instruction) -> bool:
    return _is_narrow(inst.proto.shape) or any(
        _is_narrow(operand.proto.shape) for operand in inst.operands
    )


def _operands(inst: Instruction) -> list[str]:
    return [operand.shape.element.name for operand in inst.operands]


def _require(inst: Instruction) -> None:
    if inst.opcode in _REFUSED_OPCODES:
        kind = inst.shape.element
        node = Node(
            inst.opcode,
            (),
            tuple(inst.shape.dimensions),
            kind,
            {},
            inst.name,
            inst.metadata.op_name,
        )
        raise uncovered(
            node, f"{inst.opcode} of 2 and 4 bits has no form in bytes", code="NEFF-DTYPE"
        )


def _settle(inst: Instruction, kind: str, operands: list[str], *, cut: bool) -> None:
    """Give an instruction a result of bytes; mask what it reads and cut its result.

    Args:
        inst: the instruction.
        kind, operands: original element types of its result and its operands.
        cut: cut the result here.
    """
    masked = _MASKED_OPERANDS.get(inst.opcode)
    if masked is not None and operands[masked] in _BYTES:
        inst.replace_operand(masked, _bits_of(inst, inst.operands[masked], operands[masked]))
    if inst.opcode == "shift-right-arithmetic" and kind.startswith("u") and kind in _BYTES:
        inst.replace_operand(0, _raised(inst, inst.operands[0], kind))
    if inst.opcode == "convert" and kind in _BYTES:
        _saturate(inst, kind, operands[0])
    if inst.opcode == "constant" and kind in _BYTES and inst.literal is not None:
        value = inst.literal.numpy().astype(BY_NAME[_BYTES[kind]].dtype)
        _replaced(inst, constant(inst, value, with_element(inst.shape, _BYTES[kind])))
        return
    _widen(inst.proto.shape)
    inst.module.touch()
    if inst.opcode == "count-leading-zeros" and kind in _BYTES:
        spare = constant(inst, 8 - BY_NAME[kind].bits, inst.shape)
        _insert_after(inst, _cut(plain(inst, "subtract", inst.shape, [inst, spare]), kind))
    elif cut and inst.opcode in _CUT_OPCODES and kind in _BYTES:
        _insert_after(inst, _cut(inst, kind))


def _replaced(old: Instruction, new: Instruction) -> None:
    old.replace_uses(new)
    if not old.is_root:
        old.remove()


def _insert_after(inst: Instruction, last: Instruction) -> None:
    """Let all users of an instruction read the end of a chain that starts from it."""
    first = last
    while first.operands[0].local_id != inst.local_id:
        first = first.operands[0]
    inst.replace_uses(last)
    first.replace_operand(0, inst)


def _cut(inst: Instruction, kind: str) -> Instruction:
    bits = BY_NAME[kind].bits
    if kind.startswith("u"):
        return plain(inst, "and", inst.shape, [inst, constant(inst, (1 << bits) - 1, inst.shape)])
    return _raised(inst, inst, kind)


def _raised(inst: Instruction, operand: Instruction, kind: str) -> Instruction:
    """Sign-extend the operand: copy the type's highest bit to the bits above it."""
    shape = with_element(operand.shape, _BYTES[kind])
    spare = constant(inst, 8 - BY_NAME[kind].bits, shape)
    up = plain(inst, "shift-left", shape, [operand, spare])
    return plain(inst, "shift-right-arithmetic", shape, [up, spare])


def _bits_of(inst: Instruction, operand: Instruction, kind: str) -> Instruction:
    """Return the operand's bits, without the repeated sign bits."""
    shape = with_element(operand.shape, _BYTES[kind])
    mask = constant(inst, (1 << BY_NAME[kind].bits) - 1, shape)
    return plain(inst, "and", shape, [operand, mask])


def _saturate(inst: Instruction, kind: str, source: str) -> None:
    """Clamp a float to the type's limits, as conversions to other integer types do."""
    if BY_NAME[source].kind != "float":
        return
    operand = inst.operands[0]
    bits = BY_NAME[kind].bits
    low, high = (
        (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )
    shape: Shape = operand.shape
    limits = [constant(inst, limit, shape) for limit in (low, high)]
    inst.replace_operand(0, plain(inst, "clamp", shape, [limits[0], operand, limits[1]]))
