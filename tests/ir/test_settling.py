"""When edits come into the message, and in which order."""

from __future__ import annotations

from collections import Counter

import pytest

import hlo_tools
from hlo_tools import Module, array_shape, schema
from hlo_tools.ir.computation import Computation
from hlo_tools.verify import verify

F32 = array_shape("f32", (2,))


def module_of(count: int) -> Module:
    """An entry that calls ``count`` computations."""
    module = Module.new("many")
    callees = [module.add_computation("callee") for _ in range(count)]
    for callee in callees:
        callee.set_root(callee.add("negate", F32, [callee.add("parameter", F32)]))
    entry = module.add_computation("main")
    value = entry.add("parameter", F32)
    for callee in callees:
        value = entry.add("call", F32, [value], called_computation_ids=[callee.id])
    entry.set_root(value)
    module.proto.entry_computation_id = entry.id
    module.proto.entry_computation_name = entry.name
    return hlo_tools.load(module.to_bytes())


def names(module: Module) -> list[str]:
    return [computation.name for computation in module.proto.computations]


def test_only_changed_computations_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(5)
    looked: Counter[str] = Counter()
    first = module.computations[0]
    first.set_root(first.add("sine", F32, [first.root]))
    assert names(module) == ["callee", "callee.1", "callee.2", "callee.3", "callee.4", "main"]
    of = Computation.called_ids

    def counted(self: Computation) -> list[int]:
        looked[self.name] += 1
        return of(self)

    monkeypatch.setattr(Computation, "called_ids", counted)
    for computation in module.computations[:3]:
        computation.set_root(computation.add("cosine", F32, [computation.root]))
        assert [row.opcode for row in computation._proto.instructions].count("cosine") == 1
        assert len(names(module)) == len(names(module)) == 6
    assert looked == {"callee": 1, "callee.1": 1, "callee.2": 1}
    assert not list(verify(module))


@pytest.mark.parametrize("between", [False, True])
def test_a_call_of_a_later_computation_moves_it_to_the_front(between: bool) -> None:
    module = module_of(3)
    first = module.computations[0]
    first.set_root(first.add("sine", F32, [first.root]))
    if between:
        module.proto
    called = module.add_computation("made")
    called.set_root(called.add("negate", F32, [called.add("parameter", F32)]))
    if between:
        module.proto
    first.set_root(first.add("call", F32, [first.root], called_computation_ids=[called.id]))
    if between:
        first.proto
    assert names(module) == ["made", "callee", "callee.1", "callee.2", "main"]
    assert not list(verify(module))
    last = module.computation("callee.2")
    called.set_root(called.add("call", F32, [called.root], called_computation_ids=[last.id]))
    assert names(module) == ["callee.2", "made", "callee", "callee.1", "main"]
    assert not list(verify(module))


def test_the_envelope_has_every_edit() -> None:
    envelope = schema.message("HloProto")()
    envelope.hlo_module.CopyFrom(module_of(2).proto)
    module = hlo_tools.load(envelope.SerializeToString())
    entry = module.entry
    doomed = entry.root
    entry.set_root(doomed.operands[0])
    doomed.remove()
    assert module.envelope.SerializeToString(deterministic=True) == module.to_bytes()
    assert len(module.envelope.hlo_module.computations[-1].instructions) == 2
