"""Collectives: data exchange of the ranks of a group (collectives stub).

Each function first waits for the other ranks and then writes its own destinations. Reductions run
over the ranks in the order of the group, in float32. Without other ranks a group has one member.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import Register
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.register import wrap
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__: list[str] = []

Tiles = tuple[Array, ...]
Groups = tuple[tuple[int, ...], ...]


def _members(
    groups: Groups, state: EngineState, location: SourceLocation | None
) -> tuple[int, ...]:
    """Return the ranks of this rank's group, in order."""
    for group in groups:
        if state.rank in group:
            return tuple(group)
    raise NkiExecutionError(
        f"rank {state.rank} is in none of the replica groups {groups}",
        code="NKI-COLLECTIVE",
        location=location,
        remedy="name every rank that launches the kernel in one group",
    )


def _exchange(
    op_name: str,
    value: object,
    members: tuple[int, ...],
    state: EngineState,
    location: SourceLocation | None,
) -> list[Any]:
    """Return the value that each member passes, in the order of ``members``."""
    size = 1 if state.group is None else state.group.size
    missing = [rank for rank in members if not 0 <= rank < size]
    if missing:
        raise NkiExecutionError(
            f"{op_name} names rank {missing[0]}, but {size} ranks run",
            code="NKI-COLLECTIVE",
            location=location,
            remedy="run as many ranks as the replica groups name",
        )
    if state.group is None:
        return [value]
    values = state.group.meet(state.rank, members, (op_name,), value, location)
    return [values[rank] for rank in members]


