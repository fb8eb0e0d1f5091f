"""Rewrites a module's complex numbers as pairs of real arrays."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.dead_code import remove_unreachable
from hlo_tools.rewrite.emitting import get_part, plain
from hlo_tools.types.shape import Shape, tuple_shape
from neff.compiler.complex_pairs.arrays import Pair, RealArray, is_complex
from neff.compiler.complex_pairs.interface import entry_parameters, entry_root
from neff.compiler.complex_pairs.operations import RULES, Argument, copy_fields, real_shape
from neff.compiler.complex_pairs.regions import (
    REGION_OPCODES,
    apply_region,
    divide_parameters,
    divide_root,
    packed,
)
from neff.compiler.expansions.custom_calls import IDENTITIES
from neff.compiler.graph.nodes import Node, uncovered
from neff.errors import NeffCompileError

__all__ = ["as_pairs", "has_complex_numbers"]

_PASSING_OPCODES = frozenset(
    {
        "after-all", "async-done", "async-start", "async-update", "call", "conditional", "fusion",
        "get-tuple-element", "opt-barrier", "tuple", "while",
    }
)  # fmt: skip
"""Opcodes that hand values on; a complex value is a tuple of its parts in them."""

_ENTRY, _CALLED = "entry", "called"
"""Roles of a computation; the role of a region is the opcode that applies it."""


def has_complex_numbers(module: Module) -> bool:
    """Return True if an instruction of the module has complex elements."""
    return any(
        is_complex(inst.shape)
        for computation in module.computations
        for inst in computation.instructions
    )


def as_pairs(module: Module) -> Module:
    """Return the module without complex numbers; the same module if it has none.

    Its inputs and outputs have the same bytes: a complex array of shape S is a real array of shape
    (*S, 2).

    Raises:
        NeffCompileError: ``NEFF-COMPLEX``; an operation on complex numbers has no form in pairs.
    """
    if not has_complex_numbers(module):
        return module
    proto = type(module.proto)()
    proto.CopyFrom(module.whole())
    paired = Module(proto, path=module.path)
    roles: dict[int, str] = {}
    stack = [(paired.entry, _ENTRY)]
    while stack:
        computation, role = stack.pop()
        if computation.id in roles:
            if roles[computation.id] != role:
                raise _refused(computation.root, f"%{computation.name} is called in two ways")
            continue
        roles[computation.id] = role
        stack += _ComputationRewriter(computation, role).run()
    remove_unreachable(paired)
    return paired


class _ComputationRewriter:
    """Rewrites the instructions of one computation.

    Args:
        computation: the computation.
        role: ``entry``, ``called``, or the opcode that applies it to scalars.
    """

    def __init__(self, computation: Computation, role: str) -> None:
        self._computation, self._role = computation, role
        self._pairs: dict[Instruction, Argument] = {}
        self._replaced: list[Instruction] = []

    def run(self) -> list[tuple[Computation, str]]:
        """Rewrite; return the computations that it calls, with their roles."""
        computation = self._computation
        root = computation.root
        root_shape = _copied(root.shape)
        instructions = computation.post_order()
        self._rewrite_parameters()
        called: list[tuple[Computation, str]] = []
        for inst in instructions:
            if inst.opcode != "parameter":
                called += self._rewrite(inst)
        self._rewrite_root(root_shape)
        for inst in self._replaced:
            if inst.opcode == "parameter":
                inst.proto.opcode = "tuple"  # parameters cannot be removed
        computation.remove_all(set(self._replaced))
        return called

    def _rewrite_parameters(self) -> None:
        computation = self._computation
        if self._role == _ENTRY:
            values = entry_parameters(computation)
        elif self._role == _CALLED:
            values = _called_parameters(computation)
        else:
            values = divide_parameters(computation, self._role)
        for parameter, value in values.items():
            self._replace(parameter, value)

    def _rewrite_root(self, shape: Shape) -> None:
        computation, root = self._computation, self._computation.root
        value = self._pairs.get(root, root)
        if self._role == _ENTRY:
            if is_complex(shape):
                entry_root(computation, value, shape)
        elif self._role == _CALLED:
            if isinstance(value, Pair):
                computation.set_root(packed(value))
        else:
            divide_root(computation, self._pairs)

    def _replace(self, inst: Instruction, value: Argument) -> None:
        self._replaced.append(inst)
        if isinstance(value, Pair):
            self._pairs[inst] = value
        else:
            inst.replace_uses(value)

    def _rewrite(self, inst: Instruction) -> list[tuple[Computation, str]]:
        """Rewrite an instruction that has complex numbers; return what it calls, with roles."""
        operands: list[Argument] = [
            _for(inst, self._pairs.get(operand, operand)) for operand in inst.operands
        ]
        is_touched = is_complex(inst.shape) or any(isinstance(value, Pair) for value in operands)
        if not is_touched:
            return [(computation, _CALLED) for computation in inst.called_computations]
        if inst.opcode in _PASSING_OPCODES:
            self._replace(inst, _passed_on(inst, operands))
            return [(computation, _CALLED) for computation in inst.called_computations]
        if inst.opcode == "custom-call" and inst.custom_call_target in IDENTITIES:
            self._replace(inst, operands[0])
            return []
        rule = RULES.get(inst.opcode)
        result = None if rule is None else rule(inst, operands)
        if result is not None:
            self._replace(inst, result)
            return []
        if inst.opcode not in REGION_OPCODES:
            raise _refused(inst, "it has no form in real and imaginary components")
        self._replace(inst, apply_region(inst, operands))
        return [(computation, inst.opcode) for computation in inst.called_computations]


def _for(inst: Instruction, value: Argument) -> Argument:
    return value.on_behalf_of(inst) if isinstance(value, Pair) else value


def _copied(shape: Shape) -> Shape:
    proto = type(shape.proto)()
    proto.CopyFrom(shape.proto)
    return Shape(proto)


def _called_parameters(computation: Computation) -> dict[Instruction, Argument]:
    """Replace complex parameters by tuples of parts."""
    values: dict[Instruction, Argument] = {}
    for parameter in computation.parameters:
        if is_complex(parameter.shape):
            view = plain(
                parameter, "parameter", _with_tuples(parameter.shape), [],
                parameter_number=parameter.proto.parameter_number,
            )  # fmt: skip
            values[parameter] = _value_of(view, parameter)
    return values


def _with_tuples(shape: Shape) -> Shape:
    """Return the shape with a tuple of two parts in place of each complex array."""
    if shape.is_tuple:
        return tuple_shape([_with_tuples(element) for element in shape.tuple_shapes])
    return tuple_shape([real_shape(shape)] * 2) if is_complex(shape) else shape


def _value_of(view: Instruction, inst: Instruction) -> Argument:
    """Return the value that takes the place of ``inst``, from a tuple of its parts."""
    if inst.shape.is_tuple or not is_complex(inst.shape):
        return view
    return Pair(*(RealArray(get_part(view, number), inst) for number in range(2)))


def _passed_on(inst: Instruction, operands: Sequence[Argument]) -> Argument:
    """Copy an instruction that hands values on, with tuples in place of complex arrays."""
    views = [packed(operand) for operand in operands]
    if inst.opcode == "get-tuple-element":
        return _value_of(get_part(views[0], inst.proto.tuple_index), inst)
    view = plain(inst, inst.opcode, _with_tuples(inst.shape), views)
    copy_fields(inst, view)
    view.set_called_computations(inst.called_computations)
    return _value_of(view, inst)


def _refused(inst: Instruction, reason: str) -> NeffCompileError:
    source = inst.source
    location = f"{source.file}:{source.line}" if source else inst.metadata.op_name or inst.name
    node = Node(
        inst.opcode, (), tuple(inst.shape.dimensions), inst.shape.element, {}, inst.name, location
    )
    return uncovered(node, f"{inst.opcode} of complex numbers: {reason}", code="NEFF-COMPLEX")
