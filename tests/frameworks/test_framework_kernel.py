"""FrameworkKernel as its documentation describes it, with a kind of one's own."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hlo_tools
import nki_lang
from hlo_tools.errors import HloFileError
from hlo_tools.evaluate import Evaluator
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.frameworks import FrameworkKernel
from hlo_tools.kernels import calls as kernels
from hlo_tools.verify import verify
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.errors import NkiValidationError
from tests.frameworks import sample_kernels


@dataclass(frozen=True)
class Symbolic:
    """A tensor of a framework that nobody has heard of: a shape and the name of a type."""

    shape: tuple[int, ...]
    kind: str = "f32"


class SymbolicKernel(FrameworkKernel):
    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        return {"f32": np.float32, "bf16": BY_NAME["bfloat16"], "f64": np.float64}[_dtype]

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, Symbolic)

    def map_framework_tensor(self, t: Any) -> tuple[Any, Any]:
        return t.shape, t.kind


A = Symbolic((256, 1024))


def decoded(config: str) -> dict[str, Any]:
    return json.loads(base64.b64decode(config))


def test_the_configuration_has_the_documented_form() -> None:
    config, inputs, outputs = SymbolicKernel("add", sample_kernels.add).dump_config(A, A)
    record = decoded(config)
    assert list(record) == ["kernel_version", "klir_binary", "func_name", "grid", "has_collectives"]
    assert list(record["klir_binary"]) == ["binary", "input_names", "output_names"]
    assert base64.b64encode(json.dumps(record).encode()).decode() == config
    assert record["kernel_version"] == 1
    assert record["func_name"] == "add"
    assert record["grid"] == []
    assert record["has_collectives"] is False
    assert record["klir_binary"]["input_names"] == inputs
    assert record["klir_binary"]["output_names"] == outputs
    assert inputs[:2] == ["a_input", "b_input"]
    assert len(outputs) == 1 and outputs[0].startswith("c_output")
    assert Path(record["klir_binary"]["binary"]).suffix == ".klir"
    assert Path(record["klir_binary"]["binary"]).is_file()


def test_a_call_as_a_module_and_as_an_instruction(tmp_path: Path) -> None:
    kernel = SymbolicKernel("add", sample_kernels.add)
    kernel.module(A, A).save(tmp_path / "add.pb")
    module = hlo_tools.load(tmp_path / "add.pb")
    assert verify(module) == []
    call = kernel.instruction(A, A)
    assert call.proto.backend_config.decode() == kernel.dump_config(A, A)[0]
    assert str(call.shape) == "f32[256,1024]{1,0}"


GRAPH = b"""HloModule graph
ENTRY main {
  a = f32[256,1024] parameter(0)
  b = f32[256,1024] parameter(1)
  ROOT product = f32[256,1024] multiply(a, b)
}"""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_call_is_added_to_a_graph(seed: int, tmp_path: Path) -> None:
    module = hlo_tools.load(GRAPH)
    product = module.entry.root
    call = SymbolicKernel("add", sample_kernels.add).instruction(A, A)
    added = module.entry.add_kernel(call, [product, product], name="sum")
    module.entry.set_root(added)
    module.save(tmp_path / "graph.pb")
    saved = hlo_tools.load(tmp_path / "graph.pb")
    assert verify(saved) == []
    assert saved.entry.root.proto.custom_call_api_version == call.proto.custom_call_api_version
    a, b = np.random.default_rng(seed).standard_normal((2, 256, 1024), dtype=np.float32)
    (result,) = Evaluator(saved, custom_calls=kernel_calls(tmp_path)).run([a, b])
    np.testing.assert_array_equal(result, a * b + a * b)


def test_operands_that_do_not_fit_a_call_are_refused() -> None:
    entry = hlo_tools.load(GRAPH).entry
    kernel = SymbolicKernel("add", sample_kernels.add)
    small = Symbolic((128, 1024))
    for call, count, message in (
        (kernel.instruction(A, A), 1, "takes 2 operands"),
        (kernel.instruction(small, small), 2, "operand 0, %product, is f32"),
        (entry.root, 2, "is not a custom call"),
    ):
        with pytest.raises(hlo_tools.HloError, match=message) as caught:
            entry.add_kernel(call, [entry.root] * count)
        assert caught.value.code == "HLO-EDIT"


@pytest.mark.parametrize(
    "wrong", [None, (256, 1024), ("ab", "f32"), ((256, 1.5), "f32"), ((-1,), "f32"), 3]
)
def test_a_wrong_mapping_of_tensors_is_named(wrong: Any) -> None:
    class Wrong(SymbolicKernel):
        def map_framework_tensor(self, t: Any) -> tuple[Any, Any]:
            return wrong

    with pytest.raises(NkiValidationError, match="map_framework_tensor returned") as caught:
        Wrong("add", sample_kernels.add).dump_config(A, A)
    assert caught.value.code == "NKI-FRAMEWORK-TENSOR"
    assert "a_input" in str(caught.value) and __file__ in str(caught.value)


def test_the_configuration_finds_a_kernel_that_runs() -> None:
    config, _, _ = SymbolicKernel(func=sample_kernels.add).dump_config(A, A)
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 256, 1024), dtype=np.float32)
    (result,) = kernels.resolve(config).run([a, b])
    np.testing.assert_array_equal(result, a + b)


def test_an_argument_that_is_only_written_is_no_input() -> None:
    kernel = SymbolicKernel("add_into", sample_kernels.add_into)
    config, inputs, outputs = kernel.dump_config(A, A, A)
    assert (inputs, outputs) == (["in1", "in2"], ["out"])
    assert kernel.dump_config(A, A, out=A) == (config, inputs, outputs)
    plan = kernel.plan(A, A, A)
    assert plan.operands == (0, 1)
    assert plan.written == ((0, 2),)
    assert plan.returned == ()
    assert plan.aliases == ()


def test_an_argument_that_is_read_and_written_is_aliased() -> None:
    plan = SymbolicKernel(func=sample_kernels.double_in_place).plan(A)
    assert plan.operands == (0,)
    assert plan.aliases == ((0, 0),)
    assert plan.written == ((0, 0),)
    assert plan.returned == (0,)


def test_a_partly_written_argument_keeps_its_old_content() -> None:
    plan = SymbolicKernel(func=sample_kernels.add_to_first_rows).plan(
        Symbolic((128, 64)), Symbolic((256, 64))
    )
    assert [spec.name for spec in plan.inputs] == ["values", "out"]
    assert plan.aliases == ((1, 0),)


def test_several_results_and_their_specifications() -> None:
    tile = Symbolic((128, 512), "bf16")
    plan = SymbolicKernel(func=sample_kernels.sum_and_double).plan(tile, tile)
    assert [spec.shape for spec in plan.results] == [(128, 512)] * 2
    assert [spec.dtype.name for spec in plan.results] == ["bfloat16"] * 2
    assert plan.returns_tuple
    assert plan.pack(["x", "y"]) == ("x", "y")


class Several(list[object]):
    """A list with a name."""

    name = "several"


class Pair(tuple[object, ...]):
    """A tuple that is made of two values."""

    def __new__(cls, first: object, second: object) -> Pair:
        return super().__new__(cls, (first, second))


class Named(NamedTuple):
    first: object
    second: object


def summed(tensors, kind):
    assert type(tensors) is kind, type(tensors)
    assert tensors[0].shape == tensors[1].shape
    return sample_kernels.add(*tensors)


@pytest.mark.parametrize(
    "kind", [list, tuple, Several, Pair, Named], ids=lambda kind: kind.__name__
)
def test_tensors_are_found_in_lists_and_tuples_of_every_class(kind: type) -> None:
    pair = kind(A, A) if kind in (Pair, Named) else kind((A, A))
    call = SymbolicKernel(func=summed).bind(pair, kind)
    assert len(call.plan.operands) == len(call.tensors) == 2
    array = np.ones(A.shape, np.float32)
    pair = kind(array, array) if kind in (Pair, Named) else kind((array, array))
    np.testing.assert_array_equal(nki_lang.jit(summed)(pair, kind), 2 * array)


def test_one_configuration_for_each_set_of_shapes_and_constants() -> None:
    kernel = SymbolicKernel(func=sample_kernels.scaled)
    tile = Symbolic((128, 512))
    configs = [
        kernel.dump_config(tile, 2.0)[0],
        kernel.dump_config(tile, 3.0)[0],
        kernel.dump_config(tile, 2.0, bias=1.0)[0],
        kernel.dump_config(Symbolic((128, 256)), 2.0)[0],
        kernel.dump_config(Symbolic((128, 512), "bf16"), 2.0)[0],
    ]
    assert len(set(configs)) == len(configs)
    assert kernel.dump_config(tile, factor=2.0)[0] == configs[0]
    assert kernel.plan(tile, 2.0).input_names[:1] == ["values"]


def test_each_target_has_its_own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = set()
    for target in ("trn1", "trn2", "trn3"):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        configs.add(SymbolicKernel(func=sample_kernels.add).dump_config(A, A)[0])
    assert len(configs) == 3
    named = SymbolicKernel(func=sample_kernels.add, platform_target="trn1").dump_config(A, A)[0]
    assert named in configs


def test_a_configuration_is_cached_across_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    import hlo_tools.frameworks.specialize as module

    specialised = []

    def counted(*args: Any) -> Any:
        specialised.append(args)
        return real(*args)

    real = module.specialize
    monkeypatch.setattr(module, "specialize", counted)
    first = SymbolicKernel(func=sample_kernels.add).dump_config(A, A)
    assert SymbolicKernel(func=sample_kernels.add).dump_config(A, A) == first
    assert len(specialised) == 1
    SymbolicKernel(func=sample_kernels.add, enable_cache=False).dump_config(A, A)
    assert len(specialised) == 2
    SymbolicKernel(func=sample_kernels.add, opt_level=3).dump_config(A, A)
    assert len(specialised) == 3


def test_a_decorated_kernel_brings_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    decorated = SymbolicKernel(func=sample_kernels.nki_tensor_add)
    assert decorated.func is sample_kernels.add
    assert decorated.target().name == "trn1"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert SymbolicKernel(func=sample_kernels.nki_tensor_add).target().name == "trn2"
    assert SymbolicKernel(func=sample_kernels.add, platform_target="trn3").target().name == "trn3"


def test_a_target_that_would_be_an_attribute_is_refused() -> None:
    with pytest.raises(NkiValidationError, match=r"NKI-TARGET.*platform_target, not as target"):
        SymbolicKernel(func=sample_kernels.add, target="trn2")


def test_a_cleaned_cache_folder_is_noticed() -> None:
    kernel = SymbolicKernel(func=sample_kernels.add)
    plan = kernel.plan(A, A)
    plan.binary.unlink()
    assert kernel.plan(A, A).binary.is_file()


def test_changed_constants_of_the_function_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SymbolicKernel(func=sample_kernels.add)
    before = kernel.dump_config(A, A)[0]
    monkeypatch.setattr(sample_kernels, "_add_tile", sample_kernels._subtract_tile)
    assert kernel.dump_config(A, A)[0] != before


def test_a_grid_runs_every_program() -> None:
    shape = (2, 3, 128, 512)
    tensor = Symbolic(shape)
    kernel = SymbolicKernel(func=sample_kernels.add_planes, grid=(2, 3))
    config, inputs, outputs = kernel.dump_config(tensor, tensor, tensor)
    assert decoded(config)["grid"] == [2, 3]
    assert (inputs, outputs) == (["in1", "in2"], ["out"])
    random = np.random.default_rng(2)
    a, b = random.standard_normal((2, *shape), dtype=np.float32)
    (result,) = kernels.resolve(config).run([a, b])
    np.testing.assert_array_equal(result, a + b)
    assert SymbolicKernel(func=sample_kernels.add_planes)[2, 3].grid == (2, 3)


def test_a_base_class_says_what_is_missing() -> None:
    kernel = FrameworkKernel(func=sample_kernels.add)
    for call in (
        lambda: kernel.translate_to_neuron_dtype(None),
        lambda: kernel.is_framework_tensor(None),
        lambda: kernel.map_framework_tensor(None),
        lambda: kernel.dump_config(A, A),
    ):
        with pytest.raises(NotImplementedError, match="FrameworkKernel does not implement"):
            call()


def test_wrong_uses() -> None:
    with pytest.raises(NkiValidationError, match=r"NKI-FUNC.*func must be a kernel function"):
        SymbolicKernel("add", None)
    with pytest.raises(NkiValidationError, match="launch grid"):
        SymbolicKernel(func=sample_kernels.add, grid=(2, 0))
    with pytest.raises(TypeError, match="missing a required argument: 'b_input'"):
        SymbolicKernel(func=sample_kernels.add).dump_config(A)


def test_a_dtype_without_counterpart_is_refused_at_the_kernels_definition() -> None:
    wide = Symbolic((128, 512), "f64")
    with pytest.raises(NkiValidationError) as caught:
        SymbolicKernel(func=sample_kernels.add).dump_config(wide, wide)
    assert caught.value.code == "NKI-DTYPE"
    assert "a_input" in str(caught.value) and "sample_kernels.py:" in str(caught.value)


def test_a_dtype_that_the_kind_does_not_translate() -> None:
    with pytest.raises(NkiValidationError, match="translate_to_neuron_dtype does not"):
        SymbolicKernel(func=sample_kernels.add).dump_config(A, Symbolic((256, 1024), "s4"))


def test_a_broken_rule_is_reported_at_the_users_line() -> None:
    with pytest.raises(NkiValidationError, match=r"sample_kernels\.py:\d+: \[NKI-"):
        SymbolicKernel(func=sample_kernels.too_large_tile).dump_config(Symbolic((256, 512)))


def test_an_assertion_of_the_kernel_reaches_the_user() -> None:
    with pytest.raises(AssertionError, match="100 rows do not divide"):
        odd = Symbolic((100, 512))
        SymbolicKernel(func=sample_kernels.add).dump_config(odd, odd)


def test_an_unwritable_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("NKI_HLO_CACHE", str(blocked))
    with pytest.raises(HloFileError) as caught:
        SymbolicKernel(func=sample_kernels.add).dump_config(A, A)
    assert caught.value.code == "HLO-CACHE-WRITE"
    assert "NKI_HLO_CACHE" in caught.value.remedy
    assert blocked.read_text() == "no folder"


def test_tensors_inside_containers() -> None:
    def both(pair: tuple[Any, Any]) -> Any:
        return sample_kernels.add(pair[0], pair[1])

    config, _, _ = SymbolicKernel(func=both).dump_config((A, A))
    ones = np.ones((256, 1024), np.float32)
    (result,) = kernels.resolve(config).run([ones, 2 * ones])
    np.testing.assert_array_equal(result, 3 * ones)
