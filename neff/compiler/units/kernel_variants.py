"""The kernels that may compute a unit: the usual one first, then those that need less memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from neff.compiler.graph.rows import source_of
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.rows.elementwise import Group, group_task
from neff.compiler.lowering.rows.long_rows import has_passes, long_rows_task, stays_resident
from neff.compiler.lowering.rows.row_groups import RowGroup, column_block, fits
from neff.compiler.lowering.rows.row_kernel import rows_task
from neff.compiler.lowering.rows.row_products import batch_extents
from neff.compiler.lowering.tiles.pricing import Variant, smaller_variants, variants
from neff.compiler.lowering.tiles.task import Port, Task
from neff.compiler.plans import Tuning
from neff.compiler.units.fuse import Unit, is_column_sum
from nki_lang.base.targets import Target

__all__ = [
    "fits_on_chip", "flat_variants", "is_long", "row_sums", "row_variants", "smaller_row_variants",
    "sources_of",
]  # fmt: skip


def fits_on_chip(unit: Unit, target: Target) -> bool:
    values = [value for node in unit.nodes for value in (node, *node.operands)]
    if any(held_as(value).wide for value in values):
        return False
    rows = unit.rows or ()
    if unit.is_blocked:
        return True
    group = RowGroup(unit.nodes, rows, {}, [], sources_of(unit), {}, row_sums(unit), unit.over)
    resident = unit.resident * (2 if _batch(unit) else 1)
    return fits(group, target, resident) or _has_passes(unit)


def _has_passes(unit: Unit) -> bool:
    """True when the rows of a unit can come in blocks of columns, in several passes."""
    return unit.rows is not None and not unit.over | row_sums(unit) and has_passes(unit.nodes)


def row_sums(unit: Unit) -> frozenset[int]:
    """Members that are sums over all rows."""
    return frozenset(id(node) for node in unit.nodes if is_column_sum(node))


def _has_long_rows(unit: Unit, group: RowGroup) -> bool:
    """A product of few long rows, with nothing but elementwise operations behind it: blocks of
    columns leave less to wait for at its begin and its end."""
    first = unit.nodes[0]
    return (
        first.opcode == "dot"
        and len(unit.nodes) > 1
        and prod(group.rows) <= 1024
        and group.columns(first.shape) > 1024
        and all(node.opcode not in ("dot", "reduce") for node in unit.nodes[1:])
        and all(node.shape == first.shape for node in unit.nodes)
        and not any(axis == "row" for _, axis in group.sources.values())
        and all(
            group.fits_one_dma(port, 1) for port in group.inputs.values() if isinstance(port, Port)
        )
    )


def _batch(unit: Unit) -> int:
    """How many of a unit's rows' extents are batch dimensions of its products."""
    return max((batch_extents(node) for node in unit.nodes if node.opcode == "dot"), default=0)


def sources_of(unit: Unit) -> dict[int, tuple[int, str]]:
    """Where members find their operands: at a member, or at an input of the operand's own."""
    members = {id(node) for node in unit.nodes}
    sources: dict[int, tuple[int, str]] = {}
    for node in unit.nodes:
        for operand in node.operands:
            source, axis = source_of(operand)
            inside = id(source) in members and (axis == "same" or unit.rows is not None)
            sources[id(operand)] = (id(source), axis) if inside else (id(operand), "same")
    return sources


def flat_variants(
    unit: Unit, data: Group | RowGroup, lowerer: Lowerer
) -> tuple[Iterator[Variant], Iterator[Variant]]:
    """The kernels of an elementwise unit without rows, and those that need less memory each time."""
    flat = Group(unit.nodes, data.inputs, data.outputs, data.sources)
    target, usual = lowerer.parts.target, lowerer.plan.tuning
    read = {port.view.buffer for port in flat.inputs.values() if isinstance(port, Port)}
    in_place = lowerer.shares_memory(read, {port.view.buffer for _, port in flat.outputs})

    def sized_task(sizes: Tuning) -> Task:
        return group_task(title_of(unit), flat, target, sizes.elements, in_place=in_place)

    return variants(sized_task, usual, ("elements",)), smaller_variants(sized_task, usual)


def row_variants(unit: Unit, group: RowGroup, lowerer: Lowerer) -> Iterator[Variant]:
    """Yield the kernels of a unit over rows, the usual one first."""
    if is_long(unit, group, lowerer.parts.target):
        yield from _long_variants(unit, group, lowerer)
        return
    usual, has_blocks = lowerer.plan.tuning, unit.is_blocked or _has_long_rows(unit, group)

    def sized_task(sizes: Tuning) -> Task:
        return _rows_task(unit, group, lowerer, sizes, in_blocks=has_blocks)

    fields = ("at_once", "ahead") if group.products else ("at_once", "wide")
    yield from variants(sized_task, usual, (*fields, "blocked") if has_blocks else fields)
    if has_blocks and not unit.is_blocked:
        yield "whole rows", lambda: _rows_task(unit, group, lowerer, usual, in_blocks=False)


def is_long(unit: Unit, group: RowGroup, target: Target) -> bool:
    """Return True if SBUF does not hold tiles of whole rows of a unit, which come in blocks."""
    if unit.rows is None or unit.is_blocked or not _has_passes(unit):
        return False
    return not fits(group, target, unit.resident * (2 if _batch(unit) else 1))


def _long_variants(unit: Unit, group: RowGroup, lowerer: Lowerer) -> Iterator[Variant]:
    """Yield kernels of a unit whose rows come in blocks of columns, the fastest first."""
    target, usual = lowerer.parts.target, lowerer.plan.tuning

    def sized_task(sizes: Tuning, resident: bool = False) -> Task:
        return long_rows_task(title_of(unit), group, target, sizes, resident=resident)

    if stays_resident(group, target):
        yield "rows in blocks that stay on chip", lambda: sized_task(usual, True)
    yield "rows in blocks", lambda: sized_task(usual)
    yield from smaller_variants(sized_task, usual)


def smaller_row_variants(unit: Unit, group: RowGroup, lowerer: Lowerer) -> Iterator[Variant]:
    """Yield kernels of a unit over rows that need less memory each time."""
    if not is_long(unit, group, lowerer.parts.target):
        has_blocks = unit.is_blocked or _has_long_rows(unit, group)

        def sized_task(sizes: Tuning) -> Task:
            return _rows_task(unit, group, lowerer, sizes, in_blocks=has_blocks)

        yield from smaller_variants(sized_task, lowerer.plan.tuning)
    ports = [port for port in group.inputs.values() if isinstance(port, Port)]
    if _has_passes(unit) and all(group.fits_one_dma(port, 1) for port in ports):
        yield from _long_variants(unit, group, lowerer)


def _rows_task(
    unit: Unit, group: RowGroup, lowerer: Lowerer, sizes: Tuning, *, in_blocks: bool
) -> Task:
    """The kernel of a unit over rows with these sizes."""
    block = column_block(group, sizes.blocked) if in_blocks else 0
    return rows_task(title_of(unit), replace(group, block=block), lowerer.parts.target, sizes)


def title_of(unit: Unit) -> str:
    if len(unit.nodes) == 1:
        return unit.nodes[0].opcode
    return f"fusion_of_{len(unit.nodes)}"
