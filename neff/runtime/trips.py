"""How often each loop of a program runs, counted in one run of it on given inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from neff.program import EngineLoop, EngineStep, Program, Step, SubGraph
from neff.runtime.model import LoadedModel
from nki_lang.ir import Engine, Instruction, Register
from nki_lang.semantics.floats import engine_floats

__all__ = ["has_open_loops", "trips_of"]

_PREFIX = "loop iterations "
"""Prefix of the registers that count; names from kernels hold no spaces."""


def trips_of(
    program: Program, inputs: Mapping[str, object], location: str = ""
) -> list[dict[int, float]]:
    """Mean iterations of each loop in one run, each time that it is entered.

    Args:
        program: compiled.
        inputs: an array for every input by name.
        location: the file, for errors.

    Returns:
        For each core, loop ident -> iterations; what ``neff.timing.estimate`` takes as ``trips``.

    Raises:
        NeffRuntimeError: an input does not fit, or a fault while running.
    """
    if not has_open_loops(program):
        return [{} for _ in program.subgraphs]
    counting = replace(program, subgraphs=[_counting(graph) for graph in program.subgraphs])
    # By address: no simplification may drop registers that nothing else reads.
    model = LoadedModel(counting, program.name, location or program.name, by_address=True)
    with engine_floats():
        machine, _, _ = model.begin(inputs, {})
        machine.execute()
    return [
        dict(_means(_first(graph), state.registers, 1.0))
        for graph, state in zip(program.subgraphs, machine.states, strict=True)
    ]


def has_open_loops(program: Program) -> bool:
    """Return whether the iterations of some loop are known only at run time."""
    return any(loop.trips is None for graph in program.subgraphs for loop in _loops(_first(graph)))


def _first(graph: SubGraph) -> list[EngineStep]:
    """Steps of one engine; every engine has every loop."""
    return next(iter(graph.engines.values())) if graph.engines else []


def _loops(steps: list[EngineStep]) -> Iterator[EngineLoop]:
    for step in steps:
        if isinstance(step, EngineLoop):
            yield step
            yield from _loops(step.body)


def _counter(loop: EngineLoop) -> Register:
    return Register(f"{_PREFIX}{loop.ident}")


def _counting(graph: SubGraph) -> SubGraph:
    """The same core, with a register for each loop that its first engine counts in."""
    if not graph.engines:
        return graph
    engine, steps = next(iter(graph.engines.items()))
    zeros: list[EngineStep] = [
        Step(Instruction("register_alloc", {"dst": _counter(loop), "x": 0}, engine))
        for loop in _loops(steps)
    ]
    return replace(graph, engines=graph.engines | {engine: [*zeros, *_counted(steps, engine)]})


def _counted(steps: list[EngineStep], engine: Engine) -> Iterator[EngineStep]:
    for step in steps:
        if not isinstance(step, EngineLoop):
            yield step
            continue
        count = _counter(step)
        operands = {"dst": count, "op": "add", "src0": count, "src1": 1}
        one_more = Step(Instruction("register_alu", operands, engine))
        yield replace(step, body=[one_more, *_counted(step.body, engine)])


def _means(
    steps: list[EngineStep], registers: Mapping[str, int], entered: float
) -> Iterator[tuple[int, float]]:
    for step in steps:
        if isinstance(step, EngineLoop):
            iterations = registers[_counter(step).name]
            yield step.ident, iterations / entered if entered else 0.0
            yield from _means(step.body, registers, iterations)
