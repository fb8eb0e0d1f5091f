"""From fused units to kernels in order: the place of every value, and who computes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from neff.compiler.assembly.assemble import Parts
from neff.compiler.assembly.budget import DoesNotFitError
from neff.compiler.assembly.history import History
from neff.compiler.graph.blocks import Block, blocks_of
from neff.compiler.graph.nodes import Graph, Node, uncovered
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import VIEWS, View, row_major
from neff.compiler.lowering import LOWERINGS
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.dots import row_contraction, row_product
from neff.compiler.lowering.rows.elementwise import Group
from neff.compiler.lowering.rows.reaches import best_rows
from neff.compiler.lowering.rows.row_groups import RowGroup, fits
from neff.compiler.lowering.tiles.task import Port
from neff.compiler.plans import PLANS, Plan, Tuning
from neff.compiler.record import Record
from neff.compiler.rewrites.attention import ATTENTION_LEVEL, with_attention
from neff.compiler.rewrites.paired import with_pairs
from neff.compiler.rewrites.simplify import simplified
from neff.compiler.rewrites.wide_integers import input_bounds
from neff.compiler.units.fuse import Reasons, Unit, fuse
from neff.compiler.units.kernel_calls import lower_kernel
from neff.compiler.units.kernel_variants import (
    fits_on_chip,
    flat_variants,
    is_long,
    row_sums,
    row_variants,
    smaller_row_variants,
    sources_of,
)
from neff.compiler.units.lower_loops import Around, lower_loop, share_memory
from neff.compiler.units.orders import (
    MAX_SHARE,
    bytes_between,
    can_reorder,
    closers_late,
    closes_units,
)
from neff.compiler.units.parts import place_parts
from neff.compiler.units.row_values import values_side_by_side
from neff.errors import NeffCompileError
from nki_lang.base.targets import Target

__all__ = ["lower"]

Users = dict[int, list[Node | None]]
"""Who reads each node, by its id; None stands for the caller of the module."""


def lower(
    graph: Graph,
    target: Target,
    *,
    cores: int = 0,
    root: Path | None = None,
    dot_cast: str = "",
    record: Record | None = None,
    plan: Plan = PLANS[2][0],
) -> Parts:
    """Lower a graph to the variables and kernel calls of a program.

    Args:
        graph: what to lower; it is not changed.
        target: family to lower for.
        cores: physical cores of the program; as many as its kernels use when 0.
        root: folder that the paths of kernel files start from.
        dot_cast: type that float32 operands of a dot are cast to (``bf16``), "" for none.
        record: gets what is done.
        plan: how hard to try.

    Raises:
        NeffCompileError: something is not covered, or does not fit.
        HloFileError: a kernel file is missing or damaged.
    """
    record = record or Record()
    graph = with_pairs(graph)
    if plan.level >= ATTENTION_LEVEL:
        graph = with_attention(graph, record)
    graph = simplified(graph, plan.level, record)
    separated: frozenset[int] = frozenset()
    while True:
        record.units.clear()
        parts = Parts(graph.name, target, cores)
        oversized = _lower_into(parts, graph, root, dot_cast, record, plan, separated)
        if not oversized:
            return parts
        separated |= oversized


def _lower_into(
    parts: Parts,
    graph: Graph,
    root: Path | None,
    dot_cast: str,
    record: Record,
    plan: Plan,
    separated: frozenset[int],
) -> frozenset[int]:
    """Lower a graph whose nodes in ``separated`` are in no unit over rows.

    Returns:
        The ``id`` of members of units that do not fit on chip in any size, which have to be apart;
        ``parts`` is complete if there are none.
    """
    target = parts.target
    users, reasons = _users(graph), Reasons()
    parts.history = History()
    lowerer = Lowerer(
        parts, dot_cast, plan=plan, record=record, why=_explainer(users, reasons),
        history=parts.history,
    )  # fmt: skip
    _declare(graph, lowerer)
    lowerer.result_nodes = {
        (id(node.operands[0]), node.attributes["index"]): node
        for node in graph.nodes
        if node.opcode == "result"
    }
    _check_sizes(graph, target)
    oversized: set[int] = set()

    def work(block: Block) -> list[Unit]:
        return _units(block, graph, target, reasons, plan, separated)

    def run(block: Block, units: list[Unit]) -> None:
        for unit in units:
            node = unit.nodes[0]
            with lowerer.unit(_kind(unit), unit.nodes):
                if unit.elementwise:
                    oversized.update(_group_or_oversized(unit, users, lowerer, separated))
                elif node.opcode == "kernel":
                    lower_kernel(node, graph, root, lowerer)
                elif node.opcode == "turn":
                    lower_loop(block.loops[id(node)], lowerer, Around(users, work, run))
                else:
                    _single(node, lowerer)

    outermost = blocks_of(graph.nodes)
    units = work(outermost)
    homes = dict(lowerer.homes)
    share_memory(units, lowerer, users)
    place_parts(units, lowerer, homes)
    run(outermost, units)
    with lowerer.unit("results", ()):
        _finish(graph, lowerer)
    _complete(parts, parts.cores)
    return frozenset(oversized)


def _group_or_oversized(
    unit: Unit, users: Users, lowerer: Lowerer, separated: frozenset[int]
) -> frozenset[int]:
    """Lower a unit that was fused.

    Returns:
        Nothing; or, when it does not fit on chip, the ``id`` of members that have to be apart: its
        sums and products over all rows, which hold PSUM, at first, and then all of them.

    Raises:
        DoesNotFitError: the unit does not fit, and cannot be divided any more.
    """
    try:
        _group(unit, users, lowerer)
    except DoesNotFitError:
        members = frozenset(map(id, unit.nodes))
        oversized = (row_sums(unit) | unit.over) - separated or members - separated
        if not oversized or unit.rows is None:
            raise
        return oversized
    return frozenset()


def _complete(parts: Parts, cores: int) -> None:
    """Windows are no variables of the program; without a number of cores, its kernels decide."""
    parts.variables = {
        name: variable for name, variable in parts.variables.items() if variable.kind != "window"
    }
    if not cores:
        parts.cores = max((call.kernel.lnc for call in parts.calls), default=1)


def _declare(graph: Graph, lowerer: Lowerer) -> None:
    """Variables for the inputs and outputs."""
    parts = lowerer.parts
    inputs = _names(graph, "neff_input_names", "input", len(graph.parameters))
    outputs = _names(graph, "neff_output_names", "output", len(graph.results))
    _refuse_shared_names(graph, inputs, outputs)
    bounds = input_bounds(graph)
    for name, node, limits in zip(inputs, graph.parameters, bounds, strict=True):
        declared = lowerer.variable(name, "input", held_as(node).outside, node.shape)
        declared.bounds = limits
        lowerer.located[id(node)] = View(name, node.shape, row_major(node.shape))
    for name, node in zip(outputs, graph.results, strict=True):
        lowerer.variable(name, "output", held_as(node).outside, node.shape)
        source = _unshaped(node)
        if source.opcode not in VIEWS and source.opcode not in ("parameter", "constant"):
            lowerer.homes.setdefault(id(source), name)
    parts.inputs += inputs
    parts.outputs += outputs
    parts.returns_tuple = graph.returns_tuple


def _check_sizes(graph: Graph, target: Target) -> None:
    """Refuse what cannot be in the device's memory before any time is spent on it."""
    limit = target.hbm_bytes
    for node in graph.nodes:
        if node.opcode in VIEWS or node.opcode in ("constant", "kernel", "loop", "turn"):
            continue
        size = node.size * held_as(node).outside.itemsize
        if size > limit:
            raise NeffCompileError(
                f"{node.describe()} alone has {size} bytes, {target.name} has "
                f"{limit} bytes of device memory",
                code="NEFF-HBM",
                place=node.place,
                remedy="use smaller tensors, or a target with more memory",
            )


