"""Checks calls beyond types: threads, composites, fused bodies, origins of values."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools.verify.findings import Finding
from hlo_tools.verify.index import Body, Index
from hlo_tools.verify.options import Options
from hlo_tools.verify.structure import Message

__all__ = ["check_calling"]

_SAME_THREAD = frozenset({"while", "conditional", "fusion"})
_EFFECTS = frozenset(
    {"send", "send-done", "recv", "recv-done", "rng", "rng-get-and-update-state", "infeed",
     "outfeed", "all-reduce-start", "all-reduce-done", "all-gather-start", "all-gather-done",
     "collective-broadcast", "collective-reduce", "collective-permute-start",
     "collective-permute-done"}
)  # fmt: skip
_EFFECTS_IF_LAID_OUT = frozenset({"all-to-all", "all-gather", "all-reduce", "reduce-scatter"})
_REDUCING = frozenset({"all-reduce", "all-reduce-start"})
_ATTRIBUTES = "composite.attributes"


def check_calling(index: Index, options: Options) -> Iterator[Finding]:
    """Findings about callers and what they call."""
    for number, callers in index.callers.items():
        for inst, body in callers:
            yield from _threads(inst, body, index.bodies[number], options)
            if inst.opcode == "call":
                yield from _call(inst, body)
    for number, callers in index.callers.items():
        if any(inst.opcode == "fusion" for inst, _ in callers):
            yield from _fused(index, index.bodies[number])
    yield from _constrained(index)


def _threads(inst: Message, body: Body, called: Body, options: Options) -> Iterator[Finding]:
    opcode = inst.opcode
    if opcode.startswith("async-") or not (options.threads or opcode in _SAME_THREAD):
        return
    if called.thread != body.thread:
        yield body.finding(
            "HLO-V033", f"{opcode} runs in the thread '{body.thread}', %{called.row.name} in "
            f"'{called.thread}'", inst,
        )  # fmt: skip


def _call(inst: Message, body: Body) -> Iterator[Finding]:
    if inst.output_operand_aliasing:
        yield body.finding("HLO-V027", "a call has no aliases of outputs and operands", inst)
    if not inst.is_composite:
        return
    words = inst.frontend_attributes.map
    version = words.get("composite.version", "0")
    if not words.get("composite.name"):
        yield body.finding("HLO-V036", "a composite call has no composite.name", inst)
    if words.get(_ATTRIBUTES, "{}") == "":
        yield body.finding("HLO-V036", f"{_ATTRIBUTES} of a composite call is empty", inst)
    if not version.isdecimal():
        yield body.finding("HLO-V036", f"composite.version is '{version}', not a number", inst)


def _fused(index: Index, body: Body) -> Iterator[Finding]:
    """Check that every fused instruction except the root has a user in its computation."""
    if index.proto.entry_computation_id == body.row.id:
        yield Finding("HLO-V028", "the entry is also fused", computation=body.row.name)
    root = body.root
    if body.users(root):
        yield body.finding("HLO-V037", "the root of a fused computation has users", root)
    for inst, opcode in zip(body.instructions, body.opcodes, strict=True):
        if inst is not root and not body.users(inst) and not _stays(inst, opcode):
            yield body.finding("HLO-V037", "nothing in the fused computation uses it", inst)


def _stays(inst: Message, opcode: str) -> bool:
    return (
        opcode in _EFFECTS
        or (opcode in _EFFECTS_IF_LAID_OUT and inst.constrain_layout)
        or (opcode == "custom-call" and inst.custom_call_has_side_effect)
    )


def _constrained(index: Index) -> Iterator[Finding]:
    """All of the module's all-reduces fix their layouts, or none does."""
    reductions = [(inst, body) for inst, _, body in index.of(_REDUCING)]
    for inst, body in reductions[1:]:
        if reductions[0][0].constrain_layout != inst.constrain_layout:
            yield body.finding(
                "HLO-V019",
                f"of it and %{reductions[0][0].name} only one has constrain_layout",
                inst,
            )
            return
