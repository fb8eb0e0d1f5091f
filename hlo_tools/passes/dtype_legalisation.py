"""Dtype legalisation: values in the nearest element type that a target has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.emitting import get_part, make_tuple, plain
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.patterns import held, sweep
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER, Array, DType
from hlo_tools.types.literal import Literal as Constant
from hlo_tools.types.literal import literal_of
from hlo_tools.types.opcodes import opcodes_of_kind
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import LiteralProto, ProgramShapeProto, ShapeProto

__all__ = ["REPLACED", "DtypeLegalisation", "is_pinned_type"]

Target = Literal["trn1", "trn2", "trn3"]

_NARROW_TYPES = {"f64": "f32", "s64": "s32", "u64": "u32", "c128": "c64"}
"""No family has 64-bit arithmetic."""
_WIDER = {
    **dict.fromkeys(("s1", "s2", "s4"), "s8"),
    **dict.fromkeys(("u1", "u2", "u4"), "u8"),
    **dict.fromkeys(
        ("f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "f8e3m4", "f8e8m0fnu", "f8e4m3fnuz",
         "f8e4m3b11fnuz", "f8e5m2fnuz"), "bf16",
    ),
}  # fmt: skip
"""Wider types that contain all values of types below 8 bits and of other 8-bit floats."""
_OLDER = {**_NARROW_TYPES, **_WIDER, "f8e4m3fn": "bf16"}

REPLACED: dict[str, dict[str, str]] = {
    "trn1": _OLDER, "trn2": _OLDER, "trn3": {**_NARROW_TYPES, **_WIDER},
}  # fmt: skip
"""Replacements of types that a family lacks, as in the rules of ``nki-hlo lint``."""

_PINNED = (opcodes_of_kind("async", "transfer") - {"copy-done", "copy-start"}) | {
    "bitcast", "bitcast-convert", "custom-call", "rng-bit-generator", "rng-get-and-update-state",
}  # fmt: skip
"""Opcodes whose operands' or results' bits mean something to others: their types stay."""


@dataclass(frozen=True, slots=True)
class DtypeLegalisation(Pass):
    """Compute in element types that a target has. Results may change.

    f64, s64, u64 and c128 become types of half the size, integers of less than 8 bits s8 and u8,
    small floats that the target lacks bf16. Values have to fit: arithmetic on integers wraps at 32
    (or 8) bits, and conversions to small floats do not round any more. Random bits, bit casts and
    custom calls keep their types, with conversions around them. Constants that do not fit are an
    error, except for the smallest and largest number of a type, which become those of the small
    one. There is no other type for c64: nki-hlo lint shows where complex numbers are.

    Attributes:
        target: the family whose types are taken.
        boundary: ``keep`` the entry's parameters and results, with conversions, or ``change`` them.
        saturate: constants that do not fit become the nearest number that does.
    """

    name: ClassVar[str] = "dtype-legalisation"
    ensures: ClassVar[tuple[str, ...]] = ("legal-types",)

    target: Target = "trn2"
    boundary: Literal["keep", "change"] = "keep"
    saturate: bool = False

    def run(self, module: Module) -> bool:
        work = _Legaliser(module, REPLACED[self.target], self.boundary == "keep")
        if not work.is_needed():
            return False
        work.check(self.saturate)
        work.run()
        return True


def is_pinned_type(view: Instruction) -> bool:
    """Return True if the pass keeps an instruction's type: bits matter, or it is a boundary."""
    if view.opcode in _PINNED or view.opcode == "convert":
        return True
    entry = view.computation.is_entry
    if view.opcode == "get-tuple-element":
        return is_pinned_type(view.operands[0])
    return entry and (view.opcode in ("parameter", "tuple") or view.is_root)


