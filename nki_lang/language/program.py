"""A kernel instance's place in its launch grid, and prints from the device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from nki_lang.base.errors import fail
from nki_lang.base.memory import HBM, ON_CHIP, MemoryRegion
from nki_lang.frontend.builder import current
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine

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
    """Index of this instance along an axis of the launch grid (0 without a grid).

    Args:
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.

    Returns:
        int: the index.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-GRID.

    Source: nl.program_id (nki/api/nki/language, NKI 0.6.0).

    Example::

        half = 64 * nl.program_id(0)
    """
    builder = current()
    _check_axis(axis, builder.grid)
    if builder.program is not None:
        return builder.program[axis]
    return builder.core if builder.grid else 0


def num_programs(axes: int | Sequence[int] | None = 0) -> int:
    """Number of instances along the axes of the launch grid (1 without a grid).

    Args:
        axes: an axis or several; None for all.

    Returns:
        int: the number.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-GRID.

    Source: nl.num_programs (nki/api/nki/language, NKI 0.6.0).

    Example::

        cores = nl.num_programs(0)
    """
    builder = current()
    if axes is None:
        axes = tuple(range(len(builder.grid)))
    chosen: Sequence[int] = list(axes) if isinstance(axes, Sequence) else [axes]
    for axis in chosen:
        _check_axis(axis, builder.grid)
    if builder.program is not None:
        return prod([builder.grid[axis] for axis in chosen])
    return builder.lnc if builder.grid else 1


def program_ndim() -> int:
    """Number of axes of the launch grid: 0 without a grid.

    Returns:
        int: the number.

    Source: nl.program_ndim (nki/api/nki/language, NKI 0.6.0).

    Example::

        axes = nl.program_ndim()
    """
    return len(current().grid)


def _check_axis(axis: int, grid: tuple[int, ...]) -> None:
    if axis not in range(max(1, len(grid))):
        fail(
            f"the launch grid has no axis {axis}",
            "NKI-GRID",
            "a grid has one axis, the cores of the logical core: kernel[2]",
            "nki/get-started/about/lnc.rst",
        )


def _region(buffer: object) -> Any:
    return MemoryRegion("private_hbm" if buffer == "hbm" else buffer)


def is_hbm(buffer: MemoryRegion | str) -> bool:
    """True for private and shared HBM.

    Args:
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.

    Returns:
        bool.

    Source: nl.is_hbm (nki/api/nki/language, NKI 0.6.0).

    Example, given x (128, 512) float32 in HBM::

        assert nl.is_hbm(x.buffer)
    """
    return _region(buffer) in HBM


def is_on_chip(buffer: MemoryRegion | str) -> bool:
    """True for SBUF and PSUM.

    Args:
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.

    Returns:
        bool.

    Source: nl.is_on_chip (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        assert nl.is_on_chip(a.buffer)
    """
    return _region(buffer) in ON_CHIP


def is_psum(buffer: MemoryRegion | str) -> bool:
    """True for PSUM.

    Args:
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.

    Returns:
        bool.

    Source: nl.is_psum (nki/api/nki/language, NKI 0.6.0).

    Example, given product a (128, 512) float32 tile in PSUM::

        assert nl.is_psum(product.buffer)
    """
    return _region(buffer) is MemoryRegion.psum


def is_sbuf(buffer: MemoryRegion | str) -> bool:
    """True for SBUF.

    Args:
        buffer: the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.

    Returns:
        bool.

    Source: nl.is_sbuf (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        assert nl.is_sbuf(a.buffer)
    """
    return _region(buffer) is MemoryRegion.sbuf


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a prefix and the values of a tensor while the kernel runs.

    Args:
        print_prefix: what is printed before the values.
        tensor: a tensor of any memory.

    Returns:
        None.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND.

    Source: nl.device_print (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        nl.device_print("a: ", a[0:1, 0:4])
    """
    from nki_lang.isa.issue import issue
    from nki_lang.isa.table import TABLE

    if type(print_prefix) is not str:
        fail(f"the prefix of device_print is a string, not {print_prefix!r}", "NKI-OPERAND",
             "nl.device_print(prefix, tensor)")  # fmt: skip
    issue(TABLE["device_print"], (print_prefix, tensor), Engine.unknown, None)
