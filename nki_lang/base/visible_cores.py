"""How many cores a process sees: one rule for every framework and for the runtimes.

NEURON_RT_VISIBLE_CORES (``0-3,6``: as many as it names), else NEURON_RT_NUM_CORES, else two, as
on the smallest Trainium machine (trn1.2xlarge has one chip with two NeuronCores).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

__all__ = ["DEFAULT_CORES", "MAX_CORES", "core_count", "parse_cores"]

DEFAULT_CORES: Final = 2
MAX_CORES: Final = 128

_LIST: Final = "NEURON_RT_VISIBLE_CORES"
_NUMBER: Final = "NEURON_RT_NUM_CORES"


def core_count(environment: Mapping[str, str] = os.environ) -> int:
    """Number of cores that this process may use, 1 to 128.

    Raises:
        ValueError: a variable's value is not a number or range of cores.
    """
    visible = environment.get(_LIST, "").strip()
    if visible:
        return _checked(_LIST, visible, len(set(parse_cores(visible))))
    number = environment.get(_NUMBER, "").strip()
    if number:
        return _checked(_NUMBER, number, int(number) if number.isdecimal() else 0)
    return DEFAULT_CORES


def _checked(variable: str, text: str, count: int) -> int:
    if 1 <= count <= MAX_CORES:
        return count
    raise ValueError(
        f"{variable}={text!r} names no usable number of cores; use 1 to {MAX_CORES}, for "
        f"instance {_NUMBER}=2"
    )


def parse_cores(text: str) -> list[int]:
    """``"0-3,8"`` as numbers.

    Raises:
        ValueError: it is not a list of numbers and ranges.
    """
    cores: list[int] = []
    for field in text.split(","):
        first, dash, last = (bound.strip() for bound in field.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{_LIST}={text!r} is not a list of cores such as '0,1' or '0-3,8-11'")
        end = int(last) if dash else int(first)
        if end < int(first) or end - int(first) > 4096:
            raise ValueError(f"{_LIST}={text!r}: the range {field!r} is not possible")
        cores += range(int(first), end + 1)
    return cores
