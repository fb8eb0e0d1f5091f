"""The timing model on programs: figures worked out by hand, loops, ranges, what is not known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from neff.errors import NeffError, NeffRuntimeError
from neff.profile import profile_of
from neff.profile.stalls import path_times
from neff.program import EngineLoop, Program, Step
from neff.timing import (
    BOTTLENECKS,
    PARAMETERS,
    Event,
    InstructionCosts,
    LaneTime,
    Parameters,
    estimate,
    overrides_of,
)
from neff.timing.model_error import MODEL_ERRORS, bottleneck_of
from neff.timing.parameters import parameter_table
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Engine, Instruction, Register, Tensor
from nki_lang.isa.table import TABLE
from tests.architecture.imports import edges, top_module
from tests.neff.programs import F32, addition, binary, counted, engines, sbuf, whole


def on_trn2(program: Program) -> Program:
    program.target = "trn2"
    return program


def lane(program: Program, engine: str) -> list[Event]:
    return [event for event in estimate(program).cores[0].events if event.lane == engine]


def alone(*instructions: Instruction) -> Program:
    """A program of one engine without transfers."""
    program = on_trn2(addition())
    programs = {instructions[0].engine.name: [Step(inst) for inst in instructions]}
    program.subgraphs[0].engines = engines(**programs)
    return program


def psum(name: str, shape: tuple[int, ...], offset: int = 0) -> Tensor:
    return Tensor(name, F32, shape, MemoryRegion.psum, (0, offset))


def test_an_addition_by_hand() -> None:
    """Two loads of 128 rows of 2 KiB, 8 packets on each DMA engine; a sum; a store."""
    packet = 5 + 2048 / 27.3
    issue = 636 + 0.85 * 128
    stagger = 207
    second_load = max(issue + 1310 + stagger, 1310 + stagger + 8 * packet) + 8 * packet
    add = second_load + 415 + (512 * 1.68 + 145) / 0.96
    store = add + 36 + 1310 + stagger + 8 * packet + 415
    assert estimate(on_trn2(addition())).total.value == pytest.approx(store, rel=0.01)


def test_an_independent_successor_starts_after_the_interval() -> None:
    x, y = sbuf("x", (128, 512)), sbuf("y", (128, 512), 2048)
    z, w = sbuf("z", (128, 512), 4096), sbuf("w", (128, 512), 6144)
    first = binary("add", whole(z), whole(x), whole(y))
    independent = binary("add", whole(w), whole(x), whole(y))
    dependent = binary("add", whole(w), whole(z), whole(y))
    interval, latency = (512 * 1.68 + 62) / 0.96, (512 * 1.68 + 145) / 0.96
    assert lane(alone(first, independent), "vector")[1].start == pytest.approx(interval)
    assert lane(alone(first, dependent), "vector")[1].start == pytest.approx(latency + 36)


def test_the_tensor_engine_warms_up() -> None:
    bf16 = BY_NAME["bfloat16"]
    weights, moving = (
        sbuf("w", (128, 128), 0, bf16),
        sbuf("m", (128, 512), 256, bf16),
    )
    operands = {
        "dst": whole(psum("p", (128, 512))),
        "stationary": whole(weights),
        "moving": whole(moving),
    }
    matmul = Instruction("nc_matmul", operands, Engine.tensor)
    events = [e for e in lane(alone(*[matmul] * 40), "tensor") if e.opcode == "nc_matmul"]
    gaps = [after.start - before.start for before, after in pairwise(events)]
    assert gaps[2] == pytest.approx(512 / 1.2 + 2)
    assert gaps[-1] == pytest.approx(512 / 2.4 + 2)
    assert sum(gap > 400 for gap in gaps) == pytest.approx(5120 / 428.7, abs=1)


def test_fp32_is_two_passes_and_a_transpose_one() -> None:
    data, moving = sbuf("d", (128, 128)), sbuf("m", (128, 512), 512)
    product = Instruction(
        "nc_matmul",
        {"dst": whole(psum("p", (128, 512))), "stationary": whole(data), "moving": whole(moving)},
        Engine.tensor,
    )
    turned = Instruction(
        "nc_transpose", {"dst": whole(psum("t", (128, 128))), "data": whole(data)}, Engine.tensor
    )
    assert [e.opcode for e in lane(alone(product), "tensor")] == ["load_weights", "nc_matmul"] * 2
    assert [e.opcode for e in lane(alone(turned), "tensor")] == ["load_weights", "nc_transpose"]


def test_tables_are_loaded_when_the_function_changes() -> None:
    x, y = sbuf("x", (128, 64)), sbuf("y", (128, 64), 256)
    functions = ("exp", "exp", "copy", "exp", "gelu", "exp")
    activations = [
        Instruction(
            "activation", {"dst": whole(y), "op": function, "data": whole(x)}, Engine.scalar
        )
        for function in functions
    ]
    loads = [e for e in lane(alone(*activations), "scalar") if e.opcode == "act_table_load"]
    assert len(loads) == 3
    assert [e.end - e.start for e in loads] == pytest.approx([1283] * 3)


def test_engines_work_side_by_side() -> None:
    program = on_trn2(addition())
    vector = program.subgraphs[0].engines[Engine.vector][0]
    before = estimate(program).total
    scalar = dataclasses.replace(vector.instruction, op="activation", engine=Engine.scalar)
    scalar.operands = {"dst": vector.instruction.operands["dst"], "op": "exp",
                       "data": vector.instruction.operands["data1"]}  # fmt: skip
    program.subgraphs[0].engines[Engine.scalar] = [Step(scalar)] * 2
    assert estimate(program).total == before


def test_a_waiting_store_does_not_hold_up_loads() -> None:
    """Both stand in the list of one engine; the loads behind the store go to another queue."""
    program = on_trn2(addition())
    steps = program.subgraphs[0].engines[Engine.sync]
    program.subgraphs[0].engines[Engine.sync] = steps + [Step(steps[0].instruction)] * 3
    parameters = Parameters("trn2", toolchain="earlier")
    events = estimate(program, parameters=parameters).cores[0].events
    last_load = [event for event in events if event.lane == "dma.sync.in"][-1]
    first_store = next(event for event in events if event.lane == "dma.sync.out")
    assert last_load.end < first_store.start


def test_issue_depends_on_the_toolchain() -> None:
    """745 ns for 128 rows with NKI 0.6, 594 ns before; what was set by the user stays."""
    program = on_trn2(addition())
    for toolchain, issue in (("current", 636 + 0.85 * 128), ("earlier", 485 + 0.85 * 128)):
        parameters = Parameters("trn2", toolchain=toolchain)
        events = estimate(program, parameters=parameters).cores[0].events
        starts = [event.start for event in events if event.lane == "sync"]
        assert starts[1] - starts[0] == pytest.approx(issue)
    own_value = Parameters("trn2", {"dma.issue_ns": 100}, toolchain="earlier")["dma.issue_ns"]
    assert own_value.value == 100
    assert Parameters("trn3", toolchain="earlier")["dma.issue_ns"].kind == "assumed"
    with pytest.raises(NeffError, match="no toolchain 'older'") as caught:
        Parameters("trn2", toolchain="older")
    assert caught.value.code == "NEFF-PARAMETER"


def test_loops_are_simulated_once_and_counted() -> None:
    single, four, thousand = (estimate(counted(iterations)) for iterations in (1, 4, 1000))
    turn = (thousand.total.value - four.total.value) / 996
    assert turn == pytest.approx(single.total.value, rel=0.1)
    assert four.cores[0].engines["vector"].events == 4
    assert four.cores[0].transfers == 8
    assert len(thousand.cores[0].events) == len(four.cores[0].events)
    assert thousand.is_complete


def test_loops_of_unknown_length() -> None:
    program = counted()
    for steps in program.subgraphs[0].engines.values():
        assert isinstance(steps[0], EngineLoop)
        steps[0].stop = Register("n")
    unknown = estimate(program)
    assert unknown.to_json()["cores"][0]["loops_of_unknown_length"] == 1
    assert not unknown.is_complete
    assert estimate(program, trips=4).total == estimate(counted(4)).total


def test_the_range_follows_from_the_parameters() -> None:
    estimated = estimate(on_trn2(addition()))
    assert estimated.total.low < estimated.total.value < estimated.total.high
    sure = Parameters("trn2", {name: row.values["trn2"].value for name, row in PARAMETERS.items()})
    certain = estimate(on_trn2(addition()), parameters=sure).total
    assert certain.low < certain.value == estimated.total.value < certain.high
    without = estimate(on_trn2(addition()), parameters=sure).parameter_range
    assert without.low == without.value == without.high == estimated.total.value


def test_the_range_includes_the_error_of_the_model() -> None:
    """Both parts are independent: their squares add up, on either side."""
    for statistic in ("body", "nc-latency"):
        total_estimate = estimate(on_trn2(addition()), statistic=statistic)
        body = estimate(on_trn2(addition())).total.value
        error_ns = total_estimate.model_error * body
        assert total_estimate.bottleneck in BOTTLENECKS
        assert total_estimate.model_error == MODEL_ERRORS["trn2"][total_estimate.bottleneck] > 0
        value, low, high = total_estimate.total
        _, narrow_low, narrow_high = total_estimate.parameter_range
        assert (value - low) ** 2 == pytest.approx((value - narrow_low) ** 2 + error_ns**2)
        assert (high - value) ** 2 == pytest.approx((narrow_high - value) ** 2 + error_ns**2)
        document = total_estimate.to_json()
        assert document["range"]["bottleneck"] == total_estimate.bottleneck
        assert document["low_us"] < document["range"]["parameters_low_us"] < document["total_us"]
        assert (
            f"model ±{total_estimate.model_error:.0%} (bottleneck: {total_estimate.bottleneck})"
            in total_estimate.range_parts
        )


def test_targets_without_measured_kernels_have_a_larger_error() -> None:
    program = on_trn2(addition())
    program.target = "trn3"
    total_estimate = estimate(program)
    assert total_estimate.model_error == pytest.approx(
        1.5 * MODEL_ERRORS["trn2"][total_estimate.bottleneck]
    )


def _bottleneck(busy: Mapping[str, LaneTime], dma_ns: float = 0.0, descriptors: float = 0.0) -> str:
    queues = {"descriptors": LaneTime(occupied_ns=descriptors)}
    return bottleneck_of(100.0, busy, queues, dma_ns)


def test_what_is_busy_for_most_of_the_time_is_the_bottleneck() -> None:
    tensor, vector = LaneTime(occupied_ns=90.0), LaneTime(occupied_ns=70.0)
    issuing = LaneTime(occupied_ns=80.0, opcodes_ns={"dma_copy": 75.0})
    assert _bottleneck({"tensor": tensor, "vector": vector}) == "tensor"
    assert _bottleneck({"vector": vector}) == "compute"
    assert _bottleneck({"sync": issuing, "vector": vector}) == "issue"
    assert _bottleneck({"vector": vector}, dma_ns=16 * 80.0) == "DMA"
    assert _bottleneck({"vector": vector}, descriptors=95.0) == "issue"
    assert _bottleneck({"vector": LaneTime(occupied_ns=55.0)}) == "latency"


def test_each_end_of_each_parameter_is_the_faster_or_slower_one() -> None:
    """Raising any one parameter never makes a program faster if its high end counts as slow."""
    program = on_trn2(addition())
    base = estimate(program).total.value
    for name, row in PARAMETERS.items():
        value = row.values["trn2"].value
        slower = value / 1.5 if row.more_is_faster else value * 1.5
        changed = estimate(program, parameters=Parameters("trn2", {name: slower})).total.value
        assert changed >= base - 1e-6, name


def test_statistics_add_their_own_offset() -> None:
    latency = estimate(on_trn2(addition()), statistic="nc-latency").parameter_range
    body = estimate(on_trn2(addition())).parameter_range
    assert [a - b for a, b in zip(latency, body, strict=True)] == pytest.approx([8400, 5800, 10800])


def test_static_descriptors_start_sooner_after_each_other() -> None:
    dynamic, static = (lane_starts(mode) for mode in ("dynamic", "static"))
    assert static[1] - static[0] < dynamic[1] - dynamic[0]


def lane_starts(mode: str) -> list[float]:
    core = estimate(on_trn2(addition()), dma=mode).cores[0]
    return [event.start for event in core.events if event.lane == "sync"]


def test_what_it_says() -> None:
    text = str(estimate(on_trn2(addition())))
    assert text.endswith("of it from measured costs") and " µs (" in text


def test_measured_share_is_of_the_critical_path() -> None:
    assert estimate(on_trn2(addition())).measured_share > 0.95
    program = on_trn2(addition())
    program.target = "trn3"
    assert estimate(program).measured_share == 0.0


@pytest.mark.parametrize("iterations", [2, 3, 40, 4000])
def test_turns_of_a_loop_count_once_in_the_measured_share(iterations: int) -> None:
    """The same as the share of the profile's critical path, which is attributed another way."""
    program = counted(iterations)
    program.target = "trn1"
    profile = profile_of(program)
    events = profile.estimate.cores[0].events
    times = path_times(profile, 0)
    measured_ns = sum(duration * events[index].measured_share for index, duration in times.items())
    assert profile.estimate.measured_share == pytest.approx(
        measured_ns / sum(times.values()), abs=0.03
    )


