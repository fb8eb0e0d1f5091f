"""Captures of a device: parameters that they determine are recovered, all others stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from neff import write
from neff.calibration import fitted, read_capture, subject_of
from neff.cli import main
from neff.compiler import compile_kernel
from neff.errors import NeffError
from neff.profile import profile_of
from neff.profile.vendor import write_parquet
from neff.program import Program
from neff.timing import Event, Parameters, StreamInstruction, estimate, replay
from neff.timing.chip import parameters_of, read_chip
from nki_lang import isa as nisa
from nki_lang import language as nl
from nki_lang.kernel import Kernel

CHANGED = (
    {"vector.latency_cycles": 190.0, "semaphore.compute_ns": 55.0, "dma.software_issue_ns": 750.0},
    {"scalar.latency_cycles": 150.0, "vector.interval_cycles": 90.0, "dma.issue_busy_ns": 300.0},
)
"""Chips that differ from the table."""


def several_sizes(x):
    """Vector and scalar instructions of several sizes, each size often enough in a row."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for width in (64, 128, 256, 512):
        left, right = tile[:, :width], tile[:, width : 2 * width]
        sums = [nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3)]
        for total in sums:  # they do not wait for each other
            nisa.tensor_tensor(total, left, right, nl.add)
        for total in sums:
            nisa.tensor_scalar(right, total, nl.multiply, 0.5, engine=nisa.engine.vector)
        for _ in range(3):
            nisa.tensor_copy(left, right, engine=nisa.engine.scalar)
            nisa.activation(right, nl.square, left)
    nisa.dma_copy(out, tile)
    return out


@pytest.fixture(scope="module")
def program() -> Program:
    x = np.zeros((128, 1024), np.float32)
    return compile_kernel(Kernel(several_sizes).trace((x,), {}, target="trn2"))


def stream() -> list[StreamInstruction]:
    """A stream with software transfers of several sizes, reductions and activations."""
    instructions: list[StreamInstruction] = []
    for number, width in enumerate((128, 256, 512, 1024) * 3):
        load, first, second = (3 * number + position for position in range(3))
        instructions += [
            StreamInstruction(load, "GpSimd", "DMA_DIRECT2D", src="H", dst="S", rows=128, row_bytes=4 * width),
            StreamInstruction(first, "Vector", "TENSOR_REDUCE", "op=MAX", "fp32@S", "fp32@S", width, waits_on=(load,)),
            StreamInstruction(second, "Vector", "TENSOR_REDUCE", "op=MAX", "fp32@S", "fp32@S", width, waits_on=(first,)),
        ]  # fmt: skip
    for number, width in enumerate((128, 256, 512, 1024)):
        first = 1000 + 2 * number
        instructions += [
            StreamInstruction(first, "Scalar", "COPY", "", "fp32@P", "fp32@S", width, waits_on=(3 * number + 2,)),
            StreamInstruction(first + 1, "Scalar", "ACTIVATE", "EXP", "fp32@P", "fp32@S", width),
        ]  # fmt: skip
    return instructions