def _kind(unit: Unit) -> str:
    """Return the kind of a unit, for the record."""
    if unit.elementwise:
        return "elementwise" if unit.rows is None else "rows"
    return {"kernel": "call", "turn": "loop"}.get(unit.nodes[0].opcode, "operation")


def _explainer(users: Users, reasons: Reasons) -> Callable[[Node, frozenset[int]], str]:
    """Why a value goes to HBM: the first of its readers that is not in its unit."""

    def why(node: Node, members: frozenset[int]) -> str:
        texts: list[str] = []
        for reader, view in _readers(node, users):
            if id(reader) in members:
                continue
            if reader is None:
                texts.append("it is a result of the module")
            elif reader.opcode == "turn":
                texts.append("it is the state of a loop, or the result of a branch")
            elif (id(node), id(reader)) in reasons:
                texts.append(f"{_named(reader)} reads it: {reasons[id(node), id(reader)]}")
            elif view:
                texts.append(f"{_named(reader)} reads it by way of a {view}")
            else:
                texts.append(f"{_named(reader)} reads it, which is a kernel of its own")
        return texts[0] if texts else "nobody reads it"

    return why


def _named(node: Node) -> str:
    return f"{node.opcode} {node.name}".rstrip()


def _readers(node: Node, users: Users) -> list[tuple[Node | None, str]]:
    """Who reads a value, and the opcode of the last view by way of which it does."""
    readers: list[tuple[Node | None, str]] = []
    stack = [(node, "")]
    while stack:
        value, view = stack.pop()
        for user in users.get(id(value), ()):
            if user is not None and user.opcode in VIEWS:
                stack.append((user, user.opcode))
            else:
                readers.append((user, view))
    return readers


