"""Costs of instructions and kernels on a target, as the texts that a page shows.

Graph instructions have the bounds of the roofline; kernels what their files say, and the estimate
of ``nki-hlo kernels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hlo_tools.errors import CodedError, HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls.description import cost_of, work_of
from hlo_tools.kernels.calls import KernelCall, resolve
from hlo_tools.stats.roofline import Work, roofline
from hlo_tools.stats.units import bytes_text, time_text

__all__ = ["Costs"]

_ENGINES = {"memory": "DMA", "tensor": "tensor", "vector": "vector", "scalar": "scalar"}
_MAX_IR_CHARACTERS = 100_000
"""A page shows no more of a kernel's IR, so that it stays small enough to load."""

Pairs = tuple[tuple[str, str], ...]
Sheet = tuple[Pairs, Pairs]
"""(name, text) pairs, and (title, text) pairs of listings."""


class Costs:
    """Costs of a module's instructions on one core of a target, each kernel read once."""

    def __init__(self, module: Module, target: str) -> None:
        self.target = target
        self.root = module.folder or Path.cwd()
        self.kernels: dict[bytes, Sheet] = {}
        self.work: dict[tuple[str, str], Work] = {}
        try:
            bounds = roofline(module, target)
        except HloError:
            return  # a module that cannot be counted is drawn all the same
        self.work = {(work.computation, work.instruction): work for work in bounds.work}

    def of(self, view: Instruction) -> Pairs:
        """The costs of a graph instruction; of what costs nothing, none."""
        work = self.work.get((view.computation.name, view.name))
        return _of_work(work, self.target) if work is not None else ()

    def of_kernel(self, call: Instruction) -> Sheet:
        """The costs of a kernel, its instructions, and its lines with their engines."""
        key = call.backend_config
        sheet = self.kernels.get(key)
        if sheet is None:
            sheet = self.kernels[key] = self._read(call)
        return sheet

    def _read(self, call: Instruction) -> Sheet:
        try:
            resolved = resolve(call.backend_config, self.root)
        except CodedError as error:
            return (("costs", f"unknown: [{error.code}] {error.message}"),), ()
        kernel = resolved.kernel
        work = work_of(kernel)
        ir = str(kernel)
        if len(ir) > _MAX_IR_CHARACTERS:
            ir = ir[:_MAX_IR_CHARACTERS] + "\n… (nki-hlo kernels --ir prints all)"
        pairs = (
            ("MACs", _counted(work.macs)),
            ("bytes read", _counted(work.bytes_read)),
            ("bytes written", _counted(work.bytes_written)),
            ("target", f"{kernel.target}, cores: {kernel.lnc}"),
        )
        estimate, lines = _estimated(resolved)
        return (*pairs, *estimate), (*lines, ("Kernel's IR", ir))


def _counted(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _estimated(call: KernelCall) -> Sheet:
    """Time by engine, and by line of the kernel's source."""
    try:
        report = cast("Mapping[str, object]", cost_of(call.kernel))
    except CodedError as error:
        return (("engines", f"unknown: [{error.code}] {error.message}"),), ()
    rows = cast("list[Mapping[str, object]]", report["lines"])
    engines: dict[str, float] = {}
    for row in rows:
        name = str(row["engine"])
        engines[name] = engines.get(name, 0.0) + cast("float", row["self_us"])
    busy = ", ".join(
        f"{name} {us:,.1f} us" for name, us in sorted(engines.items(), key=lambda e: -e[1])
    )
    low, high = report["low_us"], report["high_us"]
    total = f"{report['total_us']:,.1f} us ({low:,.1f} to {high:,.1f})"
    lines = "\n".join(
        f"{row['line']}  {row['engine']}  {row['opcode']} x{row['count']}  {row['self_us']:,.1f} us"
        for row in rows
    )
    return (("estimated", total), ("engines", busy)), (("Kernel's lines", lines),) if rows else ()


def _of_work(work: Work, target: str) -> Pairs:
    """The costs of one run; engines that do something, the slowest first."""
    runs = max(work.runs, 1)
    counts = (("MACs", work.products // 2), ("FLOPs", work.flops), ("functions", work.transcendentals))  # fmt: skip
    busy = sorted(work.seconds.items(), key=lambda item: -item[1])
    engines = ", ".join(f"{_ENGINES[k]} {time_text(s / runs)}" for k, s in busy if s > 0)
    return (
        *((name, f"{number // runs:,}") for name, number in counts if number),
        ("bytes", f"{work.bytes // runs:,} ({bytes_text(work.bytes / runs)})"),
        *((("runs", f"{runs:,}"),) if runs > 1 else ()),
        ("engines", f"{engines} at least on {target}"),
        ("bound by", _ENGINES[work.bound]),
    )
