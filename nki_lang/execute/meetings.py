"""Uninitialised-element marks across ranks: a collective exchanges marks as it exchanges values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.execute.marks import Mask
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction, Register
from nki_lang.semantics import SEMANTICS, TRAITS

__all__ = ["SENT_OPERANDS", "Received", "first_marks", "received", "receives"]

SENT_OPERANDS = {
    "all_reduce": ("srcs",),
    "all_gather": ("srcs",),
    "reduce_scatter": ("srcs",),
    "all_to_all": ("srcs",),
    "collective_permute": ("srcs",),
    "collective_permute_implicit": ("srcs_by_channel",),
    "collective_permute_implicit_reduce": ("srcs0_by_channel", "srcs1_by_channel"),
    "all_to_all_v": ("srcs",),
    "all_gather_v": ("srcs",),
}
"""The operands that each collective sends."""

_UNCHANGED_MARK = 2
"""Mark of elements that the collective does not write."""


@dataclass(frozen=True, slots=True)
class Received:
    """The marks that one destination received.

    Attributes:
        access: the destination.
        mask: elements that were computed from uninitialised memory.
        unchanged: elements that no rank sent.
    """

    access: Access
    mask: Mask
    unchanged: Mask


def receives(instruction: Instruction, memory: Memory) -> bool:
    """Return True if a rank sends to this rank, so that its destinations are written."""
    pairs = instruction.operands.get("source_target_pairs")
    return pairs is None or any(target == memory.state.rank for _, target in pairs)


def first_marks(instruction: Instruction, memory: Memory, origin: object) -> Any:
    """Return the first origin of marks among the values that all ranks of the group send, or
    None.
    """
    state = memory.state
    members = _members(instruction, state.rank)
    if state.group is None or state.rank not in members:
        return origin
    key = (f"marks of {instruction.op}",)
    origins = state.group.meet(state.rank, members, key, origin, instruction.location)
    return next((origins[rank] for rank in members if origins[rank] is not None), None)


def received(instruction: Instruction, memory: Memory, sent: dict[str, object]) -> list[Received]:
    """Return the marks of each destination, after every rank has sent its own (``sent``, by
    operand).
    """
    op = instruction.op
    target = TRAITS[op].writes[0]
    dsts = instruction.operands[target]
    arguments = {
        name: _value(value, memory)
        for name, value in instruction.operands.items()
        if name != target and name not in sent
    }
    if "op" in arguments:
        arguments["op"] = "maximum"
    if "recv_counts_known" in arguments or op.endswith("_v"):
        arguments["recv_counts_known"] = True
    marked = _map_accesses(dsts, _all_unchanged)
    injected = {"state": memory.state, "location": instruction.location}
    SEMANTICS[op](**{target: marked}, **sent, **arguments, **injected)
    pairs = zip(_leaves(dsts), _leaves(marked), strict=True)
    return [Received(access, marks == 1, marks == _UNCHANGED_MARK) for access, marks in pairs]


def _members(instruction: Instruction, rank: int) -> tuple[int, ...]:
    """Return the ranks that take part, as the collective's semantics select them."""
    pairs = instruction.operands.get("source_target_pairs")
    if pairs is not None:
        return tuple(sorted({member for pair in pairs for member in pair}))
    groups = instruction.operands["replica_group"]
    return next((tuple(group) for group in groups if rank in group), ())


def _value(value: object, memory: Memory) -> object:
    if type(value) is Access:
        return memory.read(value).copy()
    return memory.state.registers[value.name] if type(value) is Register else value


def masks_of(value: object, mask_of: Callable[[Access], Mask]) -> Any:
    """Return the marks of the sent tensors, as arrays that a collective's function takes."""

    def mask(access: Access) -> Mask:
        return mask_of(access).astype(np.uint8)

    return _map_accesses(value, mask)


def no_marks(access: Access) -> Mask:
    """Return a mask without marks."""
    return np.zeros(access.shape, np.bool_)


def _all_unchanged(access: Access) -> Mask:
    return np.full(access.shape, _UNCHANGED_MARK, np.uint8)


def _map_accesses(value: Any, make: Callable[[Access], Mask]) -> Any:
    """Return a nested list of accesses with each access replaced."""
    return (
        make(value)
        if type(value) is Access
        else tuple([_map_accesses(entry, make) for entry in value])
    )


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the entries of a nested list; an access is a tuple of another class and no list."""
    if type(value) is tuple or type(value) is list:
        for entry in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(entry)
    else:
        yield value
