"""The values of the kernel IR.

``Access`` and ``SourceLocation`` are named tuples and not dataclasses because tracing creates
several of them for every instruction, and creating a tuple is four times faster than creating a
frozen dataclass. All of them are immutable, except that ``Instruction.depends_on`` grows while the
kernel is traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeGuard

from nki_lang.base.dtypes import Array, DType
from nki_lang.base.memory import ON_CHIP, MemoryRegion
from nki_lang.base.source import SourceLocation


class Engine(Enum):
    """Engines of a NeuronCore (nki.isa stub: ``engine``, same names and numbers)."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Tensor:
    """A region of memory.

    Attributes:
        name: unique in its kernel.
        dtype: element type.
        shape: extents. For SBUF and PSUM the first is the partition dimension.
        buffer: the memory that contains it.
        address: (start partition, byte offset in the partition) on chip; None until the memory
            plan assigns one.
        fixed: True if the user chose the address, which must not change.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    buffer: MemoryRegion
    address: tuple[int, int] | None = None
    fixed: bool = False

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM."""
        return self.buffer in ON_CHIP

    @property
    def free_elements(self) -> int:
        """Elements in one partition (on chip), or per index of the first dimension."""
        count = 1
        for extent in self.shape[1:]:
            count *= extent
        return count

    @property
    def free_bytes(self) -> int:
        """Bytes that the tensor occupies in each of its partitions."""
        return self.free_elements * self.dtype.itemsize

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.free_elements * (self.shape[0] if self.shape else 1)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.elements * self.dtype.itemsize


class Register(NamedTuple):
    """A 32-bit signed scalar register of the engines' sequencers."""

    name: str


class Access(NamedTuple):
    """An access pattern: the elements of a tensor that an instruction uses, in order.

    Element ``(i0, i1, ...)`` of the access is element ``offset + sum(i_k * step_k)`` of the
    tensor's storage, counted row-major over the tensor's shape in units of the access's dtype
    (``dtype`` if given, else the tensor's). On chip the first pair is the partition dimension
    and its step is a multiple of the elements per partition.

    Attributes:
        tensor: the storage.
        offset: first element.
        pattern: (step, count) for each dimension; a step may be 0 (broadcast) or negative.
        scalar_offset: a register, or a one-element access holding an integer; its value times
            :attr:`index_step` is added to the offset.
        vector_offset: an access of integers. In HBM with ``indirect_dim`` 0: one for each index
            of the first dimension of the pattern; index ``i0`` then counts
            ``vector_offset[i0] * index_step`` instead of ``i0 * pattern[0].step`` (gather or
            scatter). On chip with ``indirect_dim`` 1: tensor indirection (``.indirect()``), the
            index of the second dimension of the pattern is read from it in the snake order of
            the engine, one list for each group of partitions.
        indirect_dim: dimension of the tensor's shape that these two offsets index.
        dtype: reinterpret the bytes as this type.
        indirect_step: set when one index counts another number of elements (of the access's
            dtype) than one step of ``indirect_dim`` does, because the view was reshaped.
    """

    tensor: Tensor
    offset: int
    pattern: tuple[tuple[int, int], ...]
    scalar_offset: Register | Access | None = None
    vector_offset: Access | None = None
    indirect_dim: int = 0
    dtype: DType | None = None
    indirect_step: int | None = None

    @property
    def index_step(self) -> int:
        """Elements (of the access's dtype) that one scalar or vector index counts for."""
        if self.indirect_step is not None:
            return self.indirect_step
        step = 1
        for extent in self.tensor.shape[self.indirect_dim + 1 :]:
            step *= extent
        if self.dtype is None:
            return step
        return step * self.tensor.dtype.itemsize // self.dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return tuple([count for _, count in self.pattern])

    @property
    def element_type(self) -> DType:
        """The type that the bytes are read or written as."""
        return self.dtype or self.tensor.dtype

    @property
    def is_dynamic(self) -> bool:
        """True when the elements are known only while the kernel runs."""
        return self.scalar_offset is not None or self.vector_offset is not None


Operand = Any
"""An operand of an instruction: Access, Register, int, float, bool, str (an operator such as
``"add"``, or the name of an enum member), DType, None, or a tuple of these."""


def is_group(value: object) -> TypeGuard[tuple[Operand, ...]]:
    """Return True for an operand that is a tuple of operands (an access is one operand)."""
    return type(value) is tuple


