"""Inference of opcodes that call computations or communicate with other devices."""

from __future__ import annotations

from hlo_tools._messages import counted
from hlo_tools.inference.rule import Call, rule
from hlo_tools.inference.types import Array, TupleType, Type, number

__all__: list[str] = []

_PRED, _S32 = number("pred"), number("s32")


@rule("call")
def _call(call: Call) -> Type:
    parameters, result = call.program()
    _check_arguments(call, parameters, tuple(call.operands), "the computation")
    return result


def _check_arguments(
    call: Call, parameters: tuple[Type, ...], arguments: tuple[Type, ...], what: str
) -> None:
    call.check(
        len(parameters) == len(arguments),
        f"passes {counted(len(arguments), 'argument')} to {what}, which takes {len(parameters)}",
    )
    for position, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        call.check(
            parameter == argument,
            f"passes {argument} as argument {position} of {what}, which takes {parameter}",
        )


@rule("while")
def _while(call: Call) -> Type:
    """Called computations stand in the order body, condition."""
    state = call.operand(0)
    body, result = call.program(0)
    condition, goes_on = call.program(1)
    _check_arguments(call, body, (state,), "its body")
    _check_arguments(call, condition, (state,), "its condition")
    call.check(result == state, f"has a body that returns {result} for {state}")
    call.check(goes_on == Array(_PRED), f"has a condition that returns {goes_on} instead of pred[]")
    return state


@rule("conditional")
def _conditional(call: Call) -> Type:
    index = call.array(0)
    call.check(index in (Array(_PRED), Array(_S32)), f"chooses by pred[] or s32[], not {index}")
    count = len(call.called)
    call.check(
        count > 0 and len(call.operands) == count + 1,
        f"has {counted(count, 'branch', 'branches')} and {counted(len(call.operands), 'operand')}",
    )
    result = call.program(0)[1]
    for branch in range(count):
        parameters, gives = call.program(branch)
        _check_arguments(call, parameters, (call.operand(branch + 1),), f"branch {branch}")
        call.check(gives == result, f"has branches that return {result} and {gives}")
    return result


@rule("fusion")
def _fusion(call: Call) -> Type:
    parameters, result = call.program()
    arguments = tuple(call.operands)
    if len(arguments) > len(parameters):
        arguments = arguments[: len(parameters)]  # operands that the body does not use
    _check_arguments(call, parameters, arguments, "the fusion")
    return result


@rule("scan")
def _scan(call: Call) -> Type:
    """Infer a scan: inputs lose the scanned dimension inside; outputs gain it."""
    carries = call.row.num_carries
    inputs = len(call.operands) - carries
    call.check(0 < inputs <= len(call.operands), "needs an input to infer its shape")
    axis = call.axis(call.row.dimensions, call.array(0).rank, "dimensions")
    length = call.array(0).dimensions[axis]
    parameters, result = call.program()
    call.check(
        len(parameters) == len(call.operands),
        f"calls a computation of {counted(len(parameters), 'parameter')} "
        f"for {counted(len(call.operands), 'operand')}",
    )
    for array, parameter in zip(call.arrays(0, inputs), parameters, strict=False):
        element_extents = (*array.dimensions[:axis], *array.dimensions[axis + 1 :])
        call.check(
            array.dimensions[axis : axis + 1] == (length,)
            and isinstance(parameter, Array)
            and (parameter.element, parameter.dimensions) == (array.element, element_extents),
            f"takes {array} along dimension {axis} as {parameter}, {length} times",
        )
    parts = result.parts if isinstance(result, TupleType) else (result,)
    stacked_types: list[Type] = []
    for position, element in enumerate(parts):
        stacked = position + carries < len(parts)
        if stacked and isinstance(element, Array):
            element = element._replace(
                dimensions=(*element.dimensions[:axis], length, *element.dimensions[axis:])
            )
        stacked_types.append(element)
    return TupleType(tuple(stacked_types)) if isinstance(result, TupleType) else stacked_types[0]


@rule("all-reduce")
def _all_reduce(call: Call) -> Type:
    return call.one_or_tuple(list(call.operands))


@rule("collective-broadcast collective-reduce")
def _rooted(call: Call) -> Type:
    """Return the types of the data; a dynamic root is a last operand with one number for each."""
    data = list(call.operands)
    if call.row.has_dynamic_root:
        roots = call.array(len(data) - 1)
        del data[-1]
        call.check(
            roots in (Array(_S32, (len(data),)), *([Array(_S32)] if len(data) == 1 else [])),
            f"has {roots} as roots of {counted(len(data), 'operand')}, not s32[{len(data)}]",
        )
    call.check(bool(data), "has no operand to send")
    return call.one_or_tuple(data)
