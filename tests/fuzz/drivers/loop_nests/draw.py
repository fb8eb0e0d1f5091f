"""A random loop nest from a seed: loops, branches, and the program around them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.fuzz.drivers.loop_nests.exactness import exact_nest
from tests.fuzz.drivers.loop_nests.expressions import consumed, draw_expression, draw_update
from tests.fuzz.drivers.loop_nests.live import cleaned_nest
from tests.fuzz.drivers.loop_nests.maker import Maker, Type
from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Branch,
    ForLoop,
    Input,
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
)  # fmt: skip

__all__ = ["nest"]

MAX_DEPTH = 4
MAX_DRAWS = 400
"""Attempts at a program of a seed: many are dropped because they run too long, or nest too little."""
LOOPS = (ForLoop, WhileLoop, Scan, Map)


def nest(seed: int) -> Nest:
    """The program of a seed: exact, short, with a loop in it."""
    chance = random.Random(f"shape of nest {seed}")
    min_depth, dead = chance.choice((1, 2, 2, 2, 2, 3)), chance.random() < 0.2
    for attempt in range(MAX_DRAWS):
        drawn = _draw(seed, attempt)
        live = cleaned_nest(drawn)
        if depth_of(live.body) < min_depth:
            continue
        drawn = drawn if dead else live
        exact = exact_nest(drawn)
        if exact is not None:
            return exact
    raise AssertionError(f"no program of seed {seed} in {MAX_DRAWS} attempts")


def depth_of(body: Body) -> int:
    """How many loops are within each other."""
    return max(
        (
            isinstance(statement, LOOPS) + max(map(depth_of, bodies_of(statement)), default=0)
            for statement in body.statements
        ),
        default=0,
    )


def _draw(seed: int, attempt: int) -> Nest:
    make = Maker(seed + attempt * 1_000_000_007)
    inputs = _inputs(make)
    make.bind(*(argument.variable for argument in inputs))
    for _ in range(make.chance.randrange(3)):
        draw_expression(make)
    while make.budget > 0:
        _draw_statement(make, 0)
    computed = make.scopes[0][len(inputs) :]
    looped = [variable for variable in computed if variable.name[0] == "r"]
    results = make.chance.sample(looped, min(len(looped), make.chance.randrange(1, 5)))
    results += [variable for variable in computed[-2:] if variable not in results]
    body = Body(
        tuple(argument.variable for argument in inputs), tuple(make.statements), tuple(results)
    )
    return Nest(seed, inputs, body)


def _inputs(make: Maker) -> tuple[Input, ...]:
    """Trip counts, a position, and arrays."""
    chance, inputs = make.chance, list[Input]()
    for _ in range(chance.randrange(1, 3)):
        inputs.append(Input(make.variable((), "int32", "n"), 0, 4))
    inputs.append(Input(make.variable((), "int32", "i"), -2, 6))
    share = chance.choice((0.0, 0.0, 0.5, 1.0))
    for _ in range(chance.randrange(2, 5)):
        shape, dtype = make.type()
        low, high = {"bool": (0, 1), "bfloat16": (-3, 3)}.get(dtype, (-9, 9))
        variable = make.variable(shape, dtype, "x")
        inputs.append(Input(variable, low, high, donated=chance.random() < share))
    chance.shuffle(inputs)
    return tuple(inputs)


def _draw_statement(make: Maker, depth: int) -> None:
    """An expression, or a statement with bodies, the likelier the less deep."""
    if depth < MAX_DEPTH and make.chance.random() < (0.6, 0.45, 0.25, 0.1)[depth]:
        kinds = (_for_loop, _for_loop, _for_loop, _while_loop, _scan, _map, _branch, _branch)
        make.chance.choice(kinds)(make, depth)
    else:
        draw_expression(make)
        make.budget -= 1  # also of one that finds no operands


def _statements(make: Maker, depth: int, maximum: int = 4) -> None:
    for _ in range(make.chance.randrange(1, maximum + 1)):
        _draw_statement(make, depth + 1)


def _state(make: Maker) -> tuple[Variable, ...]:
    """The values that a loop starts with."""
    count = make.chance.choice((1, 1, 2, 2, 3, 4))
    inits = []
    for _ in range(count):
        rank = make.chance.choice((0, 0, 1, 2))
        present = make.pick(lambda variable, rank=rank: len(variable.shape) >= rank)
        fresh = present is None or make.chance.random() < 0.2
        inits.append(make.value(make.type()) if fresh else present)
    return tuple(inits)


def _structure(make: Maker, count: int) -> str:
    if count == 1 and make.chance.random() < 0.5:
        return "single"
    return make.chance.choice(("tuple", "tuple", "dict", "nested") if count else ("tuple",))


def _like(make: Maker, variables: Sequence[Variable], prefix: str) -> tuple[Variable, ...]:
    return tuple(make.variable(*variable.type, prefix) for variable in variables)


def _advanced(make: Maker, state: Sequence[Variable]) -> tuple[Variable, ...]:
    """The next value of each part of a state, which reads most of what the body computed."""
    results: list[Variable] = []
    for variable in state:
        kind = make.chance.random()
        if kind < 0.07:
            results.append(make.pick_type(variable.type) or variable)  # swapped, or kept
            continue
        computed = [
            value for value in make.scopes[-1] if value.type == variable.type and value not in state
        ]
        unread = [value for value in computed if value in make.unread()]
        value = make.chance.choice(unread or computed) if computed and kind < 0.75 else variable
        value = consumed(make, value)
        if value == variable:
            value = _changed(make, variable)
        make.read(value)
        results.append(value)
    return tuple(results)


def _returned(make: Maker, value_type: Type) -> Variable:
    """A value that a body returns beside the state."""
    unread = [variable for variable in make.unread() if variable.type == value_type]
    value = consumed(make, make.chance.choice(unread) if unread else make.value(value_type))
    make.read(value)
    return value


def _changed(make: Maker, variable: Variable) -> Variable:
    """Another value in the place of a part of the state."""
    if variable.dtype == "bool":
        return make.compute("logical_not", [variable], *variable.type)
    if variable.shape and make.chance.random() < 0.7:
        return draw_update(make, variable) or variable
    amount = make.pick_type(((), variable.dtype)) or Number(1)
    return make.compute("add", [variable, amount], *variable.type)


def _body(
    make: Maker,
    depth: int,
    parameters: Sequence[Variable],
    results: Callable[[], tuple[Variable, ...]],
    maximum: int = 4,
) -> Body:
    with make.body(parameters) as statements:
        _statements(make, depth, maximum)
        returned = results()
        drawn = tuple(statements)
    return Body(tuple(parameters), drawn, returned, jitted=make.chance.random() < 0.1)


def _bound(make: Maker) -> Operand:
    """A trip count: a literal, an argument, or one that depends on what was computed."""
    kind = make.chance.random()
    if kind < 0.35:
        return Number(make.chance.choice((1, 2, 3, 3, 4, 5)))
    if kind < 0.6:
        named = [variable for variable in make.scopes[0] if variable.name[0] == "n"]
        return make.chance.choice(named) if named else Number(2)
    return make.bounded(make.chance.choice((2, 3, 4))) or Number(2)


def _for_loop(make: Maker, depth: int) -> None:
    upper = _bound(make)
    lower: Operand = Number(make.chance.choice((0, 0, 0, 1, -1)))
    if make.chance.random() < 0.15:
        lower = make.bounded(2) or lower
    inits = _state(make)
    counter, state = make.variable((), "int32", "i"), _like(make, inits, "s")
    body = _body(make, depth, (counter, *state), lambda: _advanced(make, state))
    targets = _like(make, inits, "r")
    structure = _structure(make, len(inits))
    _add(make, ForLoop(targets, lower, upper, structure, inits, body))


def _while_loop(make: Maker, depth: int) -> None:
    """The first part of the state counts up to a limit; a condition on data may end it earlier."""
    start = make.value(((), "int32"))
    if make.chance.random() < 0.6:
        start = make.compute("remainder", [start, Number(3)], (), "int32")
    inits = (start, *_state(make))
    limit = _bound(make)
    tested, state = _like(make, inits, "t"), _like(make, inits, "s")
    with make.body(tested) as statements:
        goes = make.compute("less", [tested[0], limit], (), "bool")
        scalar = make.pick_type(((), "int32"))
        if scalar is not None and make.chance.random() < 0.4:
            data = make.compute("less", [scalar, Number(9)], (), "bool")
            goes = make.compute("logical_and", [goes, data], (), "bool")
        test = Body(tested, tuple(statements), (goes,))

    def results() -> tuple[Variable, ...]:
        amount: Operand = Number(make.chance.choice((1, 1, 2)))
        if make.chance.random() < 0.3:
            step = make.bounded(1)
            amount = make.compute("add", [step, Number(1)], (), "int32") if step else amount
        counted = make.compute("add", [state[0], amount], (), "int32")
        return (counted, *_advanced(make, state[1:]))

    body = _body(make, depth, state, results)
    targets = _like(make, inits, "r")
    _add(make, WhileLoop(targets, _structure(make, len(inits)), inits, test, body))


def _sequences(make: Maker, count: int) -> tuple[Variable, ...]:
    """Arrays with rows, all of one length."""
    first = make.pick(lambda variable: bool(variable.shape) and 1 < variable.shape[0] <= 12)
    if first is None:
        return ()
    further = [
        make.pick(lambda variable: variable.shape[:1] == first.shape[:1]) for _ in range(count - 1)
    ]
    return tuple(variable for variable in (first, *further) if variable is not None)


def _elements(make: Maker, sequences: Sequence[Variable]) -> tuple[Variable, ...]:
    return tuple(make.variable(sequence.shape[1:], sequence.dtype, "e") for sequence in sequences)


def _scan(make: Maker, depth: int) -> None:
    sequences = _sequences(make, make.chance.randrange(1, 3)) if make.chance.random() < 0.8 else ()
    length = sequences[0].shape[0] if sequences else make.chance.randrange(2, 5)
    inits = _state(make)
    state, elements = _like(make, inits, "s"), _elements(make, sequences)
    outputs = make.chance.randrange(3)

    def results() -> tuple[Variable, ...]:
        advanced = _advanced(make, state)
        return (*advanced, *(_returned(make, make.type()) for _ in range(outputs)))

    body = _body(make, depth, (*state, *elements), results)
    rows = body.results[len(inits) :]
    stacked = [make.variable((length, *row.shape), row.dtype, "r") for row in rows]
    targets = (*_like(make, inits, "r"), *stacked)
    reverse, unroll = make.chance.random() < 0.3, make.chance.choice((1, 1, 1, 2))
    structure = _structure(make, len(inits))
    _add(make, Scan(targets, structure, inits, sequences, length, reverse, unroll, body))


def _map(make: Maker, depth: int) -> None:
    sequences = _sequences(make, make.chance.randrange(1, 3))
    if not sequences:
        return
    count = make.chance.randrange(1, 3)
    body = _body(
        make, depth, _elements(make, sequences),
        lambda: tuple(_returned(make, make.type()) for _ in range(count)), 3,
    )  # fmt: skip
    length = sequences[0].shape[0]
    targets = tuple(make.variable((length, *row.shape), row.dtype, "r") for row in body.results)
    _add(make, Map(targets, sequences, body))


def _branch(make: Maker, depth: int) -> None:
    selector = make.pick_type(((), "bool"))
    if make.chance.random() < 0.4:
        selector = make.pick_type(((), "int32"))
    if selector is None or make.chance.random() < 0.5:
        scalar = make.value(((), "int32"))
        selector = make.compute("is_even", [scalar], (), "bool")
    arguments = _state(make)
    types = [make.chance.choice(arguments).type for _ in range(make.chance.randrange(1, 4))]
    count = 2 if selector.dtype == "bool" else make.chance.randrange(2, 4)
    bodies = tuple(_choice(make, depth, arguments, types) for _ in range(count))
    targets = tuple(make.variable(*value_type, "r") for value_type in types)
    _add(make, Branch(targets, selector, arguments, bodies))


def _choice(make: Maker, depth: int, arguments: Sequence[Variable], types: Sequence[Type]) -> Body:
    """One of the bodies of a branch; some return their arguments as they are."""
    parameters = _like(make, arguments, "a")

    def results() -> tuple[Variable, ...]:
        return tuple(_returned(make, value_type) for value_type in types)

    if make.chance.random() < 0.2:
        with make.body(parameters) as statements:
            returned = results()
            return Body(parameters, tuple(statements), returned)
    return replace(_body(make, depth, parameters, results, 3), jitted=False)


def _add(make: Maker, statement: Statement) -> None:
    """Add a statement with bodies, and bring its results into scope."""
    assert not hasattr(statement, "target")
    make.statements.append(statement)
    make.read(*(operand for operand in operands_of(statement) if isinstance(operand, Variable)))
    make.bind(*statement.targets)  # pyright: ignore[reportAttributeAccessIssue]
    make.budget -= 1
