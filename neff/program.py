"""A compiled program: what the compiler makes, the container stores and the runtime runs.

Nothing here is vendor specific. Instructions are those of the kernel IR with every tensor
placed; the synchronisation between engines is explicit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from nki_lang.base.dtypes import BY_NAME, Array, DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Engine, Instruction, Register, Tensor, is_group

__all__ = [
    "GRAPH_ONLY", "KERNEL_LANGUAGE", "REAL_TYPES", "EngineLoop", "EngineStep", "Program", "Step",
    "SubGraph", "Variable",
    "VariableKind", "named_ranks",
]  # fmt: skip

VariableKind = str
"""``"input"``, ``"output"``, ``"constant"`` or ``"scratch"``."""

GRAPH_ONLY = "graph_only"
"""Key of ``Program.metadata``: true when no kernel of the user's is in the program."""

KERNEL_LANGUAGE = "kernel_language"
"""Key of ``Program.metadata``: ``"beta1"`` when a kernel of NKI beta 1 is in the program."""


REAL_TYPES = {
    "complex64": BY_NAME["float32"],
    "complex128": DType("float64", np.float64, "float"),
}
"""Complex type of an input or output -> type of the two numbers that each element consists of."""


@dataclass(slots=True)
class Variable:
    """A tensor in HBM.

    Attributes:
        name: unique in the program; instructions name it as ``Tensor.name`` with an HBM buffer.
        kind: input, output, constant or scratch.
        dtype: element type of the kernel language, or a NumPy name it lacks (``"float64"``).
        shape: extents.
        offset: byte offset in the core's scratch area (scratch only).
        value: the bytes of a constant as an array.
        alias: for an output, name of the input whose memory it shares, or "".
        core: physical core that owns it, or -1 when all cores share it.
        bounds: for an input of 64-bit integers, the least and greatest value for which the
            program, which computes them in 32 bits, is right.
    """

    name: str
    kind: VariableKind
    dtype: DType
    shape: tuple[int, ...]
    offset: int = 0
    value: Array | None = None
    alias: str = ""
    core: int = -1
    bounds: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        count = self.dtype.itemsize
        for extent in self.shape:
            count *= extent
        return count

    @property
    def tensor(self) -> Tensor:
        """The memory as instructions access it: a complex number is two real ones."""
        real = REAL_TYPES.get(self.dtype.name)
        dtype, shape = (self.dtype, self.shape) if real is None else (real, (*self.shape, 2))
        return Tensor(self.name, dtype, shape, MemoryRegion.shared_hbm)


@dataclass(slots=True)
class Step:
    """One instruction of one engine.

    A transfer (``dma_copy`` and its kind) is in the list of the engine that triggers it.
    It signals when the bytes have arrived, so whoever needs them waits for one of its signals,
    later steps of the same engine included. The transfers that one engine triggers arrive in the
    order of its list; those of different engines in any order.

    Attributes:
        instruction: its tensors are placed: on chip by ``Tensor.address``, in HBM by the
            name of a :class:`Variable` (same name, shape and dtype as its ``Tensor``, or a
            shape and dtype that cover at most the variable's bytes).
        waits: (semaphore, value): start only when each semaphore is at least that value.
        signals: semaphores incremented by one when the instruction is done.
    """

    instruction: Instruction
    waits: tuple[tuple[int, int], ...] = ()
    signals: tuple[int, ...] = ()


@dataclass(slots=True)
class EngineLoop:
    """A loop that all engines of a core run together.

    Every engine's program has the loop at the same place of the same nesting. All engines meet
    at its start, at the end of each iteration, and at its end, when all transfers triggered before
    have arrived. Semaphores count from zero in each
    turn, and behind the loop they hold what they held in front of it; so no wait reaches across
    a loop's edge. ``condition`` set: a while loop on that register, tested before each iteration;
    else a counted loop. ``ident`` is unique in a core's program and the same on each engine.
    An engine that does nothing in the loop has it all the same, with an empty body.
    """

    ident: int
    register: Register | None
    start: int | Register
    stop: int | Register
    step: int | Register
    condition: Register | None
    body: list[EngineStep]
    location: SourceLocation | None = None

    @property
    def trips(self) -> int | None:
        """How many iterations it has; None where only a run determines it."""
        start, stop, step = self.start, self.stop, self.step
        bounds = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
        if self.condition is not None or not bounds or not step:
            return None
        return len(range(start, stop, step))  # type: ignore[arg-type]


EngineStep = Step | EngineLoop


@dataclass(slots=True)
class SubGraph:
    """The program of one physical core: the steps of each engine, and how many semaphores.

    The keys are the engines with a sequencer of their own: tensor, vector, scalar, gpsimd, sync.
    Registers belong to the core: every engine sees one register file.
    """

    engines: dict[Engine, list[EngineStep]]
    semaphores: int = 0


@dataclass(slots=True)
class Program:
    """A whole compiled module.

    Attributes:
        name: module name.
        target: ``trn1``, ``trn2`` or ``trn3``.
        inputs: names of the input variables in parameter order.
        outputs: names of the output variables in result order.
        variables: every HBM tensor by name, in a deterministic order.
        subgraphs: one a physical core.
        scratch_bytes: size of the scratch area of one core.
        returns_tuple: the module's root is a tuple.
        metadata: facts for people and tools (compiler version, options, statistics); JSON values.
    """

    name: str
    target: str
    inputs: list[str]
    outputs: list[str]
    variables: dict[str, Variable]
    subgraphs: list[SubGraph]
    scratch_bytes: int = 0
    returns_tuple: bool = False
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def devices(self) -> int:
        """How many devices run it together, as the module says; 0 when nothing says it."""
        stated: dict[str, object] = self.metadata.get("devices", {})
        if type(stated) is not dict:  # a file may hold anything
            return 0
        counts = [stated.get(name) for name in ("replicas", "partitions")]
        return prod(count if type(count) is int and count > 0 else 0 for count in counts)


def named_ranks(program: Program) -> int:
    """How many ranks the groups of its instructions name at least; 0 for none."""
    ranks = [
        step.instruction.operands.get(name)
        for graph in program.subgraphs
        for steps in graph.engines.values()
        for step in _steps(steps)
        for name in ("replica_group", "source_target_pairs")
    ]
    return max((_ranks_in(value) for value in ranks), default=0)


def _ranks_in(value: object) -> int:
    """One more than the greatest number in nested tuples; a file may hold anything."""
    if is_group(value):
        return max((_ranks_in(element) for element in value), default=0)
    return value + 1 if type(value) is int else 0


def _steps(steps: list[EngineStep]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Step):
            yield step
        else:
            yield from _steps(step.body)
