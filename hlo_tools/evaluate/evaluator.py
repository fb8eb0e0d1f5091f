"""Evaluating a module: instruction by instruction, values freed after their last use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from hlo_tools._messages import counted
from hlo_tools.errors import HloError, reports_bugs
from hlo_tools.evaluate import (
    algebraic,
    collectives,
    control,
    elementwise,
    indexing,
    random,
    sorting,
    structural,
    windows,
)
from hlo_tools.evaluate.arguments import arrays_of
from hlo_tools.evaluate.bounded import check_current_sizes, fits_bounds
from hlo_tools.evaluate.devices import ALONE, Device, on_devices
from hlo_tools.evaluate.limits import (
    EACH,
    Budget,
    CallCounts,
    LimitError,
    Limits,
    elements,
    operations,
)
from hlo_tools.evaluate.operation import OPERATIONS, Call, CustomCall
from hlo_tools.evaluate.values import Array, EvaluationError, Value
from hlo_tools.ir.module import Module
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import OPCODES, missing_opcode, opcodes_of_kind
from hlo_tools.verify import check

if TYPE_CHECKING:
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto, ShapeProto

__all__ = ["Evaluator", "evaluate", "evaluate_devices"]

Watcher: TypeAlias = "Callable[[HloComputationProto, HloInstructionProto, Value], None]"
Plan: TypeAlias = "list[tuple[HloInstructionProto, list[int], list[int]]]"
"""(instruction, operands, values not needed afterwards), operands first."""

_OPERATION_FILES = (
    algebraic, collectives, control, elementwise, indexing, random, sorting, structural, windows,
)  # fmt: skip
"""Imported for the operations that they register."""

_ELEMENTWISE = (opcodes_of_kind("elementwise") - {"stochastic-convert"}) | {
    "broadcast", "call", "constant", "copy", "fusion", "get-tuple-element", "parameter", "reshape",
    "tuple",
}  # fmt: skip
"""Opcodes of scalar computations that can be applied to arrays elementwise."""

_MOST_DEPTH = 200

_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of an operation whose module violates a rule of HLO, or that has a bug."""


