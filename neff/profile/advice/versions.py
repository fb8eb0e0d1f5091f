"""Tiles that are written again before they are read: each such value as a tensor of its own.

A buffer outside a loop holds another value in each turn. Two values of one buffer are apart when
all that is read of the later one was written after the last read of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.advice.rebuild import mapped
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop

__all__ = ["apart", "runs_of", "values_of"]


@dataclass(slots=True)
class _Value:
    """One value of a buffer: what wrote it, whether it was read, and from which statement on."""

    start: int
    written: list[Region] = field(default_factory=list[Region])
    is_read: bool = False


def apart(body: Block, wanted: Callable[[Tensor], bool], *, most: int = 0) -> tuple[Block, int]:
    """The statements with a tensor for each value of the buffers that are wanted.

    Args:
        body: of a core.
        wanted: buffers to take apart.
        most: tensors for each buffer, taken in turn; 0 for as many as it has values.

    Returns:
        The statements, and how many tensors were added.
    """
    added = 0
    found: Block = []
    for run in runs_of(body):
        if isinstance(run, ForLoop | WhileLoop):
            inner, more = apart(run.body, wanted, most=most)
            found.append(replace(run, body=inner))
        else:
            inner, more = _run_apart(run, _within(wanted, _names(body, run)), most)
            found += inner
        added += more
    return found, added


def _within(wanted: Callable[[Tensor], bool], outside: set[str]) -> Callable[[Tensor], bool]:
    return lambda tensor: wanted(tensor) and tensor.name not in outside


def runs_of(body: Block) -> Iterator[list[Instruction] | ForLoop | WhileLoop]:
    run: list[Instruction] = []
    for statement in body:
        if isinstance(statement, Instruction):
            run.append(statement)
            continue
        if run:
            yield run
            run = []
        assert isinstance(statement, ForLoop | WhileLoop)
        yield statement
    if run:
        yield run


def _names(body: Block, run: list[Instruction]) -> set[str]:
    """Tensors on chip that other statements than those of a run touch."""
    own = {id(statement) for statement in run}
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ForLoop | WhileLoop):
            found |= _names(statement.body, [])
        elif isinstance(statement, Instruction) and id(statement) not in own:
            found.update(access.tensor.name for access, _ in _touched(statement))
    return found


def _touched(instruction: Instruction) -> Iterator[tuple[Access, bool]]:
    for what, written in operands_touched(instruction):
        if type(what) is Access and what.tensor.on_chip:
            yield what, written


def _run_apart(
    run: list[Instruction], wanted: Callable[[Tensor], bool], most: int
) -> tuple[Block, int]:
    starts = values_of(run, wanted)
    added = sum((min(most, len(own)) if most else len(own)) - 1 for own in starts.values())
    if not added:
        return list(run), 0
    begins: dict[int, list[str]] = {}
    for name, own in starts.items():
        for start in own:
            begins.setdefault(start, []).append(name)
    at = dict.fromkeys(starts, -1)
    found: Block = []
    for index, instruction in enumerate(run):
        for name in begins.get(index, ()):
            at[name] += 1
        names = {
            access.tensor.name: at[access.tensor.name]
            for access, _ in _touched(instruction)
            if len(starts.get(access.tensor.name, ())) > 1
        }
        found.append(_renamed(instruction, names, most) if names else instruction)
    return found, added


def _renamed(instruction: Instruction, numbers: dict[str, int], most: int) -> Instruction:
    def renewed(access: Access) -> Access:
        number = numbers.get(access.tensor.name) if access.tensor.on_chip else None
        if number is None:
            return access
        number = number % most if most else number
        name = f"{access.tensor.name}/{number}" if number else access.tensor.name
        return access._replace(tensor=replace(access.tensor, name=name))

    return mapped(instruction, renewed)


def values_of(run: list[Instruction], wanted: Callable[[Tensor], bool]) -> dict[str, list[int]]:
    """For each buffer, the instructions with which a value of its own begins."""
    values: dict[str, list[_Value]] = {}
    for index, instruction in enumerate(run):
        touched = [one for one in _touched(instruction) if wanted(one[0].tensor)]
        updated = bool(instruction.operands.get("accumulate"))
        reads = [access for access, written in touched if not written or updated]
        read_names = {access.tensor.name for access in reads}
        for access in reads:
            _read(values.setdefault(access.tensor.name, [_Value(index)]), _region(access))
        for access, written in touched:
            if written:
                own = values.setdefault(access.tensor.name, [_Value(index)])
                if own[-1].is_read and access.tensor.name not in read_names:
                    own.append(_Value(index))
                own[-1].written.append(_region(access))
    return {name: [value.start for value in own] for name, own in values.items()}


def _region(access: Access) -> Region:
    return region_of(access, (0, 0))


def _read(own: list[_Value], region: Region) -> None:
    """Note a read; a value that lacks what is read is the one before, written on."""
    while len(own) > 1 and not _covered(region, own[-1].written):
        last = own.pop()
        own[-1].written += last.written
    own[-1].is_read = True


def _covered(region: Region, written: list[Region]) -> bool:
    """Whether boxes hold all of another one; boxes side by side count together."""
    if any(_holds(other, region) for other in written):
        return True
    pieces = {other for other in written if _holds(region, other)}
    return sum(_area(other) for other in pieces) >= _area(region)


def _holds(outer: Region, inner: Region) -> bool:
    return (
        outer.first <= inner.first
        and inner.last <= outer.last
        and outer.low <= inner.low
        and inner.high <= outer.high
    )


def _area(region: Region) -> int:
    return (region.last - region.first) * (region.high - region.low)
