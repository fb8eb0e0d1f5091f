"""Attributes that name devices, kinds of elements, or other parts of the module."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools.inference.types import UNBOUNDED, TupleType, Type, of
from hlo_tools.text.origin import original_value
from hlo_tools.types.comparison import TOTAL_TYPE, is_total_order
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.replica_groups import replica_groups_of
from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.options import Options
from hlo_tools.verify.structure import Message

__all__ = ["check_attributes"]

_GLOBAL = frozenset(
    {"all-reduce", "all-reduce-start", "all-gather", "all-gather-start", "reduce-scatter"}
)
"""Collectives that can number devices across replicas and partitions."""
_GROUPED = _GLOBAL | {"all-to-all", "ragged-all-to-all"}
_UNEVEN = frozenset({"all-reduce", "all-reduce-start"})
_PERMUTES = frozenset({"collective-permute", "collective-permute-start"})
_COMPARED_AS = {"int": "SIGNED", "uint": "UNSIGNED", "pred": "UNSIGNED", "complex": "FLOAT"}
_COPIED = (".remat", ".clone")


def check_attributes(index: Index, options: Options) -> Iterator[Finding]:
    """Findings about single instructions that need the whole module or an option."""
    for body in index.bodies.values():
        for one, opcode in zip(body.instructions, body.opcodes, strict=True):
            if opcode in _GROUPED and options.replica_groups:
                yield from _groups(one, opcode, body, options)
                if opcode == "all-to-all" and not one.dimensions:
                    yield from _exchanged(one, body)
            elif opcode in _PERMUTES:
                yield from _permutes(one, body, options)
            elif opcode == "compare":
                yield from _compares(one, body)
            elif opcode == "custom-call" and one.custom_call_target == "GetRngSeed":
                yield from _seed(one, body)
            elif opcode == "broadcast" and options.ordered_broadcasts:
                yield from _ordered(one, body)
            if options.same_names:
                yield from _named(one, body)
            if one.original_value:
                yield from _origin(one, body)
    if not options.unbounded:
        yield from _unbounded(index)


# Devices


def _groups(one: Message, opcode: str, body: Body, options: Options) -> Iterator[Finding]:
    """Replica groups number all devices from zero on, in groups of one size."""
    mode, devices = _mode(one, opcode, options)
    groups = replica_groups_of(one)
    problem = ""
    if one.use_global_device_ids and not one.channel_id:
        problem = "use_global_device_ids needs a channel_id"
    elif not groups and mode == "flattened id":
        problem = "with use_global_device_ids it needs replica groups"
    elif groups:
        problem = _numbering(groups, mode, devices, uneven=opcode in _UNEVEN)
    if problem:
        yield body.finding("HLO-V019", f"{opcode}: {problem}", one)


def _mode(one: Message, opcode: str, options: Options) -> tuple[str, int]:
    """What a replica group numbers, and how many there are (1: not known)."""
    if not one.channel_id:
        return "replica", options.replicas
    if opcode not in _GLOBAL:
        return "partition", options.partitions
    if one.use_global_device_ids:
        return "flattened id", options.replicas * options.partitions
    return "replica", options.replicas


def _numbering(groups: list[list[int]], mode: str, devices: int, *, uneven: bool) -> str:
    named = sorted(device for group in groups for device in group)
    if named != list(range(len(named))):
        return f"its replica groups name {named[:8]}, not each of 0 to {len(named) - 1} once"
    if devices > 1 and len(named) != devices:
        return f"its replica groups name {len(named)} of {devices} {mode}s"
    if not uneven and len({len(group) for group in groups}) > 1:
        return "its replica groups have different sizes"
    return ""


def _exchanged(one: Message, body: Body) -> Iterator[Finding]:
    """What devices exchange lies alike in memory."""
    orders = {tuple(row.shape.layout.minor_to_major) for row in body.operands(one)}
    if len(orders) > 1:
        yield body.finding(
            "HLO-V019", f"all-to-all exchanges operands of layouts {sorted(orders)}", one
        )


def _permutes(one: Message, body: Body, options: Options) -> Iterator[Finding]:
    limit = options.partitions if one.channel_id else options.replicas
    for pair in one.source_target_pairs:
        for device in (pair.source, pair.target):
            if device < 0 or 1 < limit <= device:
                of_all = f" of {limit}" if limit > 1 else ""
                yield body.finding("HLO-V019", f"{one.opcode} names device {device}{of_all}", one)
                return


# Elements


def _compares(one: Message, body: Body) -> Iterator[Finding]:
    kind = BY_NUMBER[body.operands(one)[0].shape.element_type].kind
    fitting = ("FLOAT", "TOTALORDER") if kind == "float" else (_COMPARED_AS[kind],)
    if one.comparison_type and one.comparison_type not in fitting:
        yield body.finding(
            "HLO-V019", f"it compares {kind} elements by type={one.comparison_type}, not "
            f"{' or '.join(fitting)}", one,
        )  # fmt: skip
    is_total = one.comparison_type == TOTAL_TYPE
    if kind == "float" and one.comparison_type and is_total != is_total_order(one):
        yield body.finding(
            "HLO-V019", f"it states two orders, type={one.comparison_type} and "
            f"order={one.comparison_order}; readers before jaxlib 0.12 take the first, later "
            "ones the second", one,
        )  # fmt: skip


def _seed(one: Message, body: Body) -> Iterator[Finding]:
    if one.operand_ids or str(of(one.shape)) != "u64[]":
        yield body.finding("HLO-V019", "GetRngSeed takes nothing and returns a u64[]", one)


def _ordered(one: Message, body: Body) -> Iterator[Finding]:
    if list(one.dimensions) != sorted(one.dimensions):
        yield body.finding(
            "HLO-V019", f"the dimensions {list(one.dimensions)} of the broadcast do not ascend", one
        )


def _unbounded(index: Index) -> Iterator[Finding]:
    known: dict[bytes, bool] = {}
    for body in index.bodies.values():
        for one in body.instructions:
            shape = one.shape
            if shape.tuple_shapes or UNBOUNDED in shape.dimensions:
                key = shape.SerializeToString()
                if key not in known:
                    known[key] = any(UNBOUNDED in leaf for leaf in _extents(of(shape)))
                if known[key]:
                    yield body.finding("HLO-V041", f"{of(shape)} has no bound", one)


def _extents(kind: Type) -> Iterator[tuple[int, ...]]:
    if isinstance(kind, TupleType):
        for part in kind.parts:
            yield from _extents(part)
    else:
        yield kind.dimensions


# Names


def _named(one: Message, body: Body) -> Iterator[Finding]:
    name = one.metadata.scheduling_name
    if name and name != one.name and not any(part in one.name for part in _COPIED):
        yield body.finding("HLO-V042", f"it was scheduled as %{name}", one)


def _origin(one: Message, body: Body) -> Iterator[Finding]:
    """The arrays of an origin are those of the value; older forms of origins are not read."""
    value = original_value(one.original_value)
    if value is None or value.is_synthetic_call:
        return
    named = {tuple(element.shape_index) for element in value.elements}
    if named != set(_places(of(one.shape))):
        yield body.finding("HLO-V043", f"its origin has other parts than {of(one.shape)}", one)


def _places(kind: Type, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if not isinstance(kind, TupleType):
        yield at
        return
    for number, part in enumerate(kind.parts):
        yield from _places(part, (*at, number))