class Evaluator:
    """Evaluates the computations of one module.

    Args:
        module: the module.
        custom_calls: target -> function of (instruction message, operand arrays) that returns the
            results as a list.
        watch: called with (computation, instruction, value) after every instruction.
        limits: what an evaluation may take; each :meth:`run` has all of it.
        device: which device this is, among those that are evaluated together.
        plans: of another evaluator of the module, to share its order of instructions.
    """

    def __init__(
        self,
        module: Module,
        *,
        custom_calls: Mapping[str, CustomCall] | None = None,
        watch: Watcher | None = None,
        limits: Limits | None = None,
        device: Device = ALONE,
        plans: dict[int, Plan] | None = None,
    ) -> None:
        module.require_known_fields()
        self.module = module
        self.device = device
        self.custom_calls: Mapping[str, CustomCall] = dict(custom_calls or {})
        self.watch = watch
        self.limits = limits or Limits()
        self.has_bounded_values = False
        self._budget = Budget(self.limits)
        self._bodies = {row.id: row for row in module.proto.computations}
        self.plans: dict[int, Plan] = {} if plans is None else plans
        self._calls = CallCounts(self._bodies)
        self._elementwise: dict[int, bool] = {}
        self._shapes: list[dict[int, ShapeProto]] = []

    def run(self, inputs: Sequence[object]) -> list[Array]:
        """The arrays of the module's result, from left to right; tokens are left out.

        Args:
            inputs: one array for each parameter of the entry.

        Raises:
            EvaluationError: an instruction has no defined result here, with its name.
            LimitError: it takes more work or memory than the limits, or the machine, allow.
            HloVerifyError: an instruction cannot be computed since the module breaks a rule.
        """
        self._budget = Budget(self.limits)
        entry = self.module.entry
        parameters = entry.parameters
        if len(inputs) != len(parameters):
            raise EvaluationError(
                f"the module takes {counted(len(parameters), 'input')}, not {len(inputs)}",
                code="HLO-INPUTS",
            )
        arguments = [
            self._argument(value, parameter)
            for value, parameter in zip(inputs, parameters, strict=True)
        ]
        try:
            return arrays_of(self.computation(entry.id, arguments))
        except _BUGS:  # a root or a parameter that is not there
            check(self.module)
            raise
        except RecursionError:
            check(self.module)
            raise EvaluationError("computations call each other too deep for Python") from None

    def _argument(self, value: object, parameter: Instruction) -> Value:
        shape = parameter.shape
        if shape.is_tuple:
            return tuple(cast(Iterable[Value], value))
        if not shape.is_array:
            return None
        array = np.asarray(value, order="C")  # backwards, NumPy's functions would give other bits
        bounds = list(shape.dimensions)
        if array.dtype != shape.dtype or not fits_bounds(
            array, bounds, list(shape.proto.is_dynamic_dimension)
        ):
            raise EvaluationError(
                f"parameter {parameter.proto.parameter_number} is {shape}, the input is "
                f"{array.dtype}{list(array.shape)}",
                code="HLO-INPUTS", place=f"%{parameter.name}",
            )  # fmt: skip
        if list(array.shape) != bounds:
            self.has_bounded_values = True
        return array

    def computation(self, number: int, arguments: Sequence[Value]) -> Value:
        """The result of one computation."""
        if len(self._shapes) > _MOST_DEPTH:
            raise EvaluationError(f"computations call each other more than {_MOST_DEPTH} deep")
        body = self._bodies[number]
        values: dict[int, Value] = {}
        self._shapes.append({row.id & LOCAL_MASK: row.shape for row in body.instructions})
        try:
            with np.errstate(all="ignore"):
                for row, needs, done in self.plan(number):
                    key = row.id & LOCAL_MASK
                    values[key] = self._instruction(row, needs, values, arguments)
                    if self.watch is not None:
                        self.watch(body, row, values[key])
                    for dead_key in done:
                        del values[dead_key]
            return values[body.root_id & LOCAL_MASK]
        finally:
            self._shapes.pop()

    def _instruction(
        self,
        row: HloInstructionProto,
        needs: list[int],
        values: dict[int, Value],
        arguments: Sequence[Value],
    ) -> Value:
        if row.opcode == "parameter":
            return arguments[row.parameter_number]
        try:
            return self._operated(row, [values[number] for number in needs])
        except _BUGS as error:
            raise self._failure(row, error) from error

    def operate(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        """The value of one instruction alone, which has all of the limits for itself.

        Raises:
            EvaluationError: it has no defined result here.
            LimitError: it takes more than the limits, or the machine, allow.
        """
        self._budget = Budget(self.limits)
        self._budget.check_size(row)
        return self._operated(row, operands)

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        operation = OPERATIONS.get(row.opcode)
        if operation is None:
            raise EvaluationError(
                f"{row.opcode} has no result that depends on the module alone"
                if row.opcode in OPCODES
                else missing_opcode(row.opcode),
                place=f"%{row.name}",
            )
        call = Call(row, operands, self)
        if self.has_bounded_values:
            check_current_sizes(call)
        try:
            self._budget.spend(row, EACH + operations(row, call.operands))
            value = operation(call)
        except MemoryError as error:
            raise LimitError(
                f"{row.opcode} takes more memory than there is: {error}",
                place=f"%{row.name}",
                remedy="evaluate a slice of the module, or use a machine with more memory",
            ) from error
        self._budget.spend(row, elements(value))
        return value

    def _failure(self, row: HloInstructionProto, error: Exception) -> HloError:
        """Return the error of a failed operation: the rule of HLO that the module violates, or
        that this is a bug of ours."""
        check(self.module)
        if not reports_bugs():
            raise error
        return EvaluationError(
            f"evaluating {row.opcode} failed: {type(error).__name__}: {error}",
            code="HLO-INTERNAL",
            place=f"%{row.name}",
            remedy="this is a bug of the evaluator, not of the module; please report it with the "
            "module and the output of the same command with --debug",
        )

    def plan(self, number: int) -> Plan:
        """The order in which a computation is evaluated.

        Raises:
            LimitError: an instruction makes more than one value may have, or its calls of calls
                execute too many.
        """
        cached = self.plans.get(number)
        if cached is not None:
            return cached
        computation = self.module.computation_by_id(number)
        self._calls.check(number, self.limits)
        rows = [view.proto for view in computation.post_order()]
        for row in rows:
            self._budget.check_size(row)
        needs = [[operand_id & LOCAL_MASK for operand_id in row.operand_ids] for row in rows]
        last = {
            operand_id: position
            for position, operand_ids in enumerate(needs)
            for operand_id in operand_ids
        }
        root = self._bodies[number].root_id & LOCAL_MASK
        done: list[list[int]] = [[] for _ in rows]
        for position, row in enumerate(rows):
            key = row.id & LOCAL_MASK
            if key != root:
                done[last.get(key, position)].append(key)
        plan = list(zip(rows, needs, done, strict=True))
        self.plans[number] = plan
        return plan

    # -- what operations need -----------------------------------------------------------------

    def body(self, number: int) -> HloComputationProto:
        """The message of a computation."""
        return self._bodies[number]

    def shape_of(self, instruction_id: int) -> ShapeProto | None:
        """Shape of an instruction of the computation that is being evaluated."""
        return self._shapes[-1].get(instruction_id & LOCAL_MASK) if self._shapes else None

    def is_elementwise(self, number: int) -> bool:
        """Return True if a computation of scalars can be applied to arrays."""
        is_elementwise = self._elementwise.get(number)
        if is_elementwise is None:
            self._elementwise[number] = False  # of a computation that calls itself
            rows = self._bodies[number].instructions
            is_elementwise = all(
                row.opcode in _ELEMENTWISE
                and not row.shape.dimensions
                and all(self.is_elementwise(called) for called in row.called_computation_ids)
                for row in rows
            )
            self._elementwise[number] = is_elementwise
        return is_elementwise


def evaluate(module: Module, inputs: Sequence[object]) -> list[Array]:
    """The results of a module for its inputs, in order; see :meth:`Evaluator.run`."""
    return Evaluator(module).run(inputs)


def evaluate_devices(
    module: Module,
    inputs: Sequence[Sequence[object]],
    *,
    partitions: int = 1,
    limits: Limits | None = None,
) -> list[list[Array]]:
    """The results of a module on several devices that communicate, by device.

    Args:
        module: the program of every device.
        inputs: for each device, one array for each parameter of the entry; the partitions of the
            first replica come first.
        partitions: how many partitions a replica has.
        limits: what the evaluation of one device may take.

    Raises:
        EvaluationError: an instruction has no defined result, or devices wait for each other.
        LimitError: it takes more work or memory than the limits allow.
    """
    first = Evaluator(module, limits=limits)
    for computation in module.computations:
        first.plan(computation.id)

    def run(device: Device, arguments: Sequence[object]) -> list[Array]:
        evaluator = Evaluator(module, limits=limits, device=device, plans=first.plans)
        return evaluator.run(arguments)

    return on_devices(run, inputs, partitions)
