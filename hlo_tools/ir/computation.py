"""Computation: a view of one HloComputationProto.

:mod:`hlo_tools.ir.editing` and :mod:`hlo_tools.ir.ordering` are imported when an edit or an order
is asked for: most modules are loaded to be read.
"""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hlo_tools._messages import counted
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.types.ids import LOCAL_MASK, NO_ROOT
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.ir.module import Module
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto

__all__ = ["Computation"]


class Computation:
    """A list of instructions, operands first, with one root. Views are made when asked for.

    Args:
        proto: its message.
        module: the module that the message is part of.
    """

    __slots__ = (
        "_by_id", "_changed", "_gone", "_has_implicit_root", "_instructions", "_next_id",
        "_ordered", "_proto", "_tuple", "_waited_ids", "module",
    )  # fmt: skip

    def __init__(self, proto: HloComputationProto, module: Module) -> None:
        self._proto = proto
        self.module = module
        self._instructions: list[Instruction] | None = None
        self._tuple: tuple[Instruction, ...] | None = None
        self._by_id: dict[int, Instruction] | None = None
        self._next_id = 0
        self._has_implicit_root = False
        self._changed = False
        self._ordered = False
        self._gone: dict[int, Instruction] = {}
        self._waited_ids: frozenset[int] | None = None

    @property
    def proto(self) -> HloComputationProto:
        """The message, with every edit in it."""
        if self._changed:
            from hlo_tools.ir import editing

            editing.settle(self)
        return self._proto

    @property
    def name(self) -> str:
        """Its name, without the ``%`` of text."""
        return self._proto.name

    @property
    def id(self) -> int:
        """The id that calls name it by."""
        return self._proto.id

    @property
    def is_entry(self) -> bool:
        """True if this computation is the module's entry."""
        return self.module.entry is self

    @property
    def is_fusion(self) -> bool:
        """True for the body of a fusion instruction (as XLA marks it since 2022-03)."""
        return self._proto.is_fusion_computation

    @property
    def is_asynchronous(self) -> bool:
        """True for what an async-start runs: one operation, as a rule."""
        return any(caller.proto.opcode == "async-start" for caller in self.callers)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in the computation's order."""
        if self._tuple is None:
            self._tuple = tuple(self.views())
        return self._tuple

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters by number."""
        parameters = [i for i in self.views() if i.proto.opcode == "parameter"]
        return tuple(sorted(parameters, key=lambda i: i.proto.parameter_number))

    @property
    def root(self) -> Instruction:
        """The instruction whose result is the computation's.

        Raises:
            HloFileError: the root id names no instruction (HLO-REFERENCE).
        """
        root = self._index().get(self._proto.root_id & LOCAL_MASK)
        if self._proto.root_id == NO_ROOT:
            raise HloFileError(
                f"computation %{self.name} has no root",
                code="HLO-REFERENCE",
                remedy="call computation.set_root(INSTRUCTION)",
            )
        if root is None:
            raise _dangling(f"the root id {self._proto.root_id} of computation %{self.name}")
        return root

    @property
    def result_shape(self) -> Shape:
        """The shape of the root."""
        return self.root.shape

    @property
    def callers(self) -> tuple[Instruction, ...]:
        """The instructions of the module that call it."""
        return self.module.callers_of(self)

    def find(self, name: str) -> Instruction:
        """The instruction called ``name`` (a leading % is left out).

        Raises:
            HloError: there is none (HLO-NO-INSTRUCTION).
        """
        bare_name = name.removeprefix("%")
        for instruction in self.views():
            if instruction.proto.name == bare_name:
                return instruction
        from hlo_tools._messages import did_you_mean

        near = did_you_mean(bare_name, (view.proto.name for view in self.views()), "%")
        raise HloError(
            f"computation %{self.name} has no instruction %{bare_name}",
            code="HLO-NO-INSTRUCTION",
            remedy=f"{near}nki-hlo show FILE lists the names",
        )

    def resolve(self, instruction_id: int, where: Instruction | None = None) -> Instruction:
        """The instruction with an id of either scheme.

        Raises:
            HloFileError: there is none (HLO-REFERENCE); ``where`` is named in the error.
        """
        inst = self._index().get(instruction_id & LOCAL_MASK)
        if inst is None:
            user = f"%{where.name} in %{self.name}" if where else f"%{self.name}"
            raise _dangling(f"id {instruction_id}, which {user} refers to,")
        return inst

    def post_order(self) -> list[Instruction]:
        """Instructions, operands and control predecessors first, ties in the present order.

        Raises:
            HloFileError: instructions depend on each other in a circle (HLO-CYCLE).
        """
        from hlo_tools.ir.ordering import instructions_in_order

        return instructions_in_order(self)

    @property
    def schedule(self) -> tuple[Instruction, ...] | None:
        """Its instructions in the order in which they run; None in a module without a schedule.

        Raises:
            HloFileError: the schedule names an instruction that is not there (HLO-REFERENCE).
        """
        sequences = self.module.proto.schedule.sequences
        if self.id not in sequences:
            return None
        return tuple(self.resolve(number) for number in sequences[self.id].instruction_ids)

    def called_ids(self) -> list[int]:
        """Return the distinct ids of the computations that its instructions call, in order."""
        callees: dict[int, None] = {}
        for view in self.views():
            ids = view.proto.called_computation_ids
            if ids:
                callees.update(dict.fromkeys(ids))
        return list(callees)

    def put_in_order(self) -> None:
        """Order the instructions after their operands and control predecessors, after edits.

        New ones then stand where those stand that use them. The message follows when it is asked for.

        Raises:
            HloFileError: instructions depend on each other in a circle (HLO-CYCLE).
        """
        if self._changed and not self._ordered:
            from hlo_tools.ir import editing

            editing.put_in_order(self)

    def waited_ids(self) -> frozenset[int]:
        """Local ids of the instructions that others wait for by a control edge."""
        waited_ids = self._waited_ids
        if waited_ids is None:
            waited_ids = self._waited_ids = frozenset(
                number & LOCAL_MASK
                for view in self.views()
                for number in view.proto.control_predecessor_ids
            )
        return waited_ids

    def index_users(self) -> None:
        """Fill in who uses whom, for every instruction of the computation."""
        views = self.views()
        for instruction in views:
            instruction._users = {}
        for instruction in views:
            for operand in instruction.operands:
                users = operand._users
                assert users is not None  # an operand is of the same computation
                if instruction in users:
                    users[instruction] += 1
                else:
                    users[instruction] = 1

    # Editing

    def add(
        self,
        opcode: str,
        shape: Shape,
        operands: tuple[Instruction, ...] | list[Instruction] = (),
        *,
        name: str | None = None,
        like: Instruction | None = None,
        **fields: object,
    ) -> Instruction:
        """Add an instruction; it goes where its operands and users want it when the file is saved.

        Args:
            name: its name, made unique in the module; the opcode when not given.
            like: an instruction whose metadata, frontend attributes and sharding it takes over.
            fields: further fields of HloInstructionProto by name.
        """
        from hlo_tools.ir import editing

        return editing.add(self, opcode, shape, tuple(operands), name=name, like=like, **fields)

    def add_kernel(
        self,
        call: Instruction,
        operands: tuple[Instruction, ...] | list[Instruction],
        *,
        name: str | None = None,
        like: Instruction | None = None,
    ) -> Instruction:
        """Add a call of an NKI kernel.

        The call keeps its target, API version, configuration, layouts and aliases; arrays that the
        kernel needs besides its arguments are added as constants.

        Args:
            call: what ``FrameworkKernel.instruction(...)`` returns.
            operands: instructions of this computation for the kernel's tensor arguments, in order.
            name: its name, made unique in the module; ``kernel`` when not given.
            like: an instruction whose metadata, frontend attributes and sharding it takes over.

        Returns:
            The call: one array, or a tuple of the kernel's results.

        Raises:
            HloError: the operands do not fit the kernel (HLO-EDIT).
        """
        from hlo_tools.ir.added_calls import add_kernel

        return add_kernel(self, call, operands, name=name, like=like)

    def set_root(self, instruction: Instruction) -> None:
        """Make ``instruction`` the result."""
        from hlo_tools.ir import editing

        editing.set_root(self, instruction)

    def remove_all(self, instructions: set[Instruction]) -> None:
        """Remove many at once; they may use each other, and nothing else may use them.

        Raises:
            HloError: one is still used, or is the root or a parameter (HLO-EDIT).
        """
        from hlo_tools.ir import editing

        editing.remove_all(self, instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self._by_id) if self._by_id is not None else len(self.views())

    def __repr__(self) -> str:
        return f"<Computation %{self.name}: {counted(len(self), 'instruction')}>"

    # Inside the package

    def _view_of(self, proto: HloInstructionProto) -> Instruction:
        """A view of a message that was just added."""
        return Instruction(proto, self)

    @property
    def raw_proto(self) -> HloComputationProto:
        """The message without waiting edits: what is read or set besides its instructions."""
        return self._proto

    def holds(self, view: Instruction) -> bool:
        """Return True if the computation still contains an instruction."""
        return self._index().get(view.local_id) is view

    def views(self) -> list[Instruction]:
        """All instructions, in the order in which they were read and added."""
        views = self._instructions
        if views is None:
            views = self._instructions = [Instruction(p, self) for p in self._proto.instructions]
        elif self._gone:
            from hlo_tools.ir import editing

            views = editing.sweep(self, views)
        return views

    def _index(self) -> dict[int, Instruction]:
        index = self._by_id
        if index is None:
            index = {view.proto.id & LOCAL_MASK: view for view in self.views()}
            if len(index) != len(self.views()):
                raise HloFileError(
                    f"two instructions of computation %{self.name} have the same id",
                    code="HLO-DUPLICATE-ID",
                    remedy="the module is damaged, or was edited inconsistently",
                )
            self._by_id = index
        return index

    def forget(self) -> None:
        """Drop what was derived from the message; views of instructions still in it stay."""
        self.module.forget_callers()
        if self._instructions is not None:
            views_by_proto = {id(view.proto): view for view in self.views()}
            self._instructions = [
                views_by_proto.get(id(proto)) or Instruction(proto, self)
                for proto in self._proto.instructions
            ]
            for view in self._instructions:
                view._operands = view._users = None
        self._by_id = self._tuple = self._waited_ids = None
        self._next_id = 0
        self._ordered = False


def _dangling(what: str) -> HloFileError:
    return HloFileError(
        f"{what} names no instruction",
        code="HLO-REFERENCE",
        remedy="the module is damaged, or was edited inconsistently",
    )
