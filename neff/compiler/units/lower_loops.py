"""Loops and branches as calls in registers' hands: the state in HBM, its start, its next value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from neff.compiler.assembly.history import Began, Choice
from neff.compiler.assembly.link import Repeat
from neff.compiler.graph.blocks import Block, Loop
from neff.compiler.graph.counters import Linear
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import View, row_major
from neff.compiler.importing.loops import index_of
from neff.compiler.lowering.control import (
    branch_task,
    count_task,
    counter_of,
    gate_task,
    loop_register,
)
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.origins import location_of
from neff.compiler.units.fuse import Unit
from neff.compiler.units.homes import Old, State, Users, chains, in_place

__all__ = ["Around", "lower_loop", "share_memory"]


@dataclass(slots=True)
class Around:
    """The functions of the graph's lowering that a loop's lowering needs.

    Attributes:
        users: who reads each node.
        work: a block's units in order.
        run: lowers units of a block.
    """

    users: Users
    work: Callable[[Block], list[Unit]]
    run: Callable[[Block, list[Unit]], None]


def share_memory(units: list[Unit], lowerer: Lowerer, users: Users) -> None:
    """Values that are only there to be updated are computed where the update goes."""
    for before, update in chains(units, lowerer.homes, users):
        if not before.size or not before.shape:
            continue
        name = lowerer.homes.get(id(update))
        if name is None:
            name = lowerer.scratch(update.shape, held_as(update).tile).buffer
            lowerer.homes[id(update)] = name
        if not lowerer.port(_whole(name, update)).wide:
            lowerer.homes[id(before)] = name


def lower_loop(loop: Loop, lowerer: Lowerer, around: Around) -> None:
    """Append a loop, or branches."""
    targets = [_target(loop, index, lowerer) for index in range(len(loop.new()))]
    for node in (*loop.captured, *(loop.inits if loop.branches else ())):
        register = node.opcode == "counter" and id(node) not in lowerer.located
        if lowerer.number(node) is None and not register:
            lowerer.view(node)
    if loop.branches:
        _branches(loop, targets, lowerer, around)
    else:
        _repeated(loop, targets, lowerer, around)
    lowerer.results[id(loop.end)] = targets
    for index, node in loop.results.items():
        lowerer.place(node, targets[index])


def _whole(name: str, node: Node) -> View:
    return View(name, node.shape, row_major(node.shape))


def _target(loop: Loop, index: int, lowerer: Lowerer) -> View:
    """The memory of a part of the state."""
    node = loop.new()[index]
    result = loop.results.get(index)
    name = lowerer.homes.get(id(result)) if result is not None else None
    if name is None or lowerer.port(_whole(name, node)).wide:
        return lowerer.scratch(node.shape, held_as(node).tile)
    return _whole(lowerer.version(name), node)


def _put(lowerer: Lowerer, node: Node, target: View) -> None:
    if not node.size:
        return
    number = lowerer.number(node)
    if number is not None:
        lowerer.fill(target, number, node)
    else:
        lowerer.copy(lowerer.view(node), target, node)


def _repeated(loop: Loop, targets: list[View], lowerer: Lowerer, around: Around) -> None:
    for number, (init, target) in enumerate(zip(loop.inits, targets, strict=True)):
        if not _is_written_over(loop, number, around.users):
            _put(lowerer, init, target)
        elif target.size:
            lowerer.history.events.append(Began(target.buffer))
    register = loop_register(loop.ident)
    if loop.gate is not None:
        _load_gate(loop.gate, register, lowerer)
    first = len(lowerer.parts.calls)
    with lowerer.inside(), lowerer.history.turns(certain=bool(loop.trips)):
        for symbol in loop.carried:
            lowerer.place(symbol, targets[index_of(symbol)])
        following = [
            replace(target, buffer=lowerer.version(lowerer.base(target.buffer)))
            for target in targets
        ]
        _body(loop, 0, targets, following, lowerer, around)
        for old, target in zip(following, targets, strict=True):
            if target.size:
                lowerer.rename(old, target)
    _close(loop, first, register, loop.trips, lowerer)


def _is_written_over(loop: Loop, number: int, users: Users) -> bool:
    """True when the turns write each element of a part of the state, and nothing reads it before:
    what a scan stacks."""
    update = loop.new()[number]
    carried = next((symbol for symbol in loop.carried if index_of(symbol) == number), None)
    if update.opcode != "dynamic-update-slice" or update.operands[0] is not carried:
        return False
    if len(users.get(id(carried), ())) != 1:
        return False
    counted = False
    for start, size, extent in zip(
        update.operands[2:], update.operands[1].shape, update.shape, strict=True
    ):
        if size == extent:
            continue
        if counted or start.opcode != "counter" or start.operands[0] is not loop.start:
            return False
        value: Linear = start.attributes["linear"]
        reach = value.range()
        is_whole = reach == (0, extent - size) and abs(value.step) == size
        counted = is_whole and extent == size * (loop.trips or 0)
        if not counted:
            return False
    return counted


def _close(
    loop: Loop, first: int, register: str, trips: int | str | None, lowerer: Lowerer
) -> None:
    last = len(lowerer.parts.calls)
    if last > first:
        where = location_of(loop.end)
        lowerer.parts.repeats.append(Repeat(first, last, register, trips, where))


def _load_gate(gate: Node, register: str, lowerer: Lowerer) -> None:
    port = lowerer.port(lowerer.view(gate))
    lowerer.call(gate_task(port, register), gate, register, everywhere=True)


def _branches(loop: Loop, targets: list[View], lowerer: Lowerer, around: Around) -> None:
    assert loop.gate is not None
    branch_registers = [
        f"{loop_register(loop.ident)}.{number}" for number in range(len(loop.bodies))
    ]
    which = lowerer.port(lowerer.view(loop.gate))
    task = branch_task(which, branch_registers, loop.gate.element.kind == "pred")
    lowerer.call(task, loop.gate, *branch_registers, everywhere=True)
    positions = [lowerer.view(init) for init in loop.inits]
    choice = Choice([])
    lowerer.history.events.append(choice)
    for branch, name in enumerate(branch_registers):
        first = len(lowerer.parts.calls)
        with lowerer.inside(), lowerer.history.branch(choice):
            for symbol in loop.carried:
                lowerer.place(symbol, positions[index_of(symbol)])
            _body(loop, branch, targets, targets, lowerer, around)
        _close(loop, first, f"{name}.turn", name, lowerer)


def _body(
    loop: Loop,
    branch: int,
    targets: list[View],
    following: list[View],
    lowerer: Lowerer,
    around: Around,
) -> None:
    """One turn, or one branch: what it computes, and the next state in its place.

    Args:
        loop: whose turn it is.
        branch: which one.
        targets: the memory of the state in this turn.
        following: the same memory, with the state of the next turn, or the results of a branch.
        lowerer: gets the kernels.
        around: of the graph.
    """
    block = loop.bodies[branch]
    for node in loop.counters:
        _count(node, lowerer, around.users)
    symbols = {id(symbol): lowerer.in_memory(lowerer.view(symbol)) for symbol in loop.carried}
    memories = list(map(lowerer.in_memory, targets))
    new = loop.new(branch)
    states = [
        State(node, target.buffer, symbols.get(id(node)) == target)
        for node, target in zip(new, memories, strict=True)
    ]  # fmt: skip
    old = Old(
        {key: lowerer.base(view.buffer) for key, view in symbols.items()},
        frozenset(key for key, view in symbols.items()
                  if view.contiguous and not view.offset and view in memories),
    )  # fmt: skip
    units = around.work(block)
    saved = dict(lowerer.homes)
    lowerer.homes |= in_place(block, units, states, old, around.users, loop.next_gate)
    share_memory(units, lowerer, around.users)
    around.run(block, units)
    if loop.next_gate is not None:
        _load_gate(loop.next_gate, loop_register(loop.ident), lowerer)
    _move(new, following, lowerer)
    lowerer.homes = saved


def _count(node: Node, lowerer: Lowerer, users: Users) -> None:
    """The value of a counter in memory, if anybody reads it there."""
    value: Linear = node.attributes["linear"]
    readers = users.get(id(node), ())
    if any(user is None or _reads_value(user, node) for user in readers):
        home = lowerer.home(node)
        register = counter_of(node)
        lowerer.call(
            count_task(register, value.start, value.step, lowerer.port(home)), node, register
        )


def _reads_value(user: Node, node: Node) -> bool:
    """False for a slice that starts at the counter, whose register it takes."""
    first = {"dynamic-slice": 1, "dynamic-update-slice": 2}.get(user.opcode)
    return first is None or any(operand is node for operand in user.operands[:first])


def _move(new: tuple[Node, ...], targets: list[View], lowerer: Lowerer) -> None:
    """Put values into their places at once: none is written over before it is read."""
    pending: list[tuple[Node, View | None, View]] = []
    settled: list[tuple[View, View]] = []
    for node, target in zip(new, targets, strict=True):
        view = lowerer.view(node) if node.size and lowerer.number(node) is None else None
        if view is not None and lowerer.in_memory(view).matches(lowerer.in_memory(target)):
            settled.append((view, target))
        elif node.size:
            pending.append((node, view, target))
    while pending:
        read = [lowerer.base(view.buffer) if view is not None else "" for _, view, _ in pending]
        free = next(
            (position for position, (_, _, target) in enumerate(pending)
             if lowerer.base(target.buffer) not in read[:position] + read[position + 1 :]), None,
        )  # fmt: skip
        node, view, target = pending.pop(free or 0)
        overlaps = view is not None and lowerer.base(view.buffer) == lowerer.base(target.buffer)
        if view is not None and (free is None or overlaps):
            pending.append((node, lowerer.compact(view, node), target))
        else:
            _put(lowerer, node, target) if view is None else lowerer.copy(view, target, node)
    for view, target in settled:
        lowerer.rename(view, target)
