"""Shardings and device lists as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hlo_tools import schema
from hlo_tools.text.canonical_sharding import canonical_iota, canonical_sharding
from hlo_tools.text.print_values import bracket, enum_name, escape, quote

__all__ = ["print_metadata", "print_replica_groups", "print_sharding"]

Message = Any

_METADATA = (
    ("op_type", True), ("op_name", True), ("source_file", True), ("source_line", False),
    ("source_end_line", False), ("source_column", False), ("source_end_column", False),
    ("stack_frame_id", False), ("profile_type", False), ("deduplicated_name", True),
    ("scheduling_name", True),
)  # fmt: skip


def print_metadata(metadata: Message) -> str:
    """``{op_name="..." source_line=3}``, or "" when nothing is set.

    Sizes of generated code and of the working set are left out: XLA's text has no place for them,
    and its parser refuses them.
    """
    parts: list[str] = []
    for name, quoted in _METADATA:
        value = getattr(metadata, name)
        if not value:
            continue
        if name == "profile_type":
            parts.append(f"profile_type={{{','.join(map(str, value))}}}")
        else:
            parts.append(f"{name}={quote(value) if quoted else value}")
    if metadata.metadata_payload.value:
        parts.append(f"metadata_payload={quote(metadata.metadata_payload.value)}")
    return "{" + " ".join(parts) + "}" if parts else ""


def print_sharding(sharding: Message) -> str:
    """``{...}``, in XLA's canonical form."""
    return _print(canonical_sharding(sharding))


def _print(sharding: Message) -> str:
    if sharding.type == schema.OpSharding.Type.Value("TUPLE"):
        parts = [_print(text) for text in sharding.tuple_shardings]
        joined = "".join(
            text
            if index == 0
            else (f", /*index={index}*/{text}" if index % 5 == 0 else f", {text}")
            for index, text in enumerate(parts)
        )
        return "{" + joined + "}"
    if sharding.HasField("named_sharding"):
        return "{" + _named(sharding.named_sharding) + "}"
    return "{" + _inside(sharding) + _trailer(sharding) + "}"


def _inside(sharding: Message) -> str:
    kind = enum_name(schema.OpSharding.Type, sharding.type)
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
        kinds = (
            enum_name(schema.OpSharding.Type, dimension_type).lower()
            for dimension_type in sharding.last_tile_dims
        )
        text += f" last_tile_dims={{{', '.join(kinds)}}}"
    return text


def _trailer(sharding: Message) -> str:
    text = ""
    if sharding.is_shard_group:
        like = enum_name(schema.OpSharding.ShardGroupType, sharding.shard_group_type) == "LIKE"
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
    mesh = named.mesh
    names = [axis.name for axis in mesh.axes]
    if not names and mesh.device_ids:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]"
    text = f"{_mesh(mesh)}, {_named_dimensions(named, names)}"
    if named.metadata:
        rows = ", ".join(print_metadata(row) or "{}" for row in named.metadata)
        text += f", metadata={{{rows}}}"
    return text


def _mesh(mesh: Message) -> str:
    text = f"mesh[{','.join(f'{_axis_name(axis.name)}={axis.size}' for axis in mesh.axes)}]"
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        iota = canonical_iota(transform.reshape_dims, transform.transpose_perm)
        text += f", device_ids=({_iota(*iota)})" if len(iota[0]) > 1 else ""
    elif mesh.device_ids:
        text += f", device_ids=({','.join(map(str, mesh.device_ids))})"
    return text


def _named_dimensions(named: Message, names: list[str]) -> str:
    """The axes of each dimension and the other axes; one word where all axes are of one kind."""
    kinds = {
        "replicated": named.replicated_axes,
        "unreduced": named.unreduced_axes,
        "manual": named.manual_axes,
    }
    used = {word: refs for word, refs in kinds.items() if refs}
    if not named.dim_shardings and not used:
        return "replicated"
    if not named.dim_shardings and len(used) == 1 and "replicated" not in used:
        ((word, refs),) = used.items()
        whole_axes = [ref.mesh_axis_index for ref in refs if not ref.HasField("sub_axis_info")]
        if whole_axes == list(range(len(names))):
            return word
    rows = [
        "{"
        + ", ".join([*(_axis(axis, names) for axis in row.axes), *([] if row.is_closed else ["?"])])
        + "}"
        for row in named.dim_shardings
    ]
    replicated = (
        f", {word}={{{', '.join(_axis(axis, names) for axis in refs)}}}"
        for word, refs in used.items()
    )
    return f"[{', '.join(rows)}]{''.join(replicated)}"


def _axis_name(name: str) -> str:
    return f"'{name}'" if escape(name.encode()) == name else quote(name)


def _axis(axis: Message, names: list[str]) -> str:
    index: int = axis.mesh_axis_index
    text = _axis_name(names[index]) if 0 <= index < len(names) else str(index)
    if axis.HasField("sub_axis_info"):
        text += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
    return text


def print_replica_groups(row: Message) -> str | None:
    """Return the text of an instruction's replica groups, or None without such a field."""
    kind = row.WhichOneof("replica_group_list")
    if kind == "iota_collective_device_list":
        iota = row.iota_collective_device_list
        sizes = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
        lists = canonical_iota(iota.iota_reshape_dims, iota.iota_transpose_perm)
        return sizes + "<=" + _iota(*lists)
    if kind == "mesh_axes_replica_group_list":
        groups = row.mesh_axes_replica_group_list
        names = [axis.name for axis in groups.mesh.axes]
        return f"{_mesh(groups.mesh)} {{{','.join(_axis(axis, names) for axis in groups.axes)}}}"
    groups = (
        row.collective_device_list.replica_groups
        if kind == "collective_device_list"
        else row.replica_groups
    )
    return "{" + ",".join(bracket(group.replica_ids) for group in groups) + "}"
