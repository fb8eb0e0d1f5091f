"""Shardings and device lists as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hlo_tools import schema
from hlo_tools.text.print_values import bracket, quote

__all__ = ["print_metadata", "print_replica_groups", "print_sharding"]

Message = Any

_METADATA = (
    ("op_type", True), ("op_name", True), ("source_file", True), ("source_line", False),
    ("source_end_line", False), ("source_column", False), ("source_end_column", False),
    ("stack_frame_id", False), ("profile_type", False), ("deduplicated_name", True),
    ("size_of_generated_code_in_bytes", False), ("size_of_memory_working_set_in_bytes", False),
    ("scheduling_name", True),
)  # fmt: skip


def print_metadata(metadata: Message, *, skip: frozenset[str] = frozenset()) -> str:
    """``{op_name="..." source_line=3}``, or "" when nothing is set."""
    parts: list[str] = []
    for name, quoted in _METADATA:
        value = getattr(metadata, name)
        if name in skip or not value:
            continue
        if name == "profile_type":
            names = (schema.ProfileType.Name(kind).lower() for kind in value)
            parts.append(f"profile_type={{{','.join(names)}}}")
        else:
            parts.append(f"{name}={quote(value) if quoted else value}")
    return "{" + " ".join(parts) + "}" if parts else ""


def print_sharding(sharding: Message) -> str:
    """``{...}``."""
    if sharding.type == schema.OpSharding.Type.Value("TUPLE"):
        parts = [print_sharding(part) for part in sharding.tuple_shardings]
        joined = "".join(
            part if at == 0 else (f", /*index={at}*/{part}" if at % 5 == 0 else f", {part}")
            for at, part in enumerate(parts)
        )
        return "{" + joined + "}"
    return "{" + _inside(sharding) + _trailer(sharding) + "}"


def _inside(sharding: Message) -> str:
    if sharding.HasField("named_sharding"):
        return _named(sharding.named_sharding)
    kind = schema.OpSharding.Type.Name(sharding.type)
    if kind == "MAXIMAL":
        devices = sharding.tile_assignment_devices
        return f"maximal device={devices[0] if devices else 0}"
    if kind != "OTHER":
        return kind.lower()
    text = f"devices=[{','.join(map(str, sharding.tile_assignment_dimensions))}]"
    if sharding.iota_reshape_dims:
        text += "<=" + _iota(sharding.iota_reshape_dims, sharding.iota_transpose_perm)
    else:
        text += ",".join(map(str, sharding.tile_assignment_devices))
    if sharding.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        kinds = (schema.OpSharding.Type.Name(part).lower() for part in sharding.last_tile_dims)
        text += f" last_tile_dims={{{', '.join(kinds)}}}"
    return text


def _trailer(sharding: Message) -> str:
    text = ""
    if sharding.is_shard_group:
        like = schema.OpSharding.ShardGroupType.Name(sharding.shard_group_type) == "LIKE"
        text += f" shard_{'like' if like else 'as'} {sharding.shard_group_id}"
    if sharding.metadata:
        rows = [print_metadata(row) or "{}" for row in sharding.metadata]
        text += " metadata=" + (rows[0] if len(rows) == 1 else "{" + ", ".join(rows) + "}")
    return text


def _iota(reshape: Iterable[int], transpose: Iterable[int]) -> str:
    reshape, transpose = list(reshape), list(transpose)
    text = f"[{','.join(map(str, reshape))}]"
    return text if len(reshape) < 2 else f"{text}T({','.join(map(str, transpose))})"


def _named(named: Message) -> str:
    names = [axis.name for axis in named.mesh.axes]
    if not names:
        return f"maximal_mesh[device_id={named.mesh.device_ids[0] if named.mesh.device_ids else 0}]"
    axes = ",".join(f"{axis.name}={axis.size}" for axis in named.mesh.axes)
    text = f"mesh[{axes}]"
    if named.mesh.HasField("iota_transform"):
        transform = named.mesh.iota_transform
        text += f", device_ids=({_iota(transform.reshape_dims, transform.transpose_perm)})"
    elif named.mesh.device_ids:
        text += f", device_ids=({','.join(map(str, named.mesh.device_ids))})"
    rows = [
        "{"
        + ", ".join([*(_axis(axis, names) for axis in row.axes), *([] if row.is_closed else ["?"])])
        + "}"
        for row in named.dim_shardings
    ]
    text += f", [{', '.join(rows)}]"
    for word, refs in (
        ("replicated", named.replicated_axes),
        ("unreduced", named.unreduced_axes),
        ("manual", named.manual_axes),
    ):
        if refs:
            text += f", {word}={{{', '.join(_axis(axis, names) for axis in refs)}}}"
    return text


def _axis(axis: Message, names: list[str]) -> str:
    text = f'"{names[axis.mesh_axis_index]}"'
    if axis.HasField("sub_axis_info"):
        text += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
    return text


def print_replica_groups(row: Message) -> str | None:
    """Text of an instruction's replica groups, or None when it has no such field."""
    kind = row.WhichOneof("replica_group_list")
    if kind == "iota_collective_device_list":
        iota = row.iota_collective_device_list
        sizes = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
        return sizes + "<=" + _iota(iota.iota_reshape_dims, iota.iota_transpose_perm)
    groups = (
        row.collective_device_list.replica_groups
        if kind == "collective_device_list"
        else row.replica_groups
    )
    return "{" + ",".join(bracket(group.replica_ids) for group in groups) + "}"
