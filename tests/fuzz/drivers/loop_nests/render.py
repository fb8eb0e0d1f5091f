"""A loop nest as a Python module with the function ``program``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.drivers.loop_nests.interpret import is_float
from tests.fuzz.drivers.loop_nests.kernels import KERNEL_SOURCE, ORACLE_SOURCE
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
    WhileLoop,
    walk,
)  # fmt: skip
from tests.fuzz.drivers.loop_nests.operators import KERNELS, OPERATORS

__all__ = ["source"]

HEADER = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"
INDENT = "    "


def source(nest: Nest, *, oracle: bool = False) -> str:
    """The module; with ``oracle``, kernels are functions of jax.numpy."""
    header = [HEADER]
    if any(isinstance(step, Compute) and step.operator in KERNELS for step in walk(nest.body)):
        header.append(ORACLE_SOURCE if oracle else KERNEL_SOURCE)
    names = ", ".join(argument.variable.name for argument in nest.inputs)
    donated = tuple(number for number, argument in enumerate(nest.inputs) if argument.donated)
    lines = [f"donated = {donated}", "", "", f"def program({names}):"]
    lines += _indented(_statements(nest.body.statements))
    lines.append(f"{INDENT}return ({_joined(nest.body.results)})")
    return "\n".join([*header, *lines, ""])


def _indented(lines: list[str]) -> list[str]:
    return [INDENT + line if line else line for line in lines]


def _text(operand: Operand) -> str:
    return str(operand.value) if isinstance(operand, Number) else operand.name


def _joined(operands: Sequence[Operand]) -> str:
    return "".join(f"{_text(operand)}, " for operand in operands).strip()


def _packed(operands: Sequence[Operand], structure: str) -> str:
    """A state as JAX takes it."""
    texts = [_text(operand) for operand in operands]
    if structure == "single":
        return texts[0]
    entries = [f'"k{number}": {text}' for number, text in enumerate(texts)]
    if structure == "dict":
        return f"{{{', '.join(entries)}}}"
    if structure == "nested":
        return f"({texts[0]}, {{{', '.join(entries[1:])}}})"
    return f"({_joined(operands)})"


def _unpacked(operands: Sequence[Operand], structure: str, name: str) -> list[str]:
    """Statements that take a state apart."""
    texts = [_text(operand) for operand in operands]
    if structure == "single":
        return [f"{texts[0]} = {name}"]
    if structure == "dict":
        return [f'{text} = {name}["k{number}"]' for number, text in enumerate(texts)]
    if structure == "nested":
        inner = [f'{text} = {name}[1]["k{number + 1}"]' for number, text in enumerate(texts[1:])]
        return [f"{texts[0]} = {name}[0]", *inner]
    return [f"{_joined(operands)} = {name}"] if texts else []


def _statements(statements: Sequence[Statement]) -> list[str]:
    return [line for statement in statements for line in _statement(statement)]


def _statement(statement: Statement) -> list[str]:
    match statement:
        case Compute():
            return [f"{statement.target.name} = {_expression(statement)}"]
        case ForLoop():
            return _for(statement)
        case WhileLoop():
            return _while(statement)
        case Scan():
            return _scan(statement)
        case Map():
            return _map(statement)
        case Branch():
            return _branch(statement)


def _expression(statement: Compute) -> str:
    row, bound = OPERATORS[statement.operator], statement.bound
    operands = [_text(operand) for operand in statement.operands]
    if bound and row.total:
        operands = [
            f"jnp.clip({text}, {-bound}, {bound})" if is_float(operand) else text
            for operand, text in zip(statement.operands, operands, strict=True)
        ]
    target = statement.target
    text = row.text.format(
        *operands, p=statement.parameters, shape=target.shape, dtype=_dtype(target.dtype)
    )
    return f"jnp.clip({text}, {-bound}, {bound})" if bound and not row.total else text


def _dtype(name: str) -> str:
    return "bool_" if name == "bool" else name


def _function(name: str, parameters: str, body: Body, first: list[str], returned: str) -> list[str]:
    lines = ["@jax.jit"] if body.jitted else []
    lines.append(f"def {name}({parameters}):")
    return [*lines, *_indented([*first, *_statements(body.statements), f"return {returned}"])]


def _for(loop: ForLoop) -> list[str]:
    number = loop.targets[0].name
    counter, *state = loop.body.parameters
    first = _unpacked(state, loop.structure, "state")
    packed = _packed(loop.body.results, loop.structure)
    lines = _function(f"body_{number}", f"{counter.name}, state", loop.body, first, packed)
    call = f"lax.fori_loop({_text(loop.lower)}, {_text(loop.upper)}, body_{number}, {_packed(loop.inits, loop.structure)})"
    lines.append(f"state = {call}")
    return [*lines, *_unpacked(loop.targets, loop.structure, "state")]


def _while(loop: WhileLoop) -> list[str]:
    number, structure = loop.targets[0].name, loop.structure
    first = _unpacked(loop.test.parameters, structure, "state")
    lines = _function(f"test_{number}", "state", loop.test, first, _text(loop.test.results[0]))
    first = _unpacked(loop.body.parameters, structure, "state")
    packed = _packed(loop.body.results, structure)
    lines += _function(f"body_{number}", "state", loop.body, first, packed)
    inits = _packed(loop.inits, structure)
    lines.append(f"state = lax.while_loop(test_{number}, body_{number}, {inits})")
    return [*lines, *_unpacked(loop.targets, structure, "state")]


def _scan(loop: Scan) -> list[str]:
    number, count = loop.targets[0].name, len(loop.inits)
    parameters, results = loop.body.parameters, loop.body.results
    first = _unpacked(parameters[:count], loop.structure, "state")
    first += _unpacked(parameters[count:], "tuple", "elements")
    returned = f"{_packed(results[:count], loop.structure)}, ({_joined(results[count:])})"
    lines = _function(f"body_{number}", "state, elements", loop.body, first, returned)
    sequences = f"({_joined(loop.sequences)})" if loop.sequences else "None"
    options = f"length={loop.length}, reverse={loop.reverse}, unroll={loop.unroll}"
    inits = _packed(loop.inits, loop.structure)
    lines.append(f"state, rows = lax.scan(body_{number}, {inits}, {sequences}, {options})")
    lines += _unpacked(loop.targets[:count], loop.structure, "state")
    return [*lines, *_unpacked(loop.targets[count:], "tuple", "rows")]


def _map(loop: Map) -> list[str]:
    number = loop.targets[0].name
    first = _unpacked(loop.body.parameters, "tuple", "elements")
    returned = f"({_joined(loop.body.results)})"
    lines = _function(f"body_{number}", "elements", loop.body, first, returned)
    lines.append(f"rows = lax.map(body_{number}, ({_joined(loop.sequences)}))")
    return [*lines, *_unpacked(loop.targets, "tuple", "rows")]


def _branch(branch: Branch) -> list[str]:
    number, lines, names = branch.targets[0].name, list[str](), list[str]()
    for choice, body in enumerate(branch.bodies):
        names.append(f"branch_{number}_{choice}")
        parameters = _joined(body.parameters)
        lines += _function(names[-1], parameters, body, [], f"({_joined(body.results)})")
    arguments = "".join(f", {argument.name}" for argument in branch.arguments)
    if branch.selector.dtype == "bool":
        call = f"lax.cond({branch.selector.name}, {', '.join(names)}{arguments})"
    else:
        call = f"lax.switch({branch.selector.name}, [{', '.join(names)}]{arguments})"
    return [*lines, f"{_joined(branch.targets)} = {call}"]
