"""How far rounding alone may move a module's results: each instruction rounds otherwise.

Monte Carlo arithmetic (D. S. Parker, 1997): a few evaluations in which every result of a float
operation is off by a rounding error. Where they differ among each other, no oracle is more right than
another: ``x / x - 1`` is 0 or 6e-8, and a power of a negative number to it a number or NaN. Nor is the
sign of a NaN that arithmetic makes or passes on anybody's promise, or that of the extreme of -0.0 and 0.0;
a sort in total order and ``atan2`` show them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools import Module
from hlo_tools.evaluate import Evaluator, Value
from hlo_tools.schema import HloInstructionProto
from tests.fuzz.drivers.differing import STEP

__all__ = ["rounded_runs", "signed_runs"]

Array = np.ndarray[Any, Any]
ROUNDS = frozenset({
    "add", "subtract", "multiply", "divide", "power", "atan2", "exponential", "exponential-minus-one",
    "log", "log-plus-one", "logistic", "sqrt", "rsqrt", "cbrt", "sine", "cosine", "tan", "tanh",
    "erf", "acos", "asin", "acosh", "asinh", "atanh", "sinh", "cosh", "dot", "convolution", "fft",
})  # fmt: skip
"""Operations whose results are rounded; those that apply a computation round where it does."""

JUMPS = frozenset({
    "compare", "floor", "ceil", "sign", "round-nearest-afz", "round-nearest-even", "remainder", "convert",
})  # fmt: skip
"""Operations that a rounding error may move by a lot: they give what they give without any."""


SIGNS = ROUNDS | {
    "negate", "abs", "maximum", "minimum", "clamp", "remainder", "reduce-precision", "convert",
    "floor", "ceil", "sign", "round-nearest-afz", "round-nearest-even", "reduce", "reduce-window",
}  # fmt: skip
"""Operations of which nobody promises the sign of a NaN."""


EXTREMES = frozenset({"maximum", "minimum", "clamp"})


class _Signed(Evaluator):
    """Every NaN of arithmetic has one sign, and the extreme of zeros of both signs.

    With a seed, each such extreme has a sign of its own. ``has_both`` tells whether there was one.
    """

    def __init__(self, module: Module, sign: float, seed: int | None = None) -> None:
        super().__init__(module)
        self._nan, self._zero = np.copysign(np.nan, sign), np.copysign(0.0, sign)
        self._chance = None if seed is None else np.random.default_rng(seed)
        self.has_both = False

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        value = super()._operated(row, operands)
        if row.opcode not in SIGNS or not isinstance(value, np.ndarray):
            return value
        if value.dtype.name not in STEP or value.dtype.kind == "c":
            return value
        if row.opcode in EXTREMES:
            either = _of_both_zeros(value, operands)
        else:
            either = self._reduced_to_both_zeros(row, value, operands)
        self.has_both |= bool(np.any(either))
        zeros = np.asarray(self._zero)
        if self._chance is not None:
            zeros = self._chance.choice([0.0, -0.0], value.shape)
        value = np.where(either, np.asarray(zeros, value.dtype), value)
        return np.where(np.isnan(value), np.asarray(self._nan, value.dtype), value)

    def _reduced_to_both_zeros(
        self, row: HloInstructionProto, value: Array, operands: list[Value]
    ) -> Any:
        """Where an extreme of many is zero, and is so without the zeros of either sign."""
        root = self._reducer(row)
        if root not in ("minimum", "maximum") or not np.any(value == 0):
            return False
        beyond = 1.0 if root == "minimum" else -1.0
        either = value == 0
        for is_negative in (False, True):
            nonzero_operands = [
                _without_zeros(np.asarray(operand), is_negative, beyond) for operand in operands
            ]
            either &= np.asarray(super()._operated(row, list(nonzero_operands))) == 0
        return either

    def _reducer(self, row: HloInstructionProto) -> str:
        """The one operation of what a reduction applies; "" where there are more."""
        if row.opcode not in ("reduce", "reduce-window"):
            return ""
        rows = self.body(row.called_computation_ids[0]).instructions
        roots = [row.opcode for row in rows if row.opcode != "parameter"]
        return roots[0] if len(roots) == 1 else ""


def _without_zeros(array: Array, is_negative: bool, beyond: float) -> Array:
    """An array with another number for its zeros of one sign."""
    zeros = (array == 0) & (np.signbit(array) == is_negative)
    return np.where(zeros, np.asarray(beyond, array.dtype), array)


def _of_both_zeros(value: Array, operands: list[Value]) -> Array:
    """Where an extreme is zero, and one of the operands 0.0, another -0.0."""
    arrays = [np.asarray(operand) for operand in operands]
    negative = [(array == 0) & np.signbit(array) for array in arrays]
    positive = [(array == 0) & ~np.signbit(array) for array in arrays]
    either = [
        np.any(np.broadcast_arrays(value, *mask)[1:], axis=0) for mask in (negative, positive)
    ]
    return (value == 0) & either[0] & either[1]


class _Flushed(_Signed):
    """Numbers below float32's normal ones are zero to every float operation, too."""

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        if row.opcode not in SIGNS and row.opcode != "compare":
            return super()._operated(row, operands)
        return super()._operated(row, [_flushed(operand) for operand in operands])


