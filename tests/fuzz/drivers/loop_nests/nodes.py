"""The syntax tree of a loop nest.

A name is bound once in a program. A body reads its parameters, and every name that is bound before
the statement that it belongs to: bodies are closures, as in JAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Body", "Branch", "Compute", "ForLoop", "Input", "Map", "Nest", "Number", "Operand", "Scan",
    "Statement", "Variable", "WhileLoop", "bodies_of", "operands_of", "targets_of", "walk",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variable:
    """A name with its type.

    Attributes:
        name: unique in the program.
        shape: extents.
        dtype: ``float32``, ``bfloat16``, ``int32`` or ``bool``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> tuple[tuple[int, ...], str]:
        """Shape and dtype."""
        return self.shape, self.dtype


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, which takes the dtype of the operand beside it."""

    value: int


Operand = Variable | Number


@dataclass(frozen=True, slots=True)
class Body:
    """A function: of a loop, of its condition, or of a branch.

    Attributes:
        parameters: what it is called with.
        statements: in order.
        results: what it returns.
        jitted: ``jax.jit`` wraps it, so that its HLO is a call.
    """

    parameters: tuple[Variable, ...]
    statements: tuple[Statement, ...]
    results: tuple[Variable, ...]
    jitted: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """``target = operator(operands)``.

    Attributes:
        target: the result.
        operator: a row of ``operators.OPERATORS``.
        operands: what it reads.
        parameters: static numbers of the operator: an axis, a count.
        bound: nonzero: values are clipped to [-bound, bound], so that floats stay exact.
    """

    target: Variable
    operator: str
    operands: tuple[Operand, ...]
    parameters: tuple[int, ...] = ()
    bound: int = 0


@dataclass(frozen=True, slots=True)
class ForLoop:
    """``lax.fori_loop``; its body takes the counter and the state.

    Attributes:
        targets: the state behind the loop.
        lower, upper: bounds of the counter; variables make the trip count dynamic.
        structure: ``single``, ``tuple``, ``dict`` or ``nested``.
        inits: the state in front of the loop.
        body: one iteration.
    """

    targets: tuple[Variable, ...]
    lower: Operand
    upper: Operand
    structure: str
    inits: tuple[Variable, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """``lax.while_loop``; the condition and the body take the state."""

    targets: tuple[Variable, ...]
    structure: str
    inits: tuple[Variable, ...]
    test: Body
    body: Body


@dataclass(frozen=True, slots=True)
class Scan:
    """``lax.scan``; its body takes the state and the elements, and returns the state and the rows.

    Attributes:
        targets: the state behind the scan, then the stacked rows.
        structure: of the state.
        inits: the state in front of the scan.
        sequences: arrays whose rows are the elements; none with ``length`` alone.
        length: iterations.
        reverse: from the last row to the first.
        unroll: iterations that JAX puts into one.
        body: one iteration.
    """

    targets: tuple[Variable, ...]
    structure: str
    inits: tuple[Variable, ...]
    sequences: tuple[Variable, ...]
    length: int
    reverse: bool
    unroll: int
    body: Body


@dataclass(frozen=True, slots=True)
class Map:
    """``lax.map`` of a body over the rows of arrays."""

    targets: tuple[Variable, ...]
    sequences: tuple[Variable, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class Branch:
    """``lax.cond`` of a predicate, or ``lax.switch`` of an integer that is clamped.

    Attributes:
        targets: the results.
        selector: a scalar predicate, or a scalar integer.
        arguments: what the bodies are called with.
        bodies: of a predicate, that of True first.
    """

    targets: tuple[Variable, ...]
    selector: Variable
    arguments: tuple[Variable, ...]
    bodies: tuple[Body, ...]


Statement = Compute | ForLoop | WhileLoop | Scan | Map | Branch


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of the program.

    Attributes:
        variable: its name and type.
        low, high: the range of its integers.
        donated: the caller gives its memory away.
    """

    variable: Variable
    low: int
    high: int
    donated: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """A program.

    Attributes:
        seed: of the generator.
        inputs: arguments; those that are not donated come first or last, as drawn.
        body: its statements and results; the parameters are those of the inputs.
    """

    seed: int
    inputs: tuple[Input, ...]
    body: Body


def targets_of(statement: Statement) -> tuple[Variable, ...]:
    """The names that a statement binds in the body around it."""
    return (statement.target,) if isinstance(statement, Compute) else statement.targets


def bodies_of(statement: Statement) -> tuple[Body, ...]:
    """The functions of a statement."""
    match statement:
        case Compute():
            return ()
        case WhileLoop():
            return statement.test, statement.body
        case Branch():
            return statement.bodies
        case _:
            return (statement.body,)


def operands_of(statement: Statement) -> tuple[Operand, ...]:
    """The operands that a statement reads outside of its bodies."""
    match statement:
        case Compute():
            return statement.operands
        case ForLoop():
            return (statement.lower, statement.upper, *statement.inits)
        case WhileLoop():
            return statement.inits
        case Scan():
            return (*statement.inits, *statement.sequences)
        case Map():
            return statement.sequences
        case Branch():
            return (statement.selector, *statement.arguments)


def walk(body: Body) -> Iterator[Statement]:
    """Every statement of a body and of the bodies within."""
    for statement in body.statements:
        yield statement
        for inner in bodies_of(statement):
            yield from walk(inner)
