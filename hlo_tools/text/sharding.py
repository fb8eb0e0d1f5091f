"""Shardings, device lists and meshes in text."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.text.canonical_sharding import canonical_iota, canonical_sharding
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.metadata import read_metadata_list

__all__ = ["ShardingReader", "read_replica_groups"]

Message = Any

_KINDS = {
    "replicated": "REPLICATED",
    "manual": "MANUAL",
    "unknown": "UNKNOWN",
    "unreduced": "UNREDUCED",
}
_ONE_DEVICE = ("maximal_mesh", "single_device")
"""Words for the mesh of one device: jaxlib 0.10's, which the printer writes, and 0.12's."""
_MESHES = ("mesh[", *(f"{word}[" for word in _ONE_DEVICE))
_LAST_TILE = {word: kind for word, kind in _KINDS.items() if word != "unknown"}


class ShardingReader:
    """Reads one ``sharding={...}`` value at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def read(self) -> Message:
        """A sharding: single, tuple (``{{...}, {...}}``) or named (``{mesh[...], [...]}``)."""
        return canonical_sharding(self._read())

    def _read(self) -> Message:
        cursor = self.cursor
        cursor.expect("{", "to start the sharding")
        if not (cursor.peek("{") or cursor.peek("}")):
            return self._single()
        sharding = schema.OpSharding(type="TUPLE")
        if not cursor.peek("}"):
            while True:
                cursor.expect("{", "to start the sharding of a tuple element")
                sharding.tuple_shardings.append(self._single())
                if not cursor.accept(","):
                    break
        cursor.expect("}", "to end the sharding")
        return sharding

    def _single(self) -> Message:
        """The inside of one sharding; its opening brace was read."""
        cursor = self.cursor
        if cursor.text.startswith(_MESHES, _skipped(cursor)):
            return self._named()
        sharding = schema.OpSharding(type="OTHER")
        kind = ""
        while not cursor.accept("}"):
            word = self._property(sharding)
            kind = word or kind
        if kind:
            sharding.type = schema.OpSharding.Type.Value(kind)
        elif not sharding.tile_assignment_dimensions:
            raise cursor.error("this sharding has neither a kind nor devices=[...]")
        return sharding

    def _property(self, sharding: Message) -> str:
        """One property; returns the kind that it sets, or ""."""
        cursor = self.cursor
        for word, kind in _KINDS.items():
            if cursor.word(word):
                return kind
        if cursor.word("maximal"):
            return "MAXIMAL"
        if cursor.word("last_tile_dim_replicate"):
            sharding.replicate_on_last_tile_dim = True
        elif cursor.word("shard_as") or cursor.word("shard_like"):
            self._shard_group(sharding)
        else:
            self._named_property(sharding)
        return ""

    def _shard_group(self, sharding: Message) -> None:
        cursor = self.cursor
        like = cursor.text[: cursor.pos].endswith("like")
        sharding.is_shard_group = True
        sharding.shard_group_type = schema.OpSharding.ShardGroupType.Value("LIKE" if like else "AS")
        sharding.shard_group_id = cursor.integer("a shard group id")

    def _named_property(self, sharding: Message) -> None:
        cursor = self.cursor
        start = cursor.pos
        name = cursor.attribute_name()
        if name == "device":
            sharding.tile_assignment_devices[:] = [cursor.integer("a device")]
        elif name == "devices":
            self._devices(sharding)
        elif name == "metadata":
            sharding.metadata.extend(read_metadata_list(cursor))
        elif name == "last_tile_dims":
            for kind in cursor.items("{", "}", self._last_tile, "the last tile dimensions"):
                sharding.last_tile_dims.append(schema.OpSharding.Type.Value(kind))
        else:
            raise cursor.error(f"a sharding has no property '{name}'", pos=start)

    def _last_tile(self) -> str:
        word = self.cursor.identifier("a kind of sharding")
        if word not in _LAST_TILE:
            raise self.cursor.error(f"expected {', '.join(_LAST_TILE)}, found '{word}'")
        return _LAST_TILE[word]

    def _devices(self, sharding: Message) -> None:
        cursor = self.cursor
        start = cursor.pos
        dimensions = cursor.integers("[", "]")
        sharding.tile_assignment_dimensions.extend(dimensions)
        if cursor.accept("<="):
            reshape, transpose = read_iota(cursor)
            sharding.iota_reshape_dims.extend(reshape)
            sharding.iota_transpose_perm.extend(transpose)
            return
        devices = [cursor.integer("a device")]
        while cursor.accept(","):
            devices.append(cursor.integer("a device"))
        count = 1
        for size in dimensions:
            count *= size
        if count != len(devices):
            raise cursor.error(
                f"{dimensions} is {counted(count, 'device')}, {len(devices)} are listed", pos=start
            )
        if count == 1:
            raise cursor.error("a sharding of one device is written maximal device=0", pos=start)
        sharding.tile_assignment_devices.extend(devices)

    # -- named shardings ----------------------------------------------------------------------

    def _named(self) -> Message:
        cursor = self.cursor
        sharding = schema.OpSharding()
        named = sharding.named_sharding
        names = self._mesh(named.mesh)
        if cursor.accept(",") and cursor.peek("metadata="):
            self._named_axes(named, names)
        elif cursor.word("replicated") or (named.mesh.device_ids and not names):
            pass
        elif cursor.word("unreduced"):
            named.unreduced_axes.extend(self._all_axes(names))
        elif cursor.word("manual"):
            named.manual_axes.extend(self._all_axes(names))
        else:
            for axes, closed in cursor.items(
                "[", "]", lambda: self._dimension(names), "the dimensions"
            ):
                named.dim_shardings.add(axes=axes, is_closed=closed)
        while cursor.accept(","):
            self._named_axes(named, names)
        cursor.expect("}", "to end the sharding")
        return sharding

    def read_mesh_axes(self, groups: Message) -> None:
        """A mesh, and the axes along which devices make up a group."""
        cursor = self.cursor
        names = self._mesh(groups.mesh)
        start = cursor.pos
        groups.axes.extend(
            cursor.items("{", "}", lambda: self._axis_reference(names), "the axes of a group")
        )
        if not groups.axes:
            raise cursor.error("groups along no axis have one device each", pos=start)

    def _mesh(self, mesh: Message) -> list[str]:
        cursor = self.cursor
        one_device = next((word for word in _ONE_DEVICE if cursor.word(word)), "")
        if one_device:
            cursor.expect("[", f"after {one_device}")
            if cursor.attribute_name() != "device_id":
                raise cursor.error("expected device_id=")
            mesh.device_ids.append(cursor.integer())
            cursor.expect("]", "to end the mesh")
            return []
        cursor.expect("mesh", "to start a named sharding")
        names: list[str] = []
        for name, size in cursor.items("[", "]", self._axis, "the mesh axes"):
            mesh.axes.add(name=name, size=size)
            names.append(name)
        pos = cursor.pos
        if cursor.accept(",") and cursor.accept("device_ids="):
            cursor.expect("(", "before the device ids")
            if cursor.peek("["):
                reshape, transpose = read_iota(cursor)
                reshape, transpose = canonical_iota(reshape, transpose)
                mesh.iota_transform.reshape_dims.extend(reshape)
                mesh.iota_transform.transpose_perm.extend(transpose)
            else:
                mesh.device_ids.append(cursor.integer())
                while cursor.accept(","):
                    mesh.device_ids.append(cursor.integer())
            cursor.expect(")", "after the device ids")
        else:
            cursor.pos = pos
        return names

    def _axis(self) -> tuple[str, int]:
        cursor = self.cursor
        if cursor.peek('"') or cursor.peek("'"):
            name = cursor.text_string()
            cursor.expect("=", "after the name of the axis")
        else:
            name = cursor.attribute_name()
        return name, cursor.integer("the size of the axis")

    def _dimension(self, names: list[str]) -> tuple[list[Message], bool]:
        cursor = self.cursor
        cursor.expect("{", "to start the axes of a dimension")
        axes: list[Message] = []
        closed = True
        while not cursor.accept("}"):
            if cursor.accept("?"):
                closed = False
            else:
                axes.append(self._axis_reference(names))
            cursor.accept(",")
        return axes, closed

    def _axis_reference(self, names: list[str]) -> Message:
        cursor = self.cursor
        start = cursor.pos
        quoted = cursor.peek('"') or cursor.peek("'")
        word = cursor.text_string() if quoted else (
            str(cursor.integer()) if _digit_next(cursor) else cursor.identifier("an axis")
        )  # fmt: skip
        index = names.index(word) if word in names else int(word) if word.isdigit() else -1
        if not 0 <= index < len(names):
            raise cursor.error(f"the mesh has no axis '{word}'", pos=start)
        axis = schema.AxisRefProto(mesh_axis_index=index)
        if cursor.accept(":"):
            cursor.accept("(")
        elif not cursor.accept("("):
            return axis
        axis.sub_axis_info.pre_size = cursor.integer()
        cursor.expect(")", "after the size before the sub-axis")
        axis.sub_axis_info.size = cursor.integer()
        return axis

    def _all_axes(self, names: list[str]) -> list[Message]:
        return [schema.AxisRefProto(mesh_axis_index=index) for index in range(len(names))]

    def _named_axes(self, named: Message, names: list[str]) -> None:
        cursor = self.cursor
        start = cursor.pos
        name = cursor.attribute_name()
        if name == "metadata":
            named.metadata.extend(read_metadata_list(cursor))
            return
        fields = {
            "replicated": named.replicated_axes,
            "unreduced": named.unreduced_axes,
            "manual": named.manual_axes,
        }
        if name not in fields:
            raise cursor.error(f"a named sharding has no property '{name}'", pos=start)
        fields[name].extend(cursor.items("{", "}", lambda: self._axis_reference(names), "the axes"))