def test_an_overridden_parameter_is_used() -> None:
    slow = Parameters("trn2", {"dma.start_ns": 5000})
    assert estimate(on_trn2(addition()), parameters=slow).total.value > 10_000


def test_overrides_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.nki-neff.timing]\ndma.issue_ns = 500\n"dma.start_ns" = 1400\n'
    )
    below = tmp_path / "src"
    below.mkdir()
    overrides = overrides_of(["dma.start_ns=1500"], below)
    assert overrides == {"dma.issue_ns": 500.0, "dma.start_ns": 1500.0}


@pytest.mark.parametrize("setting", ["dma.isue_ns=5", "dma.issue_ns=-1", "dma.issue_ns=fast",
                                     "dma.issue_ns", "dma.bytes_per_ns=0", "dma.packet_bytes=0", "dma.issue_ns=nan",
                                     "dma.issue_ns=inf"])  # fmt: skip
def test_a_wrong_override_names_what_is_wrong(setting: str) -> None:
    with pytest.raises(NeffError) as caught:
        Parameters("trn2", overrides_of([setting]))
    assert caught.value.code == "NEFF-PARAMETER"
    assert "dma." in str(caught.value)


def test_an_unknown_statistic() -> None:
    with pytest.raises(NeffError) as caught:
        estimate(addition(), statistic="mean")
    assert caught.value.code == "NEFF-STATISTIC"


