"""Shardings: each fits its shape and the devices, and those of a loop or branches agree."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hlo_tools import schema
from hlo_tools.inference.types import Array, TupleType, Type, number, of
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.options import Options
from hlo_tools.verify.structure import Message

__all__ = ["check_shardings"]

_REPLICATED, _MAXIMAL, _TUPLE, _OTHER = 0, 1, 2, 3
_TOKEN = number("token")
_BRANCHING = frozenset({"while", "conditional"})


def check_shardings(index: Index, options: Options) -> Iterator[Finding]:
    """Findings about the shardings of all instructions."""
    count = options.replicas * options.partitions
    devices = count if count > 1 else 0
    known: dict[tuple[bytes, bytes], str] = {}
    for body in index.bodies.values():
        for one in body.instructions:
            if not one.HasField("sharding"):
                continue
            key = (one.sharding.SerializeToString(), one.shape.SerializeToString())
            if key not in known:
                known[key] = next(_problems(one.sharding, of(one.shape), devices), "")
            if known[key]:
                yield body.finding("HLO-V034", known[key], one)
    yield from _agreeing(index)


def _problems(sharding: Message, kind: Type, devices: int) -> Iterator[str]:
    """What is wrong with a sharding for a type; devices are checked when there are any."""
    if isinstance(kind, Array) and kind.element == _TOKEN:
        return
    if sharding.type == _TUPLE:
        if not isinstance(kind, TupleType):
            yield f"the sharding is for a tuple, the shape is {kind}"
            return
        leaves = list(_leaves(kind))
        parts = list(sharding.tuple_shardings)
        if len(parts) != len(leaves) and (leaves or len(parts) > 1):
            yield f"the sharding has {len(parts)} parts, {kind} has {len(leaves)}"
            return
        for part, leaf in zip(parts, leaves, strict=False):
            yield from _problems(part, leaf, devices)
    elif isinstance(kind, TupleType):
        yield f"the sharding is for an array, the shape is {kind}"
    elif sharding.type == _MAXIMAL:
        yield from _outside(list(sharding.tile_assignment_devices), devices)
    elif sharding.type == _OTHER and not sharding.HasField("named_sharding"):
        yield from _tiled(sharding, kind, devices)


def _leaves(kind: Type) -> Iterator[Type]:
    if isinstance(kind, TupleType):
        for part in kind.parts:
            yield from _leaves(part)
    else:
        yield kind


def _outside(named: list[int], devices: int) -> Iterator[str]:
    for device in named:
        if device < 0 or (devices and device >= devices):
            yield f"the sharding names device {device}" + (f" of {devices}" if devices else "")


def _tiled(sharding: Message, kind: Array, devices: int) -> Iterator[str]:
    tiles = list(sharding.tile_assignment_dimensions)
    apart = len(sharding.last_tile_dims) or int(sharding.replicate_on_last_tile_dim)
    count = math.prod(tiles)
    if count == 1:
        yield "the sharding has tiles for one device; replicated or maximal says what is meant"
        return
    if len(tiles) - apart != kind.rank:
        yield f"the sharding divides {len(tiles) - apart} dimensions, {kind} has {kind.rank}"
        return
    named = list(sharding.tile_assignment_devices)
    extents, order = list(sharding.iota_reshape_dims), list(sharding.iota_transpose_perm)
    if extents and (
        math.prod(extents) != count or (order and sorted(order) != list(range(len(extents))))
    ):
        yield f"the sharding has {count} tiles; {extents} T{order} does not number so many devices"
    if not extents:
        yield from _outside(named, devices)
        if len(set(named)) != len(named):
            yield "the sharding names a device twice"
        if len(named) != count:
            yield f"the sharding has {count} tiles and names {len(named)} devices"
    if devices and count != devices:
        yield f"the sharding is for {count} devices of {devices}"


def _agreeing(index: Index) -> Iterator[Finding]:
    """What carries the same value through a loop or out of branches has one sharding."""
    for one, opcode, body in index.of(_BRANCHING):
        called = index.called(one)
        alike = [one, *(inner.root for inner in (called[:1] if opcode == "while" else called))]
        if opcode == "while":
            alike += [parameter for inner in called for parameter in _parameters(inner)]
        given = [row for row in alike if row.HasField("sharding")]
        for other in given[1:]:
            if _plain(other.sharding) != _plain(given[0].sharding):
                yield body.finding(
                    "HLO-V034", f"{opcode} carries a value whose sharding differs between "
                    f"%{given[0].name} and %{other.name}", one,
                )  # fmt: skip
                break


def _parameters(body: Body) -> list[Message]:
    return [
        row
        for row, opcode in zip(body.instructions, body.opcodes, strict=True)
        if opcode == "parameter"
    ]


def _plain(sharding: Message) -> bytes:
    """A sharding without where it comes from."""
    if not sharding.metadata and not sharding.tuple_shardings:
        return sharding.SerializeToString(deterministic=True)
    copy: Message = schema.OpSharding.FromString(sharding.SerializeToString())
    for one in (copy, *copy.tuple_shardings):
        del one.metadata[:]
    return copy.SerializeToString(deterministic=True)
