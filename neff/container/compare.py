"""The differences between two NEFFs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from neff.container.read import Package, program_of
from neff.program import EngineLoop, EngineStep, Program, Step
from nki_lang.ir import Access, Instruction, is_group

__all__ = ["compare"]

_HEADER_FIELDS = (
    "pkg_version", "version", "build_version", "name", "num_tpb", "requested_tpb_count",
    "tpb_per_node", "feature_bits", "lnc_size",
)  # fmt: skip
_PROGRAM_FIELDS = ("name", "target", "inputs", "outputs", "scratch_bytes", "returns_tuple")

Difference = dict[str, Any]


def compare(before: Package, after: Package) -> list[Difference]:
    """Return the differences between two NEFFs: ``what``, and its value on either side.

    Two NEFFs of this compiler are compared by semantics, others by their header and members.
    """
    differences = [
        _row(f"header {name}", getattr(before.header, name), getattr(after.header, name))
        for name in _HEADER_FIELDS
        if getattr(before.header, name) != getattr(after.header, name)
    ]
    if before.is_ours and after.is_ours:
        return differences + list(_programs(program_of(before), program_of(after)))
    for name in dict.fromkeys([*before.members, *after.members]):
        left, right = before.members.get(name), after.members.get(name)
        if left is None or right is None or left != right:
            differences.append(_row(f"member {name}", _length(left), _length(right)))
    return differences


def _programs(before: Program, after: Program) -> Iterator[Difference]:
    for name in _PROGRAM_FIELDS:
        left, right = getattr(before, name), getattr(after, name)
        if left != right:
            yield _row(name.replace("_", " "), left, right)
    for name in dict.fromkeys([*before.metadata, *after.metadata]):
        left, right = before.metadata.get(name), after.metadata.get(name)
        if left != right:
            yield _row(f"metadata {name}", left, right)
    for name in dict.fromkeys([*before.variables, *after.variables]):
        left, right = (_variable(program, name) for program in (before, after))
        if left != right:
            yield _row(f"variable {name}", left, right)
        elif left is not None and _value(before, name) != _value(after, name):
            yield _row(f"constant {name}", "other values", "other values")
    cores = max(len(before.subgraphs), len(after.subgraphs))
    for core in range(cores):
        yield from _cores(before, after, core)


def _cores(before: Program, after: Program, core: int) -> Iterator[Difference]:
    left, right = (
        program.subgraphs[core] if core < len(program.subgraphs) else None
        for program in (before, after)
    )
    if left is None or right is None:
        yield _row(f"core {core}", left is not None, right is not None)
        return
    for engine in dict.fromkeys([*left.engines, *right.engines]):
        left_lines = list(_lines(left.engines.get(engine, [])))
        right_lines = list(_lines(right.engines.get(engine, [])))
        if left_lines == right_lines:
            continue
        counts = [_opcodes(graph.engines.get(engine, [])) for graph in (left, right)]
        if counts[0] != counts[1]:
            changed_ops = [
                op for op in sorted(counts[0] | counts[1]) if counts[0][op] != counts[1][op]
            ]
            texts = (", ".join(f"{count[op]} {op}" for op in changed_ops) for count in counts)
            yield _row(f"core {core} {engine.name} instructions", *texts)
        position = next(
            (
                i
                for i, pair in enumerate(zip(left_lines, right_lines, strict=False))
                if pair[0] != pair[1]
            ),
            min(len(left_lines), len(right_lines)),
        )
        where = f"core {core} {engine.name} step {position} (of {len(left_lines)} and {len(right_lines)})"
        yield _row(where, _line(left_lines, position), _line(right_lines, position))


def _lines(steps: list[EngineStep], depth: int = 0) -> Iterator[str]:
    """One line of text for each step."""
    for step in steps:
        if isinstance(step, EngineLoop):
            yield f"{'  ' * depth}loop {step.register or step.condition} {step.start} {step.stop}"
            yield from _lines(step.body, depth + 1)
        else:
            yield "  " * depth + _text(step)


def _opcodes(steps: list[EngineStep]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, EngineLoop):
            counts += _opcodes(step.body)
        else:
            counts[step.instruction.op] += 1
    return counts


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
    location = f"@{tensor.address[0]}:{tensor.address[1]}" if tensor.address else ""
    text = f"{tensor.name}{location}:{value.element_type}+{value.offset}{[list(p) for p in value.pattern]}"
    if value.scalar_offset is not None:
        text += f" by {_operand(value.scalar_offset)}"
    return text + (f" at {_operand(value.vector_offset)}" if value.vector_offset else "")


def _line(lines: list[str], position: int) -> str:
    return lines[position].strip() if position < len(lines) else "(nothing)"


def _variable(program: Program, name: str) -> str | None:
    variable = program.variables.get(name)
    if variable is None:
        return None
    text = f"{variable.kind} {variable.dtype}{list(variable.shape)}"
    text += f" at {variable.offset}" if variable.kind == "scratch" else ""
    return text + (f" alias {variable.alias}" if variable.alias else "")


def _value(program: Program, name: str) -> bytes | None:
    value = program.variables[name].value
    return None if value is None else value.tobytes()


def _length(data: memoryview | None) -> str:
    return "(missing)" if data is None else f"{len(data)} bytes"


def _row(what: str, before: Any, after: Any) -> Difference:
    return {"what": what, "one": before, "two": after}
