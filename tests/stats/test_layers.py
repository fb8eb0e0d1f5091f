"""``nki-hlo stats --layers``: scopes as a tree, passes joined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.ir.module import Module
from hlo_tools.stats.call_contexts import divided, joined
from hlo_tools.stats.layers import Layer, layer_path, layers, pass_of
from hlo_tools.stats.memory import memory
from hlo_tools.stats.roofline import roofline
from hlo_tools.text import parse

TRANSPOSED = "jit(loss)/transpose(jvp(layer0))/jvp(layer0)/checkpoint"


@pytest.mark.parametrize(
    ("scope", "path", "pass_name"),
    [
        ("", (), "forward"),
        ("jit(loss)/jvp(layer0)/attn", ("loss", "layer0", "attn"), "forward"),
        (f"{TRANSPOSED}/mlp", ("loss", "layer0", "mlp"), "backward"),
        (f"{TRANSPOSED}/rematted_computation/mlp", ("loss", "layer0", "mlp"), "recomputed"),
        (
            "jit(loss)/transpose(jvp())/while/body/closed_call/shared",
            ("loss", "shared"),
            "backward",
        ),
        ("jit(f)/while/cond", ("f",), "forward"),
        ("jit(f)/cond/branch_1_fun/layer", ("f", "layer"), "forward"),
        ("jit(f)/body/layer/layer", ("f", "body", "layer", "layer"), "forward"),
        ("jit(f)/vmap(jvp())/a", ("f", "a"), "forward"),
    ],
)
def test_scopes_of_jax(scope: str, path: tuple[str, ...], pass_name: str) -> None:
    assert layer_path(scope) == path
    assert pass_of(scope) == pass_name


def test_names_of_called_computations_are_joined() -> None:
    assert joined("jit(f)/jvp(a)/closed_call", "mlp") == "jit(f)/jvp(a)/closed_call/mlp"
    assert joined("jit(f)/jvp(a)/while", "jit(f)/jvp(a)/while/body") == "jit(f)/jvp(a)/while/body"
    assert joined("jit(f)/a", "jit(fine)/b") == "jit(f)/a/jit(fine)/b"
    assert joined("", "b") == "b" and joined("jit(f)/a", "") == "jit(f)/a"
    assert divided(10, {"a": 1, "b": 2, "c": 4}) == [1, 3, 6]


SHARED = """HloModule m
square { x = f32[4,4] parameter(0)
  ROOT d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="mlp/dot_general"} }
more { i = s32[] parameter(0)
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT, metadata={op_name="jit(f)/while/cond/lt"} }
next { i = s32[] parameter(0)
  n = s32[] constant(1)
  ROOT s = s32[] add(i, n), metadata={op_name="jit(f)/while/body/layer2/add"} }
ENTRY e {
  x = f32[4,4] parameter(0)
  a = f32[4,4] call(x), to_apply=square, metadata={op_name="jit(f)/jvp(layer0)/closed_call"}
  b = f32[4,4] call(a), to_apply=square, metadata={op_name="jit(f)/jvp(layer1)/closed_call"}
  c = f32[4,4] call(b), to_apply=square, metadata={op_name="jit(f)/transpose(jvp(layer1))/closed_call"}
  z = s32[] constant(0)
  w = s32[] while(z), condition=more, body=next, metadata={op_name="jit(f)/while"}, backend_config={"known_trip_count":{"n":"3"}}
  ROOT t = (f32[4,4], s32[]) tuple(c, w)
}
"""


@pytest.fixture
def shared() -> Module:
    return Module(parse(SHARED))


def test_a_shared_computation_counts_for_each_caller(shared: Module) -> None:
    model = layers(shared, "trn2").layers["f"]
    assert model.layers["layer0"].layers["mlp"].passes["forward"].flops == 2 * 4**3
    layer1 = model.layers["layer1"]
    assert [layer1.passes[name].flops for name in ("forward", "backward")] == [2 * 4**3] * 2
    assert layer1.path == "f/layer1" and list(layer1.layers) == ["mlp"]
    assert model.layers["layer2"].passes["forward"].flops == 3


def test_sums_are_those_of_the_module(shared: Module) -> None:
    root, work = layers(shared, "trn2"), roofline(shared, "trn2")
    assert root.total.flops == sum(row.flops for row in work.work)
    assert root.total.bytes == sum(row.bytes for row in work.work)
    assert root.total.time == pytest.approx(work.time)
    assert root.peak_bytes == memory(shared).peak
    assert list(layers(shared, "trn2", depth=1).layers["f"].layers) == []


def test_text_and_json(shared: Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared.save(tmp_path / "m.pb")
    assert (
        main(["stats", "--layers", "--depth", "2", "--target", "trn2", str(tmp_path / "m.pb")]) == 0
    )
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.strip().startswith("layer1")]
    assert line.split()[4:8] == ["256", "128", "128", "0"]
    assert "mlp" not in text
    assert main(["stats", "--layers", "--json", str(tmp_path / "m.pb")]) == 0
    (document,) = json.loads(capsys.readouterr().out)["modules"]
    (model,) = document["layers"]["layers"]
    paths = {layer["path"]: layer["passes"]["backward"]["flops"] for layer in model["layers"]}
    assert paths == {"f/layer0": 0, "f/layer1": 128, "f/layer2": 0}
    assert main(["stats", "--layers", "--memory", str(tmp_path / "m.pb")]) == 2


@pytest.mark.jax
def test_a_training_step_of_jax() -> None:
    import jax
    import jax.numpy as jnp

    def loss(weights, x):  # type: ignore[no-untyped-def]
        for number, weight in enumerate(weights):
            with jax.named_scope(f"layer{number}"):
                x = x @ weight
        return jnp.sum(x)

    arguments = [jnp.ones((4, 4))] * 2, jnp.ones((3, 4))
    lowered = jax.jit(jax.grad(loss)).lower(*arguments)
    module = hlo_tools.load(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    model: Layer = layers(module, "trn2").layers["loss"]
    product = 2 * 3 * 4 * 4
    flops = {
        name: [layer.passes[pass_name].flops for pass_name in ("forward", "backward")]
        for name, layer in model.layers.items()
        if name.startswith("layer")
    }
    # The last product's value is not needed, and neither is the gradient of x.
    assert flops == {"layer0": [product, product], "layer1": [0, 2 * product]}
