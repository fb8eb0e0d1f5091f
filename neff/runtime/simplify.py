"""Simplification of a program to fewer, larger steps.

A tile that the memory plan placed (``Tensor.fixed`` is False) and a scratch variable are
exclusive from their first write to their last read: that is the meaning of a placement
(``docs/neff-format.md``, "Placement"). So here they may live anywhere, which lets the executor
look through copies and join neighbours. Tensors that the user placed keep their address, and a
program that has some is left as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neff.program import Program
from neff.runtime.placement import shares_bytes
from neff.runtime.transposes_as_copies import transposes_as_copies, with_sorted_copies
from nki_lang.analysis.coalescing import coalesce
from nki_lang.analysis.forwarding import forward
from nki_lang.analysis.liveness import Slots, accesses_of, assign_slots
from nki_lang.analysis.splitting import split_tiles
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Block, Engine, Instruction, KernelIR, Tensor

__all__ = ["free_names", "simplify"]


def free_names(body: Block, program: Program) -> Block | None:
    """The body with tiles and scratch variables that may live anywhere.

    Args:
        body: instructions of the only core, in order.
        program: whose they are.

    Returns:
        None when the program has tensors at addresses that its user chose, or two that share
        bytes at the same time: then addresses are what counts.
    """
    if shares_bytes(body, program):
        return None
    scratch = {name for name, variable in program.variables.items() if variable.kind == "scratch"}
    return _Freed(scratch).block(body)


def simplify(body: Block, program: Program) -> tuple[Block, Slots]:
    """A body from :func:`free_names` with tiles looked through, and where the others live."""
    inputs, outputs = (
        tuple(program.variables[name].tensor for name in names)
        for names in (program.inputs, program.outputs)
    )
    kernel = KernelIR(program.name, program.target, 1, inputs, outputs, (body,))
    short = forward(body, kernel)
    straight = transposes_as_copies(short)
    if straight is not None:
        # Blocks that were transposed into banks of PSUM are forwarded as tiles of their own.
        split = split_tiles(straight, {tensor.name for tensor in (*inputs, *outputs)})
        if split is not straight:
            straight = with_sorted_copies(forward(split, replace(kernel, bodies=(split,))))
        short = coalesce(straight)
        short = forward(short, replace(kernel, bodies=(short,)))
    short = coalesce(short)
    return short, assign_slots(short)


class _Freed:
    """Takes the addresses from tiles and scratch variables."""

    def __init__(self, scratch: set[str]) -> None:
        self._scratch = scratch
        self._tensors: dict[int, tuple[Tensor, Tensor]] = {}
        self._accesses: dict[int, tuple[Access, Access]] = {}

    def block(self, body: Block) -> Block | None:
        """The body without addresses; None when some must be kept."""
        freed: Block = []
        for statement in body:
            if isinstance(statement, Instruction):
                if any(_is_fixed(access.tensor) for access in accesses_of(statement)):
                    return None
                operands = {key: self.operand(value) for key, value in statement.operands.items()}
                engine = Engine.vector if _is_engine_independent(statement) else statement.engine
                freed.append(replace(statement, operands=operands, engine=engine))
                continue
            inner = self.block(statement.body)
            if inner is None:
                return None
            freed.append(replace(statement, body=inner))
        return freed

    def operand(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Access:
            return self.access(value)
        if kind is tuple:
            return tuple(self.operand(entry) for entry in value)
        return value

    def access(self, access: Access) -> Access:
        cached = self._accesses.get(id(access))
        if cached is not None:
            return cached[1]
        freed = access._replace(tensor=self.tensor(access.tensor))
        if access.is_dynamic:
            freed = freed._replace(
                scalar_offset=self.operand(access.scalar_offset),
                vector_offset=self.operand(access.vector_offset),
            )
        self._accesses[id(access)] = (access, freed)
        return freed

    def tensor(self, tensor: Tensor) -> Tensor:
        cached = self._tensors.get(id(tensor))
        if cached is not None:
            return cached[1]
        freed = tensor
        if tensor.address is not None:
            freed = replace(tensor, address=None)
        elif tensor.name in self._scratch:
            freed = replace(tensor, buffer=MemoryRegion.private_hbm)
        self._tensors[id(tensor)] = (tensor, freed)
        return freed


_ENGINE_INDEPENDENT_OPS = frozenset(
    {"tensor_tensor", "tensor_scalar", "tensor_copy", "memset", "reciprocal"}
)
"""Instructions with equal float results on every engine that has them; integers differ, as GpSimd
is exact where Vector goes through float32.
"""


def _is_engine_independent(instruction: Instruction) -> bool:
    if instruction.op == "dma_copy":
        return True
    return instruction.op in _ENGINE_INDEPENDENT_OPS and all(
        access.element_type.kind == "float" for access in accesses_of(instruction)
    )


def _is_fixed(tensor: Tensor) -> bool:
    return tensor.fixed and tensor.address is not None
