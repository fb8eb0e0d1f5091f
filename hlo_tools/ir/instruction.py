"""Instruction: a view of one HloInstructionProto.

:mod:`hlo_tools.ir.editing` is imported when an edit is asked for: most modules are loaded to be read.
"""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hlo_tools.types.aliases import Alias, of_call
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.literal import Literal, StoredLiteral
from hlo_tools.types.shape import Shape
from hlo_tools.types.source_frames import SourceFrame, frames_of, innermost

if TYPE_CHECKING:
    from hlo_tools.ir.computation import Computation
    from hlo_tools.ir.module import Module
    from hlo_tools.schema.messages import HloInstructionProto, OpMetadata, OpSharding

__all__ = ["Instruction"]


class Instruction:
    """One operation of a computation.

    ``proto`` is the message itself: read any field from it. To change a field that refers to no
    other instruction or computation, change the message and call ``module.touch()``; to change
    operands, uses or the set of instructions, use the methods (they keep everything else right).
    One instruction has one view, so views compare by identity.
    """

    __slots__ = ("_operands", "_users", "computation", "proto")

    def __init__(self, proto: HloInstructionProto, computation: Computation) -> None:
        self.proto = proto
        self.computation = computation
        self._operands: tuple[Instruction, ...] | None = None
        self._users: dict[Instruction, int] | None = None

    # What it is

    @property
    def module(self) -> Module:
        """The module that it is in."""
        return self.computation.module

    @property
    def name(self) -> str:
        """Its name, without the ``%`` of text."""
        return self.proto.name

    @property
    def opcode(self) -> str:
        """The opcode as XLA spells it, such as ``"custom-call"``."""
        return self.proto.opcode

    @property
    def id(self) -> int:
        """The id as the file has it: wide (computation << 32 | local) or legacy."""
        return self.proto.id

    @property
    def local_id(self) -> int:
        """The id within the computation: the low 32 bits in either scheme."""
        return self.proto.id & LOCAL_MASK

    @property
    def shape(self) -> Shape:
        return Shape(self.proto.shape)

    @property
    def is_root(self) -> bool:
        """True if its computation returns its value."""
        return self.computation.root is self

    @property
    def literal(self) -> Literal | None:
        """The value of a constant; None for anything else."""
        if not self.proto.HasField("literal"):
            return None
        stored = self.module.kept_constant(self.computation.id, self.local_id)
        if stored is not None:
            return StoredLiteral(stored, self.shape)
        return Literal(self.proto.literal)

    # What it is connected to

    @property
    def operands(self) -> tuple[Instruction, ...]:
        """The instructions whose results it takes, in order.

        Raises:
            HloFileError: an operand id names no instruction of the computation (HLO-REFERENCE).
        """
        operands = self._operands
        if operands is None:
            index = self.computation._index()
            ids = self.proto.operand_ids
            try:
                operands = self._operands = tuple([index[i & LOCAL_MASK] for i in ids])
            except KeyError:
                resolve = self.computation.resolve
                operands = self._operands = tuple(resolve(i, self) for i in ids)
        return operands

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that take its result, each once, in the computation's order."""
        if self._users is None:
            self.computation.index_users()
        return tuple(self._users or ())

    @property
    def is_used(self) -> bool:
        """True if it has a user or is the root; takes constant time."""
        if self._users is None:
            self.computation.index_users()
        return bool(self._users)

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """The instructions that must run before it although it does not use their results."""
        if not self.proto.control_predecessor_ids:
            return ()
        self.computation.views()
        resolve = self.computation.resolve
        return tuple(resolve(i, self) for i in self.proto.control_predecessor_ids)

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """Bodies, conditions, reducers, callees, in the order of the opcode's definition."""
        resolve = self.module.computation_by_id
        return tuple(resolve(i) for i in self.proto.called_computation_ids)

    # What is known about it

    @property
    def metadata(self) -> OpMetadata:
        """Its ``OpMetadata``, taken from the module's shared payloads where it stands there."""
        return self.module.resolve_metadata(self.proto.metadata)

    @property
    def source(self) -> SourceFrame | None:
        """The innermost place in the source that made it, or None."""
        if not self.proto.HasField("metadata"):
            return None
        return innermost(self.metadata, self.module._proto.stack_frame_index)

    @property
    def stack(self) -> tuple[SourceFrame, ...]:
        """All places of the source that made it, innermost first."""
        if not self.proto.HasField("metadata"):
            return ()
        return frames_of(self.metadata, self.module._proto.stack_frame_index)

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes that a framework set, by name; a live map of the proto."""
        return self.proto.frontend_attributes.map

    @property
    def sharding(self) -> OpSharding | None:
        """Its ``OpSharding``, or None."""
        return self.proto.sharding if self.proto.HasField("sharding") else None

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """The aliases of its results and operands."""
        return of_call(self.proto)

    @property
    def custom_call_target(self) -> str:
        """The target of a custom call; "" for anything else."""
        return self.proto.custom_call_target

    @property
    def backend_config(self) -> bytes:
        """The backend configuration, taken from the shared payloads where it stands there."""
        if self.proto.HasField("backend_config_payload"):
            return self.module.resolve_payload(self.proto.backend_config_payload)
        return self.proto.backend_config

    # Editing

    def replace_operand(self, index: int, operand: Instruction) -> None:
        """Take ``operand`` at place ``index`` from now on."""
        from hlo_tools.ir import editing

        editing.set_operand(self, index, operand)

    def replace_uses(self, replacement: Instruction) -> None:
        """Let every user, and the computation if this is its root, take ``replacement`` instead."""
        from hlo_tools.ir import editing

        editing.replace_uses(self, replacement)

    def set_control_predecessors(self, predecessors: Iterable[Instruction]) -> None:
        """Run after ``predecessors`` of its computation; forget earlier control predecessors."""
        from hlo_tools.ir import editing

        editing.set_control_predecessors(self, predecessors)

    def set_called_computations(self, computations: Iterable[Computation]) -> None:
        """Call other computations from now on, in the order of the opcode's definition.

        Raises:
            HloError: one is not of this module (HLO-EDIT).
        """
        from hlo_tools.ir import editing

        editing.set_called(self, computations)

    def remove(self) -> None:
        """Remove it from its computation; what waited for it waits for what it waited for.

        Raises:
            HloError: it is still used, or it is the root or a parameter (HLO-EDIT).
        """
        from hlo_tools.ir import editing

        editing.remove(self)

    def __repr__(self) -> str:
        operands = ", ".join(f"%{operand.name}" for operand in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"