def _units(
    block: Block, graph: Graph, target: Target, why: Reasons, plan: Plan, separated: frozenset[int]
) -> list[Unit]:
    """The units, in the order of the graph or, if that moves fewer bytes, in another one."""
    first_reasons = Reasons()
    nodes = replace(graph, nodes=block.nodes)
    units = _fitting_units(nodes, target, first_reasons, plan.tuning, separated)
    if plan.level > 1 and can_reorder(block):
        reasons = Reasons()
        nodes = replace(graph, nodes=closers_late(block.nodes, closes_units))
        reordered = _fitting_units(nodes, target, reasons, plan.tuning, separated)
        if bytes_between(reordered) <= MAX_SHARE * bytes_between(units):
            units, first_reasons = reordered, reasons
    why.update(first_reasons)
    return units


def _fitting_units(
    graph: Graph, target: Target, why: Reasons, tuning: Tuning, separated: frozenset[int]
) -> list[Unit]:
    """The units, those over rows as far as whole rows fit into SBUF, without ``separated``."""
    excluded = set(separated)
    while True:
        units = fuse(graph, frozenset(excluded), why=why, resident=tuning.resident)
        large = [unit for unit in units if unit.rows is not None and not fits_on_chip(unit, target)]
        if not large:
            return units
        excluded.update(id(node) for unit in large for node in unit.nodes)


