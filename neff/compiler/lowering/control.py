"""Kernels that move values between memory and the registers of loops, branches and runtime
offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nki_lang.isa as nisa
from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.tiles.task import Port, Task, window
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.ir import Register

__all__ = [
    "Term",
    "branch_task",
    "count_task",
    "counter_of",
    "gate_task",
    "loop_register",
    "offset_task",
]

Tensors = dict[str, Any]
"""Tensors of a kernel by name."""


def counter_of(node: Node) -> str:
    """Return the register that counts the iterations of a node's loop."""
    return loop_register(node.operands[0].attributes["ident"])


def loop_register(ident: int) -> str:
    """Return the register that counts a loop's iterations, or holds its condition."""
    return f"loop{ident}"


def _register(name: str) -> Any:
    return VirtualRegister(Register(name))


def _loaded(tensors: Tensors, port: Port) -> Any:
    """Load a scalar into a fresh register; the low word of a 64-bit integer."""
    value = nisa.register_alloc()
    nisa.register_load(value, window(tensors[port.view.buffer], port, 0, [[1, 1]]))
    return value


def gate_task(gate: Port, register: str) -> Task:
    """Return a kernel that loads a predicate into a register."""

    def body(tensors: Tensors) -> None:
        nisa.register_move(_register(register), _loaded(tensors, gate))

    return Task("condition", [gate.view.buffer], [], body)


def branch_task(which: Port, registers: list[str], predicate: bool) -> Task:
    """Return a kernel that sets the register of the taken branch to 1 and the others to 0."""

    def body(tensors: Tensors) -> None:
        index = _loaded(tensors, which)
        last = len(registers) - 1
        for number, name in enumerate(registers):
            if predicate:
                is_taken = index == 1 - number
            elif number < last:
                is_taken = index == number
            else:
                is_taken = (index < 0) | (index >= last)
            nisa.register_move(_register(name), is_taken)

    return Task("branch", [which.view.buffer], [], body)


def count_task(register: str, start: int, step: int, target: Port) -> Task:
    """Return a kernel that computes ``target = start + step * register``."""

    def body(tensors: Tensors) -> None:
        value = _register(register) * step + start
        location = window(tensors[target.view.buffer], target, 0, [[1, 1]])
        nisa.register_store(location, value)

    return Task("counter", [], [target.view.buffer], body)


@dataclass(frozen=True, slots=True)
class Term:
    """An index of an offset, with its stride.

    Attributes:
        source: the location of the index, or the register that holds it.
        stride: elements that one step of the index moves by.
        start: elements that are added, so that a decreasing offset is never negative.
        last: the greatest valid index, to which the index is clamped (and to 0 from below); None
            for an index that is always valid.
        unsigned: a value whose highest bit is set is greater than ``last``.
    """

    source: Port | str
    stride: int
    last: int | None = None
    unsigned: bool = False
    start: int = 0


def offset_task(register: str, terms: list[Term]) -> Task:
    """Return a kernel that computes the sum of the indices times their strides into a register."""

    def body(tensors: Tensors) -> None:
        total: Any = 0
        for term in terms:
            if isinstance(term.source, str):
                index = _register(term.source)
            else:
                index = _loaded(tensors, term.source)
            if term.last is not None:
                below = index < 0
                index = index * (index >= 0)
                index = index - (index - term.last) * (index > term.last)
                if term.unsigned:
                    index = index + below * term.last
            total = index * term.stride + total
            total = total + term.start if term.start else total
        nisa.register_move(_register(register), total)

    ports = [term.source for term in terms if isinstance(term.source, Port)]
    return Task("offset", list(dict.fromkeys(port.view.buffer for port in ports)), [], body)