class _Legaliser:
    def __init__(self, module: Module, types: dict[str, str], keep: bool) -> None:
        self._module = module
        self._numbers = {BY_NAME[a].number: BY_NAME[b].number for a, b in types.items()}
        self._keep = keep
        self._pinned = {view for view in module.instructions if self._stays(view)}

    def is_needed(self) -> bool:
        """Return True if an instruction that the pass must convert has such a type."""
        return any(
            self._is_foreign(view.proto.shape)
            and view not in self._pinned
            and not (self._keep and view.opcode == "convert" and self._is_boundary(view))
            for view in self._module.instructions
        )

    def _is_boundary(self, view: Instruction) -> bool:
        """Return True if only instructions that keep their type use a conversion to such a type."""
        return view.is_root or (
            bool(view.users) and all(user in self._pinned for user in view.users)
        )

    def check(self, saturate: bool) -> None:
        """Refuse what cannot be done, before anything is changed."""
        for view in self._module.instructions:
            if view in self._pinned and view.proto.called_computation_ids:
                raise PassError(
                    f"{view.opcode} %{view.name} passes values of types that the target lacks to a computation",
                    code="HLO-PASS-LEGALISE",
                    place=f"%{view.name}",
                    remedy="inline or rewrite it first",
                )
            if view.opcode == "constant" and self._is_foreign(view.proto.shape) and not saturate:
                _check_range(view)

    def run(self) -> None:
        entry = self._module.entry
        root, result = entry.root, _copy(entry.root.shape)
        crossings = self._crossings()
        for view in list(self._module.instructions):
            if view not in self._pinned and self._is_foreign(view.proto.shape):
                self._legalise_instruction(view)
        for computation in self._module.computations:
            if computation is not entry or not self._keep:
                self._legalise_program(computation.raw_proto.program_shape)
        if not self._keep:
            self._legalise_program(self._module.raw_proto.host_program_shape)
        converted: dict[tuple[Instruction, str], Instruction] = {}
        for user, index, shape in crossings:
            operand = user.operands[index]
            key = (operand, str(shape))
            if key not in converted:
                converted[key] = _as_shape(operand, shape)
            user.replace_operand(index, converted[key])
        for computation in self._module.computations:
            if computation is not entry or not self._keep:
                self._legalise_root(computation)
        if self._keep:
            entry.set_root(_as_shape(root, result))
        for computation in self._module.computations:
            _drop_conversions(computation)
        self._module.mark_changed()

    def _legalise_root(self, computation: Computation) -> None:
        """A root that keeps its type is converted for callers, or for the user."""
        shape = _copy(computation.root.shape)
        self._legalise_shape(shape.proto)
        computation.set_root(_as_shape(computation.root, shape))

    def _crossings(self) -> list[tuple[Instruction, int, Shape]]:
        """Return uses across the boundary of legalised values, with the shape that the user needs."""
        crossings: list[tuple[Instruction, int, Shape]] = []
        for user in self._module.instructions:
            pinned = user in self._pinned
            for index, operand in enumerate(user.operands):
                if self._is_foreign(operand.proto.shape) and (operand in self._pinned) != pinned:
                    shape = _copy(operand.shape)
                    if not pinned:
                        self._legalise_shape(shape.proto)
                    crossings.append((user, index, shape))
        return crossings

    def _stays(self, view: Instruction) -> bool:
        """Return True if an instruction keeps its type: its bits matter, or it is at a boundary."""
        if view.opcode == "get-tuple-element":
            return self._is_foreign(view.proto.shape) and self._stays(view.operands[0])
        if self._keep and view.computation.is_entry:
            if view.opcode == "parameter":
                return self._is_foreign(view.proto.shape)
            if view.opcode == "tuple" and view.is_root and not view.users:
                return self._is_foreign(view.proto.shape)
        if view.opcode not in _PINNED or _is_view(view):
            return False
        shapes = [view.proto.shape, *(operand.proto.shape for operand in view.operands)]
        return any(self._is_foreign(shape) for shape in shapes)

    def _is_foreign(self, shape: ShapeProto) -> bool:
        if shape.tuple_shapes:
            return any(self._is_foreign(element_shape) for element_shape in shape.tuple_shapes)
        return shape.element_type in self._numbers

    def _legalise_shape(self, shape: ShapeProto) -> None:
        number = self._numbers.get(shape.element_type)
        if number is not None:
            shape.element_type = number
            if shape.HasField("layout"):
                shape.layout.ClearField("element_size_in_bits")
        for element_shape in shape.tuple_shapes:
            self._legalise_shape(element_shape)

    def _legalise_program(self, program: ProgramShapeProto) -> None:
        for shape in (*program.parameters, program.result):
            self._legalise_shape(shape)

    def _legalise_instruction(self, view: Instruction) -> None:
        literal = view.literal
        if literal is not None:
            proto = self._legalise_literal(literal)
            self._module.drop_constant(view.computation.id, view.local_id)
            view.proto.literal.CopyFrom(proto)
        self._legalise_shape(view.proto.shape)

    def _legalise_literal(self, literal: Constant) -> LiteralProto:
        if literal.is_tuple:
            proto = type(literal.proto)()
            proto.shape.CopyFrom(literal.shape.proto)
            self._legalise_shape(proto.shape)
            proto.tuple_literals.extend(
                self._legalise_literal(element) for element in literal.parts
            )
            return proto
        number = self._numbers.get(literal.shape.proto.element_type)
        if number is None or literal.is_elided:
            proto = type(literal.proto)()
            proto.CopyFrom(literal.proto)
            self._legalise_shape(proto.shape)
            return proto
        layout = literal.shape.layout if literal.shape.has_layout else None
        dtype = BY_NUMBER[number].dtype
        assert dtype is not None  # _TARGETS are arrays' types
        return literal_of(_fitted(literal.numpy(), dtype), layout=layout).proto


