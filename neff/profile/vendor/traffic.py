"""Reads, writes and FLOPs of one instruction."""

from __future__ import annotations

from dataclasses import dataclass

from neff.compiler.assembly.regions import operands_touched
from neff.program import Program
from neff.timing import Pricing
from neff.timing.transfers import COPIES, transfer_of
from neff.timing.work import Transfer
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Instruction

__all__ = ["Traffic", "Traffics"]

_CHIP = {MemoryRegion.sbuf: "sbuf", MemoryRegion.psum: "psum"}
_QUEUES = {"software": "software_dynamic", "hardware": "hardware_dynamic", "static": "data"}
_FACTORS = {4: 4.0, 2: 1.0}
"""Adjusted FLOPs of one FLOP by bytes of an element (schema page): fp32 4, 16-bit types 1."""


@dataclass(slots=True)
class Traffic:
    """Bytes and FLOPs of one instruction.

    Attributes:
        sbuf_read, sbuf_write, psum_read, psum_write, hbm_read, hbm_write: bytes.
        variable: the variable of the program that it moves, "" for none.
        kind: of that variable.
        queue_type: of a transfer, as the schema names it.
        packets: of a transfer.
        flops, flops_transpose: of the tensor engine; of products, and of transposes.
        factor: by which FLOPs of its types are multiplied.
        source, dest: the first access that is read, and written.
    """

    sbuf_read: int = 0
    sbuf_write: int = 0
    psum_read: int = 0
    psum_write: int = 0
    hbm_read: int = 0
    hbm_write: int = 0
    variable: str = ""
    kind: str = ""
    queue_type: str = ""
    packets: int = 0
    flops: int = 0
    flops_transpose: int = 0
    factor: float = 1.0
    source: Access | None = None
    dest: Access | None = None


class Traffics:
    """Traffic of the instructions of a program, each worked out once."""

    def __init__(self, program: Program, pricing: Pricing, is_static: bool) -> None:
        self._program, self._pricing, self._is_static = program, pricing, is_static
        self._cached: dict[int, Traffic] = {}

    def of(self, instruction: object) -> Traffic:
        """Return the traffic of an event's instruction; none for an event without one."""
        if type(instruction) is not Instruction:
            return Traffic()
        traffic = self._cached.get(id(instruction))
        if traffic is None:
            traffic = self._cached[id(instruction)] = self._traffic(instruction)
        return traffic

    def _traffic(self, instruction: Instruction) -> Traffic:
        traffic = Traffic()
        for operand, is_written in operands_touched(instruction):
            if type(operand) is Access:
                self._count(traffic, operand, is_written)
        if instruction.op in COPIES:
            transfer = transfer_of(instruction, self._is_static)
            if isinstance(transfer, Transfer):
                cost = self._pricing.cost(transfer)
                traffic.packets = cost.packets * cost.lane_count + cost.extra_packets
                traffic.queue_type = _QUEUES[transfer.descriptors]
        if instruction.op in ("nc_matmul", "nc_matmul_mx", "nc_transpose"):
            _compute(traffic, instruction)
        return traffic

    def _count(self, traffic: Traffic, access: Access, is_written: bool) -> None:
        memory = _CHIP.get(access.tensor.buffer, "hbm")
        name = f"{memory}_{'write' if is_written else 'read'}"
        setattr(traffic, name, getattr(traffic, name) + _bytes(access))
        if is_written and traffic.dest is None:
            traffic.dest = access
        if not is_written and traffic.source is None:
            traffic.source = access
        variable = self._program.variables.get(access.tensor.name) if memory == "hbm" else None
        if variable is not None and not traffic.variable:
            traffic.variable, traffic.kind = variable.name, variable.kind


def _compute(traffic: Traffic, instruction: Instruction) -> None:
    """FLOPs of the tensor engine: 2 K M N; a transpose multiplies by an identity matrix."""
    operands = instruction.operands
    data = operands.get("data")
    if type(data) is Access:  # a transpose: [K, M] by the identity of K
        rows, columns = data.pattern[0][1], _columns(data)
        traffic.flops_transpose = 2 * rows * rows * columns
        return
    stationary, moving = operands.get("stationary"), operands.get("moving")
    if type(stationary) is not Access or type(moving) is not Access:
        return
    flops = 2 * stationary.pattern[0][1] * _columns(stationary) * _columns(moving)
    size = max(stationary.element_type.itemsize, moving.element_type.itemsize)
    traffic.factor = _FACTORS.get(size, 1.0)
    if operands.get("is_transpose"):
        traffic.flops_transpose = flops
    else:
        traffic.flops = flops * (4 if instruction.op == "nc_matmul_mx" else 1)


def _columns(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count


def _bytes(access: Access) -> int:
    count = access.element_type.itemsize
    for _, extent in access.pattern:
        count *= extent
    return count