def _tiles(
    op_name: str,
    srcs: Tiles,
    groups: Groups,
    state: EngineState,
    location: SourceLocation | None,
) -> tuple[list[Tiles], int]:
    """Return the sources of every member, and this rank's position among them."""
    members = _members(groups, state, location)
    sources = _exchange(op_name, tuple(np.array(src) for src in srcs), members, state, location)
    shapes = [
        ", ".join(f"{tile.dtype}{list(tile.shape)}" for tile in member_tiles)
        for member_tiles in sources
    ]
    if any(shape != shapes[0] for shape in shapes):
        raise NkiExecutionError(
            f"the ranks of one {op_name} pass different tensors: {'; '.join(shapes)}",
            code="NKI-COLLECTIVE",
            location=location,
            remedy="every rank passes tensors of the same shapes and dtypes",
        )
    return sources, members.index(state.rank)


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
    priority: object = None,
) -> None:
    """Every rank gets the reduction of all sources."""
    sources, _ = _tiles("all_reduce", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        store(dst, _reduced([tiles[index] for tiles in sources], op))


@semantics("dsts")
def all_gather(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    state: EngineState,
    location: SourceLocation | None,
    priority: object = None,
) -> None:
    """Every rank gets all sources, concatenated."""
    sources, _ = _tiles("all_gather", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        store(dst, np.concatenate([tiles[index] for tiles in sources], axis=collective_dim))


@semantics("dsts")
def reduce_scatter(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    op: str,
    state: EngineState,
    location: SourceLocation | None,
    priority: object = None,
) -> None:
    """Every rank gets its share of the reduction of all sources."""
    sources, position = _tiles("reduce_scatter", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        total = _reduced([tiles[index] for tiles in sources], op)
        store(dst, np.split(total, len(sources), axis=collective_dim)[position])


@semantics("dsts")
def all_to_all(
    srcs: Tiles,
    dsts: Tiles,
    replica_group: Groups,
    collective_dim: int,
    state: EngineState,
    location: SourceLocation | None,
    priority: object = None,
) -> None:
    """Piece ``j`` of rank ``i`` becomes piece ``i`` of rank ``j``."""
    sources, position = _tiles("all_to_all", srcs, replica_group, state, location)
    for index, dst in enumerate(dsts):
        pieces = [
            np.split(tiles[index], len(sources), axis=collective_dim)[position] for tiles in sources
        ]
        store(dst, np.concatenate(pieces, axis=collective_dim))


@semantics("dsts", updates=("dsts",))
def collective_permute(
    srcs: Tiles,
    dsts: Tiles,
    source_target_pairs: tuple[tuple[int, int], ...],
    state: EngineState,
    location: SourceLocation | None,
    priority: object = None,
) -> None:
    """The source of one rank becomes the destination of another; a rank without sender keeps its own."""
    members = tuple(sorted({rank for pair in source_target_pairs for rank in pair}))
    if state.rank not in members:
        return
    sources = _exchange(
        "collective_permute", tuple(np.array(src) for src in srcs), members, state, location
    )
    for source, target in source_target_pairs:
        if target == state.rank:
            for dst, value in zip(dsts, sources[members.index(source)], strict=True):
                store(dst, value)


@semantics("dsts_by_channel")
def collective_permute_implicit(
    srcs_by_channel: tuple[Tiles, ...],
    dsts_by_channel: tuple[Tiles, ...],
    replica_group: Groups,
    state: EngineState,
    location: SourceLocation | None,
    channel_ids: object = (0,),
    priority: object = None,
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
    channel_ids: object = (0,),
    priority: object = None,
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
    op_name: str,
    sent: Tiles,
    dsts_by_channel: tuple[Tiles, ...],
    groups: Groups,
    state: EngineState,
    location: SourceLocation | None,
) -> None:
    """Store what the previous rank of the ring sends."""
    sources, position = _tiles(op_name, sent, groups, state, location)
    dsts = [tile for channel in dsts_by_channel for tile in channel]
    for dst, value in zip(dsts, sources[position - 1], strict=True):
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
    """Rank whose data this rank has in ring step ``iteration_id``: itself, then the ranks before it."""
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
    priority: object = None,
) -> None:
    """Each rank sends a piece of its own length to each other rank."""
    members = _members(replica_group, state, location)
    rows = metadata_tensor.reshape(-1, len(members))
    flat = np.array(srcs[0]).reshape(-1)
    pieces = [
        _piece(flat, rows[0, r], rows[1, r], "all_to_all_v", location) for r in range(len(members))
    ]
    sources = _exchange("all_to_all_v", pieces, members, state, location)
    position = members.index(state.rank)
    _receive(
        [member_pieces[position] for member_pieces in sources], dsts[0], rows, has_rdispls, location
    )
    if not recv_counts_known:
        _report(metadata_tensor, [member_pieces[position].size for member_pieces in sources])


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
    priority: object = None,
) -> None:
    """Each rank sends one piece of its own length to every rank."""
    members = _members(replica_group, state, location)
    rows = metadata_tensor.reshape(-1, len(members))
    flat = np.array(srcs[0]).reshape(-1)
    own_piece = _piece(flat, rows[0, 0], rows[1, 0], "all_gather_v", location)
    pieces = _exchange("all_gather_v", own_piece, members, state, location)
    _receive(pieces, dsts[0], rows, has_rdispls, location)
    if not recv_counts_known:
        _report(metadata_tensor, [piece.size for piece in pieces])


def _piece(
    flat: Array, count: Any, start: Any, op_name: str, location: SourceLocation | None
) -> Array:
    first, last = int(start), int(start) + int(count)
    if last > flat.size:
        raise NkiExecutionError(
            f"{op_name} sends elements {first} to {last - 1} of a tensor of {flat.size}",
            code="NKI-OUT-OF-BOUNDS",
            location=location,
            remedy="check rows 0 and 1 of metadata_tensor",
        )
    return flat[first:last]


def _receive(
    pieces: list[Array],
    dst: Array,
    rows: Array,
    has_displacements: bool,
    location: SourceLocation | None,
) -> None:
    flat = np.array(dst).reshape(-1)
    slot = flat.size // len(pieces)
    for rank, piece in enumerate(pieces):
        start = int(rows[3, rank]) if has_displacements else slot * rank
        capacity = flat.size - start if has_displacements else slot
        if piece.size > capacity:
            raise NkiExecutionError(
                f"{piece.size} elements from rank {rank} of the group do not fit into {capacity}",
                code="NKI-OUT-OF-BOUNDS",
                location=location,
                remedy="use a larger dst: it holds one slot of equal size for each rank",
            )
        flat[start : start + piece.size] = piece
    dst[...] = flat.reshape(dst.shape)


def _report(metadata: Array, counts: list[int]) -> None:
    """Write the received counts into row 2."""
    rows = metadata.reshape(-1, len(counts)).copy()
    rows[2] = counts
    metadata[...] = rows.reshape(metadata.shape)
