"""``spike`` and ``nrtpy``: the vendor's runtime interface, errors included."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
import neff
from neff import compile as compile_module
from neff import write
from neff.timing import estimate
from nki_lang.base.dtypes import BY_NAME
from tests.neff.programs import addition, copying

spike = importlib.import_module("spike")
nrtpy = importlib.import_module("nrtpy")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-3")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spike.reset()
        nrtpy.reset()


@pytest.fixture
def neff_file(tmp_path: Path) -> Path:
    path = tmp_path / "add.neff"
    write(addition(), path)
    return path


def tensors(package: Any, **changes: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    arrays = {name: random.random((128, 512), np.float32) for name in "ab"}
    kind = package.SpikeTensor if package is spike else package.NrtpyTensor
    return {name: kind.from_numpy(changes.get(name, array), name) for name, array in arrays.items()}


@pytest.mark.parametrize("package", [spike, nrtpy])
def test_a_model_runs(package: Any, neff_file: Path) -> None:
    kind = package.SpikeModel if package is spike else package.NrtpyModel
    model = kind.load_from_neff(neff_file)
    assert model.name == "add"
    assert repr(model.input_tensors_info["b"]) == (
        "TensorMetadata(size=262144, dtype='float32', shape=[128, 512])"
    )
    inputs = tensors(package)
    expected = inputs["a"].numpy() + inputs["b"].numpy()
    outputs = model(inputs=inputs)
    np.testing.assert_array_equal(outputs["c"].numpy(), expected)
    output = model.allocate_output_tensors()[0]
    assert model(inputs, {"c": output}) is None
    np.testing.assert_array_equal(output.numpy(), expected)


@pytest.mark.parametrize("package", [spike, nrtpy])
def test_errors_show_the_users_line_only(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NKI_HLO_DEBUG", raising=False)
    kind = package.SpikeModel if package is spike else package.NrtpyModel
    text = tmp_path / "text.neff"
    text.write_text("no NEFF")
    for path in (text, tmp_path / "missing.neff"):
        with pytest.raises(Exception, match="NEFF") as caught:
            kind.load_from_neff(path)
        printed = "".join(traceback.format_exception(caught.value))
        assert printed.count('File "') == 1 and __file__ in printed


@pytest.mark.parametrize("shape", [(), (1,)])
def test_scalars_are_reported_as_one_element(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As nkipy passes them: ``np.ascontiguousarray`` makes a scalar an array of one element."""
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT n = f32[] negate(x)\n}\n"
    path = tmp_path / "scalar.neff"
    write(compile_module(hlo_tools.load(text.encode()), target="trn2"), path)
    model = spike.SpikeModel.load_from_neff(path)
    assert model.output_tensors_info["output0"].shape == [1]
    tensors = {
        name: spike.SpikeTensor.from_numpy(np.full(shape, 2.5, np.float32), name)
        for name in ("input0", "output0")
    }
    model({"input0": tensors["input0"]}, {"output0": tensors["output0"]})
    assert tensors["output0"].numpy().shape == shape and tensors["output0"].numpy() == -2.5
    wrong = spike.SpikeTensor.from_numpy(np.zeros(2, np.float32), "input0")
    with pytest.raises(AssertionError, match="expected shape"):
        model({"input0": wrong})