@dataclass(slots=True)
class Instruction:
    """One instruction.

    Attributes:
        op: name of its row in the instruction table (``"tensor_tensor"``, as in nki.isa).
        operands: every parameter of the public function by its name, defaults included, without
            ``engine`` and ``name``.
        engine: the engine that runs it; ``Engine.unknown`` leaves the choice to the compiler.
        name: the name that the user gave, or "".
        location: the user's line.
        depends_on: names of instructions that must complete before (``depends_on`` of the API).
    """

    op: str
    operands: dict[str, Operand]
    engine: Engine = Engine.unknown
    name: str = ""
    location: SourceLocation | None = None
    depends_on: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from nki_lang.ir.text import statement_to_text

        return statement_to_text(self)


def with_operands(instruction: Instruction, operands: dict[str, Operand]) -> Instruction:
    """Return the instruction with other operands (several times faster than dataclasses.replace)."""
    return Instruction(
        instruction.op,
        operands,
        instruction.engine,
        instruction.name,
        instruction.location,
        instruction.depends_on,
    )


@dataclass(slots=True)
class ForLoop:
    """A counted loop that runs on the device. ``register`` holds the index, frozen in the body."""

    register: Register
    start: int | Register
    stop: int | Register
    step: int | Register
    body: Block
    location: SourceLocation | None = None


@dataclass(slots=True)
class WhileLoop:
    """A loop that runs on the device while ``condition``, tested before each iteration, is not zero."""

    condition: Register
    body: Block
    location: SourceLocation | None = None


@dataclass(slots=True)
class NoReorder:
    """Instructions that must stay in this order (``nl.no_reorder``)."""

    body: Block
    location: SourceLocation | None = None


Statement = Instruction | ForLoop | WhileLoop | NoReorder
Block = list[Statement]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant that travels with the kernel as an extra input (an identity matrix, say)."""

    tensor: Tensor
    value: Array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self.tensor == other.tensor and bool(self.value.tobytes() == other.value.tobytes())

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class KernelIR:
    """A traced kernel, specialised for its input shapes, one target and one core count.

    Attributes:
        name: the Python function's name.
        target: family, ``"trn1"``, ``"trn2"`` or ``"trn3"``.
        lnc: number of cores that run it together (1 or 2); ``len(bodies)``.
        grid: launch grid as given, ``()`` without one.
        inputs: HBM tensors in call order (constants not among them).
        outputs: HBM tensors in the order of the return value. An argument that the kernel
            writes in place is in both.
        constants: extra inputs after ``inputs``, in order.
        bodies: the statements of each core.
        returns_tuple: True if the kernel returned a tuple or list (also one of a single tensor).
        has_collectives: True if the kernel communicates with other ranks.
        metadata: ``returned`` counts the outputs that the function returned, ``structure`` is their
            nesting unless it is plain, ``language`` is ``"beta1"`` for a kernel of NKI beta 1.
    """

    name: str
    target: str
    lnc: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    bodies: tuple[Block, ...]
    constants: tuple[Constant, ...] = ()
    grid: tuple[int, ...] = ()
    returns_tuple: bool = False
    has_collectives: bool = False
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def aliases(self) -> dict[int, int]:
        """Index of an output -> index of the input that it overwrites (in-place arguments)."""
        position = {tensor.name: index for index, tensor in enumerate(self.inputs)}
        return {
            index: position[tensor.name]
            for index, tensor in enumerate(self.outputs)
            if tensor.name in position
        }

    def __str__(self) -> str:
        from nki_lang.ir.text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        count = sum(1 for _ in self.instructions())
        cores = f" on {self.lnc} cores" if self.lnc > 1 else ""
        inputs, outputs = (
            ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in tensors)
            for tensors in (self.inputs, self.outputs)
        )
        head = f"KernelIR {self.name} for {self.target}{cores}"
        return f"<{head}: {count} instructions, ({inputs}) -> ({outputs}); print it to see them>"

    def instructions(self) -> Iterator[Instruction]:
        """Yield every instruction of every core in program order; a loop body once."""
        for body in self.bodies:
            yield from walk(body)


def walk(block: Block) -> Iterator[Instruction]:
    """Yield every instruction of a block in program order; a loop body once."""
    for statement in block:
        if type(statement) is Instruction:
            yield statement
        else:
            yield from walk(statement.body)  # type: ignore[union-attr]
