"""Where two NEFFs differ, in the words of what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from neff.container.read import Package, program_of
from neff.program import EngineLoop, EngineStep, Program, Step
from nki_lang.ir import Access, Instruction, is_group

__all__ = ["compare"]

_HEADER = (
    "pkg_version", "version", "build_version", "name", "num_tpb", "requested_tpb_count",
    "tpb_per_node", "feature_bits", "lnc_size",
)  # fmt: skip
_PROGRAM = ("name", "target", "inputs", "outputs", "scratch_bytes", "returns_tuple")

Difference = dict[str, Any]


def compare(one: Package, two: Package) -> list[Difference]:
    """Differences between two NEFFs: ``what``, and its value on either side.

    Two of ours are compared by meaning, others by their header and members.
    """
    found = [
        _row(f"header {name}", getattr(one.header, name), getattr(two.header, name))
        for name in _HEADER
        if getattr(one.header, name) != getattr(two.header, name)
    ]
    if one.is_ours and two.is_ours:
        return found + list(_programs(program_of(one), program_of(two)))
    for name in dict.fromkeys([*one.members, *two.members]):
        left, right = one.members.get(name), two.members.get(name)
        if left is None or right is None or left != right:
            found.append(_row(f"member {name}", _length(left), _length(right)))
    return found


def _programs(one: Program, two: Program) -> Iterator[Difference]:
    for name in _PROGRAM:
        left, right = getattr(one, name), getattr(two, name)
        if left != right:
            yield _row(name.replace("_", " "), left, right)
    for name in dict.fromkeys([*one.metadata, *two.metadata]):
        left, right = one.metadata.get(name), two.metadata.get(name)
        if left != right:
            yield _row(f"metadata {name}", left, right)
    for name in dict.fromkeys([*one.variables, *two.variables]):
        left, right = (_variable(program, name) for program in (one, two))
        if left != right:
            yield _row(f"variable {name}", left, right)
        elif left is not None and _value(one, name) != _value(two, name):
            yield _row(f"constant {name}", "other values", "other values")
    cores = max(len(one.subgraphs), len(two.subgraphs))
    for core in range(cores):
        yield from _cores(one, two, core)


def _cores(one: Program, two: Program, core: int) -> Iterator[Difference]:
    left, right = (
        program.subgraphs[core] if core < len(program.subgraphs) else None for program in (one, two)
    )
    if left is None or right is None:
        yield _row(f"core {core}", left is not None, right is not None)
        return
    for engine in dict.fromkeys([*left.engines, *right.engines]):
        mine = list(_lines(left.engines.get(engine, [])))
        theirs = list(_lines(right.engines.get(engine, [])))
        if mine == theirs:
            continue
        counts = [_opcodes(graph.engines.get(engine, [])) for graph in (left, right)]
        if counts[0] != counts[1]:
            other = [op for op in sorted(counts[0] | counts[1]) if counts[0][op] != counts[1][op]]
            texts = (", ".join(f"{count[op]} {op}" for op in other) for count in counts)
            yield _row(f"core {core} {engine.name} instructions", *texts)
        at = next(
            (i for i, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]),
            min(len(mine), len(theirs)),
        )
        where = f"core {core} {engine.name} step {at} (of {len(mine)} and {len(theirs)})"
        yield _row(where, _line(mine, at), _line(theirs, at))


def _lines(steps: list[EngineStep], depth: int = 0) -> Iterator[str]:
    """One line of text for each step."""
    for step in steps:
        if isinstance(step, EngineLoop):
            yield f"{'  ' * depth}loop {step.register or step.condition} {step.start} {step.stop}"
            yield from _lines(step.body, depth + 1)
        else:
            yield "  " * depth + _text(step)


def _opcodes(steps: list[EngineStep]) -> Counter[str]:
    found: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, EngineLoop):
            found += _opcodes(step.body)
        else:
            found[step.instruction.op] += 1
    return found


def _text(step: Step) -> str:
    waits = "".join(f" wait s{semaphore}>={value}" for semaphore, value in step.waits)
    signals = "".join(f" signal s{semaphore}" for semaphore in step.signals)
    return _instruction(step.instruction) + waits + signals


def _instruction(instruction: Instruction) -> str:
    operands = ", ".join(
        f"{name}={_operand(value)}"
        for name, value in instruction.operands.items()
        if value is not None
    )
    return f"{instruction.op}({operands})"


def _operand(value: Any) -> str:
    if is_group(value):
        return "(" + ", ".join(_operand(entry) for entry in value) + ")"
    if type(value) is not Access:
        return str(value)
    tensor = value.tensor
    place = f"@{tensor.address[0]}:{tensor.address[1]}" if tensor.address else ""
    text = f"{tensor.name}{place}:{value.element_type}+{value.offset}{[list(p) for p in value.pattern]}"
    if value.scalar_offset is not None:
        text += f" by {_operand(value.scalar_offset)}"
    return text + (f" at {_operand(value.vector_offset)}" if value.vector_offset else "")


def _line(lines: list[str], at: int) -> str:
    return lines[at].strip() if at < len(lines) else "(nothing)"


def _variable(program: Program, name: str) -> str | None:
    each = program.variables.get(name)
    if each is None:
        return None
    text = f"{each.kind} {each.dtype}{list(each.shape)}"
    text += f" at {each.offset}" if each.kind == "scratch" else ""
    return text + (f" alias {each.alias}" if each.alias else "")


def _value(program: Program, name: str) -> bytes | None:
    value = program.variables[name].value
    return None if value is None else value.tobytes()


def _length(data: memoryview | None) -> str:
    return "(missing)" if data is None else f"{len(data)} bytes"


def _row(what: str, one: Any, two: Any) -> Difference:
    return {"what": what, "one": one, "two": two}
