"""Dtype legalisation: 64-bit values in 32 bits, where a target has no 64-bit types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from hlo_tools.elements import BY_NAME, BY_NUMBER
from hlo_tools.instruction import Instruction
from hlo_tools.literal import Literal as Constant
from hlo_tools.literal import literal_of
from hlo_tools.module import Module
from hlo_tools.passes.base import Pass, PassError
from hlo_tools.passes.emitting import get_part, make_tuple, plain
from hlo_tools.shape import Shape

__all__ = ["DtypeLegalisation", "is_pinned_type"]

Target = Literal["trn1", "trn2", "trn3"]

_NARROW = {"f64": "f32", "s64": "s32", "u64": "u32", "c128": "c64"}
_TARGETS: dict[str, dict[str, str]] = {"trn1": _NARROW, "trn2": _NARROW, "trn3": _NARROW}
"""What stands for types that a family has not (no family has 64-bit arithmetic)."""

_PINNED = frozenset(
    {"bitcast-convert", "bitcast", "rng-bit-generator", "rng-get-and-update-state", "custom-call",
     "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "async-start", "async-update",
     "async-done"}
)  # fmt: skip
"""Opcodes whose operands' or results' bits mean something to others: their types stay."""


@dataclass(frozen=True, slots=True)
class DtypeLegalisation(Pass):
    """Compute f64, s64, u64 and c128 values in types of half the size. Results may change.

    Values have to fit: arithmetic on integers wraps at 32 bits. Random bits, bit casts and custom
    calls keep their types, with conversions around them. Constants that do not fit are an error,
    except for the smallest and largest number of a type, which become those of the small one.

    Attributes:
        target: the family whose types are taken.
        boundary: ``keep`` the entry's parameters and results, with conversions, or ``change`` them.
        saturate: constants that do not fit become the nearest number that does.
    """

    name: ClassVar[str] = "dtype-legalisation"
    ensures: ClassVar[tuple[str, ...]] = ("narrow-types",)

    target: Target = "trn2"
    boundary: Literal["keep", "change"] = "keep"
    saturate: bool = False

    def run(self, module: Module) -> bool:
        work = _Narrower(module, _TARGETS[self.target], self.boundary == "keep")
        if not work.is_needed():
            return False
        work.check(self.saturate)
        work.run()
        return True


def is_pinned_type(view: Instruction) -> bool:
    """Whether the pass leaves an instruction's 64-bit type: bits matter, or it is a boundary."""
    if view.opcode in _PINNED or view.opcode == "convert":
        return True
    entry = view.computation.is_entry
    if view.opcode == "get-tuple-element":
        return is_pinned_type(view.operands[0])
    return entry and (view.opcode in ("parameter", "tuple") or view.is_root)


