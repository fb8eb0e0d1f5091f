"""Which cores a process sees: NEURON_RT_VISIBLE_CORES and NEURON_RT_NUM_CORES."""

from __future__ import annotations

import os

__all__ = ["parse_cores", "visible_core_count"]

SIMULATED_CORES = 32
"""Cores when nothing says otherwise: those of the largest trn1 machine."""


def parse_cores(text: str) -> list[int]:
    """``"0-3,8"`` as numbers.

    Raises:
        ValueError: it is no list of numbers and ranges.
    """
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(
                f"NEURON_RT_VISIBLE_CORES={text!r} is no list of cores such as '0,1' or '0-3,8-11'"
            )
        end = int(last) if dash else int(first)
        if end < int(first) or end - int(first) > 4096:
            raise ValueError(
                f"NEURON_RT_VISIBLE_CORES={text!r}: the range {part!r} is not possible"
            )
        cores += range(int(first), end + 1)
    return cores


def visible_core_count() -> int:
    """Number of cores that this process may use."""
    visible = os.environ.get("NEURON_RT_VISIBLE_CORES", "")
    if visible.strip():
        return len(set(parse_cores(visible)))
    count = os.environ.get("NEURON_RT_NUM_CORES", "")
    return int(count) if count.isdecimal() and int(count) > 0 else SIMULATED_CORES
