"""The estimated cost of an instruction's example, for its page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import nki_lang
from neff.timing import InstructionCosts, Parameters
from neff.timing.parameters import Side
from nki_lang.ir import Block, Engine, Instruction
from nki_lang.isa.table import TABLE
from scripts.reference.examples import EXAMPLES, TARGETS, kernel_of

__all__ = ["cost_of"]

_GENERATIONS = {"trn1": 2, "trn2": 3, "trn3": 4}


def cost_of(name: str) -> str:
    """A table with the cost of the example's instruction on each target, as Markdown."""
    if name not in EXAMPLES or name.startswith("register_"):
        return ""
    rows = [row for target in _GENERATIONS for row in _row(name, target)]
    if not rows:
        return ""
    head = "| target | engine | interval, ns | latency, ns | from measured costs |\n|---|---|---|---|---|\n"
    note = (
        "\nEstimates of the timing model for the example's last such instruction, alone: the interval"
        " until its engine\nstarts the next one, the latency until the result is there, each with"
        " the range that the parameters give ([how far to trust them](../timing.md)).\n"
    )
    return f"\n**Cost**\n\n{head}{''.join(rows)}{note}"


def _row(name: str, target: str) -> Iterator[str]:
    spec = TABLE[name]
    if _GENERATIONS[target] < spec.minimum:
        return
    with tempfile.TemporaryDirectory() as folder:
        kernel = kernel_of(name, EXAMPLES[name], Path(folder))
        x = np.zeros((128, 512), np.float32)
        try:
            traced = nki_lang.trace(kernel, (x,), target=target, grid=TARGETS.get(name, ()))
        except nki_lang.NkiValidationError:
            return  # the example is for another target
    inst = [candidate for candidate in _walk(traced.bodies[0]) if candidate.op == name][-1]
    if inst.engine is Engine.unknown:
        inst = replace(inst, engine=min(spec.engines[_GENERATIONS[target]], key=_preferred))
    costs = [InstructionCosts(Parameters(target), side=side).of(inst) for side in Side]
    interval = _span([cost.interval for cost in costs])
    latency = _span([cost.latency for cost in costs])
    measured_share = f"{costs[Side.nominal].measured_share:.0%}"
    yield f"| {target} | {inst.engine.name} | {interval} | {latency} | {measured_share} |\n"


def _span(values: list[float]) -> str:
    return f"{values[Side.nominal]:.0f} ({min(values):.0f}–{max(values):.0f})"


def _preferred(engine: Engine) -> int:
    order = (Engine.dma, Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd, Engine.sync)
    return order.index(engine)


def _walk(block: Block) -> Iterator[Instruction]:
    for statement in block:
        if isinstance(statement, Instruction):
            yield statement
        elif hasattr(statement, "body"):
            yield from _walk(statement.body)
