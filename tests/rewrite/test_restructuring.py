"""Cloning, inlining, outlining and removal keep the module valid and its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloError, Module
from hlo_tools.ir import editing
from hlo_tools.rewrite.cloning import clone_computation
from hlo_tools.rewrite.dead_code import UnusedRemover, remove_dead, remove_unreachable
from hlo_tools.rewrite.inlining import inline_call, outline
from hlo_tools.verify import verify
from tests.hlo_examples import F32, example


def run(module: Module) -> list[np.ndarray[Any, Any]]:
    """The results on XLA:CPU of the entry for two fixed arguments."""
    import jax
    from jaxlib import _jax

    device = jax.devices("cpu")[0]
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.module_bytes())
    program = device.client.compile_and_load(
        stablehlo, _jax.DeviceList((device,)), _jax.CompileOptions()
    )
    x = np.arange(6, dtype="f4").reshape(2, 3)
    arguments = [jax.device_put(value, device) for value in (x, x + 1)]
    return [np.asarray(result) for result in program.execute(arguments)]


def chosen(module: Module, *names: str) -> list[Any]:
    return [module.entry.find(name) for name in names]


EDITS: dict[str, Callable[[Module], object]] = {
    "outline one result": lambda m: outline(chosen(m, "product", "total", "ones")),
    "outline two results": lambda m: outline(chosen(m, "one", "ones", "product")),
    "outline the root": lambda m: outline(chosen(m, "total", "out")),
    "outline and inline": lambda m: inline_call(outline(chosen(m, "product", "total"))),
    "clone the reducer": lambda m: m.entry.root.proto.called_computation_ids.__setitem__(
        0, clone_computation(m.computations[0]).id
    ),
    "remove what is dead": lambda m: (
        m.entry.add("negate", F32, [m.entry.find("x")]), remove_dead(m.entry)
    ),
}  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("scheme", ["wide", "legacy"])
@pytest.mark.parametrize("edit", EDITS)
def test_meaning_stays(edit: str, scheme: str) -> None:
    module = Module(example(scheme))
    expected = run(Module(example(scheme)))
    EDITS[edit](module)
    again = hlo_tools.load(module.to_bytes())
    assert again.id_scheme == scheme
    for actual, reference in zip(run(again), expected, strict=True):
        np.testing.assert_array_equal(actual, reference)


def test_outlined_computation(module: Module) -> None:
    call = outline(chosen(module, "product", "total"), name="body")
    [body] = call.called_computations
    assert body.name == "body" and [view.opcode for view in body] == [
        "parameter", "parameter", "parameter", "multiply", "add",
    ]  # fmt: skip
    assert [operand.name for operand in call.operands] == ["x", "y", "ones"]
    assert [c.name for c in hlo_tools.load(module.to_bytes()).computations][-1] == "main"


def test_inlining_removes_the_call(module: Module) -> None:
    call = outline(chosen(module, "product", "total"))
    result = inline_call(call)
    assert result.opcode == "add" and module.entry.root.operands[0] is result
    assert "call" not in [view.opcode for view in module.entry]
    assert remove_unreachable(module) == 1
    assert [c.name for c in hlo_tools.load(module.to_bytes()).computations] == ["region_0", "main"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: outline([]), "exactly one computation"),
        (lambda m: outline([m.entry.find("out"), m.computations[0].find("sum")]), "exactly one"),
        (lambda m: outline(chosen(m, "x")), "it is a parameter"),
        (lambda m: outline(chosen(m, "product", "out")), "it needs %total, which stays outside"),
        (lambda m: inline_call(m.entry.find("total")), "it is not a call"),
        (
            lambda m: m.entry.find("out").set_called_computations(
                [Module.new("n").add_computation("c")]
            ),
            "is not a computation of module",
        ),
        (lambda m: m.entry.find("out").set_called_computations(["f"]), "'f' is not a computation"),
    ],
)
def test_what_cannot_be_done(module: Module, edit: Any, message: str) -> None:
    before = module.proto.SerializeToString(deterministic=True)
    with pytest.raises(HloError, match=message) as caught:
        edit(module)
    assert caught.value.code == "HLO-EDIT"
    assert module.proto.SerializeToString(deterministic=True) == before


def test_dead_code_with_an_effect_stays(module: Module) -> None:
    entry = module.entry
    printed = entry.add("custom-call", F32, [entry.find("x")], custom_call_target="print")
    printed.proto.custom_call_has_side_effect = True
    entry.add("negate", F32, [printed])
    assert remove_dead(entry) == 1
    assert printed in entry.instructions


def test_clone_takes_everything_but_the_name(module: Module) -> None:
    original = module.computations[0]
    copy = clone_computation(original)
    assert copy.name == "region_0.1" and [v.opcode for v in copy] == [v.opcode for v in original]
    assert copy.root.opcode == "add" and copy.root is not original.root
    assert len({view.name for view in module.instructions}) == len(list(module.instructions))


def test_unreachable_computations_lose_their_schedule() -> None:
    proto = example()
    for number in (1, 2):
        proto.schedule.sequences[number].instruction_ids.append(number << 32)
    module = Module(proto)
    module.entry.root.proto.called_computation_ids[:] = []
    module.touch()
    assert remove_unreachable(module) == 1
    assert list(module.proto.schedule.sequences) == [2]


def test_control_edges_lead_past_what_was_removed_one_by_one(module: Module) -> None:
    entry = module.entry
    x = entry.find("x")
    first, second, third, last = (entry.add("negate", F32, [x], name=n) for n in "abcd")
    for view, waits_for in ((second, first), (third, second), (last, third)):
        view.proto.control_predecessor_ids.append(waits_for.id)
    second.remove()
    entry.add("abs", F32, [x])
    third.remove()
    assert last.control_predecessors == (first,)
    assert last in entry.instructions and second not in entry.instructions
    assert len(entry) == len(entry.instructions)


def test_what_waits_for_something_new_does_not_wait_for_what_had_its_id(module: Module) -> None:
    entry = module.entry
    x = entry.find("x")
    old = entry.add("negate", F32, [x])
    module.touch()
    old.remove()
    new, waiting = entry.add("abs", F32, [x]), entry.add("abs", F32, [x])
    waiting.proto.control_predecessor_ids.append(new.id)
    assert waiting.control_predecessors == (new,)


def test_many_edits_look_at_the_list_once(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = module.entry
    looked: list[int] = []
    sweep = editing.sweep
    monkeypatch.setattr(editing, "sweep", lambda *arguments: looked.append(1) or sweep(*arguments))
    views = [entry.add("negate", F32, [entry.find("x")]) for _ in range(50)]
    for view in views:
        entry.add("abs", F32, view.operands, like=view)
        view.remove()
    assert looked == []
    assert not set(views) & set(entry.instructions)
    assert looked == [1]


def test_unused_is_removed_with_what_only_it_used(module: Module) -> None:
    entry = module.entry
    x = entry.find("x")
    inner = entry.add("negate", F32, [x])
    outer = entry.add("abs", F32, [inner])
    waited = entry.add("negate", F32, [x])
    entry.add("abs", F32, [x]).proto.control_predecessor_ids.append(waited.id)
    rolled = entry.add("rng", F32, [])
    remover = UnusedRemover(entry)
    remover.drop([inner])
    assert inner in entry.instructions
    remover.drop([outer, waited, rolled, x, entry.root])
    assert not {inner, outer} & set(entry.instructions)
    assert {waited, rolled, x, entry.root} <= set(entry.instructions)


CONTROL = """HloModule m
%f (a: f32[4], b: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %b = f32[4]{0} parameter(1)
  %n = f32[4]{0} negate(%a)
  %c = f32[4]{0} cosine(%b), control-predecessors={%n}
  ROOT %s = f32[4]{0} add(%n, %c)
}
ENTRY %e (p: f32[4], q: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %q = f32[4]{0} parameter(1)
  %x = f32[4]{0} exponential(%q)
  %call = f32[4]{0} call(%p, %q), to_apply=%f, control-predecessors={%x}
  %y = f32[4]{0} log(%q), control-predecessors={%call}
  ROOT %r = f32[4]{0} add(%call, %y)
}
"""


def control_edges(module: Module) -> set[tuple[str, str]]:
    """(earlier, later) pairs of opcodes."""
    return {
        (before.opcode, view.opcode)
        for view in module.instructions
        for before in view.control_predecessors
    }


def test_inlining_hands_on_control_edges() -> None:
    module = hlo_tools.load(CONTROL.encode())
    inline_call(module.entry.find("call"))
    remove_unreachable(module)
    expected = {("exponential", "negate"), ("negate", "cosine"), ("add", "log")}
    assert control_edges(module) == expected
    assert verify(module) == []


def test_inlining_nothing_leads_control_edges_past() -> None:
    text = CONTROL.replace("ROOT %s = f32[4]{0} add(%n, %c)", "%s = f32[4]{0} add(%n, %c)")
    module = hlo_tools.load(text.replace("%a = f32", "ROOT %a = f32").encode())
    remove_dead(callee := module.computation("f"))
    assert len(callee) == 2
    inline_call(module.entry.find("call"))
    assert control_edges(module) == {("exponential", "log")}


def test_outlining_hands_on_control_edges() -> None:
    module = hlo_tools.load(CONTROL.encode())
    outline([module.entry.find("call")])
    inner = [("negate", "cosine")]
    assert control_edges(module) == {("exponential", "call"), ("call", "log"), *inner}
    outline(module.computation("f").find(name) for name in ("n", "c"))
    assert control_edges(module) == {("exponential", "call"), ("call", "log"), *inner}
    assert verify(module) == []


def test_what_control_edges_lead_around_is_not_outlined() -> None:
    module = hlo_tools.load(CONTROL.encode())
    with pytest.raises(HloError, match="%y cannot be moved: it needs %call"):
        outline([module.entry.find("x"), module.entry.find("y")])


def test_clone_keeps_control_edges() -> None:
    module = hlo_tools.load(CONTROL.encode())
    copy = clone_computation(module.computation("f"))
    [edge] = [(p.name, v.name) for v in copy for p in v.control_predecessors]
    assert edge == ("n.1", "c.1")


SCHEDULED = """
HloModule m, is_scheduled=true
%fused (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %n = f32[4]{0} negate(%a)
}
%f (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %g = f32[4]{0} fusion(%p), kind=kLoop, calls=%fused
}
ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %one = f32[4]{0} call(%x), to_apply=%f
  %two = f32[4]{0} call(%one), to_apply=%f
  %sum = f32[4]{0} add(%one, %two)
  ROOT %root = f32[4]{0} exponential(%sum)
}
"""


def new_computation(module: Module) -> None:
    entry = module.entry
    body = module.add_computation("halves")
    x = body.add("parameter", entry.root.shape, parameter_number=0)
    body.set_root(body.add("multiply", x.shape, [x, x]))
    assert len(module.proto.computations) == 4, "asked for before it is called"
    called = entry.add("call", x.shape, [entry.root], called_computation_ids=[body.id])
    entry.set_root(called)


def new_fusion(module: Module) -> None:
    entry = module.entry
    body = module.add_computation("fused_again")
    x = body.add("parameter", entry.root.shape, parameter_number=0)
    body.set_root(body.add("cosine", x.shape, [x]))
    fusion = entry.add(
        "fusion", x.shape, [entry.root], called_computation_ids=[body.id], fusion_kind="kLoop"
    )
    entry.set_root(fusion)


def clone_function(module: Module) -> None:
    copy = clone_computation(module.computation("f"))
    assert module.proto.computations[-1].name == copy.name, "nothing calls it yet"
    module.entry.find("two").set_called_computations([copy])


SCHEDULED_EDITS: dict[str, Callable[[Module], object]] = {
    "outline": lambda m: outline(chosen(m, "sum", "root")),
    "outline a fusion": lambda m: outline([m.computation("f").find("g")]),
    "inline both calls": lambda m: [inline_call(c) for c in chosen(m, "one", "two")],
    "clone what has a fusion": clone_function,
    "new computation": new_computation,
    "new fusion": new_fusion,
}


@pytest.mark.xla_text
@pytest.mark.parametrize("edit", SCHEDULED_EDITS)
def test_scheduled_modules_stay_scheduled(edit: str) -> None:
    from jaxlib import _hlo

    module = hlo_tools.load(SCHEDULED.encode())
    SCHEDULED_EDITS[edit](module)
    again = hlo_tools.load(module.to_bytes())
    assert verify(again) == []
    loaded = _hlo.HloModule.from_serialized_hlo_module_proto(module.module_bytes())
    assert "is_scheduled=true" in loaded.to_string()
    assert all(c.is_fusion for c in again.computations if c.name.startswith("fused"))
