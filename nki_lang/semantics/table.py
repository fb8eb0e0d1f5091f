"""The table of meanings: one NumPy function for each instruction.

A meaning takes the instruction's operands by their public names: tensors as NumPy views (what
it writes, it writes into the view), source registers as ``int``, everything else as it is in
the instruction. It receives more by naming these parameters:

* ``state``: the :class:`~nki_lang.semantics.state.EngineState` of the core;
* ``accesses``: the operands as they stand in the instruction (for dtypes and buffers);
* ``engine``: the instruction's engine;
* ``location``: the user's line.

Meanings of registers (``raw=True``) get Register objects as they are.
Floating point warnings are the caller's to silence (``np.errstate``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MEANINGS", "TRAITS", "Meaning", "Traits", "meaning"]

Meaning = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Traits:
    """How a meaning wants to be called, and what the instruction touches.

    Attributes:
        writes: operands that the instruction writes.
        updates: those of ``writes`` whose old content matters (accumulation, predication).
        injected: which of the parameters above it takes.
        raw: registers are handed over as they are.
        parallel: each partition of the output depends on the same partition of the inputs
            (used when tracing where uninitialised memory goes).
        elementwise: each element of the output depends on the same element of the inputs.
        aligned: the written operands of which that is true; others have one value a partition.
    """

    writes: tuple[str, ...]
    updates: tuple[str, ...]
    injected: frozenset[str]
    raw: bool
    parallel: bool
    elementwise: bool
    aligned: tuple[str, ...] = ()


_MEANINGS: dict[str, Meaning] = {}
_TRAITS: dict[str, Traits] = {}

MEANINGS: Mapping[str, Meaning] = MappingProxyType(_MEANINGS)
TRAITS: Mapping[str, Traits] = MappingProxyType(_TRAITS)

_INJECTABLE = frozenset({"state", "accesses", "engine", "location"})


def meaning(
    *writes: str,
    updates: tuple[str, ...] = (),
    raw: bool = False,
    parallel: bool = False,
    elementwise: bool = False,
    aligned: tuple[str, ...] = (),
    name: str | None = None,
) -> Callable[[Meaning], Meaning]:
    """Enter a function in the table under its own name (or ``name``).

    ``writes`` are the operands it writes: ``dst`` without any, none for ``meaning("")``.
    """

    def enter(function: Meaning) -> Meaning:
        op = name or function.__name__
        written = tuple(filter(None, writes)) if writes else ("dst",)
        taken = _INJECTABLE & inspect.signature(function).parameters.keys()
        _MEANINGS[op] = function
        _TRAITS[op] = Traits(
            written,
            updates,
            frozenset(taken),
            raw,
            parallel or elementwise,
            elementwise,
            written if elementwise else aligned,
        )
        return function

    return enter
