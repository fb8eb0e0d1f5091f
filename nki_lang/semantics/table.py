"""The table of instruction semantics: one NumPy function for each instruction.

A function takes the instruction's operands by their public names: tensors as NumPy views (it
writes its results into the views), source registers as ``int``, everything else as it is in
the instruction. It receives more arguments by naming these parameters:

* ``state``: the :class:`~nki_lang.semantics.state.EngineState` of the core;
* ``accesses``: the operands as they are in the instruction (for dtypes and buffers);
* ``engine``: the instruction's engine;
* ``location``: the user's line.

Functions of register instructions (``raw=True``) get Register objects. The caller silences
floating point warnings (``np.errstate``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["SEMANTICS", "TRAITS", "InstructionFunction", "Traits", "semantics"]

InstructionFunction = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Traits:
    """How to call an instruction's function, and which operands the instruction uses.

    Attributes:
        writes: operands that the instruction writes.
        updates: the operands of ``writes`` whose old content matters (accumulation, predication).
        injected: the additional parameters listed above that the function takes.
        raw: registers are passed as Register objects.
        parallel: each partition of the output depends on the same partition of the inputs
            (used to track uninitialised memory).
        elementwise: each element of the output depends on the same element of the inputs.
        aligned: the written operands that are elementwise; others have one value per partition.
    """

    writes: tuple[str, ...]
    updates: tuple[str, ...]
    injected: frozenset[str]
    raw: bool
    parallel: bool
    elementwise: bool
    aligned: tuple[str, ...] = ()


_SEMANTICS: dict[str, InstructionFunction] = {}
_TRAITS: dict[str, Traits] = {}

SEMANTICS: Mapping[str, InstructionFunction] = MappingProxyType(_SEMANTICS)
TRAITS: Mapping[str, Traits] = MappingProxyType(_TRAITS)

_INJECTABLE = frozenset({"state", "accesses", "engine", "location"})


def semantics(
    *writes: str,
    updates: tuple[str, ...] = (),
    raw: bool = False,
    parallel: bool = False,
    elementwise: bool = False,
    aligned: tuple[str, ...] = (),
    name: str | None = None,
) -> Callable[[InstructionFunction], InstructionFunction]:
    """Register a function in the table under its own name (or ``name``).

    ``writes`` are the operands that it writes: by default ``dst``, none for ``semantics("")``.
    """

    def enter(function: InstructionFunction) -> InstructionFunction:
        op = name or function.__name__
        written = tuple(filter(None, writes)) if writes else ("dst",)
        injected = _INJECTABLE & inspect.signature(function).parameters.keys()
        _SEMANTICS[op] = function
        _TRAITS[op] = Traits(
            written,
            updates,
            frozenset(injected),
            raw,
            parallel or elementwise,
            elementwise,
            written if elementwise else aligned,
        )
        return function

    return enter
