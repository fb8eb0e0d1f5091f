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
    {
        "all-reduce", "all-reduce-start", "all-gather", "all-gather-start", "collective-reduce",
        "reduce-scatter",
    }
)  # fmt: skip
"""Collectives that can number devices across replicas and partitions."""
_GROUPED = _GLOBAL | {"all-to-all", "ragged-all-to-all"}
_UNEVEN = frozenset({"all-reduce", "all-reduce-start", "collective-reduce"})
_PERMUTES = frozenset({"collective-permute", "collective-permute-start"})
_COMPARED_AS = {"int": "SIGNED", "uint": "UNSIGNED", "pred": "UNSIGNED", "complex": "FLOAT"}
_COPIED = (".remat", ".clone")


def check_attributes(index: Index, options: Options) -> Iterator[Finding]:
    """Findings about single instructions that need the whole module or an option."""
    for body in index.bodies.values():
        for inst, opcode in zip(body.instructions, body.opcodes, strict=True):
            if opcode in _GROUPED and options.replica_groups:
                yield from _groups(inst, opcode, body, options)
                if opcode == "all-to-all" and not inst.dimensions:
                    yield from _exchanged(inst, body)
            elif opcode in _PERMUTES:
                yield from _permutes(inst, body, options)
            elif opcode == "compare":
                yield from _compares(inst, body)
            elif opcode == "custom-call" and inst.custom_call_target == "GetRngSeed":
                yield from _seed(inst, body)
            elif opcode == "broadcast" and options.ordered_broadcasts:
                yield from _ordered(inst, body)
            if options.same_names:
                yield from _named(inst, body)
            if inst.original_value:
                yield from _origin(inst, body)
    if not options.unbounded:
        yield from _unbounded(index)


# Devices


def _groups(inst: Message, opcode: str, body: Body, options: Options) -> Iterator[Finding]:
    """Replica groups number all devices from zero on, in groups of one size."""
    mode, devices = _mode(inst, opcode, options)
    groups = replica_groups_of(inst)
    problem = ""
    if inst.use_global_device_ids and not inst.channel_id:
        problem = "use_global_device_ids needs a channel_id"
    elif not groups and mode == "flattened id":
        problem = "with use_global_device_ids it needs replica groups"
    elif groups:
        problem = _numbering(groups, mode, devices, uneven=opcode in _UNEVEN)
    if problem:
        yield body.finding("HLO-V019", f"{opcode}: {problem}", inst)


def _mode(inst: Message, opcode: str, options: Options) -> tuple[str, int]:
    """Return the devices that a replica group numbers, and their count (1: unknown)."""
    if not inst.channel_id:
        return "replica", options.replicas
    if opcode not in _GLOBAL:
        return "partition", options.partitions
    if inst.use_global_device_ids:
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


def _exchanged(inst: Message, body: Body) -> Iterator[Finding]:
    """Check that the exchanged operands have equal layouts."""
    orders = {tuple(row.shape.layout.minor_to_major) for row in body.operands(inst)}
    if len(orders) > 1:
        yield body.finding(
            "HLO-V019", f"all-to-all exchanges operands of layouts {sorted(orders)}", inst
        )


def _permutes(inst: Message, body: Body, options: Options) -> Iterator[Finding]:
    limit = options.partitions if inst.channel_id else options.replicas
    for pair in inst.source_target_pairs:
        for device in (pair.source, pair.target):
            if device < 0 or 1 < limit <= device:
                of_all = f" of {limit}" if limit > 1 else ""
                yield body.finding("HLO-V019", f"{inst.opcode} names device {device}{of_all}", inst)
                return


# Elements


def _compares(inst: Message, body: Body) -> Iterator[Finding]:
    kind = BY_NUMBER[body.operands(inst)[0].shape.element_type].kind
    fitting = ("FLOAT", "TOTALORDER") if kind == "float" else (_COMPARED_AS[kind],)
    if inst.comparison_type and inst.comparison_type not in fitting:
        yield body.finding(
            "HLO-V019", f"it compares {kind} elements by type={inst.comparison_type}, not "
            f"{' or '.join(fitting)}", inst,
        )  # fmt: skip
    is_total = inst.comparison_type == TOTAL_TYPE
    if kind == "float" and inst.comparison_type and is_total != is_total_order(inst):
        yield body.finding(
            "HLO-V019", f"it states two orders, type={inst.comparison_type} and "
            f"order={inst.comparison_order}; readers before jaxlib 0.12 take the first, later "
            "ones the second", inst,
        )  # fmt: skip


def _seed(inst: Message, body: Body) -> Iterator[Finding]:
    if inst.operand_ids or str(of(inst.shape)) != "u64[]":
        yield body.finding("HLO-V019", "GetRngSeed takes nothing and returns a u64[]", inst)


def _ordered(inst: Message, body: Body) -> Iterator[Finding]:
    if list(inst.dimensions) != sorted(inst.dimensions):
        yield body.finding(
            "HLO-V019",
            f"the dimensions {list(inst.dimensions)} of the broadcast do not ascend",
            inst,
        )


def _unbounded(index: Index) -> Iterator[Finding]:
    unbounded_by_shape: dict[bytes, bool] = {}
    for body in index.bodies.values():
        for inst in body.instructions:
            shape = inst.shape
            if shape.tuple_shapes or UNBOUNDED in shape.dimensions:
                key = shape.SerializeToString()
                if key not in unbounded_by_shape:
                    unbounded_by_shape[key] = any(UNBOUNDED in leaf for leaf in _extents(of(shape)))
                if unbounded_by_shape[key]:
                    yield body.finding("HLO-V041", f"{of(shape)} has no bound", inst)


def _extents(kind: Type) -> Iterator[tuple[int, ...]]:
    if isinstance(kind, TupleType):
        for element in kind.parts:
            yield from _extents(element)
    else:
        yield kind.dimensions


# Names


def _named(inst: Message, body: Body) -> Iterator[Finding]:
    name = inst.metadata.scheduling_name
    if name and name != inst.name and not any(copy_mark in inst.name for copy_mark in _COPIED):
        yield body.finding("HLO-V042", f"it was scheduled as %{name}", inst)


def _origin(inst: Message, body: Body) -> Iterator[Finding]:
    """The arrays of an origin are those of the value; older forms of origins are not read."""
    value = original_value(inst.original_value)
    if value is None or value.is_synthetic_call:
        return
    named = {tuple(element.shape_index) for element in value.elements}
    if named != set(_places(of(inst.shape))):
        yield body.finding("HLO-V043", f"its origin has other parts than {of(inst.shape)}", inst)


def _places(kind: Type, location: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if not isinstance(kind, TupleType):
        yield location
        return
    for number, element in enumerate(kind.parts):
        yield from _places(element, (*location, number))
