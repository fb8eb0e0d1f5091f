"""The event table: sites, FLOPs, self times, and the document."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import hlo_tools
from neff.compiler import compile
from neff.profile import SCHEMA, by, profile_of
from neff.timing import estimate
from tests.neff.programs import addition, counted
from tests.profile.programs import line_of, matmul, softmax, two_kernels


def test_events_are_those_of_the_estimate() -> None:
    program = addition()
    profile = profile_of(program)
    assert profile.estimate == estimate(program)
    assert len(profile.site_of[0]) == len(profile.estimate.cores[0].events)


def test_sites_name_operands_and_lines() -> None:
    profile = profile_of(addition())
    add = next(site for site in profile.sites if site.opcode == "tensor_tensor")
    assert add.operands == (
        "dst=float32[128,512]@SBUF, data1=float32[128,512]@SBUF, data2=float32[128,512]@SBUF, op=add"
    )
    assert (add.place, add.op, add.engine) == ("/home/someone/project/add.py:9", "add", "vector")


def test_flops_of_a_matrix_product_count_once_for_both_passes() -> None:
    profile = profile_of(matmul())
    assert sum(profile.flops[0]) == 2 * 128 * 64 * 512
    passes = [flops for flops in profile.flops[0] if flops]
    assert passes == [128 * 64 * 512] * 2


def test_self_times_add_up_to_what_each_lane_was_busy() -> None:
    for program in (softmax(), matmul(), counted(5)):
        profile = profile_of(program)
        core = profile.estimate.cores[0]
        by_lane: dict[str, float] = {}
        for event, self_ns in zip(core.events, profile.self_ns[0], strict=True):
            by_lane[event.lane] = by_lane.get(event.lane, 0.0) + self_ns * event.turns
        for lane, time in {**core.engines, **core.queues}.items():
            assert by_lane.get(lane, 0.0) == pytest.approx(time.occupied_ns)


def test_lines_of_the_users_kernel() -> None:
    profile = profile_of(softmax())
    lines = {site.opcode: site.line for site in profile.sites}
    assert lines["activation_reduce"] == line_of("nisa.activation_reduce(")
    assert lines["reciprocal"] == line_of("nisa.reciprocal(")


def test_kernels_and_operations_of_a_module(tmp_path: Path) -> None:
    profile = profile_of(two_kernels(tmp_path))
    kernels = {site.kernel for site in profile.sites if site.opcode == "tensor_scalar"}
    assert kernels == {"k0 double", "k1 triple"}
    assert {site.op for site in profile.sites if site.kernel == "k1 triple"} == {"l"}
    added = next(site for site in profile.sites if site.opcode == "tensor_tensor")
    assert (added.op, added.scope, added.line) == ("sum", "jit(f)/add", 0)
    assert added.place == "jit(f)/add"


def test_frames_of_inlined_functions() -> None:
    """The frames of the script, without the launcher that ran it."""
    text = b"""HloModule m
        FileNames
        1 "/home/me/model.py"
        2 "/home/me/train.py"
        3 "/home/me/venv/hlo_tools/extract/launcher.py"
        FunctionNames
        1 "layer"
        2 "step"
        3 "_run"
        FileLocations
        1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}
        2 {file_name_id=2 function_name_id=2 line=40 end_line=40 column=1 end_column=2}
        3 {file_name_id=3 function_name_id=3 line=33 end_line=33 column=1 end_column=2}
        StackFrames
        1 {file_location_id=3 parent_frame_id=1}
        2 {file_location_id=2 parent_frame_id=2}
        3 {file_location_id=1 parent_frame_id=3}
        ENTRY main {
          a = f32[64,32]{1,0} parameter(0)
          ROOT sum = f32[64,32]{1,0} multiply(a, a), metadata={op_name="jit(step)/layer/add" stack_frame_id=3}
        }"""
    program = compile(hlo_tools.load(text), target="trn2")
    (site,) = [site for site in profile_of(program).sites if site.opcode == "tensor_tensor"]
    assert (site.place, site.frames) == ("model.py:7", ("train.py:40",))
    assert site.scope == "jit(step)/layer/add"
    assert {share.name for share in by(profile_of(program), "scope")} >= {"jit(step)/layer/add"}


def test_the_document_holds_every_event() -> None:
    profile = profile_of(counted(5))
    file = io.BytesIO()
    profile.write_events(file)
    document = json.loads(file.getvalue())
    assert (document["schema"], document["estimated"]) == (SCHEMA, True)
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["events"]]
    events = profile.estimate.cores[0].events
    assert [row["turns"] for row in rows] == [event.turns for event in events]
    assert [row["start_ns"] for row in rows] == [round(event.start, 1) for event in events]
    assert [row["waits_for"] for row in rows] == [event.waits_for for event in events]
    sites = [dict(zip(document["site_columns"], site, strict=True)) for site in document["sites"]]
    assert sites[rows[-1]["site"]]["opcode"] == events[-1].source.op
