"""Which ranks take part in a collective operation together."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from nki_lang.base.errors import NkiValidationError, fail
from nki_lang.base.source import caller_location
from nki_lang.frontend.objects import NKIObject, is_sequence

__all__ = ["ReplicaGroup", "rg_partition_op"]

_SOURCE = "nki.collectives (nki/api/nki/collectives)"


class rg_partition_op(enum.Enum):
    """How :meth:`ReplicaGroup.from_partition_op` groups ranks (NKI 0.7)."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITIONS: dict[rg_partition_op, Callable[[int, int], int]] = {
    rg_partition_op.bitwise_and: lambda rank, mask: rank & mask,
    rg_partition_op.div: lambda rank, size: rank // size,
    rg_partition_op.mod: lambda rank, count: rank % count,
}


@dataclass
class ReplicaGroup(NKIObject):
    """Which ranks take part in a collective operation together.

    Attributes:
        replica_groups: lists of ranks; no rank is in two of them.
    """

    replica_groups: list[list[int]] = field(default_factory=list[list[int]])

    def __post_init__(self) -> None:
        groups: Any = self.replica_groups
        if is_sequence(groups) and groups and not is_sequence(groups[0]):
            groups = [groups]
        wrong = "no lists of ranks"
        if is_sequence(groups) and all(map(is_sequence, groups)):
            ranks = [rank for group in groups for rank in group]
            if all(isinstance(rank, SupportsIndex) and int(rank) >= 0 for rank in ranks):
                self.replica_groups = [[int(rank) for rank in group] for group in groups]
                if len(ranks) == len(set(ranks)):
                    return
                wrong = "two places for one rank"
        raise NkiValidationError(
            f"replica groups {groups!r}: {wrong}",
            code="NKI-REPLICA-GROUP",
            location=caller_location(3),  # above the __init__ that @dataclass made
            remedy="pass lists of ranks from 0 on, and every rank in at most one of them",
            source=_SOURCE,
        )

    @staticmethod
    def from_partition_op(world_size: int, op: rg_partition_op, operand: int) -> ReplicaGroup:
        """Return the groups of ranks ``r`` with equal ``op(r, operand)``.

        Args:
            world_size: how many ranks there are.
            op: bitwise_and, div or mod.
            operand: an integer; 1 or more for div and mod.

        Raises:
            NkiValidationError: code ``NKI-REPLICA-GROUP``; an argument is outside these.
        """
        valid = isinstance(op, rg_partition_op) and world_size >= 1  # pyright: ignore[reportUnnecessaryIsInstance]
        if not valid or operand < (0 if op is rg_partition_op.bitwise_and else 1):
            fail(
                f"from_partition_op({world_size!r}, {op!r}, {operand!r})",
                "NKI-REPLICA-GROUP",
                "pass a positive world_size, an ncc.rg_partition_op and a positive operand",
                _SOURCE,
            )
        groups: dict[int, list[int]] = {}
        for rank in range(world_size):
            groups.setdefault(_PARTITIONS[op](rank, operand), []).append(rank)
        return ReplicaGroup([*groups.values()])

    def nki_operand(self) -> tuple[tuple[int, ...], ...]:
        """The groups as the kernel IR holds them."""
        return tuple(tuple(group) for group in self.replica_groups)
