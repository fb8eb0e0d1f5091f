"""Which elements of the outputs a program writes, as far as that is known before it runs."""

from __future__ import annotations

import numpy as np

from neff.program import Variable
from neff.runtime.closures import written_by
from nki_lang.ir import Instruction

__all__ = ["unwritten"]

_MAX_ELEMENTS = 1 << 28
"""Above this the map would take too much memory; the output counts as not fully written."""


def unwritten(variables: dict[str, Variable], instructions: list[Instruction]) -> dict[str, int]:
    """Bytes of each variable that nothing writes; those fully written are left out.

    A write to a place that is only known while the program runs counts as a write to the whole
    variable: what is reported as unwritten certainly is.
    """
    writes: dict[str, list[tuple[int, tuple[tuple[int, int], ...], int]]] = {}
    anywhere: set[str] = set()
    for instruction in instructions:
        for access in written_by(instruction):
            name = access.tensor.name
            if name not in variables:
                continue
            if access.is_dynamic:
                anywhere.add(name)
            else:
                size = access.element_type.itemsize
                writes.setdefault(name, []).append((access.offset, access.pattern, size))
    missing: dict[str, int] = {}
    for name, variable in variables.items():
        if name in anywhere or not variable.nbytes:
            continue
        left = _left(variable, writes.get(name, []))
        if left:
            missing[name] = left
    return missing


def _left(variable: Variable, writes: list[tuple[int, tuple[tuple[int, int], ...], int]]) -> int:
    """Bytes not written; counted in units of the smallest element any write uses."""
    unit = min([variable.dtype.itemsize, *(size for _, _, size in writes)])
    count = variable.nbytes // unit
    if count > _MAX_ELEMENTS:
        return variable.nbytes
    seen = np.zeros(count, np.bool_)
    for offset, pattern, size in writes:
        scale = size // unit
        shape = (*(extent for _, extent in pattern), scale)
        strides = (*(step * scale for step, _ in pattern), 1)
        if 0 in shape or not _inside(offset * scale, shape, strides, count):
            continue
        np.ndarray(shape, np.bool_, seen, offset * scale, strides)[...] = True
    return int(count - np.count_nonzero(seen)) * unit


def _inside(first: int, shape: tuple[int, ...], strides: tuple[int, ...], count: int) -> bool:
    """Whether a strided window lies in the map; NumPy checks nothing here for negative steps."""
    low = high = first
    for extent, stride in zip(shape, strides, strict=True):
        low += min(0, stride * (extent - 1))
        high += max(0, stride * (extent - 1))
    return low >= 0 and high < count
