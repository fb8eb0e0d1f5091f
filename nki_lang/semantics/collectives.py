"""Collectives: how the ranks of a group exchange data (collectives stub).

Each function first meets the other ranks and then writes its own destinations. Reductions go
through the ranks in the order of the group, in float32. Without other ranks a group is of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.errors import NkiExecutionError
from nki_lang.ir.types import Register
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.register import wrap
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics
from nki_lang.source import SourceLocation

__all__: list[str] = []

Tiles = tuple[Array, ...]
Groups = tuple[tuple[int, ...], ...]


def _members(groups: Groups, state: EngineState, place: SourceLocation | None) -> tuple[int, ...]:
    """The ranks of this rank's group, in order."""
    for group in groups:
        if state.rank in group:
            return tuple(group)
    raise NkiExecutionError(
        f"rank {state.rank} is in none of the replica groups {groups}",
        code="NKI-COLLECTIVE",
        location=place,
        remedy="name every rank that launches the kernel in one group",
    )


def _exchange(
    what: str,
    value: Any,
    members: tuple[int, ...],
    state: EngineState,
    place: SourceLocation | None,
) -> list[Any]:
    """What each member hands over, in the order of ``members``."""
    size = 1 if state.group is None else state.group.size
    missing = [rank for rank in members if not 0 <= rank < size]
    if missing:
        raise NkiExecutionError(
            f"{what} names rank {missing[0]}, but {size} ranks run",
            code="NKI-COLLECTIVE",
            location=place,
            remedy="run as many ranks as the replica groups name",
        )
    if state.group is None:
        return [value]
    met = state.group.meet(state.rank, members, (what,), value, place)
    return [met[rank] for rank in members]


def _tiles(
    what: str,
    srcs: Tiles,
    groups: Groups,
    state: EngineState,
    place: SourceLocation | None,
) -> tuple[list[Tiles], int]:
    """The sources of every member, and this rank's position among them."""
    members = _members(groups, state, place)
    parts = _exchange(what, tuple(np.array(src) for src in srcs), members, state, place)
    shapes = [", ".join(f"{tile.dtype}{list(tile.shape)}" for tile in part) for part in parts]
    if any(shape != shapes[0] for shape in shapes):
        raise NkiExecutionError(
            f"the ranks of one {what} pass different tensors: {'; '.join(shapes)}",
            code="NKI-COLLECTIVE",
            location=place,
            remedy="every rank passes tensors of the same shapes and dtypes",
        )
    return parts, members.index(state.rank)


def _reduced(tiles: list[Array], op: str) -> Array:
    operator = operator_of(op)
    total = single(tiles[0])
    for tile in tiles[1:]:
        total = operator.function(total, single(tile))
    return total