def test_every_parameter_has_a_range_around_its_value_and_a_source() -> None:
    for row in PARAMETERS.values():
        assert set(row.values) == {"trn1", "trn2", "trn3"}
        for value in row.values.values():
            assert 0 <= value.low <= value.value <= value.high, row.name
            assert value.kind in ("documented", "measured", "assumed") and value.source


def test_costs_of_single_instructions_are_those_of_the_simulation() -> None:
    costs = InstructionCosts(Parameters("trn2"))
    program = on_trn2(addition())
    vector = program.subgraphs[0].engines[Engine.vector][0].instruction
    load = program.subgraphs[0].engines[Engine.sync][0].instruction
    event = lane(alone(vector), "vector")[0]
    assert costs.of(vector).latency == pytest.approx(event.end - event.start)
    assert costs.of(load).latency == pytest.approx(estimate(alone(load)).total.value, rel=0.01)
    assert costs.of(load).interval < costs.of(load).latency


@pytest.mark.parametrize("op", sorted(TABLE))
def test_nothing_costs_nothing(op: str) -> None:
    for engine in TABLE[op].engines[4] - {Engine.dma} or {Engine.gpsimd}:
        program = alone(Instruction(op, {}, engine))
        assert estimate(program).total.low > 0


def test_a_deadlock_is_no_endless_time() -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.gpsimd] = [
        Step(Instruction("memset", {}, Engine.gpsimd), ((0, 9),))
    ]
    with pytest.raises(NeffRuntimeError) as caught:
        estimate(program)
    assert caught.value.code == "NEFF-DEADLOCK"


def test_a_store_that_nobody_allows_is_a_deadlock() -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.vector] = []
    with pytest.raises(NeffRuntimeError) as caught:
        estimate(program)
    assert caught.value.code == "NEFF-DEADLOCK"


def test_the_compiler_could_import_it() -> None:
    allowed = {"errors", "program", "options", "timing"}
    used = {
        top_module(imported, "neff")
        for importer, imported in edges("neff", typing=True)
        if top_module(importer, "neff") == "timing"
    }
    assert used <= allowed


def test_the_documentation_has_every_parameter() -> None:
    page = Path(__file__).parents[2] / "docs" / "timing.md"
    assert parameter_table() in page.read_text(encoding="utf-8")