def stream_text(instructions: Sequence[StreamInstruction], events: Sequence[Event]) -> str:
    """Return the stream with the times of a simulation, as a device would have measured them."""
    engines = {
        event.source: event
        for event in events
        if event.lane in ("vector", "scalar", "gpsimd", "sync", "tensor")
    }
    lines = ["# a synthetic capture"]
    for inst in instructions:
        event = engines[inst.index]
        size = f"{inst.rows}x{inst.row_bytes}" if inst.rows else "-"
        cells = (
            inst.index, inst.engine, inst.opcode, inst.detail or "-", inst.src or "-", inst.dst or "-",
            inst.elements or "-", size, ",".join(map(str, inst.waits_on)) or "-", "|",
            round(event.start), round(event.end - event.start),
            round(event.start - event.since) if event.waits_for >= 0 else 0,
        )  # fmt: skip
        lines.append("\t".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def json_profile(program: Program, parameters: Parameters) -> str:
    """Return a profile in the form of the vendor's JSON, with setup instructions between."""
    names = {"tensor": "TensorMatrix", "vector": "Vector", "scalar": "Scalar"}
    rows = [
        {"timestamp": round(event.start), "duration": round(event.end - event.start),
         "label": names.get(event.lane, event.lane.capitalize()), "opcode": event.opcode.upper()}
        for event in estimate(program, parameters=parameters).cores[0].events
        if "." not in event.lane and event.lane != "descriptors"
    ]  # fmt: skip
    setup = {"timestamp": 0, "duration": 40, "label": "Vector", "opcode": "SET_ORDERING_MODE"}
    return json.dumps({"summary": [{}], "instruction": [setup, *rows], "dma": []})


@pytest.mark.parametrize("changed", CHANGED)
def test_changed_parameters_of_a_stream_are_recovered(
    tmp_path: Path, changed: dict[str, float]
) -> None:
    table = Parameters("trn2", toolchain="earlier")
    chip = Parameters("trn2", changed, toolchain="earlier")
    file = tmp_path / "stream.txt"
    file.write_text(stream_text(stream(), replay(stream(), parameters=chip)))
    fit = fitted([subject_of(read_capture(file), None, table, dma="", core=0)], table)
    visible = {name for name in changed if name != "dma.issue_busy_ns"}  # it has no hardware issue
    assert visible <= set(fit.values)
    for name, value in fit.values.items():
        truth = changed.get(name, table[name].value)
        assert value.low - 0.03 * truth <= truth <= value.high + 0.03 * truth, name
        assert value.value == pytest.approx(truth, rel=0.05), name
    assert {row.parameter for row in fit.unfitted}.isdisjoint(fit.values)
    reasons = {row.parameter: row.reason for row in fit.unfitted}
    assert reasons["tensor.latency_ns"] == "is not in the capture"
    assert reasons["dma.start_ns"] == "is not in the capture"


@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_changed_parameters_of_a_program_are_recovered(
    tmp_path: Path, program: Program, changed: dict[str, float], form: str
) -> None:
    chip = Parameters("trn2", changed)
    if form == "json":
        capture = tmp_path / "profile.json"
        capture.write_text(json_profile(program, chip))
    else:
        pytest.importorskip("pyarrow")
        write_parquet(profile_of(program, parameters=chip), tmp_path)
        capture = tmp_path
    table = Parameters("trn2")
    fit = fitted([subject_of(read_capture(capture), program, table, dma="", core=0)], table)
    assert set(changed) <= set(fit.values)
    for name, value in fit.values.items():
        truth = changed.get(name, table[name].value)
        assert value.value == pytest.approx(truth, rel=0.05), name
    body = estimate(program, parameters=chip).total.value
    calibrated = estimate(program, parameters=Parameters("trn2", calibrated=fit.values)).total.value
    assert calibrated == pytest.approx(body, rel=0.01)
    assert abs(estimate(program).total.value / body - 1) > 0.02


def test_what_cannot_be_told_apart_stays(tmp_path: Path) -> None:
    """All instructions have one size: the clock, the rate and the latency have the same effect."""
    instructions = [
        StreamInstruction(index, "Vector", "RECIPROCAL", "", "fp32@S", "fp32@S", 64, waits_on=(index - 1,) * (index > 0))
        for index in range(6)
    ]  # fmt: skip
    chip = Parameters("trn2", {"vector.reciprocal_cycles": 9.0}, toolchain="earlier")
    file = tmp_path / "stream.txt"
    file.write_text(stream_text(instructions, replay(instructions, parameters=chip)))
    table = Parameters("trn2", toolchain="earlier")
    fit = fitted([subject_of(read_capture(file), None, table, dma="", core=0)], table)
    reasons = {row.parameter: row.reason for row in fit.unfitted}
    for name in ("vector.reciprocal_cycles", "vector.clock_ghz"):
        assert name not in fit.values and "told apart" in reasons[name]


def test_the_command_writes_a_chip_that_estimates_take(
    tmp_path: Path, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = CHANGED[0]
    neff, capture, chip = (tmp_path / name for name in ("k.neff", "profile.json", "my-chip.toml"))
    write(program, neff)
    capture.write_text(json_profile(program, Parameters("trn2", changed)))
    assert main(["calibrate", str(capture), "--neff", str(neff), "-o", str(chip)]) == 0
    printed = capsys.readouterr().out
    assert "vector.latency_cycles" in printed and "kept: " in printed and "my-chip.toml" in printed
    opened = read_chip(chip)
    assert (opened.target, opened.toolchain, opened.captures) == (
        "trn2",
        "current",
        ("profile.json",),
    )
    assert opened.values["vector.latency_cycles"].value == pytest.approx(190, rel=0.03)

    def total(*words: str) -> float:
        assert main(["time", str(neff), "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)["total_us"]

    truth = estimate(program, parameters=Parameters("trn2", changed)).total.value / 1e3
    assert total("--chip", str(chip)) == pytest.approx(truth, rel=0.01)
    assert abs(total() / truth - 1) > 0.02
    assert total("--chip", str(chip), "--set", "vector.latency_cycles=9000") > 2 * truth
    assert main(["budget", str(neff), "--max-latency", "1s", "--chip", str(chip), "--json"]) == 0
    budgeted_us = json.loads(capsys.readouterr().out)["checks"][0]["found"]
    assert budgeted_us == pytest.approx(truth, rel=0.011)
    assert main(["profile", str(neff), "--chip", str(chip), "--json"]) == 0
    capsys.readouterr()
    assert main(["calibrate", str(capture), "--neff", str(neff), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    figures = {(row["kind"], row["lane"], row["opcode"]): row for row in document["figures"]}
    row = figures["duration", "vector", "tensor_scalar"]
    assert row["estimated_ns"] + 20 < row["measured_ns"]
    assert row["calibrated_ns"] == pytest.approx(row["measured_ns"], abs=5)
    program_of_trn3 = compile_kernel(
        Kernel(several_sizes).trace((np.zeros((128, 1024), np.float32),), {}, target="trn3")
    )
    write(program_of_trn3, neff)
    assert main(["time", str(neff), "--chip", str(chip)]) == 2
    assert "error[NEFF-CHIP]" in capsys.readouterr().err


CAPTURES = {
    "missing times": ("0\tVector\tCOPY\n", "no start and duration"),
    "a negative time": ("0\tVector\tCOPY\t-\t-\t-\t-\t-\t-\t|\t-5\t3\t0\n", "is no time"),
    "nothing": ("# only a comment\n", "has no instructions"),
    "json without a list": ('{"summary": []}', "no list named instruction"),
    "damaged json": ('{"instruction": [', "is no JSON"),
    "an infinite time": (
        '{"instruction": [{"timestamp": 0, "duration": 1e999, "label": "Vector", "opcode": "COPY"}]}',
        "is no ",
    ),
    "bytes": ("\x00\x01\x02", "is not an instruction of a stream"),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_captures_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    text, message = CAPTURES[name]
    (tmp_path / "capture").write_text(text)
    with pytest.raises(NeffError, match=r"NEFF-(CAPTURE|STREAM)") as caught:
        read_capture(tmp_path / "capture")
    assert message in caught.value.message and caught.value.remedy


def test_captures_of_another_program_are_refused(tmp_path: Path, program: Program) -> None:
    table = Parameters("trn2")
    row = {"timestamp": 0, "duration": 40, "label": "Vector", "opcode": "COPY"}
    (tmp_path / "profile.json").write_text(json.dumps({"instruction": [row]}))
    capture = read_capture(tmp_path / "profile.json")
    with pytest.raises(NeffError, match=r"of another program .*in the capture"):
        subject_of(capture, program, table, dma="", core=0)
    with pytest.raises(NeffError, match="does not say what ran"):
        subject_of(capture, None, table, dma="", core=0)
    with pytest.raises(NeffError, match="the program lacks"):
        subject_of(capture, program, table, dma="", core=3)
    with pytest.raises(NeffError, match="NEFF-CAPTURE"):
        read_capture(tmp_path / "absent.json")
    with pytest.raises(NeffError, match=r"has no Instruction\.parquet"):
        read_capture(tmp_path)


HEAD = '[chip]\ntarget = "trn2"\n[parameters]\n'
CHIPS = {
    "no TOML": ("[chip", "not the file of a chip"),
    "no tables": ("", "has no table"),
    "an unknown target": (HEAD.replace("trn2", "trn9"), "is no target"),
    "an unknown parameter": (HEAD + '"dma.isue_ns" = { value = 1, low = 1, high = 1 }\n', "is no parameter"),
    "no range": (HEAD + '"dma.issue_ns" = 550\n', "needs value, low and high"),
    "outside": (HEAD + '"dma.issue_ns" = { value = 5, low = 6, high = 7 }\n', "not within its range"),
    "a clock of zero": (HEAD + '"vector.clock_ghz" = { value = 1, low = 0, high = 2 }\n', "not within its range"),
    "nan": (HEAD + '"dma.issue_ns" = { value = nan, low = 1, high = 2 }\n', "no number"),
    "more": (HEAD + "[more]\n", "more than the tables"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_files_that_are_no_chip(tmp_path: Path, name: str) -> None:
    text, message = CHIPS[name]
    (tmp_path / "chip.toml").write_text(text)
    with pytest.raises(NeffError, match="NEFF-CHIP") as caught:
        read_chip(tmp_path / "chip.toml")
    assert message in caught.value.message


def test_a_chip_of_another_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(HEAD)
    with pytest.raises(NeffError, match="NEFF-CHIP"):
        parameters_of("trn1", None, read_chip(tmp_path / "chip.toml"))