@semantics("dsts")
def all_reduce(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    op: str,
    state: EngineState,
    location: SourceLocation | None,
    priority: Any = None,
) -> None:
    """Every rank gets the reduction of all sources."""
    parts, _ = _tiles("all_reduce", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        store(dst, _reduced([part[index] for part in parts], op))


@semantics("dsts")
def all_gather(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    state: EngineState,
    location: SourceLocation | None,
    priority: Any = None,
) -> None:
    """Every rank gets all sources, one behind the other."""
    parts, _ = _tiles("all_gather", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        store(dst, np.concatenate([part[index] for part in parts], axis=collective_dim))


@semantics("dsts")
def reduce_scatter(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    op: str,
    state: EngineState,
    location: SourceLocation | None,
    priority: Any = None,
) -> None:
    """Every rank gets its part of the reduction of all sources."""
    parts, position = _tiles("reduce_scatter", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        total = _reduced([part[index] for part in parts], op)
        store(dst, np.split(total, len(parts), axis=collective_dim)[position])


@semantics("dsts")
def all_to_all(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    state: EngineState,
    location: SourceLocation | None,
    priority: Any = None,
) -> None:
    """Part ``j`` of rank ``i`` becomes part ``i`` of rank ``j``."""
    parts, position = _tiles("all_to_all", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        pieces = [
            np.split(part[index], len(parts), axis=collective_dim)[position] for part in parts
        ]
        store(dst, np.concatenate(pieces, axis=collective_dim))


@semantics("dsts", updates=("dsts",))
def collective_permute(
    srcs: Tiles,
    dsts: Tiles,
    source_target_pairs: tuple[tuple[int, int], ...],
    state: EngineState,
    location: SourceLocation | None,
    priority: Any = None,
) -> None:
    """The source of one rank becomes the destination of another; who gets none keeps its own."""
    members = tuple(sorted({rank for pair in source_target_pairs for rank in pair}))
    if state.rank not in members:
        return
    parts = _exchange(
        "collective_permute", tuple(np.array(src) for src in srcs), members, state, location
    )
    for source, target in source_target_pairs:
        if target == state.rank:
            for dst, value in zip(dsts, parts[members.index(source)], strict=True):
                store(dst, value)


@semantics("dsts_by_channel")
def collective_permute_implicit(
    srcs_by_channel: tuple[Tiles, ...],
    dsts_by_channel: tuple[Tiles, ...],
    replica_group: Groups,
    state: EngineState,
    location: SourceLocation | None,
    channel_ids: Any = (0,),
    priority: Any = None,
) -> None:
    """Each rank sends to the next of its ring."""
    sent = tuple(tile for channel in srcs_by_channel for tile in channel)
    _ring("collective_permute_implicit", sent, dsts_by_channel, replica_group, state, location)


@semantics("dsts_by_channel")
def collective_permute_implicit_reduce(
    srcs0_by_channel: tuple[Tiles, ...],
    srcs1_by_channel: tuple[Tiles, ...],
    dsts_by_channel: tuple[Tiles, ...],
    replica_group: Groups,
    op: str,
    state: EngineState,
    location: SourceLocation | None,
    channel_ids: Any = (0,),
    priority: Any = None,
) -> None:
    """Each rank sends ``srcs0 <op> srcs1`` to the next of its ring."""
    sent = tuple(
        _reduced([left, right], op)
        for lefts, rights in zip(srcs0_by_channel, srcs1_by_channel, strict=True)
        for left, right in zip(lefts, rights, strict=True)
    )
    _ring(
        "collective_permute_implicit_reduce", sent, dsts_by_channel, replica_group, state, location
    )


def _ring(
    what: str,
    sent: Tiles,
    dsts_by_channel: tuple[Tiles, ...],
    groups: Groups,
    state: EngineState,
    place: SourceLocation | None,
) -> None:
    """Take what the rank before this one in the ring sends."""
    parts, position = _tiles(what, sent, groups, state, place)
    dsts = [tile for channel in dsts_by_channel for tile in channel]
    for dst, value in zip(dsts, parts[position - 1], strict=True):
        store(dst, value)


@semantics(raw=True)
def rank_id(dst: Register, state: EngineState) -> None:
    """The number of this rank."""
    state.registers[dst.name] = state.rank


@semantics(raw=True)
def collective_permute_implicit_current_processing_rank_id(
    dst: Register,
    iteration_id: Any,
    replica_group: Groups,
    state: EngineState,
    location: SourceLocation | None,
    channel_id: int = 0,
) -> None:
    """Whose data this rank works on in ring step ``iteration_id``: its own, then those before."""
    members = _members(replica_group, state, location)
    step = (
        state.registers[iteration_id.name] if isinstance(iteration_id, Register) else iteration_id
    )
    state.registers[dst.name] = wrap(members[(members.index(state.rank) - step) % len(members)])


@semantics("dsts", "metadata_tensor", updates=("dsts", "metadata_tensor"))
def all_to_all_v(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    metadata_tensor: Array,
    state: EngineState,
    location: SourceLocation | None,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
) -> None:
    """Each rank sends a piece of its own length to each other rank."""
    members = _members(replica_group, state, location)
    rows = metadata_tensor.reshape(-1, len(members))
    flat = np.array(srcs[0]).reshape(-1)
    pieces = [
        _piece(flat, rows[0, r], rows[1, r], "all_to_all_v", location) for r in range(len(members))
    ]
    parts = _exchange("all_to_all_v", pieces, members, state, location)
    position = members.index(state.rank)
    _receive([part[position] for part in parts], dsts[0], rows, has_rdispls, location)
    if not recv_counts_known:
        _report(metadata_tensor, [part[position].size for part in parts])


@semantics("dsts", "metadata_tensor", updates=("dsts", "metadata_tensor"))
def all_gather_v(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    metadata_tensor: Array,
    state: EngineState,
    location: SourceLocation | None,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
) -> None:
    """Each rank sends one piece of its own length to every rank."""
    members = _members(replica_group, state, location)
    rows = metadata_tensor.reshape(-1, len(members))
    flat = np.array(srcs[0]).reshape(-1)
    own = _piece(flat, rows[0, 0], rows[1, 0], "all_gather_v", location)
    parts = _exchange("all_gather_v", own, members, state, location)
    _receive(parts, dsts[0], rows, has_rdispls, location)
    if not recv_counts_known:
        _report(metadata_tensor, [part.size for part in parts])


def _piece(flat: Array, count: Any, start: Any, what: str, place: SourceLocation | None) -> Array:
    first, last = int(start), int(start) + int(count)
    if last > flat.size:
        raise NkiExecutionError(
            f"{what} sends elements {first} to {last - 1} of a tensor of {flat.size}",
            code="NKI-OUT-OF-BOUNDS",
            location=place,
            remedy="check rows 0 and 1 of metadata_tensor",
        )
    return flat[first:last]


def _receive(
    pieces: list[Array],
    dst: Array,
    rows: Array,
    has_displacements: bool,
    place: SourceLocation | None,
) -> None:
    flat = np.array(dst).reshape(-1)
    slot = flat.size // len(pieces)
    for rank, piece in enumerate(pieces):
        start = int(rows[3, rank]) if has_displacements else slot * rank
        room = flat.size - start if has_displacements else slot
        if piece.size > room:
            raise NkiExecutionError(
                f"{piece.size} elements from rank {rank} of the group do not fit into {room}",
                code="NKI-OUT-OF-BOUNDS",
                location=place,
                remedy="use a larger dst: it holds one slot of equal size for each rank",
            )
        flat[start : start + piece.size] = piece
    dst[...] = flat.reshape(dst.shape)


def _report(metadata: Array, counts: list[int]) -> None:
    """Write the received counts into row 2."""
    rows = metadata.reshape(-1, len(counts)).copy()
    rows[2] = counts
    metadata[...] = rows.reshape(metadata.shape)
