"""The current builder: of the kernel that is traced, or (in a subclass) of the eager interpreter.

Every public function of the language reaches the current builder through :func:`current`, and
adds to it through a handful of methods: :meth:`TraceBuilder.emit`, :meth:`~TraceBuilder.new_tensor`,
:meth:`~TraceBuilder.new_register`, :meth:`~TraceBuilder.enter_loop` and
:meth:`~TraceBuilder.exit_loop`. An eager interpreter subclasses :class:`TraceBuilder`, sets
``eager = True``, executes in :meth:`~TraceBuilder.execute` and implements
:meth:`~TraceBuilder.register_value`.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array, DType, dtype_of
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import MAX_CALLERS, SourceLocation, caller_location, in_package
from nki_lang.base.targets import Target
from nki_lang.ir import (
    Access,
    Block,
    Constant,
    Engine,
    ForLoop,
    Instruction,
    NoReorder,
    Register,
    Tensor,
    WhileLoop,
)
from nki_lang.ir.fresh import fresh_row

__all__ = ["TraceBuilder", "active", "building", "current", "user_frame"]

_CURRENT: ContextVar[TraceBuilder | None] = ContextVar("nki_lang_builder", default=None)


def active() -> TraceBuilder | None:
    """Return the builder of the kernel that is traced or interpreted in this context, or None."""
    return _CURRENT.get()


def current() -> TraceBuilder:
    """Return the current builder.

    Raises:
        NkiValidationError: code ``NKI-OUTSIDE``; no kernel is being traced.
    """
    builder = _CURRENT.get()
    if builder is None:
        raise NkiValidationError(
            "this function of the kernel language was called outside a kernel",
            code="NKI-OUTSIDE",
            location=caller_location(2),
            remedy="call it from a function decorated with @nki.jit",
        )
    return builder


@contextmanager
def building(builder: TraceBuilder) -> Generator[TraceBuilder]:
    """Make ``builder`` the current builder for the duration of the block."""
    token = _CURRENT.set(builder)
    try:
        yield builder
    finally:
        _CURRENT.reset(token)


def user_frame(depth: int = 2) -> FrameType | None:
    """Return the nearest Python frame outside this package."""
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and in_package(frame.f_code):
        frame = frame.f_back
    return frame


_ASSIGNED_NAMES: dict[CodeType, dict[int, str]] = {}


def assigned_name(frame: FrameType | None) -> str:
    """Return the variable that the running call of ``frame`` is assigned to, or ""."""
    if frame is None:
        return ""
    code = frame.f_code
    names = _ASSIGNED_NAMES.get(code)
    if names is None:
        names = _ASSIGNED_NAMES[code] = _assignments(code)
    return names.get(frame.f_lasti, "")


def _assignments(code: CodeType) -> dict[int, str]:
    names: dict[int, str] = {}
    call = -1
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith("CALL"):
            call = instruction.offset
        elif instruction.opname.startswith("STORE_") and call >= 0:
            if instruction.opname in ("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL"):
                # f_lasti is the call, or (3.11) the last cache slot after it
                names[call] = names[instruction.offset - 2] = str(instruction.argval)
            call = -1
        elif instruction.opname != "CACHE":
            call = -1
    return names


def _located(frames: list[FrameType]) -> SourceLocation:
    """Return the location of the first frame, with the other frames as its callers."""
    location: SourceLocation | None = None
    for frame in reversed(frames):
        code = frame.f_code
        location = SourceLocation(code.co_filename, frame.f_lineno, code.co_name, -1, location)
    assert location is not None
    return location


class TraceBuilder:
    """Collects the statements of one core of one kernel.

    Attributes:
        target: the target family of the trace.
        generation: its NeuronCore generation (2, 3, 4).
        core: index of this core (``program_id(0)``).
        lnc: cores that run the kernel together.
        grid: launch grid as given.
        program: indices of the current program, when one core runs the programs of a grid in
            sequence; None when each core is one program.
        eager: True if instructions execute as they are emitted, so that values can be read.
        body: the statements collected.
        block: the block that receives new statements.
        loop_keys: which ``while`` header opened a region, by the region's id.
        tensors: every tensor by name.
        tensor_locations: the line that allocated each tensor.
        homes: the innermost loop that each tensor of this core was allocated in, or None; contains
            shared HBM only if no other core or program of the grid sees it.
        constants: constants by the name of their tensor.
        written: names of HBM tensors that were written.
        checked: memory of passed checks, see ``nki_lang.isa.issue``.
        shared: shared HBM tensors in the order of allocation; the cores share this list, as
            they share ``constants``.
        shared_count: number of shared tensors that this core has allocated.
        has_collectives: True if the kernel communicates with other ranks.
        entry: code that calls the kernel's function; each location records the user's frames
            inside it. None records only the innermost frame, as the eager interpreter does, which
            reports one finding per line.
        origin: location of every instruction, in kernels that a compiler emits; None for the
            user's lines.
    """

    eager = False
    entry: CodeType | None = None
    origin: SourceLocation | None = None

    def __init__(
        self,
        target: Target,
        *,
        core: int = 0,
        lnc: int = 1,
        grid: tuple[int, ...] = (),
        shared: list[Tensor] | None = None,
        constants: dict[str, Constant] | None = None,
    ) -> None:
        self.target = target
        self.generation = target.generation
        self.core = core
        self.lnc = lnc
        self.grid = grid
        self.program: tuple[int, ...] | None = None
        self.body: Block = []
        self.block: Block = self.body
        self.open: list[tuple[ForLoop | WhileLoop | NoReorder, Block]] = []
        self.loop_keys: dict[int, tuple[int, Any]] = {}
        self.tensors: dict[str, Tensor] = {}
        self.tensor_locations: dict[str, SourceLocation | None] = {}
        self.homes: dict[str, ForLoop | WhileLoop | None] = {}
        self.constants = {} if constants is None else constants
        self.has_collectives = False
        self.prepared: object | None = None
        self.written: set[str] = set()
        self.named: dict[str, Instruction] = {}
        self.checked: set[Any] = set()
        self.shared = [] if shared is None else shared
        self._reserved = {tensor.name for tensor in self.shared}
        self.shared_count = 0
        self._count = 0
        self._registers = 0
        self._locations: dict[tuple[int, ...], tuple[SourceLocation, list[CodeType]]] = {}

    # -- instructions ---------------------------------------------------------------------

    def emit(
        self, op: str, operands: dict[str, object], engine: Engine = Engine.unknown, name: str = ""
    ) -> Instruction:
        """Append one instruction, located at the user's line, and execute it when eager.

        ``operands`` are in the form that the instruction contract fixes; they were checked.
        """
        instruction = Instruction(op, operands, engine, name, self.location())
        self.block.append(instruction)
        if name:
            self._register_name(instruction)
        self.execute(instruction)
        return instruction

    def execute(self, instruction: Instruction) -> None:
        """Hook of the eager interpreter; a trace only records."""

    def name_of(self, instruction: Instruction) -> str:
        """Return the instruction's name; create one if it has none (``depends_on`` needs it)."""
        if not instruction.name:
            instruction.name = f"{instruction.op}.{len(self.named)}"
            while instruction.name in self.named:
                instruction.name += "_"
            self.named[instruction.name] = instruction
        return instruction.name

    def _register_name(self, instruction: Instruction) -> None:
        name, copy = instruction.name, 1
        while name in self.named:
            name = f"{instruction.name}.{copy}"
            copy += 1
        instruction.name = name
        self.named[name] = instruction

    def location(self) -> SourceLocation | None:
        """Return the user's line that is running now, or ``origin`` if it is set."""
        if self.origin is not None:
            return self.origin
        frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and in_package(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return None
        key: tuple[int, ...] = (id(frame.f_code), frame.f_lasti)
        if self.entry is None:
            frames = [frame]
        else:
            frames = self._frames(frame)
            for outer in frames[1:]:
                key += (id(outer.f_code), outer.f_lasti)
        cached = self._locations.get(key)
        if cached is None:  # the code objects stay alive, so their ids stay unique
            cached = self._locations[key] = (
                _located(frames),
                [user_frame.f_code for user_frame in frames],
            )
        return cached[0]

    def _frames(self, frame: FrameType) -> list[FrameType]:
        """Return the user's frames from this one to the frame of the kernel's function."""
        frames = [frame]
        outer = frame.f_back
        while outer is not None and outer.f_code is not self.entry:
            if not in_package(outer.f_code) and len(frames) <= MAX_CALLERS:
                frames.append(outer)
            outer = outer.f_back
        return frames

    # -- memory ---------------------------------------------------------------------------

    def new_tensor(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: MemoryRegion,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Tensor:
        """Allocate a new region of memory with a unique name.

        Without ``name`` its name is ``<variable>.<n>``, from the variable that the user assigns
        it to. Shared HBM tensors are the same in all cores: the n-th allocation of one core is
        the n-th of the others.
        """
        frame = user_frame(2)
        if buffer is MemoryRegion.shared_hbm and self.shared_count < len(self.shared):
            return self._adopt_shared(shape, dtype)
        unique = self._unique(name, assigned_name(frame) or buffer.value)
        tensor = Tensor(unique, dtype, shape, buffer, address, address is not None)
        if buffer is MemoryRegion.shared_hbm:
            self.shared.append(tensor)
            self.shared_count += 1
        if buffer is not MemoryRegion.shared_hbm or (self.lnc == 1 and self.program is None):
            self.homes[unique] = self._innermost_loop()
        self.tensors[unique] = tensor
        if frame is not None:
            self.tensor_locations[unique] = SourceLocation(
                frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
            )
        self.allocate(tensor)
        return tensor

    def _innermost_loop(self) -> ForLoop | WhileLoop | None:
        loops = (region for region, _ in reversed(self.open) if not isinstance(region, NoReorder))
        return next(loops, None)

    def allocate(self, tensor: Tensor) -> None:
        """Hook of the eager interpreter: the tensor's memory is allocated, uninitialised."""

    def add_input(self, tensor: Tensor) -> None:
        """Add a kernel argument."""
        self.tensors[tensor.name] = tensor
        self._reserved.add(tensor.name)

    def new_constant(self, value: Array, dtype: DType, base: str = "tmp") -> Tensor:
        """Return the tensor of a constant that the kernel contains; equal constants share one
        tensor.
        """
        for constant in self.constants.values():
            same = constant.value.dtype == value.dtype and constant.value.shape == value.shape
            if (
                same
                and constant.tensor.dtype == dtype
                and constant.value.tobytes() == value.tobytes()
            ):
                self.tensors[constant.tensor.name] = constant.tensor
                return constant.tensor
        name = self._unique("", base)
        self._reserved.add(name)
        tensor = Tensor(name, dtype, tuple(value.shape), MemoryRegion.shared_hbm)
        self.tensors[name] = tensor
        self.constants[name] = Constant(tensor, value)
        self.allocate_constant(self.constants[name])
        return tensor

    def allocate_constant(self, constant: Constant) -> None:
        """Hook of the eager interpreter: the constant's memory is allocated with its value."""

    def fresh_row(self, tensor: Tensor) -> Tensor:
        """Return the constant that fills a tensor in HBM with the content of unwritten memory."""
        return self.new_constant(fresh_row(tensor), dtype_of("uint8"), "unwritten")

    def shared_tensor(self) -> Tensor:
        """Return the most recent shared HBM tensor, or the first argument."""
        tensor = self.shared[self.shared_count - 1] if self.shared_count else None
        if tensor is None:
            tensor = next(iter(self.tensors.values()), None)
        if tensor is None or tensor.buffer is not MemoryRegion.shared_hbm:
            raise NkiValidationError(
                "the kernel has no shared HBM tensor to synchronise on",
                code="NKI-CORES",
                location=caller_location(2),
                remedy="pass one: nisa.core_barrier(data, (0, 1))",
                source="nisa.core_barrier",
            )
        return tensor

    def _unique(self, name: str, base: str) -> str:
        if name and not self.core and name not in self.tensors and name not in self._reserved:
            return name
        base = name or base
        while True:
            self._count += 1
            unique = f"{base}.{self._count}"
            if unique not in self.tensors and unique not in self._reserved:
                return unique + (f"c{self.core}" if self.core else "")

    def _adopt_shared(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        tensor = self.shared[self.shared_count]
        self.shared_count += 1
        if tensor.shape != shape or tensor.dtype != dtype:
            raise NkiValidationError(
                f"core {self.core} allocates shared HBM as {shape} {dtype} where core 0 allocates"
                f" {tensor.name!r} as {tensor.shape} {tensor.dtype}",
                code="NKI-CORES-DIVERGE",
                location=caller_location(3),
                remedy="allocate shared HBM tensors in the same order and shape on every core",
                source="nki/get-started/about/lnc.rst: all cores have the same control flow",
            )
        self.tensors[tensor.name] = tensor
        return tensor

    # -- registers and loops --------------------------------------------------------------

    def new_register(self, base: str = "reg") -> Register:
        """Return a new register."""
        self._registers += 1
        return Register(f"{base}.{self._registers}")

    def tensor_value(self, access: Access) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the elements of an access; only an eager interpreter has them."""
        raise NotImplementedError

    def register_value(self, register: Register) -> int:
        """Return the value of a register; only an eager interpreter has one."""
        raise NkiValidationError(
            f"the value of register {register.name} is not known while the kernel is traced",
            code="NKI-REGISTER-VALUE",
            location=caller_location(2),
            remedy="use nl.fori_loop or nl.while_loop for what depends on it",
        )

    def enter_loop(self, loop: ForLoop | WhileLoop | NoReorder) -> None:
        """Append a region; what is emitted from now on goes into its body."""
        self.block.append(loop)
        self.open.append((loop, self.block))
        self.block = loop.body

    def exit_loop(self, loop: ForLoop | WhileLoop | NoReorder) -> None:
        """Close a region that was entered.

        Raises:
            NkiValidationError: code ``NKI-LOOP-LEFT``; a loop inside it was left by ``break``,
                ``return`` or an exception, which no loop on the device can do.
        """
        self.require_closed(loop)
        _, self.block = self.open.pop()

    def require_closed(self, loop: ForLoop | WhileLoop | NoReorder | None = None) -> None:
        """Raise when another region than ``loop`` is the innermost open one.

        At the end of a kernel, also when a prepared collective was never triggered.
        """
        if loop is None and self.prepared is not None:
            raise NkiValidationError(
                "a collective was prepared and never triggered",
                code="NKI-COLLECTIVE",
                remedy="call its trigger once the data are there",
                source="nki.collectives.all_to_all_v_prepare (nki/api, NKI 0.7.0)",
            )
        if not self.open or self.open[-1][0] is loop:
            return
        left = self.open[-1][0]
        raise NkiValidationError(
            "a loop that runs on the device was left by break, return or an exception",
            code="NKI-LOOP-LEFT",
            location=left.location,
            remedy="let the loop run to its end; make its bound a register or use nl.while_loop",
            source="nki/deep-dives/nki-dynamic-loops.rst; KLR Trace/NKI.lean 419-421",
        )

    def enclosing_blocks(self, instruction: Instruction) -> list[Block]:
        """The block that holds an instruction and those around it, innermost first."""
        open_blocks = [self.block, *(block for _, block in reversed(self.open))]
        for position, block in enumerate(open_blocks):
            if any(statement is instruction for statement in reversed(block)):
                return open_blocks[position:]
        return _path_to(self.body, instruction) or []


def _path_to(block: Block, instruction: Instruction) -> list[Block] | None:
    for statement in block:
        if statement is instruction:
            return [block]
        if type(statement) is not Instruction:
            path = _path_to(statement.body, instruction)  # type: ignore[union-attr]
            if path is not None:
                return [*path, block]
    return None
