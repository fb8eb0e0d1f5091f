"""A kernel instance's place in its launch grid, and prints from the device."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lang.errors import fail
from nki_lang.frontend.builder import current
from nki_lang.frontend.objects import is_sequence
from nki_lang.ir import Engine
from nki_lang.memory import HBM, ON_CHIP, MemoryRegion

__all__ = [
    "device_print",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "num_programs",
    "program_id",
    "program_ndim",
]


def program_id(axis: int = 0) -> int:
    """Index of this instance along an axis of the launch grid (0 without a grid)."""
    builder = current()
    _check_axis(axis, builder.grid)
    if builder.program is not None:
        return builder.program[axis]
    return builder.core if builder.grid else 0


def num_programs(axes: Any = 0) -> int:
    """Number of instances along the axes of the launch grid (1 without a grid)."""
    builder = current()
    if axes is None:
        axes = tuple(range(len(builder.grid)))
    chosen: list[int] = list(axes) if is_sequence(axes) else [axes]
    for axis in chosen:
        _check_axis(axis, builder.grid)
    if builder.program is not None:
        return prod([builder.grid[axis] for axis in chosen])
    return builder.lnc if builder.grid else 1


def program_ndim() -> int:
    """Number of axes of the launch grid: 0 without a grid."""
    return len(current().grid)


def _check_axis(axis: int, grid: tuple[int, ...]) -> None:
    if axis not in range(max(1, len(grid))):
        fail(
            f"the launch grid has no axis {axis}",
            "NKI-GRID",
            "a grid has one axis, the cores of the logical core: kernel[2]",
            "nki/get-started/about/lnc.rst",
        )


def _region(buffer: Any) -> Any:
    return MemoryRegion("private_hbm" if buffer == "hbm" else buffer)


def is_hbm(buffer: Any) -> bool:
    """True for private and shared HBM."""
    return _region(buffer) in HBM


def is_on_chip(buffer: Any) -> bool:
    """True for SBUF and PSUM."""
    return _region(buffer) in ON_CHIP


def is_psum(buffer: Any) -> bool:
    """True for PSUM."""
    return _region(buffer) is MemoryRegion.psum


def is_sbuf(buffer: Any) -> bool:
    """True for SBUF."""
    return _region(buffer) is MemoryRegion.sbuf


def device_print(print_prefix: str, tensor: Any) -> None:
    """Print a prefix and the values of a tensor while the kernel runs."""
    from nki_lang.isa.issue import issue
    from nki_lang.isa.table import TABLE

    if type(print_prefix) is not str:
        fail(f"the prefix of device_print is a string, not {print_prefix!r}", "NKI-OPERAND",
             "nl.device_print(prefix, tensor)")  # fmt: skip
    issue(TABLE["device_print"], (print_prefix, tensor), Engine.unknown, None)