def _fitted(values: Array, dtype: DType) -> Array:
    if values.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.clip(values, limits.min, limits.max)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _check_range(view: Instruction) -> None:
    for _, leaf in view.literal.leaves() if view.literal is not None else ():
        name = leaf.shape.element.name
        if name not in ("s64", "u64") or leaf.is_elided:
            continue
        values = leaf.numpy()
        small = _NARROW_TYPES[name]
        wide, narrow = np.iinfo(values.dtype), np.iinfo(f"{small[0].replace('s', 'i')}4")
        outside = (values < narrow.min) | (values > narrow.max)
        outside &= (values != wide.min) & (values != wide.max)
        if outside.any():
            raise PassError(
                f"constant %{view.name} holds {values[outside].flat[0]}, which {small} cannot represent",
                code="HLO-PASS-LEGALISE",
                place=f"%{view.name}",
                remedy="change the program, or take the nearest number with saturate=true",
            )


def _drop_conversions(computation: Computation) -> None:
    """Conversions to the type that the operand has by now."""
    fixed = held(computation)
    gone = [
        view
        for view in computation
        if view.opcode == "convert"
        and view.local_id not in fixed
        and view.shape.proto == view.operands[0].shape.proto
    ]
    for view in gone:
        view.replace_uses(view.operands[0])
    sweep(computation, gone)


def _is_view(view: Instruction) -> bool:
    """Return True for a ``bitcast`` that only rearranges elements, as a reshape does."""
    if view.opcode != "bitcast":
        return False
    return view.shape.element.name == view.operands[0].shape.element.name


def _copy(shape: Shape) -> Shape:
    proto = type(shape.proto)()
    proto.CopyFrom(shape.proto)
    return Shape(proto)


def _as_shape(view: Instruction, shape: Shape) -> Instruction:
    """``view`` converted to the element types of ``shape``, parts of tuples by themselves."""
    if view.shape.proto == shape.proto:
        return view
    if not shape.is_tuple:
        return plain(view, "convert", shape, [view])
    parts = enumerate(shape.tuple_shapes)
    return make_tuple(
        view, [_as_shape(get_part(view, number), element_shape) for number, element_shape in parts]
    )