class _ByReciprocals(Evaluator):
    """Quotients are products with reciprocals in float32, infinite for divisors below 2^-128."""

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        value = super()._operated(row, operands)
        if row.opcode != "divide" or not isinstance(value, np.ndarray):
            return value
        if value.dtype.name not in STEP or value.dtype.kind == "c":
            return value
        dividend, divisor = (np.asarray(operand).astype(np.float32) for operand in operands)
        return np.asarray(dividend * (np.float32(1) / divisor)).astype(value.dtype)


def _flushed(value: Value) -> Value:
    if not isinstance(value, np.ndarray) or value.dtype.name not in STEP or value.dtype.kind == "c":
        return value
    return np.where(np.abs(value.astype(np.float64)) < 2.0**-126, value * 0, value)


class _Decided(Evaluator):
    """Keeps what operations give that jump, in their order."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.jumps: list[Value] = []

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        value = super()._operated(row, operands)
        if _jumps(row, value):
            self.jumps.append(value)
        return value


class _Rounded(Evaluator):
    """Rounds otherwise at each use, as where a fusion computes a value again; takes the same turns."""

    def __init__(self, module: Module, jumps: list[Value], seed: int, least: float) -> None:
        super().__init__(module)
        self._jumps, self._least = iter(jumps), least
        self._chance = np.random.default_rng(seed)
        self._results: dict[int, Array] = {}

    def _operated(self, row: HloInstructionProto, operands: list[Value]) -> Value:
        value = super()._operated(row, [self._used(operand) for operand in operands])
        if _jumps(row, value):
            return next(self._jumps, value)
        if row.opcode in ROUNDS and isinstance(value, np.ndarray):
            self._results[id(value)] = value  # kept, so that no other gets its id
        return value

    def _used(self, value: Value) -> Value:
        """An operand, off by a rounding error where it is the result of a float operation."""
        if not isinstance(value, np.ndarray) or id(value) not in self._results:
            return value
        step = max(STEP.get(value.dtype.name, 0.0), self._least)
        factor = 1 + self._chance.choice([-1, 1], value.shape) * step
        kind = np.complex128 if value.dtype.kind == "c" else np.float64
        return np.asarray(value.astype(kind) * factor).astype(value.dtype) if step else value


def _jumps(row: HloInstructionProto, value: Value) -> bool:
    """Return True when an operation rounds as in the default run.

    A conversion between floats is no jump, but for the rounding that it is.
    """
    if row.opcode not in JUMPS or not isinstance(value, np.ndarray):
        return False
    return row.opcode != "convert" or value.dtype.name not in STEP


def rounded_runs(
    module: Module, arrays: list[Array], seeds: range, least: float = 0.0
) -> list[list[Array]]:
    """The results of a module for each seed of its roundings, by ``least`` at least; without
    subnormal numbers; and with quotients as engines form them."""
    usual = _Decided(module)
    usual.run([array.copy() for array in arrays])
    runs: list[Evaluator] = [_Rounded(module, usual.jumps, seed, least) for seed in seeds]
    runs += [_Flushed(module, sign) for sign in (1.0, -1.0)]
    runs.append(_ByReciprocals(module))
    return [_run(run, arrays) for run in runs]


def signed_runs(module: Module, arrays: list[Array]) -> list[list[Array]]:
    """The results of a module where all NaN of arithmetic, and all zeros that are extremes of both,
    are positive; negative; then with such zeros of either sign at random."""
    runs = [_Signed(module, sign) for sign in (1.0, -1.0)]
    results = [_run(run, arrays) for run in runs]
    if any(run.has_both for run in runs):
        results += [_run(_Signed(module, 1.0, seed), arrays) for seed in range(8)]
    return results


def _run(evaluator: Evaluator, arrays: list[Array]) -> list[Array]:
    return [np.asarray(array) for array in evaluator.run([result.copy() for result in arrays])]
