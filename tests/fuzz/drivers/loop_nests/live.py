"""The live parts of a loop nest: statements, states and inputs that its results depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Branch,
    Compute,
    ForLoop,
    Nest,
    Operand,
    Statement,
    Variable,
    WhileLoop,
    bodies_of,
    operands_of,
    targets_of,
)  # fmt: skip

__all__ = ["cleaned_nest", "names_read", "reads", "with_body"]


def with_body(statement: Statement, position: int, body: Body) -> Statement:
    """The statement with another body at a place of ``bodies_of``."""
    match statement:
        case Compute():
            raise AssertionError("a computation has no body")
        case WhileLoop():
            return replace(statement, test=body) if position == 0 else replace(statement, body=body)
        case Branch():
            bodies = (*statement.bodies[:position], body, *statement.bodies[position + 1 :])
            return replace(statement, bodies=bodies)
        case _:
            return replace(statement, body=body)


def reads(body: Body, name: str) -> bool:
    """True when a body reads a name of the bodies around it, or of its own."""
    return name in names_read(body)


def names_read(body: Body) -> set[str]:
    """Every name that a body reads, also in the bodies within."""
    operands = list[Operand](body.results)
    for statement in body.statements:
        operands += operands_of(statement)
    names = {operand.name for operand in operands if isinstance(operand, Variable)}
    for statement in body.statements:
        for inner in bodies_of(statement):
            names |= names_read(inner)
    return names


def cleaned_nest(nest: Nest) -> Nest:
    """Without statements, parts of states and inputs that nothing reads."""
    while True:
        body = _live(nest.body)
        read = names_read(body)
        inputs = tuple(argument for argument in nest.inputs if argument.variable.name in read)
        body = replace(body, parameters=tuple(argument.variable for argument in inputs))
        cleaned = replace(nest, inputs=inputs, body=body)
        if cleaned == nest:
            return nest
        nest = cleaned


def _live(body: Body) -> Body:
    needed = {result.name for result in body.results if isinstance(result, Variable)}
    positions: list[Statement] = []
    for statement in reversed(body.statements):
        if not any(target.name in needed for target in targets_of(statement)):
            continue
        statement = _narrowed(statement, needed)
        for position, inner in enumerate(bodies_of(statement)):
            inner = _live(inner)
            statement = with_body(statement, position, inner)
            needed |= names_read(inner)
        needed |= {
            operand.name for operand in operands_of(statement) if isinstance(operand, Variable)
        }
        positions.append(statement)
    return replace(body, statements=tuple(reversed(positions)))


def _narrowed(statement: Statement, needed: set[str]) -> Statement:
    """Without parts of the state, or results, that nothing reads."""
    match statement:
        case ForLoop():
            counter, *state = statement.body.parameters
            positions = _kept(statement.targets, state, statement.body, needed)
            body = replace(
                statement.body, parameters=(counter, *_at(state, positions)),
                results=_at(statement.body.results, positions),
            )  # fmt: skip
            return replace(
                statement, targets=_at(statement.targets, positions), inits=_at(statement.inits, positions),
                body=body, structure=_fitting(statement.structure, len(positions)),
            )  # fmt: skip
        case WhileLoop():
            state = statement.body.parameters
            tested = names_read(statement.test)
            more = {
                parameter.name
                for parameter, test in zip(state, statement.test.parameters, strict=True)
                if test.name in tested
            }
            positions = _kept(statement.targets, state, statement.body, needed | more)
            test = replace(statement.test, parameters=_at(statement.test.parameters, positions))
            body = replace(
                statement.body,
                parameters=_at(state, positions),
                results=_at(statement.body.results, positions),
            )
            return replace(
                statement, targets=_at(statement.targets, positions), inits=_at(statement.inits, positions),
                test=test, body=body, structure=_fitting(statement.structure, len(positions)),
            )  # fmt: skip
        case Branch():
            positions = [
                position
                for position, target in enumerate(statement.targets)
                if target.name in needed
            ]
            bodies = tuple(
                replace(body, results=_at(body.results, positions)) for body in statement.bodies
            )
            return replace(statement, targets=_at(statement.targets, positions), bodies=bodies)
        case _:
            return statement


def _at(values: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(values[position] for position in positions)


def _fitting(structure: str, size: int) -> str:
    return "tuple" if structure == "single" and size != 1 else structure


def _kept(
    targets: Sequence[Variable], state: Sequence[Variable], body: Body, needed: set[str]
) -> list[int]:
    """Parts of a state that something behind the loop, or another kept part, needs."""
    offset = len(body.results) - len(state)
    assert offset == 0
    positions = {position for position, target in enumerate(targets) if target.name in needed}
    positions |= {position for position, parameter in enumerate(state) if parameter.name in needed}
    while True:
        results = _at(body.results, sorted(positions))
        read = names_read(_live(replace(body, results=results)))
        more = {position for position, parameter in enumerate(state) if parameter.name in read}
        if more <= positions:
            return sorted(positions)
        positions |= more
