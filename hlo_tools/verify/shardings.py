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
    problem_by_key: dict[tuple[bytes, bytes], str] = {}
    for body in index.bodies.values():
        for inst in body.instructions:
            if not inst.HasField("sharding"):
                continue
            key = (inst.sharding.SerializeToString(), inst.shape.SerializeToString())
            if key not in problem_by_key:
                problem_by_key[key] = next(_problems(inst.sharding, of(inst.shape), devices), "")
            if problem_by_key[key]:
                yield body.finding("HLO-V034", problem_by_key[key], inst)
    yield from _agreeing(index)


def _problems(sharding: Message, kind: Type, devices: int) -> Iterator[str]:
    """Yield the problems of a sharding for a type; check devices if their count is known."""
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
        for element_sharding, leaf in zip(parts, leaves, strict=False):
            yield from _problems(element_sharding, leaf, devices)
    elif isinstance(kind, TupleType):
        yield f"the sharding is for an array, the shape is {kind}"
    elif sharding.type == _MAXIMAL:
        yield from _outside(list(sharding.tile_assignment_devices), devices)
    elif sharding.type == _OTHER and not sharding.HasField("named_sharding"):
        yield from _tiled(sharding, kind, devices)


def _leaves(kind: Type) -> Iterator[Type]:
    if isinstance(kind, TupleType):
        for element in kind.parts:
            yield from _leaves(element)
    else:
        yield kind


def _outside(named: list[int], devices: int) -> Iterator[str]:
    for device in named:
        if device < 0 or (devices and device >= devices):
            yield f"the sharding names device {device}" + (f" of {devices}" if devices else "")


def _tiled(sharding: Message, kind: Array, devices: int) -> Iterator[str]:
    tiles = list(sharding.tile_assignment_dimensions)
    subgroup_dims = len(sharding.last_tile_dims) or int(sharding.replicate_on_last_tile_dim)
    count = math.prod(tiles)
    if count == 1:
        yield "the sharding has tiles for one device; replicated or maximal says what is meant"
        return
    if len(tiles) - subgroup_dims != kind.rank:
        yield f"the sharding divides {len(tiles) - subgroup_dims} dimensions, {kind} has {kind.rank}"
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
    """Check that a loop's state, or the results of branches, have equal shardings."""
    for inst, opcode, body in index.of(_BRANCHING):
        called = index.called(inst)
        alike = [inst, *(inner.root for inner in (called[:1] if opcode == "while" else called))]
        if opcode == "while":
            alike += [parameter for inner in called for parameter in _parameters(inner)]
        sharded = [row for row in alike if row.HasField("sharding")]
        for row in sharded[1:]:
            if _plain(row.sharding) != _plain(sharded[0].sharding):
                yield body.finding(
                    "HLO-V034", f"{opcode} carries a value whose sharding differs between "
                    f"%{sharded[0].name} and %{row.name}", inst,
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
    for message in (copy, *copy.tuple_shardings):
        del message.metadata[:]
    return copy.SerializeToString(deterministic=True)
