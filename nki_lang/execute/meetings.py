"""Marks of what the ranks of a group exchange: a collective hands them over as it does values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.execute.marks import Mask
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction, Register
from nki_lang.semantics import MEANINGS, TRAITS

__all__ = ["COLLECTIVES", "Received", "first_marks", "received", "receives"]

COLLECTIVES = {
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
"""What each collective sends."""

_KEPT = 2
"""Stands for a mark that the collective leaves as it is."""


@dataclass(frozen=True, slots=True)
class Received:
    """What one destination got.

    Attributes:
        access: the destination.
        mask: elements that were computed from nowhere.
        kept: elements that nobody sent.
    """

    access: Access
    mask: Mask
    kept: Mask


def receives(instruction: Instruction, memory: Memory) -> bool:
    """This rank's destinations are written: somebody sends to it."""
    pairs = instruction.operands.get("source_target_pairs")
    return pairs is None or any(target == memory.state.rank for _, target in pairs)


def first_marks(instruction: Instruction, memory: Memory, own: Any) -> Any:
    """The first origin of marks among what all ranks of the group send; None: nobody sends any."""
    state = memory.state
    members = _members(instruction, state.rank)
    if state.group is None or state.rank not in members:
        return own
    what = (f"marks of {instruction.op}",)
    met = state.group.meet(state.rank, members, what, own, instruction.location)
    return next((met[rank] for rank in members if met[rank] is not None), None)


def received(instruction: Instruction, memory: Memory, sent: dict[str, Any]) -> list[Received]:
    """The marks of each destination, when every rank hands over its own (``sent``, by operand)."""
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
    made = _each(dsts, _all_kept)
    place = {"state": memory.state, "location": instruction.location}
    MEANINGS[op](**{target: made}, **sent, **arguments, **place)
    pairs = zip(_leaves(dsts), _leaves(made), strict=True)
    return [Received(access, marks == 1, marks == _KEPT) for access, marks in pairs]


def _members(instruction: Instruction, rank: int) -> tuple[int, ...]:
    """The ranks that take part, as the collective's meaning finds them."""
    pairs = instruction.operands.get("source_target_pairs")
    if pairs is not None:
        return tuple(sorted({member for pair in pairs for member in pair}))
    groups = instruction.operands["replica_group"]
    return next((tuple(group) for group in groups if rank in group), ())


def _value(value: object, memory: Memory) -> object:
    if type(value) is Access:
        return memory.read(value).copy()
    return memory.state.registers[value.name] if type(value) is Register else value


def masks_of(value: Any, mask_of: Callable[[Access], Mask]) -> Any:
    """The marks of what is sent, as arrays that a meaning takes."""

    def mask(access: Access) -> Mask:
        return mask_of(access).astype(np.uint8)

    return _each(value, mask)


def no_marks(access: Access) -> Mask:
    """Nothing of the access is from nowhere."""
    return np.zeros(access.shape, np.bool_)


def _all_kept(access: Access) -> Mask:
    return np.full(access.shape, _KEPT, np.uint8)


def _each(value: Any, make: Callable[[Access], Mask]) -> Any:
    """A list of lists of accesses with each access replaced."""
    return make(value) if type(value) is Access else tuple([_each(part, make) for part in value])


def _leaves(value: Any) -> Iterator[Any]:
    """What is in a list of lists; an access is a tuple of another kind."""
    if type(value) is tuple or type(value) is list:
        for part in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(part)
    else:
        yield value
