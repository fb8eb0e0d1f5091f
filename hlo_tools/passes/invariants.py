"""Invariants that passes require and ensure: named properties of a module with a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hlo_tools.ir.module import Module

__all__ = ["INVARIANTS", "Invariant", "broken"]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One property.

    Attributes:
        name: how passes name it.
        meaning: one sentence.
        violation: what breaks it in a module, or "".
    """

    name: str
    meaning: str
    violation: Callable[[Module], str]


def broken(module: Module, names: tuple[str, ...]) -> tuple[Invariant, str] | None:
    """Return the first invariant that a module violates, and the violation."""
    for name in names:
        violation = INVARIANTS[name].violation(module)
        if violation:
            return INVARIANTS[name], violation
    return None


def _first(names: Iterator[str]) -> str:
    return next((f"%{name}" for name in names), "")


def _dead_code(module: Module) -> str:
    from hlo_tools.passes.dce import dead_instructions, unreachable_computations

    gone = unreachable_computations(module)
    if gone:
        return f"%{gone[0].name}"
    return _first(
        computation.resolve(dead[0]).name for computation, dead in dead_instructions(module)
    )


def _calls(module: Module) -> str:
    from hlo_tools.rewrite.inlining import is_inlinable

    return _first(view.name for view in module.instructions if is_inlinable(view))


def _nested_entry(module: Module) -> str:
    entry = module.entry
    parameter = _first(view.name for view in entry.parameters if view.shape.is_tuple)
    if parameter:
        return parameter
    parts = entry.result_shape.tuple_shapes
    return f"%{entry.root.name}" if any(shape.is_tuple for shape in parts) else ""


def _general_dots(module: Module) -> str:
    from hlo_tools.passes.dot_canonicalisation import is_canonical

    dots = (view for view in module.instructions if view.opcode == "dot")
    return _first(
        view.name
        for view in dots
        if not is_canonical(view) and not view.computation.is_asynchronous
    )


def _metadata(module: Module) -> str:
    return _first(view.name for view in module.instructions if view.proto.HasField("metadata"))


def _unscheduled(module: Module) -> str:
    sequences = module.proto.schedule.sequences
    return _first(c.name for c in module.computations if not c.is_fusion and c.id not in sequences)


def _foreign_types(module: Module) -> str:
    from hlo_tools.passes.dtype_legalisation import REPLACED, DtypeLegalisation, is_pinned_type

    foreign = REPLACED[DtypeLegalisation().target]

    return _first(
        view.name
        for view in module.instructions
        for _, leaf in view.shape.leaves()
        if leaf.element.name in foreign and not is_pinned_type(view)
    )


def _kernel_files(module: Module) -> str:
    from hlo_tools.kernels.backend_config import decode
    from hlo_tools.kernels.embedded import is_embedded

    return _first(
        view.name
        for view in module.find_custom_calls()
        if not is_embedded(decode(view.backend_config))
    )


_TABLE = (
    Invariant("no-dead-code", "every instruction and computation is needed", _dead_code),
    Invariant("no-calls", "no plain call is left (composite calls stay)", _calls),
    Invariant("flat-entry", "no tuple among the entry's parameters, none nested in its result",
              _nested_entry),
    Invariant("canonical-dots", "dots are [batch..., m, k] x [batch..., k, n]", _general_dots),
    Invariant("no-metadata", "no instruction has metadata", _metadata),
    Invariant("scheduled", "every computation that is not a fusion has a sequence", _unscheduled),
    Invariant("embedded-kernels", "every kernel call embeds its kernel", _kernel_files),
    Invariant("legal-types", "element types that trn2 lacks only at the boundary, or where bits matter",
              _foreign_types),
)  # fmt: skip

INVARIANTS: dict[str, Invariant] = {entry.name: entry for entry in _TABLE}
