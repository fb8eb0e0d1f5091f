"""How much precision each instruction loses: the same program in float32 beside it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.dtypes import Array, finfo
from nki_lang.errors import NkiExecutionError
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import prepare
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import EngineState
from nki_lang.source import SourceLocation

__all__ = ["PrecisionCheck"]

_MEETINGS = frozenset({"sendrecv", "core_barrier", "device_print"})


@dataclass(slots=True)
class _Worst:
    """The worst that one line wrote.

    Attributes:
        relative: largest error, relative to the largest magnitude of its tile.
        ulp: that error in units in the last place of the element.
        own: largest error, likewise relative, that the instruction itself added to its inputs.
        value, exact: the element, and what it is in float32.
    """

    op: str
    dtype: str
    location: SourceLocation | None
    relative: float = 0.0
    ulp: float = 0.0
    own: float = 0.0
    value: float = 0.0
    exact: float = 0.0


class PrecisionCheck(Check):
    """For each line the largest error of what it wrote, and what of it is the line's own.

    Two more forms run beside the program and keep every small float type as float32 (as
    NKI_PRECISE_FP=0 does): one goes on from its own results, so its distance is the whole error
    up to there; the other starts each instruction from the program's values, so its distance is
    what that instruction adds. Errors are relative to the largest magnitude of the tile, so that
    zeros do not count; ULPs are units in the last place of the destination's type.
    """

    name = "precision"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        state = EngineState(self.memory.target, core=self.memory.state.core)
        shared = [other.wide for other in self.others if isinstance(other, PrecisionCheck)]
        self.wide = Memory(
            self.memory.target, shared=shared[0] if shared else None, precise=False, state=state
        )
        self._here: Memory | None = None
        self._known: set[str] = set()
        self._lines: dict[Any, _Worst] = {}

    def before(self, step: Step) -> None:
        """Let the other forms start from the same inputs."""
        state = self.memory.state
        self.wide.state.exchange, self.wide.state.group = None, None
        self.wide.state.registers.update(state.registers)
        for _, access in (*step.reads, *step.writes):
            tensor = access.tensor
            if tensor.name not in self._known and tensor.buffer is MemoryRegion.shared_hbm:
                self._known.add(tensor.name)
                if tensor.name not in self.wide.bound_names:
                    bound = self.memory.array(tensor).astype(_wide(tensor.dtype.dtype))
                    self.wide.bind(tensor.name, np.ascontiguousarray(bound))
        self._here = self._starting_here(step)

    def _starting_here(self, step: Step) -> Memory | None:
        """Memory that holds what the instruction reads; None for those that gather or meet."""
        accesses = [access for _, access in (*step.reads, *step.writes)]
        if step.instruction.op in _MEETINGS or any(access.is_dynamic for access in accesses):
            return None
        state = copy.copy(self.memory.state)
        state.registers, state.random = dict(state.registers), copy.deepcopy(state.random)
        here = Memory(self.memory.target, precise=False, state=state)
        try:
            for access in accesses:
                here.view(access)[...] = self.value(access)
        except (NkiExecutionError, ValueError, TypeError):
            return None
        return here

    def after(self, step: Step) -> None:
        """Execute the other forms and compare."""
        instruction = step.instruction
        if instruction.op in _MEETINGS:
            self._copy_over(step)
            return
        try:
            prepare(instruction, self.wide)()
            if self._here is not None:
                prepare(instruction, self._here)()
        except (NkiExecutionError, ValueError, TypeError, IndexError):
            self._copy_over(step)
            return
        for _, access in step.writes:
            if access.element_type.kind == "float":
                self._compare(instruction, access)

    def _copy_over(self, step: Step) -> None:
        """Where there is no float32 form (bit patterns), it goes on from the real one."""
        for _, access in step.writes:
            value = self.value(access)
            try:
                target = self.wide.view(access._replace(vector_offset=None))
            except NkiExecutionError:
                continue
            if target.shape == value.shape:
                target[...] = value.astype(target.dtype)

    def _compare(self, instruction: Instruction, access: Access) -> None:
        got = self.value(access).astype(np.float64)
        want = self.wide.read(access, skip=True).astype(np.float64)
        found = _largest_error(got, want)
        if found is None:
            return
        index, relative = found
        key = (instruction.location, instruction.op)
        worst = self._lines.get(key)
        if worst is None:
            name = access.element_type.name
            worst = self._lines[key] = _Worst(instruction.op, name, instruction.location)
        if relative > worst.relative:
            step = _ulp(float(want[index]), access.element_type.dtype)
            worst.relative, worst.ulp = relative, abs(float(got[index] - want[index])) / step
            worst.value, worst.exact = float(got[index]), float(want[index])
        if self._here is not None:
            own = _largest_error(got, self._here.read(access).astype(np.float64))
            worst.own = max(worst.own, own[1] if own else 0.0)

    def finish(self) -> list[Finding]:
        """Lines that lose precision, those that add most first."""
        lines = [line for line in self._lines.values() if line.relative > 0]
        lines.sort(key=lambda line: (-line.own, -line.relative))
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
                    "own": line.own,
                    "ulp": line.ulp,
                    "value": line.value,
                    "exact": line.exact,
                },
            )
            for line in lines
        ]


def _largest_error(got: Array, want: Array) -> tuple[tuple[int, ...], float] | None:
    """Index of the largest error, and its size relative to the largest magnitude."""
    finite = np.isfinite(got) & np.isfinite(want)
    if not finite.any():
        return None
    error = np.where(finite, np.abs(got - want), 0.0)
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    index = tuple(int(part) for part in place)
    largest = float(np.abs(np.where(finite, want, 0.0)).max())
    return index, float(error[index]) / largest if largest else 0.0


def _share(line: _Worst) -> str:
    if not line.own:
        return "all of it from its inputs"
    if line.own >= 0.99 * line.relative:
        return "its own"
    return f"{line.own:.1e} of it its own"


def _ulps(count: float) -> str:
    return f"{count:.1f}" if count < 1000 else f"{count:.1e}"


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "iub" else np.dtype(np.float32)


def _ulp(value: float, dtype: np.dtype[Any]) -> float:
    """Distance of neighbours of ``value`` in a float type."""
    info = finfo(dtype)
    magnitude = max(abs(value), float(info.smallest_normal))
    return float(info.eps) * 2.0 ** float(np.floor(np.log2(magnitude)))
