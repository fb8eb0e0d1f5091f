"""A program with other statements: memory placed and engines scheduled as the compiler does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from neff.compiler.assembly.assemble import scheduled
from neff.compiler.assembly.engines import EngineChooser
from neff.compiler.assembly.memory import ChipMemory
from neff.errors import NeffCompileError
from neff.profile.advice.order import statements_of
from neff.program import Program
from nki_lang.base.targets import Target, target_of
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop
from nki_lang.ir.types import Operand

__all__ = ["bodies_of", "mapped", "rebuilt"]


def bodies_of(program: Program) -> list[Block]:
    """The statements of each core."""
    return [statements_of(graph) for graph in program.subgraphs]


def rebuilt(program: Program, bodies: list[Block]) -> Program | None:
    """The program with these statements; None when they do not fit into the target's memory."""
    target = target_of(program.target)
    try:
        graphs = [scheduled(_placed(body, target), program.variables) for body in bodies]
    except NeffCompileError:
        return None
    return replace(program, subgraphs=graphs)


def _placed(body: Block, target: Target) -> Block:
    """Return the statements with every tensor on chip at a new address; equal names are one
    tensor.
    """
    free: dict[str, Tensor] = {}

    def unplaced(tensor: Tensor) -> Tensor:
        unplaced_tensor = free.get(tensor.name)
        if unplaced_tensor is None:
            unplaced_tensor = free[tensor.name] = replace(tensor, address=None)
        return unplaced_tensor

    body = EngineChooser(target).assign(with_tensors(body, unplaced))
    placed = ChipMemory(target).plan(body, "")
    return with_tensors(body, lambda tensor: placed[tensor.name])


def with_tensors(body: Block, tensor_of: Callable[[Tensor], Tensor]) -> Block:
    """The statements with other tensors on chip."""

    def renewed(access: Access) -> Access:
        if not access.tensor.on_chip:
            return access
        return access._replace(tensor=tensor_of(access.tensor))

    return [_statement(statement, renewed) for statement in body]


def _statement(
    statement: object, renewed: Callable[[Access], Access]
) -> Instruction | ForLoop | WhileLoop:
    if isinstance(statement, Instruction):
        return mapped(statement, renewed)
    assert isinstance(statement, ForLoop | WhileLoop)
    return replace(statement, body=[_statement(nested, renewed) for nested in statement.body])


def mapped(instruction: Instruction, renewed: Callable[[Access], Access]) -> Instruction:
    """Return the instruction with other accesses, including offsets that are accesses
    themselves.
    """
    operands = {name: _operand(value, renewed) for name, value in instruction.operands.items()}
    return replace(instruction, operands=operands)


def _operand(value: Operand, renewed: Callable[[Access], Access]) -> Operand:
    if type(value) is Access:
        access = renewed(value)
        if access.scalar_offset is not None or access.vector_offset is not None:
            access = access._replace(
                scalar_offset=_operand(access.scalar_offset, renewed),
                vector_offset=_operand(access.vector_offset, renewed),
            )
        return access
    if type(value) in (tuple, list):
        return tuple(_operand(element, renewed) for element in value)
    return value
