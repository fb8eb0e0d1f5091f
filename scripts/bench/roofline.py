"""The least that a module asks of each part of one core, whatever program is made of it.

* ``HBM``: every parameter that is read comes in once, every result goes out once, at the rate of
  the sixteen DMA engines or of the HBM, whichever is lower.
* ``TensorE``: multiply-adds of ``dot`` and ``convolution`` over 128 x 128 cells; in fp32 each takes
  ``2 * tensor.fp32_cycles`` cycles.
* ``ScalarE``: exponentials, logarithms, hyperbolic tangents, error functions, roots and sigmoids
  of arrays, one a cycle and lane: no other engine has them.
* ``VectorE``: maxima and minima in reductions, and what scans read, one a cycle and lane. A sort
  counts each element in each of the k (k + 1) / 2 steps of a network of compare-exchanges for rows of
  2^k; the greatest n elements count each element in one search and one replacement for each eight of
  n. Sums and other arithmetic are not counted: every engine has them, TensorE as a product with ones.
* ``Words``: 32-bit integer and bit operations, as random bits need: VectorE and GpSimd have them, each
  two operations of an element in one instruction, an element a cycle and lane.

The body of a loop counts as often as it runs. A function of a value that a broadcast repeats
counts once for each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.trip_counts import trip_count
from hlo_tools.stats.flops import FORMULAS, Extent
from hlo_tools.types.element_types import BY_NUMBER
from neff.timing import Parameters
from neff.timing.work import LANES

FUNCTIONS = frozenset(
    {"cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
     "rsqrt", "sine", "sqrt", "tan", "tanh"}
)  # fmt: skip
CALLS = frozenset({"call", "fusion", "while", "conditional"})
COMPARED = frozenset({"sort", "topk", "reduce-window"})
WORD_OPERATIONS = frozenset(
    {"add", "and", "multiply", "not", "or", "shift-left", "shift-right-arithmetic",
     "shift-right-logical", "subtract", "xor"}
)  # fmt: skip
EXTREMES = frozenset({"maximum", "minimum"})
PARTITIONS = 128


@dataclass(frozen=True)
class Minimum:
    """Nanoseconds of each part; bytes to and from HBM."""

    times: dict[str, float]
    nbytes: int

    @property
    def bound(self) -> str:
        return max(self.times, key=lambda name: self.times[name])

    @property
    def longest(self) -> float:
        return self.times[self.bound]


_NAMES = (
    "dma.hbm_gb_per_s", "dma.bytes_per_ns", "tensor.clock_ghz", "tensor.fp32_cycles",
    "scalar.clock_ghz", "vector.clock_ghz",
)  # fmt: skip


def minimum_of(module: Module, parameters: Parameters) -> Minimum:
    """The minimum of one core of a generation."""
    p = {name: parameters[name].value for name in _NAMES}
    work = _Work()
    work.add(module.entry.root, 1)
    rate = min(p["dma.hbm_gb_per_s"], LANES * p["dma.bytes_per_ns"])
    cells = PARTITIONS * PARTITIONS * p["tensor.clock_ghz"]
    nbytes = work.read + _bytes(module.entry.root.proto.shape)
    times = {
        "HBM": nbytes / rate,
        "TensorE": (work.half + work.full * 2 * p["tensor.fp32_cycles"]) / cells,
        "ScalarE": work.functions / PARTITIONS / p["scalar.clock_ghz"],
        "VectorE": work.compared / PARTITIONS / p["vector.clock_ghz"],
        "Words": work.words / 4 / PARTITIONS / p["vector.clock_ghz"],
    }
    return Minimum(times, nbytes)


class _Work:
    """The work that the results need: bytes read, multiply-adds in 16 bits and in fp32, functions,
    elements that are compared."""

    def __init__(self) -> None:
        self.read = 0
        self.half = self.full = self.functions = self.compared = self.words = 0.0

    def add(self, root: Instruction, times: int) -> None:
        """Everything that an instruction needs, so often."""
        visited: set[int] = set()
        stack = [root]
        while stack:
            inst = stack.pop()
            if inst.id in visited:
                continue
            visited.add(inst.id)
            stack += inst.operands
            self._one(inst, times)

    def _one(self, inst: Instruction, times: int) -> None:
        opcode = inst.opcode
        if opcode == "parameter" and inst.computation.is_entry:
            self.read += _bytes(inst.proto.shape)
        elif opcode in ("dot", "convolution"):
            extents = [_extent(operand) for operand in inst.operands]
            products = FORMULAS[opcode](inst.proto, _extent(inst), extents) // 2 * times
            if any(
                BY_NUMBER[operand.proto.shape.element_type].bits > 16 for operand in inst.operands
            ):
                self.full += products
            else:
                self.half += products
        elif opcode in FUNCTIONS:
            self.functions += _distinct(inst) * times
        elif opcode in COMPARED or _is_extreme(inst):
            self.compared += prod(inst.operands[0].proto.shape.dimensions) * _passes(inst) * times
        elif opcode in WORD_OPERATIONS and _is_word(inst):
            self.words += prod(inst.proto.shape.dimensions) * times
        elif opcode in CALLS:
            iterations = (trip_count(inst) or 1) if opcode == "while" else 1
            for computation in inst.called_computations:
                self.add(computation.root, times * iterations)


def _passes(inst: Instruction) -> int:
    """Return how often a sort, or the search of the greatest elements, reads each element."""
    if inst.opcode == "sort":
        steps = (inst.operands[0].proto.shape.dimensions[inst.proto.dimensions[0]] - 1).bit_length()
        return max(1, steps * (steps + 1) // 2)
    if inst.opcode == "topk":
        return 2 * -(-inst.proto.k // 8) - 1
    return 1


def _is_word(inst: Instruction) -> bool:
    return BY_NUMBER[inst.proto.shape.element_type].name in ("s32", "u32")


def _is_extreme(inst: Instruction) -> bool:
    return inst.opcode == "reduce" and inst.called_computations[0].root.opcode in EXTREMES


def _distinct(inst: Instruction) -> int:
    operand = inst.operands[0]
    if operand.opcode == "broadcast":
        operand = operand.operands[0]
    return prod(operand.proto.shape.dimensions)


def _extent(inst: Instruction) -> Extent:
    dimensions = tuple(inst.proto.shape.dimensions)
    return Extent(prod(dimensions), _bytes(inst.proto.shape), dimensions, 1)


def _bytes(shape: Any) -> int:
    if BY_NUMBER[shape.element_type].name == "tuple":
        return sum(_bytes(member) for member in shape.tuple_shapes)
    return prod(shape.dimensions) * max(8, BY_NUMBER[shape.element_type].bits) // 8
