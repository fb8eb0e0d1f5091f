"""Check that measures the precision that each instruction loses, by running it in float32 as
well.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array, finfo
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import prepare
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import EngineState

__all__ = ["PrecisionCheck"]

_SYNCHRONIZING_OPS = frozenset({"sendrecv", "core_barrier", "device_print"})


@dataclass(slots=True)
class _LineError:
    """The largest errors of one source line.

    Attributes:
        relative: largest error, relative to the largest magnitude of its tile.
        ulp: that error in units in the last place of the element.
        added: largest error, likewise relative, that the instruction itself added to its inputs.
        value, exact: the element, and its value in float32.
    """

    op: str
    dtype: str
    location: SourceLocation | None
    relative: float = 0.0
    ulp: float = 0.0
    added: float = 0.0
    value: float = 0.0
    exact: float = 0.0


class PrecisionCheck(Check):
    """Computes for each line the largest error of its results, and how much of it the line adds.

    Two more executions run next to the program and store every small float type as float32 (as
    NKI_PRECISE_FP=0 does). The first continues from its own results, so its distance from the program
    is the accumulated error. The second starts each instruction from the program's values, so its
    distance is the error that this instruction adds. Errors are relative to the largest magnitude of
    the tile, so that zeros do not count; ULPs are units in the last place of the destination's type.
    """

    name = "precision"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        state = EngineState(self.memory.target, core=self.memory.state.core)
        shared = [check.wide for check in self.earlier_checks if isinstance(check, PrecisionCheck)]
        self.wide = Memory(
            self.memory.target, shared=shared[0] if shared else None, precise=False, state=state
        )
        self._single_step: Memory | None = None
        self._bound: set[str] = set()
        self._lines: dict[Any, _LineError] = {}

    def before(self, step: Step) -> None:
        """Copy the inputs to both float32 executions."""
        state = self.memory.state
        self.wide.state.exchange, self.wide.state.group = None, None
        self.wide.state.registers.update(state.registers)
        for _, access in (*step.reads, *step.writes):
            tensor = access.tensor
            if tensor.name not in self._bound and tensor.buffer is MemoryRegion.shared_hbm:
                self._bound.add(tensor.name)
                if tensor.name not in self.wide.bound_names:
                    array = self.memory.array(tensor).astype(_wide(tensor.dtype.dtype))
                    self.wide.bind(tensor.name, np.ascontiguousarray(array))
        self._single_step = self._single_step_memory(step)

    def _single_step_memory(self, step: Step) -> Memory | None:
        """Return a memory with the inputs of the instruction; None for gathers and
        synchronization.
        """
        accesses = [access for _, access in (*step.reads, *step.writes)]
        if step.instruction.op in _SYNCHRONIZING_OPS or any(
            access.is_dynamic for access in accesses
        ):
            return None
        state = copy.copy(self.memory.state)
        state.registers, state.random = dict(state.registers), copy.deepcopy(state.random)
        memory = Memory(self.memory.target, precise=False, state=state)
        try:
            for access in accesses:
                memory.view(access)[...] = self.value(access)
        except (NkiExecutionError, ValueError, TypeError):
            return None
        return memory

    def after(self, step: Step) -> None:
        """Execute the instruction in both float32 executions and compare the results."""
        instruction = step.instruction
        if instruction.op in _SYNCHRONIZING_OPS:
            self._copy_over(step)
            return
        try:
            prepare(instruction, self.wide)()
            if self._single_step is not None:
                prepare(instruction, self._single_step)()
        except (NkiExecutionError, ValueError, TypeError, IndexError):
            self._copy_over(step)
            return
        for _, access in step.writes:
            if access.element_type.kind == "float":
                self._compare(instruction, access)

    def _copy_over(self, step: Step) -> None:
        """Continue from the program's values, where no float32 form exists (bit patterns)."""
        for _, access in step.writes:
            value = self.value(access)
            try:
                target = self.wide.view(access._replace(vector_offset=None))
            except NkiExecutionError:
                continue
            if target.shape == value.shape:
                target[...] = value.astype(target.dtype)

    def _compare(self, instruction: Instruction, access: Access) -> None:
        actual = self.value(access).astype(np.float64)
        expected = self.wide.read(access, skip=True).astype(np.float64)
        largest = _largest_error(actual, expected)
        if largest is None:
            return
        index, relative = largest
        key = (instruction.location, instruction.op)
        worst = self._lines.get(key)
        if worst is None:
            name = access.element_type.name
            worst = self._lines[key] = _LineError(instruction.op, name, instruction.location)
        if relative > worst.relative:
            step = _ulp(float(expected[index]), access.element_type.dtype)
            worst.relative, worst.ulp = relative, abs(float(actual[index] - expected[index])) / step
            worst.value, worst.exact = float(actual[index]), float(expected[index])
        if self._single_step is not None:
            added = _largest_error(actual, self._single_step.read(access).astype(np.float64))
            worst.added = max(worst.added, added[1] if added else 0.0)

    def finish(self) -> list[Finding]:
        """Return the lines that lose precision, sorted by the error that they add."""
        lines = [line for line in self._lines.values() if line.relative > 0]
        lines.sort(key=lambda line: (-line.added, -line.relative))
        return [
            Finding(
                self.name,
                "NKI-PRECISION",
                f"{line.op} writes {line.dtype}: error {line.relative:.1e} of the tile's largest "
                f"value ({_ulps(line.ulp)} ULP), {_share(line)}; {line.value:.6g} instead of "
                f"{line.exact:.6g}",
                line.location,
                "",
                {
                    "op": line.op,
                    "dtype": line.dtype,
                    "relative": line.relative,
                    "own": line.added,
                    "ulp": line.ulp,
                    "value": line.value,
                    "exact": line.exact,
                },
            )
            for line in lines
        ]


def _largest_error(actual: Array, expected: Array) -> tuple[tuple[int, ...], float] | None:
    """Return the index of the largest error and its size relative to the largest magnitude."""
    finite = np.isfinite(actual) & np.isfinite(expected)
    if not finite.any():
        return None
    error = np.where(finite, np.abs(actual - expected), 0.0)
    position = np.unravel_index(int(np.argmax(error)), error.shape)
    index = tuple(int(coordinate) for coordinate in position)
    largest = float(np.abs(np.where(finite, expected, 0.0)).max())
    return index, float(error[index]) / largest if largest else 0.0


def _share(line: _LineError) -> str:
    if not line.added:
        return "all of it from its inputs"
    if line.added >= 0.99 * line.relative:
        return "its own"
    return f"{line.added:.1e} of it its own"


def _ulps(count: float) -> str:
    return f"{count:.1f}" if count < 1000 else f"{count:.1e}"


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "iub" else np.dtype(np.float32)


def _ulp(value: float, dtype: np.dtype[Any]) -> float:
    """Return the distance between ``value`` and its neighbor in a float type."""
    info = finfo(dtype)
    magnitude = max(abs(value), float(info.smallest_normal))
    return float(info.eps) * 2.0 ** float(np.floor(np.log2(magnitude)))
