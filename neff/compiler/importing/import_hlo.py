"""The table of imported opcodes, and the function that imports a module.

An opcode without a row becomes one node of the graph, which an expansion may replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neff.compiler.expansions.functions import FUNCTIONS
from neff.compiler.importing.importer import Function, Importer

if TYPE_CHECKING:
    from hlo_tools.ir.module import Module
    from hlo_tools.schema.messages import HloInstructionProto
    from neff.compiler.graph.nodes import Graph
    from neff.compiler.importing.devices import Devices
    from neff.compiler.importing.loops import Tree

__all__ = ["IMPORTED", "import_module"]


def import_module(module: Module, devices: Devices | None = None) -> Graph:
    """Return the graph of a module.

    Args:
        module: the module.
        devices: the devices that run the program together; None if their number is unknown.

    Raises:
        NeffCompileError: ``NEFF-OP`` for something that is not covered, ``NEFF-MODULE`` for a
            module that contradicts itself.
    """
    return Importer(module, devices, _FUNCTIONS).run()


def _operand(importer: Importer, row: HloInstructionProto, operands: list[Tree]) -> Tree:
    return operands[0] if operands else ()


def _second_element(importer: Importer, row: HloInstructionProto, operands: list[Tree]) -> Tree:
    """The results in the state of an asynchronous operation: (operands, results, ...)."""
    return operands[0][1]


def _tuple(importer: Importer, row: HloInstructionProto, operands: list[Tree]) -> Tree:
    return tuple(operands)


def _tuple_element(importer: Importer, row: HloInstructionProto, operands: list[Tree]) -> Tree:
    return operands[0][row.tuple_index]


@dataclass(frozen=True, slots=True)
class Import:
    """The import of one opcode.

    Attributes:
        description: the result, for the table in docs/compiler.md; empty if a lowering has it.
        function: imports an instruction; None if it becomes one node, which may be expanded.
    """

    description: str
    function: Function | None = None


_IMPORTS: dict[str, Import] = {
    **{opcode: Import("other functions, in float32") for opcode in FUNCTIONS},
    "add-dependency": Import("its operand", _operand),
    "after-all": Import("nothing; orders nothing here", _operand),
    "all-gather": Import("an instruction between devices, and a view", Importer.collective),
    "all-gather-done": Import("its operand's result", _second_element),
    "all-gather-start": Import("as `all-gather`", Importer.collective),
    "all-reduce": Import(
        "sums, maxima and minima of floats are one instruction between devices for all operands; anything else an exchange of the data, and the computation on each device",
        Importer.collective,
    ),
    "all-reduce-done": Import("its operand", _operand),
    "all-reduce-start": Import("as `all-reduce`", Importer.collective),
    "all-to-all": Import("an instruction between devices, and views", Importer.collective),
    "async-done": Import("its operand's result", _second_element),
    "async-start": Import("its computation, inlined", Importer.async_start),
    "async-update": Import("its operand", _operand),
    "atan2": Import("a polynomial, and the octant"),
    "call": Import("inlined", Importer.inlined),
    "collective-broadcast": Import(
        "permutations, which reach twice as many devices each time", Importer.collective
    ),
    "collective-permute": Import("a fill, and an instruction between devices", Importer.collective),
    "collective-permute-done": Import("its operand's result", _second_element),
    "collective-permute-start": Import("as `collective-permute`", Importer.collective),
    "collective-reduce": Import(
        "as `all-reduce`, and zeros on devices that are not the first of their group",
        Importer.collective,
    ),
    "complex": Import("a pair of real arrays (`complex_pairs/`)"),
    "conditional": Import(
        "the branch taken if that is known; else a branch on the device, or a choice between results that cost little",
        Importer.conditional,
    ),
    "constant": Import("a number in the instruction, or a constant of the program"),
    "copy": Import("its operand", _operand),
    "count-leading-zeros": Import("shifts and sums of bits"),
    "custom-call": Import(
        "a kernel (`AwsNeuronCustomNativeKernel`), a sharding annotation, or as below",
        Importer.custom_call,
    ),
    "domain": Import("its operand", _operand),
    "fft": Import(
        "products with matrices of roots of unity; lengths with large prime factors are convolutions (`complex_pairs/fourier.py`)"
    ),
    "fusion": Import("inlined", Importer.inlined),
    "get-tuple-element": Import("the element", _tuple_element),
    "imag": Import("the second array of the pair"),
    "mulhi": Import("products of halves of words"),
    "opt-barrier": Import("its operand", _operand),
    "parameter": Import("an input of the program"),
    "partition-id": Import("the rank, and a table", Importer.collective),
    "popcnt": Import("sums of bits"),
    "real": Import("the first array of the pair"),
    "reduce": Import("", Importer.reduce),
    "reduce-scatter": Import("as `all-reduce`", Importer.collective),
    "replica-id": Import("the rank, and a table", Importer.collective),
    "rng-bit-generator": Import(
        "integer arithmetic; Philox and Threefry, 32 bits from a state of 64", Importer.random_bits
    ),
    "scatter": Import("", Importer.scatter),
    "select-and-scatter": Import("sums over the places of a window"),
    "sort": Import(
        "on chip, by one number of each element; else a network of comparisons, whatever compares; equal elements keep their order",
        Importer.sort,
    ),
    "topk": Import(
        "eight at a time by the vector engine (`max8`); of 32-bit integers, or of most of a row, a sort, and its first elements",
        Importer.topk,
    ),
    "tuple": Import("its elements", _tuple),
    "while": Import(
        "a loop on the device; unrolled when its trip count is known and gives few operations",
        Importer.loop,
    ),
}

_FUNCTIONS = {opcode: row.function for opcode, row in _IMPORTS.items() if row.function}

IMPORTED: dict[str, str] = {
    opcode: row.description for opcode, row in _IMPORTS.items() if row.description
}
"""Opcode -> description, for opcodes that importing removes from the graph."""
