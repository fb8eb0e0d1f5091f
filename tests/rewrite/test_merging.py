"""Two modules as one: equal to both, or to one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.merging import chain_modules, merge_modules
from hlo_tools.verify import verify

SUMS = b"""HloModule sums, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4,6] parameter(0)
  z = f32[] constant(0)
  r = f32[4] reduce(x, z), dimensions={1}, to_apply=add, metadata={op_name="sum" source_file="a.py" source_line=3}
  n = f32[4,6] negate(x), frontend_attributes={neff_output_names="n"}
  ROOT t = (f32[4,6], f32[4]) tuple(n, r)
}
"""
SCALED = b"""HloModule scaled
half { p = f32[4,6]{0,1} parameter(0)
  h = f32[] constant(0.5)
  b = f32[4,6]{0,1} broadcast(h), dimensions={}
  ROOT m = f32[4,6]{0,1} multiply(p, b) }
ENTRY main {
  x = f32[4,6]{0,1} parameter(0)
  y = f32[4] parameter(1)
  c = f32[4,6]{0,1} call(x), to_apply=half
  l = f32[24]{0} bitcast(c)
  z = f32[4,6]{0,1} broadcast(y), dimensions={0}
  a = f32[4,6]{0,1} add(c, z)
  ROOT t = (f32[24], f32[4,6]{0,1}) tuple(l, a)
}
"""


def inputs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (4,)))  # pyright: ignore


def modules() -> tuple[Module, Module]:
    return load(SUMS), load(SCALED)


def check_valid(module: Module) -> None:
    assert verify(module) == []
    assert verify(load(module.to_text().encode())) == []
    assert not module.aliases


@pytest.mark.parametrize("seed", [0, 1])
def test_both_beside_each_other(seed: int) -> None:
    first, second = modules()
    merged = merge_modules(first, second)
    check_valid(merged)
    x, y = inputs(seed)
    results = evaluate(merged, [x, -x, y])
    expected = [-x, x.sum(1), (-x / 2).T.reshape(-1), -x / 2 + y[:, None]]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-6)
    assert first.to_text() == load(SUMS).to_text() and second.to_text() == load(SCALED).to_text()
    names = [parameter.name for parameter in merged.entry.parameters]
    assert names[0] == "x" and len(set(names)) == 3
    assert not any("neff_output_names" in view.frontend_attributes for view in merged.instructions)
    [source] = [view.source for view in merged.entry if view.opcode == "reduce"]
    assert source is not None and source.line == 3


@pytest.mark.parametrize("seed", [0, 1])
def test_the_second_on_the_results_of_the_first(seed: int) -> None:
    merged = chain_modules(*modules())
    check_valid(merged)
    x, _ = inputs(seed)
    results = evaluate(merged, [x])
    expected = [(-x / 2).T.reshape(-1), -x / 2 + x.sum(1)[:, None]]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-6)


def test_a_result_that_is_a_tuple_of_another_instruction() -> None:
    text = b"""HloModule loops
ENTRY e { x = f32[4,6] parameter(0)
  y = f32[4] parameter(1)
  t = (f32[4,6], f32[4]) tuple(x, y)
  ROOT o = (f32[4,6], f32[4]) opt-barrier(t) }"""
    x, y = inputs(0)
    for merged, arguments in (
        (merge_modules(load(text), load(text)), [x, y, -x, -y]),
        (chain_modules(load(text), load(text)), [x, y]),
    ):
        check_valid(merged)
        for result, value in zip(evaluate(merged, arguments), arguments, strict=True):
            np.testing.assert_array_equal(result, value)


def test_channels_stay_apart() -> None:
    text = b"""HloModule sums
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), channel_id=3, replica_groups={{0}}, use_global_device_ids=true, to_apply=add }"""
    merged = merge_modules(load(text), load(text))
    channels = [view.proto.channel_id for view in merged.entry if view.opcode == "all-reduce"]
    assert channels == [3, 6] and verify(merged) == []


def test_modules_that_do_not_fit_are_refused() -> None:
    first, second = modules()
    with pytest.raises(HloError, match="2 results, sums takes 1 parameter") as caught:
        chain_modules(second, first)
    assert caught.value.code == "HLO-MERGE"
    other_types = SCALED.replace(b"y = f32[4] parameter", b"y = f32[5] parameter").replace(
        b"f32[4,6]{0,1} broadcast(y), dimensions={0}", b"f32[4,6]{0,1} broadcast(h0), dimensions={}"
    ).replace(b"  c = f32", b"  h0 = f32[] constant(1)\n  c = f32")  # fmt: skip
    with pytest.raises(
        HloError, match=r"result 1 of sums is .*parameter 1 of scaled, %y"
    ) as caught:
        chain_modules(first, load(other_types))
    assert caught.value.code == "HLO-MERGE"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, output = (tmp_path / name for name in ("a.hlo", "b.hlo", "c.pb"))
    first.write_bytes(SUMS)
    second.write_bytes(SCALED)
    assert main(["merge", str(first), str(second), "-o", str(output)]) == 0
    assert len(load(output).entry.parameters) == 3
    assert main(["merge", str(first), str(second), "--chain"]) == 0
    assert capsys.readouterr().out.startswith("HloModule sums")
    assert main(["merge", str(second), str(first), "--chain"]) == 3
    assert "HLO-MERGE" in capsys.readouterr().err


def test_kernels_of_another_folder_are_refused(tmp_path: Path) -> None:
    text = b"""HloModule calls
ENTRY e { x = f32[4] parameter(0)
  ROOT k = f32[4] custom-call(x), custom_call_target="AwsNeuronCustomNativeKernel" }"""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.hlo").write_bytes(text)
    first, second = (load(tmp_path / name / "m.hlo") for name in ("a", "b"))
    with pytest.raises(HloError, match="found from its folder") as caught:
        merge_modules(first, second)
    assert caught.value.code == "HLO-MERGE"
    assert len(merge_modules(first, load(tmp_path / "a" / "m.hlo")).find_custom_calls()) == 2
