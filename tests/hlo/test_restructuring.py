"""Cloning, inlining, outlining and removal keep the module valid and its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloError, Module
from hlo_tools.restructuring import (
    clone_computation,
    inline_call,
    outline,
    remove_dead,
    remove_unreachable,
)
from tests.hlo.hlo_examples import F32, example


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
    for found, wanted in zip(run(again), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


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
        (lambda m: outline(chosen(m, "product", "out")), "%total outside needs another"),
        (lambda m: inline_call(m.entry.find("total")), "it is no call"),
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