def _group(unit: Unit, users: Users, lowerer: Lowerer) -> None:
    for node in unit.nodes:
        if node.opcode != "convert" or not _through_float32(node):
            _refuse_doubles(node)
    sources = sources_of(unit)
    inputs = _inputs(unit, sources, lowerer)
    members = {id(node) for node in unit.nodes}
    outside = _read_outside(unit, members, users)
    outputs = [
        (node, lowerer.port(lowerer.home(node))) for node in unit.nodes if id(node) in outside
    ]
    if not unit.nodes[0].size:
        return
    target, last = lowerer.parts.target, unit.nodes[-1]
    if unit.rows is None:
        inputs = _straightened(inputs, outputs, lowerer, last)
    rows = unit.rows or _free_rows(unit, inputs, outputs, target)
    if rows is not None:
        products = {
            id(node): row_product(lowerer, node, sources[id(node.operands[0])][0] in members)
            for node in unit.nodes
            if node.opcode == "dot" and id(node) not in unit.over
        }
        over = {
            id(node): row_contraction(lowerer, node, port)
            for node, port in outputs
            if id(node) in unit.over
        }
        group = RowGroup(
            unit.nodes, rows, inputs, outputs, sources, products, row_sums(unit), unit.over, over
        )
        inputs.update(values_side_by_side(group, lowerer, last))
        in_blocks = unit.is_blocked or is_long(unit, group, target)
        inputs.update(_walkable(group, lowerer, last, 1 if in_blocks else None))
        smaller = smaller_row_variants(unit, group, lowerer)
        if unit.rows is None:
            smaller = chain(smaller, flat_variants(unit, group, lowerer)[1])
        lowerer.call_best(row_variants(unit, group, lowerer), last, smaller)
        return
    usual, smaller = flat_variants(unit, Group(unit.nodes, inputs, outputs, sources), lowerer)
    lowerer.call_best(usual, last, smaller)


def _inputs(
    unit: Unit, sources: dict[int, tuple[int, str]], lowerer: Lowerer
) -> dict[int, Port | np.generic]:
    """Where the unit's operands are that no member computes; those of products apart."""
    members = {id(node) for node in unit.nodes}
    ports: dict[int, Port | np.generic] = {}
    for node in unit.nodes:
        for operand in node.operands if node.opcode != "dot" or id(node) in unit.over else ():
            key = sources[id(operand)][0]
            if key not in members and key not in ports:
                number = lowerer.number(operand)
                ports[key] = lowerer.port(lowerer.view(operand)) if number is None else number
    return ports


def _straightened(
    inputs: dict[int, Port | np.generic],
    outputs: list[tuple[Node, Port]],
    lowerer: Lowerer,
    node: Node,
) -> dict[int, Port | np.generic]:
    """Inputs of an elementwise unit that would be read across, copied in the order of its result."""
    like = outputs[0][1].view
    ports = dict(inputs)
    for key, port in inputs.items():
        if isinstance(port, Port) and port.view.shape == like.shape:
            ports[key] = lowerer.port(lowerer.straight(port.view, like, node))
    return ports


def _walkable(group: RowGroup, lowerer: Lowerer, node: Node, most: int | None) -> dict[int, Port]:
    """Inputs that have too many dimensions for a transfer, copied; one row of those that all rows read.

    Args:
        group: the unit.
        lowerer: makes the copies.
        node: for messages and profiles.
        most: dimensions of a row at most, None for as many as a transfer has.
    """
    ports: dict[int, Port] = {}
    for key, port in group.inputs.items():
        if not isinstance(port, Port) or group.fits_one_dma(port, most):
            continue
        view, wide = port.view, [dim for dim, n in enumerate(port.view.shape) if n != 1]
        rows = wide[len(group.rows)]
        if any(view.strides[:rows]):
            ports[key] = lowerer.port(lowerer.compact(view, node))
            continue
        line = View(view.buffer, view.shape[rows:], view.strides[rows:], view.offset)
        compacted = lowerer.compact(line, node)
        steps = (*(0 for _ in range(rows)), *compacted.strides)
        ports[key] = lowerer.port(View(compacted.buffer, view.shape, steps, compacted.offset))
    return ports


