"""Smaller loop nests: each changes one place, and drops what nothing reads any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from tests.fuzz.drivers.loop_nests.live import cleaned_nest, reads, with_body
from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Branch,
    Compute,
    ForLoop,
    Map,
    Nest,
    Number,
    Operand,
    Scan,
    Statement,
    Variable,
    WhileLoop,
    bodies_of,
    operands_of,
    targets_of,
    walk,
)  # fmt: skip

__all__ = ["smaller_nests"]

Names = Mapping[str, Operand]


def smaller_nests(nest: Nest) -> Iterator[Nest]:
    """The largest changes first."""
    if len(nest.body.results) > 1:
        for result in nest.body.results:
            yield cleaned_nest(replace(nest, body=replace(nest.body, results=(result,))))
    for body in _changed_bodies(nest.body, _without_statement):
        yield cleaned_nest(replace(nest, body=body))
    for body in _changed_bodies(nest.body, _simplified):
        yield cleaned_nest(replace(nest, body=body))
    if any(argument.donated for argument in nest.inputs):
        yield replace(
            nest, inputs=tuple(replace(argument, donated=False) for argument in nest.inputs)
        )
    for argument in nest.inputs:
        number = _constant(nest, argument.variable)
        if number is not None:
            yield cleaned_nest(number)


def _constant(nest: Nest, variable: Variable) -> Nest | None:
    """With a constant in the place of an input."""
    body = nest.body
    if variable not in body.parameters or not reads(body, variable.name):
        return None
    replaced = _fresh(nest, variable, "x")
    fill = Compute(replaced, "full", (Number(2),))
    if variable.dtype == "bool":
        return None
    body = _renamed(body, {variable.name: replaced})
    return replace(nest, body=replace(body, statements=(fill, *body.statements)))


def _fresh(nest: Nest, like: Variable, prefix: str) -> Variable:
    present = {argument.variable.name for argument in nest.inputs}
    present |= {target.name for statement in walk(nest.body) for target in targets_of(statement)}
    name = next(f"{prefix}c{number}" for number in count() if f"{prefix}c{number}" not in present)
    return replace(like, name=name)


def _changed_bodies(body: Body, change) -> Iterator[Body]:  # type: ignore[no-untyped-def]
    """The body with one statement changed, here or in a body within."""
    for number in reversed(range(len(body.statements))):
        yield from change(body, number)
    for number, statement in enumerate(body.statements):
        for position, inner in enumerate(bodies_of(statement)):
            for changed in _changed_bodies(inner, change):
                outer = with_body(statement, position, changed)
                statements = (*body.statements[:number], outer, *body.statements[number + 1 :])
                yield replace(body, statements=statements)


def _without_statement(body: Body, number: int) -> Iterator[Body]:
    """With a value of the same type, or the body's own statements, in a statement's place."""
    statement = body.statements[number]
    before, after = body.statements[:number], body.statements[number + 1 :]
    for inlined in _inlined(statement):
        if inlined is not None:
            inner, names = inlined
            following = _renamed(replace(body, statements=after), names)
            yield replace(following, statements=(*before, *inner, *following.statements))
    names: dict[str, Operand] = {}
    fills: list[Statement] = []
    for target in targets_of(statement):
        like = [
            operand for operand in _stand_ins(statement, target)
            if isinstance(operand, Variable) and operand.type == target.type
        ]  # fmt: skip
        if like:
            names[target.name] = like[0]
        elif target.dtype == "bool":
            fills += _filled_predicate(target)
        else:
            fills.append(Compute(target, "full", (Number(1),)))
    if fills == [statement]:
        return
    following = _renamed(replace(body, statements=after), names)
    yield replace(following, statements=(*before, *fills, *following.statements))


def _filled_predicate(target: Variable) -> list[Statement]:
    helper = replace(target, name=f"{target.name}f", dtype="int32")
    return [
        Compute(helper, "full", (Number(1),)),
        Compute(target, "greater", (helper, Number(0))),
    ]


def _stand_ins(statement: Statement, target: Variable) -> Sequence[Operand]:
    if isinstance(statement, ForLoop | WhileLoop | Scan):
        position = statement.targets.index(target)
        if position < len(statement.inits):
            return (statement.inits[position],)
    return operands_of(statement)


def _inlined(statement: Statement) -> Iterator[tuple[tuple[Statement, ...], dict[str, Operand]]]:
    """One iteration, or one of the branches, without the statement around it."""
    match statement:
        case ForLoop():
            counter, *state = statement.body.parameters
            arguments = dict(
                zip((parameter.name for parameter in state), statement.inits, strict=True)
            )
            body = _renamed(statement.body, {**arguments, counter.name: statement.lower})
            if _valid_counter(statement.body, counter, statement.lower):
                yield _spliced(body, statement.targets)
        case WhileLoop():
            arguments = {
                parameter.name: init
                for parameter, init in zip(statement.body.parameters, statement.inits, strict=True)
            }
            yield _spliced(_renamed(statement.body, arguments), statement.targets)
        case Branch():
            for inner in statement.bodies:
                arguments = {
                    parameter.name: argument
                    for parameter, argument in zip(
                        inner.parameters, statement.arguments, strict=True
                    )
                }
                yield _spliced(_renamed(inner, arguments), statement.targets)
        case _:
            return


def _valid_counter(body: Body, counter: Variable, lower: Operand) -> bool:
    """A literal may not be an operand that has to be an array."""
    return isinstance(lower, Variable) or not reads(body, counter.name)


def _spliced(
    body: Body, targets: Sequence[Variable]
) -> tuple[tuple[Statement, ...], dict[str, Operand]]:
    names = {target.name: result for target, result in zip(targets, body.results, strict=True)}
    return body.statements, names


def _simplified(body: Body, number: int) -> Iterator[Body]:
    """With a simpler form of one statement."""
    statement = body.statements[number]
    for simpler in _simpler(statement):
        statements = (*body.statements[:number], simpler, *body.statements[number + 1 :])
        yield replace(body, statements=statements)


def _simpler(statement: Statement) -> Iterator[Statement]:
    match statement:
        case Compute():
            return
        case ForLoop():
            for upper in (Number(1), Number(2)):
                if statement.upper != upper and statement.upper != Number(1):
                    yield replace(statement, upper=upper)
            if statement.lower != Number(0):
                yield replace(statement, lower=Number(0))
        case Branch():
            if len(statement.bodies) > 2:
                yield replace(statement, bodies=statement.bodies[:2])
            return
        case Scan():
            if statement.reverse or statement.unroll > 1:
                yield replace(statement, reverse=False, unroll=1)
        case _:
            pass
    structure = getattr(statement, "structure", "tuple")
    if structure in ("dict", "nested"):
        yield replace(statement, structure="tuple")  # pyright: ignore
    for position, inner in enumerate(bodies_of(statement)):
        if inner.jitted:
            yield with_body(statement, position, replace(inner, jitted=False))


def _operand(operand: Operand, names: Names) -> Operand:
    while isinstance(operand, Variable) and operand.name in names:
        operand = names[operand.name]
    return operand


def _renamed(body: Body, names: Names) -> Body:
    """The body with other operands for names."""
    if not names:
        return body
    statements = tuple(_renamed_statement(statement, names) for statement in body.statements)
    results = tuple(_operand(result, names) for result in body.results)
    return replace(body, statements=statements, results=results)


def _renamed_statement(statement: Statement, names: Names) -> Statement:
    def operands(values: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple(_operand(value, names) for value in values)

    for position, inner in enumerate(bodies_of(statement)):
        statement = with_body(statement, position, _renamed(inner, names))
    match statement:
        case Compute():
            return replace(statement, operands=operands(statement.operands))
        case ForLoop():
            lower, upper = operands((statement.lower, statement.upper))
            return replace(statement, lower=lower, upper=upper, inits=operands(statement.inits))
        case WhileLoop():
            return replace(statement, inits=operands(statement.inits))
        case Scan():
            inits, sequences = operands(statement.inits), operands(statement.sequences)
            return replace(statement, inits=inits, sequences=sequences)
        case Map():
            return replace(statement, sequences=operands(statement.sequences))
        case Branch():
            (selector,) = operands((statement.selector,))
            arguments = operands(statement.arguments)
            return replace(statement, selector=selector, arguments=arguments)
