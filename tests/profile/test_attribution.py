"""Time by line, kernel, engine; what engines wait for; the critical path; what-if."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neff.errors import NeffError
from neff.profile import (
    GROUPINGS,
    by,
    changes_of,
    critical_path,
    engine_splits,
    profile_of,
    what_if,
)
from neff.profile.stalls import path_times
from neff.program import Program
from neff.timing import Parameters, estimate
from tests.neff.programs import addition, counted
from tests.profile.programs import line_of, matmul, softmax, two_kernels


@pytest.fixture(params=["softmax", "matmul", "counted", "addition"])
def program(request: pytest.FixtureRequest) -> Program:
    makers = {"softmax": softmax, "matmul": matmul, "counted": counted, "addition": addition}
    return makers[request.param]()


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_adds_up_to_the_same(program: Program, grouping: str) -> None:
    profile = profile_of(program)
    core = profile.estimate.cores[0]
    shares = by(profile, grouping)
    assert sum(share.events for share in shares) == sum(event.turns for event in core.events)
    lanes = [*core.engines.values(), *core.queues.values()]
    assert sum(share.self_ns for share in shares) == pytest.approx(
        sum(lane.occupied_ns for lane in lanes)
    )
    assert sum(share.nbytes for share in shares) == core.dma_bytes


@pytest.mark.parametrize("make", [softmax, matmul, addition])
def test_the_critical_path_is_the_whole_time(make: Callable[[], Program]) -> None:
    profile = profile_of(make())
    path_ns = sum(step.path_ns for step in critical_path(profile, 0))
    assert path_ns == pytest.approx(profile.estimate.total.value)


def test_the_critical_path_of_a_loop_counts_its_turns() -> None:
    for iterations in (1, 2, 3, 100):
        profile = profile_of(counted(iterations))
        path_ns = sum(step.path_ns for step in critical_path(profile, 0))
        meetings = 2 * profile.parameters["control.loop_ns"].value
        assert abs(path_ns - profile.estimate.total.value) <= meetings


def test_parts_of_an_engines_time_add_up(program: Program) -> None:
    profile = profile_of(program)
    total = profile.estimate.cores[0].total.value
    for split in engine_splits(profile, 0):
        parts = split.busy_ns + split.issue_ns + sum(split.waiting_ns.values()) + split.idle_ns
        assert parts == pytest.approx(total)


def test_the_vector_engine_of_an_addition_waits_for_its_loads() -> None:
    profile = profile_of(addition())
    vector = next(split for split in engine_splits(profile, 0) if split.engine == "vector")
    event = next(event for event in profile.estimate.cores[0].events if event.lane == "vector")
    assert vector.waiting_ns == {"DMA": pytest.approx(event.start)}
    assert vector.idle_ns == pytest.approx(profile.estimate.total.value - event.end)


def test_engines_wait_for_each_other_by_name() -> None:
    splits = {split.engine: split for split in engine_splits(profile_of(matmul()), 0)}
    assert set(splits["tensor"].waiting_ns) == {"DMA"}
    copies = splits["vector"].waiting_ns | splits["scalar"].waiting_ns
    assert copies.get("tensor", 0.0) > 0


def test_transfers_that_keep_the_dma_engines_are_the_path() -> None:
    """Two loads of 8 packets: the second one starts when the first has left the DMA engines."""
    program = addition()
    program.target = "trn2"
    profile = profile_of(program, parameters=Parameters("trn2", toolchain="earlier"))
    events = profile.estimate.cores[0].events
    first, second = (index for index, event in enumerate(events) if event.lane == "dma.sync.in")
    times = path_times(profile, 0)
    assert {first, second} <= set(times)
    assert events[second].start - events[first].start < events[first].end - events[first].start


def test_lines_of_two_kernels(tmp_path: Path) -> None:
    profile = profile_of(two_kernels(tmp_path))
    names = [share.name for share in by(profile, "line")]
    line = line_of("nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)")
    assert any(name.endswith(f"programs.py:{line}") for name in names)
    kernels = [share.name for share in by(profile, "kernel")]
    assert len(kernels) == len(set(kernels)) >= 3
    assert "sum" in {share.name for share in by(profile, "op")}


def test_an_unknown_grouping() -> None:
    with pytest.raises(NeffError, match="cannot be attributed by 'colour'") as caught:
        by(profile_of(addition()), "colour")
    assert caught.value.code == "NEFF-GROUPING"


def test_what_if_scales_what_it_names() -> None:
    program = matmul()
    before = estimate(program).total.value
    faster = what_if(program, changes_of("dma=2x")).total.value
    free = what_if(program, changes_of("dma=free")).total.value
    assert free < faster < before
    assert faster > before / 2
    assert what_if(program, changes_of("gpsimd=1x")).total.value == pytest.approx(before)


def test_what_if_twice_the_rate_is_the_parameter_set_twice_as_high() -> None:
    program = softmax()
    parameters = Parameters("trn2")
    clock = parameters["vector.clock_ghz"].value
    by_hand = estimate(program, parameters=Parameters("trn2", {"vector.clock_ghz": 2 * clock}))
    assert what_if(program, {"vector": 2.0}).total.value == by_hand.total.value


@pytest.mark.parametrize("text", ["", "dma", "dma=0x", "dma=-1", "dma=nan", "wheel=2x", "dma=x"])
def test_what_if_refuses(text: str) -> None:
    with pytest.raises(NeffError) as caught:
        changes_of(text)
    assert caught.value.code == "NEFF-WHAT-IF"
