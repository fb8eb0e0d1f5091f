"""Kernels between memory and the registers that loops, branches and runtime offsets have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nki_lang.isa as nisa
from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.task import Port, Task, window
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
"""Those of a kernel, by name."""


def counter_of(node: Node) -> str:
    """The register that counts the turns of a node's loop."""
    return loop_register(node.operands[0].attributes["ident"])


def loop_register(ident: int) -> str:
    """The register that counts a loop's turns, or holds its condition."""
    return f"loop{ident}"


def _register(name: str) -> Any:
    return VirtualRegister(Register(name))


def _loaded(tensors: Tensors, port: Port) -> Any:
    """A fresh register with a scalar; of a 64-bit integer the low word."""
    value = nisa.register_alloc()
    nisa.register_load(value, window(tensors[port.view.buffer], port, 0, [[1, 1]]))
    return value


def gate_task(gate: Port, register: str) -> Task:
    """The register is the predicate."""

    def body(tensors: Tensors) -> None:
        nisa.register_move(_register(register), _loaded(tensors, gate))

    return Task("condition", [gate.view.buffer], [], body)


def branch_task(which: Port, registers: list[str], predicate: bool) -> Task:
    """The register of the branch that is taken is 1, the others are 0."""

    def body(tensors: Tensors) -> None:
        index = _loaded(tensors, which)
        last = len(registers) - 1
        for number, name in enumerate(registers):
            if predicate:
                taken = index == 1 - number
            elif number < last:
                taken = index == number
            else:
                taken = (index < 0) | (index >= last)
            nisa.register_move(_register(name), taken)

    return Task("branch", [which.view.buffer], [], body)


def count_task(register: str, start: int, step: int, target: Port) -> Task:
    """``target = start + step * register``."""

    def body(tensors: Tensors) -> None:
        value = _register(register) * step + start
        place = window(tensors[target.view.buffer], target, 0, [[1, 1]])
        nisa.register_store(place, value)

    return Task("counter", [], [target.view.buffer], body)


@dataclass(frozen=True, slots=True)
class Term:
    """One index of an offset.

    Attributes:
        source: where the index is, or the register that holds it.
        stride: elements that one step of the index moves by.
        start: elements that are added, so that an offset which shrinks is never negative.
        last: the greatest index, which greater ones are taken for, and 0 for those below it;
            None for one that is always inside.
        unsigned: a value whose highest bit is set is greater than ``last``.
    """

    source: Port | str
    stride: int
    last: int | None = None
    unsigned: bool = False
    start: int = 0


def offset_task(register: str, terms: list[Term]) -> Task:
    """The register is the sum of the indices times their strides."""

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