def _free_rows(
    unit: Unit,
    inputs: dict[int, Port | np.generic],
    outputs: list[tuple[Node, Port]],
    target: Target,
) -> tuple[int, ...] | None:
    """The rows of an elementwise unit whose operands repeat along rows, or for all rows."""
    ports = [port for port in inputs.values() if isinstance(port, Port)]
    if any(port.wide for port in (*ports, *(port for _, port in outputs))):
        return None
    rows = best_rows(unit.nodes[0].shape, [port.view for port in ports])
    if rows is None:
        return None
    group = RowGroup(unit.nodes, rows, inputs, outputs, sources_of(unit))
    return rows if fits(group, target) and all(map(group.fits_one_dma, ports)) else None


def _read_outside(unit: Unit, members: set[int], users: Users) -> set[int]:
    """Members whose value somebody outside the group reads."""
    return {
        id(node)
        for node in unit.nodes
        if any(user is None or id(user) not in members for user, _ in _readers(node, users))
    }


def _users(graph: Graph) -> Users:
    users: Users = {}
    for node in graph.nodes:
        for operand in node.operands:
            users.setdefault(id(operand), []).append(node)
    for node in graph.results:
        users.setdefault(id(node), []).append(None)
    return users


def _single(node: Node, lowerer: Lowerer) -> None:
    lowering = LOWERINGS.get(node.opcode)
    if lowering is None:
        raise uncovered(node)
    _refuse_doubles(node)
    if node.size:
        lowering(lowerer, node)
    else:
        lowerer.home(node)


def _finish(graph: Graph, lowerer: Lowerer) -> None:
    """Copy results that are not in their output variable yet."""
    settled: list[tuple[View, View]] = []
    for name, node in zip(lowerer.parts.outputs, graph.results, strict=True):
        if not node.size:
            continue
        number = lowerer.number(node)
        target = View(name, node.shape, row_major(node.shape))
        if number is not None:
            lowerer.fill(target, number, node)
            continue
        view = lowerer.view(node)
        if lowerer.base(view.buffer) != name:
            lowerer.copy(view, target, node)
        else:
            settled.append((view, target))
    for view, target in settled:
        lowerer.rename(view, target)
    pairs = zip(lowerer.parts.outputs, graph.results, strict=True)
    filled = [name for name, node in pairs if node.size]
    lowerer.history.finish(filled, len(lowerer.parts.calls))


def _names(graph: Graph, attribute: str, base: str, count: int) -> list[str]:
    """Names from a frontend attribute (comma-separated or a JSON list), or numbered ones."""
    text = graph.attributes.get(attribute, "").strip()
    if not text:
        return [f"{base}{number}" for number in range(count)]
    try:
        listed = json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        listed = []
    names = [str(name).strip() for name in listed]
    if len(names) != count or len(set(names)) != count:
        raise NeffCompileError(
            f"the frontend attribute {attribute} names {len(names)} tensors ({text}), the module "
            f"has {count}, and names must differ",
            code="NEFF-NAMES",
            place=graph.name,
            remedy="correct the attribute or remove it",
        )
    return names


def _refuse_shared_names(graph: Graph, inputs: list[str], outputs: list[str]) -> None:
    shared = sorted(set(inputs) & set(outputs))
    if shared:
        raise NeffCompileError(
            f"{', '.join(shared)} would be both an input and an output",
            code="NEFF-NAMES",
            place=graph.name,
            remedy="let neff_input_names and neff_output_names name each tensor once",
        )


def _unshaped(node: Node) -> Node:
    """The node behind reshapes, for they change nothing in memory."""
    while node.opcode == "reshape":
        node = node.operands[0]
    return node


def _refuse_doubles(node: Node) -> None:
    """float64 is converted only."""
    for value in (node, *node.operands):
        if held_as(value).kind == "double":
            raise uncovered(node, "the engines have no float64 arithmetic", code="NEFF-F64")


def _through_float32(node: Node) -> bool:
    """True for a conversion of float64 that is the same in two steps, by way of float32."""
    source, target = held_as(node.operands[0]).kind, held_as(node).kind
    if source == "double":
        return target in ("float", "double")
    return target != "double" or source in ("float", "small", "pred")