def test_benchmark(neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(str(neff_file), "m")
    result = model.benchmark(tensors(spike), warmup_iter=1, benchmark_iter=3, mode="host")
    assert (result.iterations, result.warmup_iterations, len(result.durations_ms)) == (3, 1, 3)
    assert repr(result).startswith("BenchmarkResult(mean=")
    inputs, out = tensors(spike), model.allocate_output_tensors()[0]
    benchmark = model.benchmark(inputs, {"c": out}, warmup_iter=0, benchmark_iter=2)
    expected = estimate(neff.read(neff_file), statistic="benchmark").total
    assert benchmark.durations_ms == [expected.value / 1e6] * 2
    assert benchmark.std_dev_ms == 0.0
    assert benchmark.low_ms < benchmark.mean_ms < benchmark.high_ms
    assert "estimated" in repr(benchmark) and "estimated" not in repr(result)
    np.testing.assert_array_equal(out.numpy(), inputs["a"].numpy() + inputs["b"].numpy())
    for wrong in ({"mode": "x"}, {"benchmark_iter": 0}):
        with pytest.raises(ValueError):
            model.benchmark(tensors(spike), **wrong)


@pytest.mark.parametrize(
    ("change", "kind", "code"),
    [
        ({"drop": "b"}, ValueError, "NEFF-INPUT"),
        ({"rename": "z"}, ValueError, "NEFF-INPUT"),
        ({"b": np.zeros((128, 511), np.float32)}, AssertionError, "NEFF-SHAPE"),
        ({"b": np.zeros((128, 512), np.float16)}, AssertionError, "NEFF-DTYPE"),
    ],
)
def test_wrong_inputs(change: dict, kind: type, code: str, neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(neff_file)
    inputs = tensors(spike, **change)
    if "drop" in change:
        del inputs[change["drop"]]
    if "rename" in change:
        inputs[change["rename"]] = inputs.pop("b")
    with pytest.raises(kind) as caught:
        model(inputs)
    assert caught.value.code == code


def test_tensors_on_another_core(neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(neff_file, core_id=1)
    with pytest.raises(AssertionError, match="same core"):
        model(tensors(spike))
    with pytest.raises(spike.NrtError, match="There is no core 9"):
        spike.SpikeModel.load_from_neff(neff_file, core_id=9)


def test_files_that_cannot_be_loaded(tmp_path: Path, neff_file: Path) -> None:
    with pytest.raises(spike.SpikeError, match="Failed to open NEFF file") as caught:
        spike.SpikeModel.load_from_neff(tmp_path / "none.neff")
    assert caught.value.code == "NEFF-OPEN"
    with pytest.raises(nrtpy.NrtError, match=r"NRT_FAILURE\(1\): Failed to load model"):
        nrtpy.NrtpyModel.load_from_neff(tmp_path / "none.neff")
    data = bytearray(neff_file.read_bytes())
    data[-100] ^= 1
    neff_file.write_bytes(data)
    with pytest.raises(spike.NrtError, match=r"NRT Error NRT_INVALID\(2\): Failed to load") as hit:
        spike.SpikeModel.load_from_neff(neff_file)
    assert (hit.value.code, hit.value.status) == ("NEFF-HASH", 2)


def test_errors_are_related_as_documented() -> None:
    assert issubclass(spike.NrtError, RuntimeError)
    assert spike.NrtError.__base__ is spike.SpikeError.__base__
    assert nrtpy.NrtError.__base__ is RuntimeError
    assert nrtpy.NrtpyError.__base__ is RuntimeError


def test_tensors(neff_file: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = spike.SpikeTensor.from_numpy(array, "t")
    assert repr(tensor) == "SpikeTensor(shape=(2, 3), dtype=float32, name=t)"
    tensor.write_from_numpy(array.T.copy())
    np.testing.assert_array_equal(tensor.numpy().reshape(3, 2), array.T)
    with pytest.raises(ValueError, match="source 4 bytes, target 24 bytes"):
        tensor.write_from_numpy(array[:1, :1])
    assert spike.SpikeTensor(tensor.tensor_ref, 6, np.float32).shape == (6,)
    scalar = spike.SpikeTensor.from_numpy(np.float32(3))
    assert scalar.shape == () and scalar.numpy() == 3
    half = spike.SpikeTensor.from_numpy(np.ones(4, ml_dtypes.bfloat16))
    assert half.numpy().dtype == ml_dtypes.bfloat16


def test_low_level_tensors() -> None:
    device = spike.get_spike_singleton()
    tensor = device.allocate_tensor(8)
    assert (tensor.name, tensor.size, tensor.core_id) == ("unnamed_tensor", 8, 0)
    device.tensor_write(tensor, b"abcd", 2)
    assert device.tensor_read(tensor, 1, 4) == b"\0abc"
    piece = device.slice_from_tensor(tensor, 4, name="part")
    assert device.tensor_read(piece) == b"cd\0\0"
    target = bytearray(3)
    with pytest.raises(RuntimeError, match="Buffer too small"):
        device.tensor_read_to_pybuffer(tensor, target)
    device.tensor_read_to_pybuffer(tensor, target, 2, 3)
    assert target == b"abc"
    with pytest.raises(spike.SpikeError, match=r"exceeds the tensor bound\. Tensor size: 8 bytes"):
        device.tensor_write(tensor, b"x" * 9)
    device.free_tensor(tensor)
    device.free_tensor(tensor)
    with pytest.raises(spike.SpikeError, match="freed"):
        device.tensor_read(tensor)
    assert device.tensor_read(piece) == b"cd\0\0"


def test_one_runtime_at_a_time() -> None:
    low = importlib.import_module("spike._spike")
    first = low.Spike()
    with pytest.raises(spike.SpikeError, match="previous instance still exists"):
        low.Spike()
    assert first.close() == 0
    second = low.Spike()
    assert second.get_visible_neuron_core_count() == 4
    with pytest.raises(spike.NrtError, match="NRT_CLOSED"):
        first.allocate_tensor(1)
    second.close()


def test_configure(monkeypatch: pytest.MonkeyPatch) -> None:
    spike.configure()
    spike.configure([0, 2])
    assert spike.get_spike_singleton().get_visible_neuron_core_count() == 2
    with pytest.raises(RuntimeError, match="already active"):
        spike.configure([1])
    with pytest.warns(UserWarning):
        spike.reset()
    spike.reset()
    for wrong, kind in ((3, TypeError), ([-1], ValueError), (["a"], TypeError)):
        with pytest.raises(kind):
            spike.configure(wrong)
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "x")
    with pytest.raises(ValueError, match="NEURON_RT_VISIBLE_CORES"):
        spike.SpikeTensor.from_numpy(np.zeros(1))


def test_traces(neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(neff_file)
    inputs = tensors(spike)
    with spike.SystemTraceSession(0) as session:
        model(inputs)
        events = json.loads(session.fetch_events_json())["events"]
        assert [event["phase"] for event in events] == ["start", "stop"]
        assert events[0]["tracking_id"] == events[1]["tracking_id"]
        assert json.loads(session.fetch_events_json()) == {"events": []}
    with pytest.raises(spike.SpikeError, match="Cannot drain events") as caught:
        session.drain_events()
    assert caught.value.code == "NEFF-TRACE-SESSION"
    model(inputs, save_trace=True)
    trace_folder = neff_file.with_suffix(".profile")
    assert json.loads((trace_folder / "summary.json").read_text())["estimated"] is True
    assert (trace_folder / "profile.perfetto-trace").stat().st_size > 100
    model(inputs, save_trace=True, ntff_name=str(neff_file.with_name("mine.ntff")))
    assert neff_file.with_name("mine.profile").is_dir()


def test_unloaded_and_freed(neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(neff_file)
    inputs = tensors(spike)
    device = spike.get_spike_singleton()
    device.free_tensor(inputs["a"].tensor_ref)
    with pytest.raises(spike.SpikeError, match="Tensor 'a' is freed"):
        model(inputs)
    device.unload_model(model.model_ref)
    with pytest.raises(spike.SpikeError, match="unloaded model"):
        device.execute(model.model_ref, {}, {})


MEAN = """HloModule mean
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4] parameter(0)
  s = f32[4] all-reduce(p), replica_groups={{0,1,2}}, to_apply=add
  i = u32[] replica-id()
  j = f32[] convert(i)
  w = f32[4] broadcast(j), dimensions={}
  ROOT r = f32[4] multiply(s, w) }"""


@pytest.fixture
def ranks_file(tmp_path: Path) -> Path:
    program = compile_module(hlo_tools.load(MEAN.encode()), target="trn2")
    write(program, tmp_path / "mean.neff")
    return tmp_path / "mean.neff"


@pytest.mark.parametrize("package", [spike, nrtpy])
def test_ranks_run_together(package: Any, ranks_file: Path) -> None:
    tensor, kind = (
        (spike.SpikeTensor, spike.SpikeModel) if package is spike
        else (nrtpy.NrtpyTensor, nrtpy.NrtpyModel)
    )  # fmt: skip
    models = [
        kind.load_from_neff(ranks_file, core_id=rank, cc_enabled=True, rank_id=rank, world_size=3)
        for rank in range(3)
    ]
    assert all(model.model_ref.is_collective for model in models)

    def run(rank: int, values: Any) -> Any:
        tensor_input = tensor.from_numpy(values[rank], "input0", core_id=rank)
        return models[rank]({"input0": tensor_input})["output0"].numpy()

    for iteration in range(2):
        values = np.random.default_rng(iteration).integers(-9, 9, (3, 4)).astype(np.float32)
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(run, range(3), [values] * 3))
        for rank, result in enumerate(results):
            np.testing.assert_array_equal(result, values.sum(0) * rank)


def test_a_rank_that_never_comes_is_an_error(
    ranks_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("spike._spike").Spike, "patience", 0.01)
    model = spike.SpikeModel.load_from_neff(ranks_file, rank_id=1, world_size=3)
    with pytest.raises(spike.NrtError, match=r"0, 2 did not come") as caught:
        model({"input0": spike.SpikeTensor.from_numpy(np.ones(4, np.float32))})
    assert caught.value.code == "NEFF-EXEC-DEADLOCK" and "thread" in caught.value.remedy


def test_wrong_ranks_are_refused(neff_file: Path, ranks_file: Path) -> None:
    for options in ({}, {"world_size": 2}, {"cc_enabled": True, "world_size": 4}):
        with pytest.raises(spike.NrtError, match="3 devices") as caught:
            spike.SpikeModel.load_from_neff(ranks_file, **options)
        assert caught.value.code == "NEFF-RANKS"
    with pytest.raises(spike.NrtError, match="no rank 3 of 3") as caught:
        spike.SpikeModel.load_from_neff(ranks_file, rank_id=3, world_size=3)
    assert caught.value.code == "NEFF-COLLECTIVES"
    assert spike.SpikeModel.load_from_neff(neff_file, cc_enabled=True)


@pytest.mark.parametrize(
    ("name", "reported"), [("float8_e5m2", "int8"), ("bfloat16", "bfloat16"), ("bool", "uint8")]
)
def test_reported_types(name: str, reported: str, tmp_path: Path) -> None:
    dtype = BY_NAME[name]
    path = tmp_path / "copy.neff"
    write(copying(dtype), path)
    model = spike.SpikeModel.load_from_neff(path)
    assert model.input_tensors_info["a"].dtype == reported
    array = np.ones((128, 16), dtype.dtype)
    outputs = model({"a": spike.SpikeTensor.from_numpy(array)})
    assert outputs["c"].numpy().dtype == np.dtype(reported)
    assert outputs["c"].numpy().tobytes() == array.tobytes()
    bits = array.view(np.dtype(reported))
    assert model({"a": spike.SpikeTensor.from_numpy(bits)})["c"].numpy().tobytes() == bits.tobytes()


def test_the_profiler_notes_the_caller(
    neff_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profiler = spike.SpikeProfiler(target_file="test_spike.py")
    model = profiler.load_model(str(neff_file))
    inputs = {name: profiler.allocate_tensor(128 * 512 * 4) for name in "ab"}
    profiler.execute(model, inputs, {"c": profiler.allocate_tensor(128 * 512 * 4)})
    notes = (tmp_path / "debug_rank_0.txt").read_text()
    assert "test_spike.py:" in notes and "KERNEL: add\n---" in notes
    profiler.close()


def test_tensors_may_outlive_the_interpreter(python_environment: dict[str, str]) -> None:
    script = "from spike import get_spike_singleton as g; t = [g().allocate_tensor(4)] * 9"
    subprocess.run([sys.executable, "-c", script], check=True, env=python_environment)


@pytest.mark.parametrize("package", [spike, nrtpy])
def test_a_tensor_is_freed_as_the_guide_does(package: Any) -> None:
    device = package.get_spike_singleton() if package is spike else package.get_nrtpy_singleton()
    tensor = tensors(package)["a"]
    device.free_tensor(tensor)
    device.free_tensor(tensor)
    assert tensor.tensor_ref.va == 0
    with pytest.raises(RuntimeError, match="freed tensor"):
        tensor.numpy()


def test_a_trace_of_a_runtime_of_ones_own(neff_file: Path) -> None:
    from neff.runtime.spike_api import Spike

    device = Spike()
    model = device.load_model(str(neff_file))
    info = device.get_tensor_info(model)
    tensors = {
        name: device.allocate_tensor(info_row.size, 0, name)
        for name, info_row in (info.inputs | info.outputs).items()
    }
    with spike.SystemTraceSession(0) as session:
        device.execute(
            model,
            {name: tensors[name] for name in info.inputs},
            {name: tensors[name] for name in info.outputs},
        )
        events = json.loads(session.fetch_events_json())["events"]
    assert [event["phase"] for event in events] == ["start", "stop"]
    device.close()
    spike.SystemTraceSession().stop()  # that of the session, now that none is open
