"""How much precision each instruction loses: the same program in float32 beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.errors import NkiExecutionError
from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import prepare
from nki_lang.ir.types import Access, Instruction
from nki_lang.meaning import EngineState
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["PrecisionCheck"]


@dataclass(slots=True)
class _Worst:
    """The worst that one line wrote."""

    op: str
    dtype: str
    location: SourceLocation | None
    relative: float = 0.0
    ulp: float = 0.0
    value: float = 0.0
    exact: float = 0.0


class PrecisionCheck(Check):
    """For each line the largest error of what it wrote, against the float32 form.

    The second form keeps every small float type as float32 (as NKI_PRECISE_FP=0 does). Relative
    errors are to the largest magnitude of the tile, so that zeros do not count; ULPs are units
    in the last place of the destination's type.
    """

    name = "precision"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        state = EngineState(self.memory.target, core=self.memory.state.core)
        shared = [other.wide for other in self.others if isinstance(other, PrecisionCheck)]
        self.wide = Memory(
            self.memory.target, shared=shared[0] if shared else None, precise=False, state=state
        )
        self._known: set[str] = set()
        self._lines: dict[Any, _Worst] = {}

    def before(self, instruction: Instruction) -> None:
        """Let the second form start from the same inputs."""
        state = self.memory.state
        self.wide.state.exchange, self.wide.state.group = None, None
        self.wide.state.registers.update(state.registers)
        for _, access in (*reads_of(instruction), *writes_of(instruction)):
            tensor = access.tensor
            if tensor.name not in self._known and tensor.buffer is MemoryRegion.shared_hbm:
                self._known.add(tensor.name)
                if tensor.name not in self.wide.bound_names:
                    bound = self.memory.array(tensor).astype(_wide(tensor.dtype.dtype))
                    self.wide.bind(tensor.name, np.ascontiguousarray(bound))

    def after(self, instruction: Instruction) -> None:
        """Execute the second form and compare."""
        if instruction.op in ("sendrecv", "core_barrier", "device_print"):
            self._copy_over(instruction)
            return
        try:
            prepare(instruction, self.wide)()
        except (NkiExecutionError, ValueError, TypeError, IndexError):
            self._copy_over(instruction)
            return
        for _, access in writes_of(instruction):
            if access.element_type.kind == "float":
                self._compare(instruction, access)

    def _copy_over(self, instruction: Instruction) -> None:
        """Where there is no float32 form (bit patterns), it goes on from the real one."""
        for _, access in writes_of(instruction):
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
        finite = np.isfinite(got) & np.isfinite(want)
        if not finite.any():
            return
        error = np.where(finite, np.abs(got - want), 0.0)
        index = np.unravel_index(int(np.argmax(error)), error.shape)
        largest = float(np.abs(np.where(finite, want, 0.0)).max())
        key = (instruction.location, instruction.op)
        worst = self._lines.get(key)
        if worst is None:
            name = access.element_type.name
            worst = self._lines[key] = _Worst(instruction.op, name, instruction.location)
        relative = float(error[index]) / largest if largest else 0.0
        if relative > worst.relative:
            step = _ulp(float(want[index]), access.element_type.dtype)
            worst.relative, worst.ulp = relative, float(error[index]) / step
            worst.value, worst.exact = float(got[index]), float(want[index])

    def finish(self) -> list[Finding]:
        """Lines that lose precision, the worst first."""
        lines = [line for line in self._lines.values() if line.relative > 0]
        lines.sort(key=lambda line: -line.relative)
        return [
            Finding(
                self.name,
                "NKI-PRECISION",
                f"{line.op} writes {line.dtype} that is off by {line.relative:.2e} of the tile's "
                f"largest value ({line.ulp:.1f} ULP): {line.value:.6g} instead of {line.exact:.6g}",
                line.location,
                "",
                {
                    "op": line.op,
                    "dtype": line.dtype,
                    "relative": line.relative,
                    "ulp": line.ulp,
                    "value": line.value,
                    "exact": line.exact,
                },
            )
            for line in lines
        ]


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "iub" else np.dtype(np.float32)


def _ulp(value: float, dtype: np.dtype[Any]) -> float:
    """Distance of neighbours of ``value`` in a float type."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    magnitude = max(abs(value), float(info.smallest_normal))
    return float(info.eps) * 2.0 ** float(np.floor(np.log2(magnitude)))
