"""Running programs: the numbers are right, and what is wrong is said with its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest

import hlo_tools
from neff import runtime, write
from neff.compiler import compile as compile_module
from neff.errors import NeffError, NeffRuntimeError
from neff.program import GRAPH_ONLY, Program, Step, SubGraph
from neff.runtime.closures import Block
from neff.runtime.model import LoadedModel
from neff.runtime.order import order_of
from neff.runtime.placement import UNWRITTEN, Clash, clashes
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor
from tests.neff.programs import (
    F32,
    addition,
    copy,
    counted,
    engines,
    hbm,
    line,
    sbuf,
    variable,
    whole,
    with_constant,
)
from tests.neff.test_container import repacked


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def ab() -> dict[str, np.ndarray]:
    return {"a": random(128, 512), "b": random(128, 512, seed=1)}


def test_addition(ab: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "add.neff"
    write(addition(), path)
    model = runtime.load(path)
    assert (
        repr(model.inputs["a"]) == "TensorMetadata(size=262144, dtype='float32', shape=[128, 512])"
    )
    assert list(model.outputs) == ["c"]
    np.testing.assert_array_equal(model.run(ab)["c"], ab["a"] + ab["b"])
    swapped = {"a": ab["b"], "b": ab["b"]}
    np.testing.assert_array_equal(model.run(swapped)["c"], ab["b"] + ab["b"])


def test_constant_and_scratch(tmp_path: Path) -> None:
    path = tmp_path / "k.neff"
    write(with_constant(), path)
    a = random(128, 64)
    expected = a + np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    np.testing.assert_array_equal(runtime.load(path).run({"a": a})["c"], expected)


def test_loop_on_the_device() -> None:
    model = runtime.load(counted())
    a = random(128, 64)
    np.testing.assert_array_equal(model.run({"a": a})["c"], a + a)


def test_outputs_given_are_used(ab: dict[str, np.ndarray]) -> None:
    model = runtime.load(addition())
    out = np.zeros((128, 512), np.float32)
    result = model.run(ab, {"c": out})
    assert result["c"] is out
    np.testing.assert_array_equal(out, ab["a"] + ab["b"])


def test_an_output_over_an_input_does_not_disturb_it(ab: dict[str, np.ndarray]) -> None:
    expected = ab["a"] + ab["b"]
    runtime.load(addition()).run(ab, {"c": ab["a"]})
    np.testing.assert_array_equal(ab["a"], expected)


def test_strided_arrays(ab: dict[str, np.ndarray]) -> None:
    wide = random(128, 1024)
    out = np.zeros((512, 128), np.float32).T
    runtime.load(addition()).run({"a": wide[:, ::2], "b": ab["b"]}, {"c": out})
    np.testing.assert_array_equal(out, wide[:, ::2] + ab["b"])


def test_inputs_are_never_written(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    back = copy(whole(hbm("a", (128, 512))), whole(sbuf("z", (128, 512), 4096)))
    program.subgraphs[0].engines[Engine.sync].append(Step(back))
    before = ab["a"].copy()
    runtime.load(program).run(ab)
    np.testing.assert_array_equal(ab["a"], before)


def test_alias_begins_as_its_input(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    program.variables["c"].alias = "a"
    half = ((512, 128), (1, 256))
    store = program.subgraphs[0].engines[Engine.sync][2]
    store.instruction.operands["dst"] = Access(hbm("c", (128, 512)), 0, half)
    store.instruction.operands["src"] = Access(sbuf("z", (128, 512), 4096), 0, half)
    model = runtime.load(program)
    assert model.gaps == []
    result = model.run(ab)["c"]
    np.testing.assert_array_equal(result[:, :256], (ab["a"] + ab["b"])[:, :256])
    np.testing.assert_array_equal(result[:, 256:], ab["a"][:, 256:])
    same = ab["a"].copy()
    assert model.run({"a": same, "b": ab["b"]}, {"c": same})["c"] is same
    np.testing.assert_array_equal(same, result)


def test_what_nobody_writes_is_reported(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    store = program.subgraphs[0].engines[Engine.sync][2]
    half = ((512, 128), (1, 256))
    store.instruction.operands["dst"] = Access(hbm("c", (128, 512)), 0, half)
    store.instruction.operands["src"] = Access(sbuf("z", (128, 512), 4096), 0, half)
    with pytest.warns(
        UserWarning, match=r"\[NEFF-UNWRITTEN\].*: 32768 of the 65536 elements"
    ) as caught:
        model = runtime.load(program)
    assert "the result 'c' are never written, the first is [0, 256]" in str(caught[0].message)
    for _ in range(2):
        result = model.run(ab)["c"]
        assert np.isnan(result[:, 256:]).all()
        assert not np.isnan(result[:, :256]).any()


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (
            {"x": random(1)},
            "NEFF-INPUT",
            r"Unknown input\(s\) \['x'\].*Expected inputs: \['a', 'b'\]",
        ),
        ({"b": None}, "NEFF-INPUT", r"Missing input\(s\) \['b'\]"),
        ({"b": random(128, 511)}, "NEFF-SHAPE", r"\[128, 511\], expected \[128, 512\]"),
        ({"b": random(128, 512).astype(np.float64)}, "NEFF-DTYPE", "float64, expected float32"),
        ({"b": random(128, 512).view(np.int32)}, "NEFF-DTYPE", "int32, expected float32"),
    ],
)
def test_wrong_inputs(ab: dict[str, np.ndarray], change: dict, code: str, text: str) -> None:
    arrays = {name: array for name, array in {**ab, **change}.items() if array is not None}
    with pytest.raises(NeffRuntimeError, match=text) as caught:
        runtime.load(addition()).run(arrays)
    assert caught.value.code == code


def test_wrong_outputs(ab: dict[str, np.ndarray]) -> None:
    model = runtime.load(addition())
    frozen = np.zeros((128, 512), np.float32)
    frozen.flags.writeable = False
    for outputs in ({"d": frozen}, {"c": frozen}):
        with pytest.raises(NeffRuntimeError) as caught:
            model.run(ab, outputs)
        assert caught.value.code == "NEFF-OUTPUT"


def test_deadlock_says_who_waits_for_whom() -> None:
    program = addition()
    step = program.subgraphs[0].engines[Engine.vector][0]
    program.subgraphs[0].engines[Engine.vector][0] = Step(step.instruction, ((0, 3),), (1,))
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-DEADLOCK"
    assert (
        "vector waits at /home/someone/project/add.py:9 for semaphore 0 to reach 3 (it is 2, nothing"
        in str(caught.value)
    )
    assert "sync waits at /home/someone/project/add.py:12" in str(caught.value)
    assert "next signalled by vector at /home/someone/project/add.py:9" in str(caught.value)


def test_a_loop_that_one_engine_lacks() -> None:
    program = counted()
    program.subgraphs[0].engines[Engine.scalar] = []
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-DEADLOCK"


def test_semaphores_that_do_not_exist() -> None:
    program = addition()
    program.subgraphs[0].semaphores = 1
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-SEMAPHORE"


def test_accesses_outside_their_tensor_are_refused_at_load() -> None:
    program = addition()
    step = program.subgraphs[0].engines[Engine.vector][0]
    far = Access(sbuf("z", (128, 512), 4096), 1, ((512, 128), (1, 512)))
    step.instruction.operands["dst"] = far
    with pytest.raises(NeffRuntimeError, match=r"add\.py:9") as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-EXEC-OUT-OF-BOUNDS"


def test_a_pattern_that_fits_one_tensor_does_not_fit_a_smaller_one() -> None:
    program = addition()
    step = program.subgraphs[0].engines[Engine.vector][0]
    pattern = step.instruction.operands["data1"].pattern
    step.instruction.operands["dst"] = Access(sbuf("z", (128, 256), 4096), 0, pattern)
    with pytest.raises(NeffRuntimeError, match=r"element 25[46] of tensor 'z'") as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-EXEC-OUT-OF-BOUNDS"


@pytest.mark.parametrize(
    ("tensor", "code"),
    [
        (sbuf("z", (128, 512), 196608 - 2047), "NEFF-ADDRESS"),
        (sbuf("z", (129, 512), 4096), "NEFF-ADDRESS"),
        (sbuf("x", (128, 512), 4096), "NEFF-NAME"),
        (hbm("nowhere", (128, 512)), "NEFF-ADDRESS"),
        (hbm("a", (128, 513)), "NEFF-NAME"),
    ],
)
def test_tensors_that_cannot_be_where_they_are(tensor: Tensor, code: str) -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.vector][0].instruction.operands["dst"] = whole(tensor)
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program)
    assert caught.value.code == code


@pytest.mark.parametrize("make", [addition, with_constant, counted])
def test_by_address_gives_the_same(make: Callable[[], Program]) -> None:
    program = make()
    arrays = {
        name: random(*program.variables[name].shape, seed=index)
        for index, name in enumerate(program.inputs)
    }
    fast = runtime.load(program).run(arrays)["c"]
    np.testing.assert_array_equal(runtime.load(program, by_address=True).run(arrays)["c"], fast)


def _clashes(program: Program) -> list[Clash]:
    return list(clashes(order_of(program.subgraphs[0]), program))


def test_what_nothing_wrote_is_no_number_where_others_lay_before(ab) -> None:
    """The result is read under a name that nothing wrote, where a sum lies."""
    program = addition()
    store = program.subgraphs[0].engines[Engine.sync][2].instruction
    store.operands["src"] = whole(sbuf("w", (128, 512), 4096))
    for by_address in (False, True):
        model = LoadedModel(program, "shared", "shared", by_address=by_address)
        assert len(model.gaps) == 1
        model.gaps.clear()
        assert np.isnan(model.run(ab)["c"]).all()
    assert not _clashes(addition())
    assert [(clash.first, clash.second) for clash in _clashes(program)] == [("w", UNWRITTEN)]


def test_every_clash_is_found(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    store = program.subgraphs[0].engines[Engine.sync][2].instruction
    store.operands["src"] = whole(sbuf("w", (128, 512), 4096))
    vector = program.subgraphs[0].engines[Engine.vector][0].instruction
    vector.operands["data2"] = whole(sbuf("v", (128, 512), 0))
    pairs = {(clash.first, clash.second) for clash in _clashes(program)}
    assert {("v", UNWRITTEN), ("w", UNWRITTEN), ("x", "v")} <= pairs


def test_tensors_that_share_bytes_keep_their_addresses(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    load = program.subgraphs[0].engines[Engine.sync][1].instruction
    load.operands["dst"] = whole(sbuf("y", (128, 512), 0))
    vector = program.subgraphs[0].engines[Engine.vector][0].instruction
    vector.operands["data2"] = whole(sbuf("y", (128, 512), 0))
    (clash,) = _clashes(program)
    assert {clash.first, clash.second} == {"x", "y"}
    shared = runtime.load(program).run(ab)["c"]
    np.testing.assert_array_equal(shared, runtime.load(program, by_address=True).run(ab)["c"])


def test_tensors_that_the_user_placed_share_their_bytes(ab: dict[str, np.ndarray]) -> None:
    """``z`` is read under another name at the same address."""
    program = addition()
    store = program.subgraphs[0].engines[Engine.sync][2].instruction
    overlapping = Tensor("w", F32, (128, 512), MemoryRegion.sbuf, (0, 4096), fixed=True)
    store.operands["src"] = whole(overlapping)
    np.testing.assert_array_equal(runtime.load(program).run(ab)["c"], ab["a"] + ab["b"])


def test_dynamic_faults_name_the_line() -> None:
    program = counted()
    for loop in program.subgraphs[0].engines.values():
        loop[0].stop = 5
    model = runtime.load(program)
    with pytest.raises(NeffRuntimeError, match=rf"{line(5)}") as caught:
        model.run({"a": random(128, 64)})
    assert caught.value.code == "NEFF-EXEC-OUT-OF-BOUNDS"


def test_strange_operands_are_coded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.vector][0].instruction.operands["op"] = "frobnicate"
    inputs = {"a": random(128, 512), "b": random(128, 512)}
    with pytest.raises((KeyError, AttributeError)):  # suites and fuzzers see it as it is
        runtime.load(program).run(inputs)
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program).run(inputs)
    assert caught.value.code == "NEFF-EXEC" and "please report it" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value"), [("src", None), ("src", 3), ("dst", None), ("frobnicate", 1), ("src", ...)]
)
def test_operands_that_do_not_fit(name: str, value: object) -> None:
    program = addition()
    operands = program.subgraphs[0].engines[Engine.sync][0].instruction.operands
    operands[name] = value
    if value is ...:
        del operands[name]
    with pytest.raises(NeffRuntimeError, match=r"add\.py:5") as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-OPERAND"


def test_more_memory_than_the_device_has() -> None:
    program = addition()
    program.scratch_bytes = 1 << 45
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program)
    assert caught.value.code == "NEFF-MEMORY"


def test_release_lets_go(ab: dict[str, np.ndarray]) -> None:
    model = runtime.load(addition())
    model.run(ab)
    model.release()
    np.testing.assert_array_equal(model.run(ab)["c"], ab["a"] + ab["b"])


def test_uninitialised_memory_that_reaches_a_result(ab: dict[str, np.ndarray]) -> None:
    program = addition()
    load = program.subgraphs[0].engines[Engine.sync][0].instruction
    half = ((512, 128), (1, 256))
    load.operands["dst"] = Access(sbuf("x", (128, 512)), 0, half)
    load.operands["src"] = Access(hbm("a", (128, 512)), 0, half)
    with pytest.warns(UserWarning, match="NEFF-UNINITIALISED"):
        model = runtime.load(program)
    model.run(ab)
    with pytest.raises(NeffRuntimeError, match=r"add\.py:9.*'x'.*output 'c'") as caught:
        model.run(ab, check=True)
    assert caught.value.code == "NEFF-EXEC-UNINITIALISED"
    np.testing.assert_array_equal(
        runtime.load(addition()).run(ab, check=True)["c"], ab["a"] + ab["b"]
    )


def test_threads_may_share_a_model() -> None:
    model = runtime.load(counted())
    arrays = [random(128, 64, seed=seed) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda array: model.run({"a": array})["c"], arrays * 4))
    for array, result in zip(arrays * 4, results, strict=True):
        np.testing.assert_array_equal(result, array + array)


def test_small_arrays_are_copied_and_closures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = runtime.load(addition(8))
    first, second = ({"a": random(128, 8, seed=n), "b": random(128, 8, seed=n + 9)} for n in (1, 2))
    first_result = model.run(first)["c"]
    prepared: list[str] = []
    monkeypatch.setattr(Block, "_prepared", lambda self, step: prepared.append(step.op))
    second_result = model.run(second)["c"]
    output = np.zeros((128, 8), np.float32)
    assert model.run(first, {"c": output})["c"] is output
    assert not prepared
    np.testing.assert_array_equal(first_result, first["a"] + first["b"])
    np.testing.assert_array_equal(second_result, second["a"] + second["b"])
    np.testing.assert_array_equal(output, first_result)


def test_only_closures_over_other_arrays_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """HloModule m
ENTRY main { a = f32[128,512] parameter(0)
  b = f32[128,512] parameter(1)
  c = f32[128,512] exponential(a)
  d = f32[128,512] tanh(b)
  ROOT t = (f32[128,512], f32[128,512]) tuple(c, d) }"""
    model = runtime.load(compile_module(hlo_tools.load(text.encode()), target="trn2"))
    inputs = {f"input{n}": random(128, 512, seed=n) for n in range(2)}
    results = {f"output{n}": np.zeros((128, 512), np.float32) for n in range(2)}
    prepared: list[str] = []
    usual = Block._prepared

    def counting(self: Block, step: Instruction) -> object:
        prepared.append(step.op)
        return usual(self, step)

    monkeypatch.setattr(Block, "_prepared", counting)
    model.run(inputs, results)
    everything = len(prepared)
    prepared.clear()
    model.run(inputs, results)
    assert not prepared
    second_inputs = {**inputs, "input1": random(128, 512, seed=8)}
    model.run(second_inputs, results)
    assert 0 < len(prepared) < everything
    np.testing.assert_allclose(results["output0"], np.exp(inputs["input0"]), rtol=1e-5)
    np.testing.assert_allclose(results["output1"], np.tanh(second_inputs["input1"]), rtol=1e-5)


def test_two_cores_meet() -> None:
    """Core 1 adds what core 0 stored, behind a barrier of both."""
    shape = (128, 8)
    program = addition(8)
    program.target = "trn2"
    program.variables["t"] = variable(hbm("t", shape), "scratch")
    program.scratch_bytes = 128 * 8 * 4
    first = program.subgraphs[0].engines[Engine.sync]
    barrier = Instruction(
        "core_barrier", {"data": whole(hbm("t", shape)), "cores": (0, 1)}, Engine.sync, "", line(7)
    )
    first[2:] = [
        Step(copy(whole(hbm("t", shape)), whole(sbuf("z", shape, 64))), ((1, 1),)),
        Step(barrier),
    ]
    second = [
        Step(barrier),
        Step(copy(whole(sbuf("w", shape)), whole(hbm("t", shape))), (), (0,)),
        Step(copy(whole(hbm("c", shape)), whole(sbuf("w", shape))), ((0, 1),)),
    ]
    program.subgraphs.append(SubGraph(engines(sync=second), 1))
    a, b = random(*shape), random(*shape, seed=1)
    model = runtime.load(program)
    for _ in range(3):
        np.testing.assert_array_equal(model.run({"a": a, "b": b})["c"], a + b)
    del first[3]
    with pytest.raises(NeffRuntimeError) as caught:
        runtime.load(program).run({"a": a, "b": b})
    assert caught.value.code == "NEFF-EXEC-DEADLOCK"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_many_runs_take_no_more_memory(ab: dict[str, np.ndarray]) -> None:
    model = runtime.load(addition())

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    for _ in range(100):
        model.run(dict(ab))
    before = resident()
    for _ in range(2000):
        model.run({name: array.copy() for name, array in ab.items()})
    assert resident() - before < 8 << 20


@pytest.mark.filterwarnings("ignore:.*NEFF-UNINITIALISED")
def test_fuzzed_instructions_give_coded_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the engine files say: an error with a code, or a run."""
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    monkeypatch.setattr(sys.modules["neff.container.read"], "_check_header", lambda *_: None)
    chance = Random(5)
    path = tmp_path / "x.neff"
    write(counted(3), path)
    original = path.read_bytes()
    arrays = {"a": random(128, 48)}
    for _ in range(400):
        path.write_bytes(original)

        def damage(members: dict[str, bytes]) -> None:
            name = chance.choice(["sg00/SP0.bin", "sg00/DVE0.bin"])
            data = bytearray(members[name])
            data[chance.randrange(120, len(data))] = chance.randrange(256)
            members[name] = bytes(data)

        try:
            runtime.load(repacked(path, damage)).run(arrays)
        except NeffError as error:
            assert error.code.startswith("NEFF-")


