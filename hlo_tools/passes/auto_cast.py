"""Auto-cast: float32 operations in a smaller type, as neuronx-cc's ``--auto-cast`` does.

In ``all`` mode parameters and results of every computation stay float32, and so do reductions,
which sum up rounded operands in float32 as the device does. fp8 is a type of products only: the
rest of such a program is held in bf16. tf32 is a format of a product's operands only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.cloning import clone_instruction
from hlo_tools.rewrite.emitting import convert, plain, with_element
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.patterns import held, sweep, take_name
from hlo_tools.types.opcodes import OPCODES, opcodes_of_kind
from hlo_tools.types.scopes import is_in_scope

__all__ = ["AutoCast"]

Kind = Literal["bf16", "fp16", "tf32", "fp8_e4m3"]

_PRODUCT_ELEMENT = {"bf16": "bf16", "fp16": "f16", "fp8_e4m3": "f8e4m3", "tf32": "f32"}
_VALUE_ELEMENT = {"bf16": "bf16", "fp16": "f16", "fp8_e4m3": "bf16", "tf32": "f32"}
_TF32_EXPONENT, _TF32_MANTISSA = 8, 10

_PRODUCTS = frozenset({"dot", "convolution"})
_CAST = (
    _PRODUCTS
    | {name for name in opcodes_of_kind("elementwise") if "float" in OPCODES[name].element_kinds}
    | {"abs", "clamp", "select"}
    | (opcodes_of_kind("movement") - {"bitcast", "dynamic-reshape", "set-dimension-size"})
)
"""Opcodes that compute in the smaller type."""
_TESTS = frozenset({"compare", "is-finite"})
"""Opcodes that read values in the smaller type."""
_BODIES_OF = frozenset({"while", "conditional", "call", "fusion"})
"""Callers whose computations are part of the program, unlike a reduction's."""


@dataclass(frozen=True, slots=True)
class AutoCast(Pass):
    """Do float32 products, or all float32 operations, in a smaller type. Results change.

    Attributes:
        which: ``matmult`` (dots and convolutions: operands are rounded, sums stay float32) or
            ``all``.
        type: the smaller type.
        scope: only operations of this scope of the framework, forward and backward, as in
            ``layer3`` or ``encoder/layer3``.
    """

    name: ClassVar[str] = "auto-cast"

    which: Literal["matmult", "all"] = "matmult"
    type: Kind = "bf16"
    scope: str = ""

    def run(self, module: Module) -> bool:
        everything = self.which == "all" and _VALUE_ELEMENT[self.type] != "f32"
        bodies = _program(module)
        if self.scope.strip("/") != self.scope or (self.scope and not self._is_present(bodies)):
            raise PassError(
                f"{self.name}: no operation has the scope {self.scope!r}",
                code="HLO-PASS-ARGUMENT",
                remedy="nki-hlo show --json lists the op_name of each instruction",
            )
        changed = False
        for computation in bodies:
            if everything:
                changed |= _Values(_VALUE_ELEMENT[self.type], self.scope).run(computation)
        for computation in bodies:
            changed |= _round_products(computation, self.type, self.scope)
        return changed

    def _is_present(self, bodies: list[Computation]) -> bool:
        """Return True if an operation of the program lies in the scope."""
        return any(_is_selected(view, self.scope) for body in bodies for view in body)


def _is_selected(view: Instruction, scope: str) -> bool:
    return not scope or is_in_scope(view.metadata.op_name, scope)


def _program(module: Module) -> list[Computation]:
    """Return the entry and the computations that it runs, without reducers."""
    reachable = {module.entry: None}
    stack = [module.entry]
    while stack:
        for view in stack.pop():
            if view.opcode in _BODIES_OF:
                new = [callee for callee in view.called_computations if callee not in reachable]
                reachable.update(dict.fromkeys(new))
                stack += new
    return [computation for computation in module.computations if computation in reachable]


def _is_f32(view: Instruction) -> bool:
    return view.shape.element.name == "f32"


def _can_be_small(view: Instruction) -> bool:
    """Return True if the smaller type has all values of the float32 result."""
    if view.opcode not in _CAST or not _is_f32(view):
        return False
    return all(operand.shape.element.kind != "complex" for operand in view.operands)


class _Values:
    """One computation whose float32 values are held in a smaller type."""

    def __init__(self, element: str, scope: str) -> None:
        self._element = element
        self._scope = scope
        self._small: dict[Instruction, Instruction] = {}

    def run(self, computation: Computation) -> bool:
        replaced: list[Instruction] = []
        fixed = held(computation)
        for view in computation.post_order():
            if not _is_selected(view, self._scope):
                continue
            if _can_be_small(view) and view.local_id not in fixed:
                self._cast(view)
                replaced.append(view)
            elif view.opcode in _TESTS and _is_f32(view.operands[0]):
                for index, operand in enumerate(view.operands):
                    view.replace_operand(index, self._in_small(operand))
        sweep(computation, replaced)
        return bool(replaced)

    def _cast(self, view: Instruction) -> None:
        """Emit the operation in the small type, and convert its result for float32 users."""
        operands = [self._in_small(o) if _is_f32(o) else o for o in view.operands]
        narrow_inst = clone_instruction(view, operands, view.computation)
        narrow_inst.proto.shape.CopyFrom(with_element(view.shape, self._element).proto)
        take_name(narrow_inst, view)
        wide = convert(narrow_inst, "f32")
        self._small[wide] = narrow_inst
        view.replace_uses(wide)

    def _in_small(self, view: Instruction) -> Instruction:
        narrow = self._small.get(view)
        if narrow is None:
            narrow = self._small[view] = convert(view, self._element)
        return narrow


def _round_products(computation: Computation, kind: Kind, scope: str) -> bool:
    """Operands of products that are wider than the type are rounded to it; results stay."""
    rounded: dict[Instruction, Instruction] = {}
    changed = False
    for view in computation.post_order():
        if view.opcode not in _PRODUCTS or not _is_wide(view, kind):
            continue
        if not _is_selected(view, scope):
            continue
        for index, operand in enumerate(view.operands):
            if operand not in rounded:
                rounded[operand] = _rounded(operand, kind)
            view.replace_operand(index, rounded[operand])
        changed = True
    return changed


def _is_wide(view: Instruction, kind: Kind) -> bool:
    """Return True if both operands are wider than the type and not rounded yet."""
    allowed = {"f32"} if kind != "fp8_e4m3" else {"f32", "bf16"}
    elements = {operand.shape.element.name for operand in view.operands}
    if not elements <= allowed:
        return False
    return kind != "tf32" or not all(_is_tf32(operand) for operand in view.operands)


def _is_tf32(view: Instruction) -> bool:
    proto = view.proto
    return (proto.opcode, proto.exponent_bits, proto.mantissa_bits) == (
        "reduce-precision", _TF32_EXPONENT, _TF32_MANTISSA,
    )  # fmt: skip


def _rounded(view: Instruction, kind: Kind) -> Instruction:
    if kind == "tf32":
        return plain(
            view,
            "reduce-precision",
            view.shape,
            [view],
            exponent_bits=_TF32_EXPONENT,
            mantissa_bits=_TF32_MANTISSA,
        )
    element = _PRODUCT_ELEMENT[kind]
    if view.opcode == "convert" and view.operands[0].shape.element.name == element:
        return view.operands[0]
    return convert(view, element)
