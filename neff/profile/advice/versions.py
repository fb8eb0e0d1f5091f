"""Values of reused tiles: a tensor for each value that a buffer holds.

A buffer outside a loop holds another value in each iteration. Two values of one buffer are separable when
all that is read of the later one was written after the last read of the earlier one.

A buffer outside a loop holds another value in each turn. Two values of one buffer are apart when
all that is read of the later one was written after the last read of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.profile.advice.rebuild import mapped
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop

__all__ = ["runs_of", "values_of", "with_separate_values"]


@dataclass(slots=True)
class _Value:
    """One value of a buffer: its written regions, its reads, and its first statement."""

    start: int
    written: list[Region] = field(default_factory=list[Region])
    is_read: bool = False


def with_separate_values(
    body: Block, selects: Callable[[Tensor], bool], *, max_tensors: int = 0
) -> tuple[Block, int]:
    """Return the statements with a tensor for each value of the selected buffers.

    Args:
        body: of a core.
        selects: whether to separate the values of a buffer.
        max_tensors: tensors for each buffer, used in rotation; 0 for one per value.

    Returns:
        The statements, and how many tensors were added.
    """
    added = 0
    statements: Block = []
    for run in runs_of(body):
        if isinstance(run, ForLoop | WhileLoop):
            inner, more = with_separate_values(run.body, selects, max_tensors=max_tensors)
            statements.append(replace(run, body=inner))
        else:
            inner, more = _run_with_separate_values(
                run, _selecting_inside(selects, _names(body, run)), max_tensors
            )
            statements += inner
        added += more
    return statements, added


def _selecting_inside(
    selects: Callable[[Tensor], bool], outside: set[str]
) -> Callable[[Tensor], bool]:
    return lambda tensor: selects(tensor) and tensor.name not in outside


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
    """Return the tensors on chip that statements outside of a run touch."""
    run_ids = {id(statement) for statement in run}
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ForLoop | WhileLoop):
            names |= _names(statement.body, [])
        elif isinstance(statement, Instruction) and id(statement) not in run_ids:
            names.update(access.tensor.name for access, _ in _touched(statement))
    return names


def _touched(instruction: Instruction) -> Iterator[tuple[Access, bool]]:
    for operand, written in operands_touched(instruction):
        if type(operand) is Access and operand.tensor.on_chip:
            yield operand, written


def _run_with_separate_values(
    run: list[Instruction], selects: Callable[[Tensor], bool], max_tensors: int
) -> tuple[Block, int]:
    starts = values_of(run, selects)
    added = sum(
        (min(max_tensors, len(value_starts)) if max_tensors else len(value_starts)) - 1
        for value_starts in starts.values()
    )
    if not added:
        return list(run), 0
    begins: dict[int, list[str]] = {}
    for name, value_starts in starts.items():
        for start in value_starts:
            begins.setdefault(start, []).append(name)
    numbers = dict.fromkeys(starts, -1)
    statements: Block = []
    for index, instruction in enumerate(run):
        for name in begins.get(index, ()):
            numbers[name] += 1
        names = {
            access.tensor.name: numbers[access.tensor.name]
            for access, _ in _touched(instruction)
            if len(starts.get(access.tensor.name, ())) > 1
        }
        statements.append(_renamed(instruction, names, max_tensors) if names else instruction)
    return statements, added


def _renamed(instruction: Instruction, numbers: dict[str, int], max_tensors: int) -> Instruction:
    def renewed(access: Access) -> Access:
        number = numbers.get(access.tensor.name) if access.tensor.on_chip else None
        if number is None:
            return access
        number = number % max_tensors if max_tensors else number
        name = f"{access.tensor.name}/{number}" if number else access.tensor.name
        return access._replace(tensor=replace(access.tensor, name=name))

    return mapped(instruction, renewed)


def values_of(run: list[Instruction], selects: Callable[[Tensor], bool]) -> dict[str, list[int]]:
    """Return for each buffer the instructions with which a value begins."""
    values: dict[str, list[_Value]] = {}
    for index, instruction in enumerate(run):
        touched = [operand for operand in _touched(instruction) if selects(operand[0].tensor)]
        updated = bool(instruction.operands.get("accumulate"))
        reads = [access for access, written in touched if not written or updated]
        read_names = {access.tensor.name for access in reads}
        for access in reads:
            _read(values.setdefault(access.tensor.name, [_Value(index)]), _region(access))
        for access, written in touched:
            if written:
                buffer_values = values.setdefault(access.tensor.name, [_Value(index)])
                if buffer_values[-1].is_read and access.tensor.name not in read_names:
                    buffer_values.append(_Value(index))
                buffer_values[-1].written.append(_region(access))
    return {
        name: [value.start for value in buffer_values] for name, buffer_values in values.items()
    }


def _region(access: Access) -> Region:
    return region_of(access, (0, 0))


def _read(buffer_values: list[_Value], region: Region) -> None:
    """Note a read; a value that lacks a read region continues the previous value."""
    while len(buffer_values) > 1 and not _covered(region, buffer_values[-1].written):
        newest = buffer_values.pop()
        buffer_values[-1].written += newest.written
    buffer_values[-1].is_read = True


def _covered(region: Region, written: list[Region]) -> bool:
    """Return whether boxes cover a region; adjacent boxes count together."""
    if any(_holds(box, region) for box in written):
        return True
    pieces = {box for box in written if _holds(region, box)}
    return sum(_area(box) for box in pieces) >= _area(region)


def _holds(outer: Region, inner: Region) -> bool:
    return (
        outer.first <= inner.first
        and inner.last <= outer.last
        and outer.low <= inner.low
        and inner.high <= outer.high
    )


def _area(region: Region) -> int:
    return (region.last - region.first) * (region.high - region.low)