def read_iota(cursor: Cursor) -> tuple[list[int], list[int]]:
    """``[4,2]T(1,0)``: the reshape and the transpose of an iota list of devices."""
    start = cursor.pos
    reshape = cursor.integers("[", "]")
    if not reshape:
        raise cursor.error("the reshape of a device list cannot be empty", pos=start)
    if len(reshape) == 1:
        return reshape, [0]
    cursor.expect("T", "and the transpose, as in [2,2]T(1,0)")
    transpose = cursor.integers("(", ")")
    if sorted(transpose) != list(range(len(reshape))):
        raise cursor.error(
            f"{transpose} does not permute {counted(len(reshape), 'dimension')}", pos=start
        )
    return reshape, transpose


def read_replica_groups(cursor: Cursor, instruction: Message) -> None:
    """``{{0,1},{2,3}}``, ``[2,2]<=[4]`` or ``mesh['x'=2,'y'=2] {'x'}`` into the instruction."""
    if cursor.text.startswith("mesh[", _skipped(cursor)):
        ShardingReader(cursor).read_mesh_axes(instruction.mesh_axes_replica_group_list)
        return
    if cursor.peek("["):
        start = cursor.pos
        sizes = cursor.integers("[", "]")
        if len(sizes) != 2:
            raise cursor.error(
                "a device list has two sizes: groups and devices of a group", pos=start
            )
        cursor.expect("<=", "and the devices, as in [2,2]<=[4]")
        reshape, transpose = read_iota(cursor)
        reshape, transpose = canonical_iota(reshape, transpose)
        iota = instruction.iota_collective_device_list
        iota.num_replica_groups, iota.num_devices_per_group = sizes
        iota.iota_reshape_dims.extend(reshape)
        iota.iota_transpose_perm.extend(transpose)
        return
    groups = cursor.items("{", "}", cursor.integers, "the replica groups")
    instruction.collective_device_list.SetInParent()
    for group in groups:
        instruction.collective_device_list.replica_groups.add(replica_ids=group)


def _skipped(cursor: Cursor) -> int:
    cursor.skip()
    return cursor.pos


def _digit_next(cursor: Cursor) -> bool:
    cursor.skip()
    return cursor.text[cursor.pos : cursor.pos + 1].isdigit()