class _Narrower:
    def __init__(self, module: Module, types: dict[str, str], keep: bool) -> None:
        self._module = module
        self._numbers = {BY_NAME[a].number: BY_NAME[b].number for a, b in types.items()}
        self._keep = keep
        self._pinned = {view for view in module.instructions if self._stays(view)}

    def is_needed(self) -> bool:
        """Whether anything but what stays, and conversions at the boundary, is wide."""
        return any(
            self._is_wide(view.proto.shape)
            and view not in self._pinned
            and not (self._keep and view.opcode == "convert" and self._is_boundary(view))
            for view in self._module.instructions
        )

    def _is_boundary(self, view: Instruction) -> bool:
        """Whether a conversion to a wide type serves only what keeps its type."""
        return view.is_root or (
            bool(view.users) and all(user in self._pinned for user in view.users)
        )

    def check(self, saturate: bool) -> None:
        """Refuse what cannot be done, before anything is changed."""
        for view in self._module.instructions:
            if view in self._pinned and view.proto.called_computation_ids:
                raise PassError(
                    f"{view.opcode} %{view.name} passes 64-bit values to a computation",
                    code="HLO-PASS-LEGALISE",
                    place=f"%{view.name}",
                    remedy="inline or rewrite it first",
                )
            if view.opcode == "constant" and self._is_wide(view.proto.shape) and not saturate:
                _check_range(view)

    def run(self) -> None:
        entry = self._module.entry
        root, result = entry.root, _copy(entry.root.shape)
        crossings = self._crossings()
        for view in list(self._module.instructions):
            if view not in self._pinned and self._is_wide(view.proto.shape):
                self._narrow_instruction(view)
        for computation in self._module.computations:
            if computation is not entry or not self._keep:
                self._narrow_program(computation._proto.program_shape)
        if not self._keep:
            self._narrow_program(self._module._proto.host_program_shape)
        converted: dict[tuple[Instruction, str], Instruction] = {}
        for user, index, shape in crossings:
            operand = user.operands[index]
            key = (operand, str(shape))
            if key not in converted:
                converted[key] = _as_shape(operand, shape)
            user.replace_operand(index, converted[key])
        if self._keep:
            entry.set_root(_as_shape(root, result))
        self._module.mark_changed()

    def _crossings(self) -> list[tuple[Instruction, int, Shape]]:
        """Uses between what keeps its type and what does not, with the shape that the user wants."""
        found: list[tuple[Instruction, int, Shape]] = []
        for user in self._module.instructions:
            pinned = user in self._pinned
            for index, operand in enumerate(user.operands):
                if self._is_wide(operand.proto.shape) and (operand in self._pinned) != pinned:
                    shape = _copy(operand.shape)
                    if not pinned:
                        self._narrow_shape(shape.proto)
                    found.append((user, index, shape))
        return found

    def _stays(self, view: Instruction) -> bool:
        """Whether an instruction keeps its type: its bits matter, or it is a boundary's."""
        if view.opcode == "get-tuple-element":
            return self._is_wide(view.proto.shape) and self._stays(view.operands[0])
        if self._keep and view.computation.is_entry:
            if view.opcode == "parameter":
                return self._is_wide(view.proto.shape)
            if view.opcode == "tuple" and view.is_root and not view.users:
                return self._is_wide(view.proto.shape)
        if view.opcode not in _PINNED:
            return False
        shapes = [view.proto.shape, *(operand.proto.shape for operand in view.operands)]
        return any(self._is_wide(shape) for shape in shapes)

    def _is_wide(self, shape: Any) -> bool:
        if shape.tuple_shapes:
            return any(self._is_wide(part) for part in shape.tuple_shapes)
        return shape.element_type in self._numbers

    def _narrow_shape(self, shape: Any) -> None:
        shape.element_type = self._numbers.get(shape.element_type, shape.element_type)
        for part in shape.tuple_shapes:
            self._narrow_shape(part)

    def _narrow_program(self, program: Any) -> None:
        for shape in (*program.parameters, program.result):
            self._narrow_shape(shape)

    def _narrow_instruction(self, view: Instruction) -> None:
        literal = view.literal
        if literal is not None:
            proto = self._narrow_literal(literal)
            self._module._kept.pop((view.computation.id, view.local_id), None)
            view.proto.literal.CopyFrom(proto)
        self._narrow_shape(view.proto.shape)

    def _narrow_literal(self, literal: Constant) -> Any:
        if literal.is_tuple:
            proto = type(literal.proto)()
            proto.shape.CopyFrom(literal.shape.proto)
            self._narrow_shape(proto.shape)
            proto.tuple_literals.extend(self._narrow_literal(part) for part in literal.parts)
            return proto
        number = self._numbers.get(literal.shape.proto.element_type)
        if number is None or literal.is_elided:
            proto = type(literal.proto)()
            proto.CopyFrom(literal.proto)
            self._narrow_shape(proto.shape)
            return proto
        layout = literal.shape.layout if literal.shape.has_layout else None
        return literal_of(_fitted(literal.numpy(), BY_NUMBER[number].dtype), layout=layout).proto


def _fitted(values: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
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
        small = _NARROW[name]
        wide, narrow = np.iinfo(values.dtype), np.iinfo(f"{small[0].replace('s', 'i')}4")
        outside = (values < narrow.min) | (values > narrow.max)
        outside &= (values != wide.min) & (values != wide.max)
        if outside.any():
            raise PassError(
                f"constant %{view.name} holds {values[outside].flat[0]}, which is no {small}",
                code="HLO-PASS-LEGALISE",
                place=f"%{view.name}",
                remedy="change the program, or take the nearest number with saturate=true",
            )


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
    return make_tuple(view, [_as_shape(get_part(view, number), part) for number, part in parts])