def test_a_program_of_the_compilers_own_is_simplified_when_it_runs(tmp_path: Path) -> None:
    text = """HloModule m
ENTRY main {
  a = f32[8,8] parameter(0)
  ROOT b = f32[8,8] negate(a)
}
"""
    program = compile_module(hlo_tools.load(text.encode()), target="trn2")
    assert program.metadata[GRAPH_ONLY] is True
    write(program, tmp_path / "m.neff")
    model = runtime.load(tmp_path / "m.neff")
    assert "_machine" not in vars(model)
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(model.run({"input0": value})["output0"], -value)
    assert model.gaps == model.unwritten_reads == []


def test_a_tensor_that_outlives_others_still_clashes_with_a_later_one() -> None:
    """More tensors than the first array of live ones has rows; the first one lives throughout."""
    first, last = whole(sbuf("first", (4, 8))), whole(sbuf("last", (4, 8)))
    fillers = [whole(sbuf(f"t{number}", (4, 8), 4096 + 64 * number)) for number in range(200)]
    body = [copy(first, fillers[0]), *(copy(filler, first) for filler in fillers)]
    body += [copy(last, fillers[-1]), copy(fillers[-1], first)]
    pairs = [(clash.first, clash.second) for clash in clashes(body, addition())]
    assert pairs == [("t0", UNWRITTEN), ("first", "last")]
