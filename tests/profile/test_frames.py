"""Functions that a kernel calls: their frames from the trace to every document of a profile."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
from neff import read, write
from neff.cli import main
from neff.compiler import compile, compile_kernel
from neff.encoding.sources import SourceTable
from neff.errors import NeffFileError
from neff.profile import Profile, by, profile_of, write_trace
from neff.profile.advice import advice_of
from neff.profile.page import render_page
from neff.profile.vendor import write_parquet
from nki_lang import jit, klir
from nki_lang.base.errors import NkiFileError
from nki_lang.base.source import MAX_CALLERS, SourceLocation
from nki_lang.ir.text import to_text
from nki_lang.ir.text_parser import parse
from nki_lang.ir.types import KernelIR
from nki_lang.klir.callers import CallerReader
from tests.compiler.kernels import written
from tests.profile.programs import CALL
from tests.profile.test_perfetto import Trace


def move(dst: Any, src: Any) -> None:
    nisa.dma_copy(dst=dst, src=src)  # the transfer


def fetched(x: Any) -> Any:
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    move(tile, x)  # in fetched
    return tile


def calling(x: Any, y: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    left = fetched(x)  # first
    right = fetched(y)  # second
    with nl.no_reorder():  # the region
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    move(out, left)  # third
    return out


def descending(x: Any, depth: int = 60) -> Any:
    if depth:
        return descending(x, depth - 1)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def line(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {text}"))


def place(text: str) -> str:
    return f"test_frames.py:{line(text)}"


def traced(kernel: Any = calling, count: int = 2) -> KernelIR:
    arrays = [np.ones((128, 64), np.float32)] * count
    return jit(kernel).trace(tuple(arrays), target="trn2")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Return the profile of a program after a round trip through a file."""
    write(compile_kernel(traced()), tmp_path / "calling.neff")
    return profile_of(read(tmp_path / "calling.neff"))


def test_a_location_has_the_calls_up_to_the_kernel() -> None:
    first, second, region, third = [statement.location for statement in traced().bodies[0]]
    assert first and second and region and third
    assert (first.line, first.function) == (line("the transfer"), "move")
    assert [(caller.line, caller.function) for caller in first.callers] == [
        (line("in fetched"), "fetched"), (line("first"), "calling"),
    ]  # fmt: skip
    assert [caller.line for caller in second.callers] == [line("in fetched"), line("second")]
    assert [caller.line for caller in third.callers] == [line("third")]
    assert (region.file, region.line, region.caller) == (__file__, line("the region"), None)


def test_a_deep_recursion_keeps_the_innermost_calls() -> None:
    (statement,) = traced(descending, 1).bodies[0]
    assert statement.location
    assert len(statement.location.callers) == MAX_CALLERS
    files = klir.dumps(traced(descending, 1))
    again = klir.loads(files.klir, files.companion, files.constants)
    assert len(again.bodies[0][0].location.callers) == MAX_CALLERS  # type: ignore[union-attr]


def test_kernel_files_and_texts_keep_them() -> None:
    kernel = traced()
    files = klir.dumps(kernel)
    again = klir.loads(files.klir, files.companion, files.constants)
    expected = [
        (str(location), *(f"{frame} {frame.function}" for frame in location.callers))
        for location in (statement.location for statement in kernel.bodies[0])
        if location
    ]
    short = [tuple(text.replace(str(Path(__file__).parent) + "/", "") for text in texts) for texts in expected]  # fmt: skip
    locations = [statement.location for statement in again.bodies[0]]
    assert [
        (str(location), *(f"{frame} {frame.function}" for frame in location.callers))
        for location in locations
        if location
    ] == short
    text = to_text(kernel)
    assert f'from @"{__file__}":{line("in fetched")} in fetched from' in text
    assert parse(text) == kernel
    assert b"callers" not in klir.dumps(traced(_plain, 1)).companion


def _plain(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize(
    ("frames", "runs"),
    [
        ([["k.py", 1, "f", -1, 0]], []),
        ([["k.py", 1, "f", -1, -2]], []),
        ([["k.py", 1, "f", -1, number - 1] for number in range(MAX_CALLERS + 2)], []),
        ([], [[1, 0]]),
    ],
)
def test_damaged_calls_of_a_kernel_file_are_refused(frames: list[Any], runs: list[Any]) -> None:
    with pytest.raises(NkiFileError) as caught:
        CallerReader({"frames": frames, "runs": runs})
    assert caught.value.code == "NKI-FILE-COMPANION"


@pytest.mark.parametrize(
    "callers", [[[0, 0]], [[0, 1]], [[1, -1]], [[1]], [["a", 0]], 3, [[number + 1, number] for number in range(40)]]
)  # fmt: skip
def test_damaged_calls_of_a_program_are_refused(callers: object) -> None:
    rows = [[0, 1 + number, -1, 0] for number in range(50)]
    document = {"files": ["k.py"], "functions": ["f"], "locations": rows, "callers": callers}
    with pytest.raises(NeffFileError) as caught:
        SourceTable.from_json(document, "x")
    assert caught.value.code == "NEFF-SOURCES"


def test_the_table_of_a_program_keeps_each_call_once() -> None:
    table = SourceTable()
    kernel = SourceLocation("/a/k.py", 9, "kernel")
    for number in range(3):
        table.number(SourceLocation("/a/k.py", number + 1, "helper", -1, kernel))
    document = table.to_json()
    assert (len(document["locations"]), document["callers"]) == (4, [[1, 0], [2, 0], [3, 0]])
    again = SourceTable.from_json(document, "x")
    assert str(again.locations[3].caller) == "k.py:9"
    assert again.to_json() == document


def test_lines_cost_what_they_call(profile: Profile) -> None:
    rows = {share.name: share for share in by(profile, "line")}
    transfer, total = rows[place("the transfer")], profile.estimate.total.value
    calls = [rows[place(name)] for name in ("first", "second", "third")]
    assert sum(call.cumulative_ns for call in calls) == pytest.approx(transfer.self_ns)
    assert sum(call.cumulative_path_ns for call in calls) == pytest.approx(transfer.path_ns)
    assert all(call.cumulative_ns > 0 and call.self_ns == call.events == 0 for call in calls)
    inner = rows[place("in fetched")]
    assert inner.cumulative_ns == pytest.approx(calls[0].cumulative_ns + calls[1].cumulative_ns)
    assert sum(row.path_ns for row in rows.values()) == pytest.approx(total)
    assert {share.name for share in by(profile, "op")} == {"calling"}


def test_a_recursive_line_counts_once(tmp_path: Path) -> None:
    profile = profile_of(compile_kernel(traced(descending, 1)))
    total = sum(share.path_ns for share in by(profile, "line"))
    assert max(share.cumulative_path_ns for share in by(profile, "line")) == pytest.approx(total)


def test_source_shows_the_cost_of_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(compile_kernel(traced()), tmp_path / "calling.neff")
    words = ["profile", str(tmp_path / "calling.neff"), "--source"]
    assert main([*words, "--source-root", str(Path(__file__).parent)]) == 0
    out = capsys.readouterr().out
    assert "path with calls µs" in out
    (row,) = [line for line in out.splitlines() if line.endswith("# second")]
    own_time, path, with_calls, path_with_calls = map(float, row.split()[:4])
    assert own_time == path == 0 < min(with_calls, path_with_calls)


def test_the_call_of_a_kernel_in_a_module_is_a_frame(tmp_path: Path) -> None:
    call = CALL.format(operands="a, b", config=written(traced(), tmp_path)).replace(
        "64,32", "128,64"
    )
    text = f"""HloModule m
        ENTRY main {{
          a = f32[128,64]{{1,0}} parameter(0)
          b = f32[128,64]{{1,0}} parameter(1)
          ROOT k = {call}, metadata={{op_name="jit(f)/k" source_file="/home/me/model.py" source_line=7}}
        }}"""
    called_profile = profile_of(
        compile(hlo_tools.load(text.encode()), target="trn2", root=tmp_path)
    )
    rows = {share.name: share for share in by(called_profile, "line")}
    path_ns = sum(share.path_ns for share in rows.values())
    assert rows["model.py:7"].cumulative_path_ns == pytest.approx(path_ns)
    assert rows[place("first")].cumulative_path_ns < path_ns


def test_documents_have_the_calls(profile: Profile, tmp_path: Path) -> None:
    first = [place("in fetched"), place("first")]
    file = io.BytesIO()
    write_trace(profile, file)
    called = [
        arguments.get("called from") for _, _, _, _, arguments, *_ in Trace(file.getvalue()).slices
    ]
    assert ", ".join(first) in called
    page = render_page([profile], root=Path(__file__).parent)
    assert re.search(rf'\["{first[0]}","{first[1]}"\],\["move","fetched","calling"\]', page)
    file = io.BytesIO()
    profile.write_events(file)
    assert b'"frames", "functions"' in file.getvalue()


def test_stacks_in_the_vendors_tables(profile: Profile, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    by_table = {
        path.stem: parquet.read_table(path).to_pylist() for path in write_parquet(profile, tmp_path)
    }
    frames = {row["stack_frame_id"]: row for row in by_table["KernelStackFrames"]}
    (start,) = [
        row for row in by_table["KernelInstructions"]
        if row["line_number"] == line("the transfer") and row["stack_frame_depth"] == 2
        and frames[frames[row["stack_frame_id"]]["parent_stack_frame_id"]]["line_number"] == line("in fetched")
    ][:1]  # fmt: skip
    names: list[str] = []
    frame_id: int | None = start["stack_frame_id"]
    while frame_id is not None:
        names.append(
            f"{frames[frame_id]['fully_qualified_function_name']}:{frames[frame_id]['line_number']}"
        )
        frame_id = frames[frame_id]["parent_stack_frame_id"]
    assert names[:2] == [f"move:{line('the transfer')}", f"fetched:{line('in fetched')}"]
    assert names[2] in {f"calling:{line('first')}", f"calling:{line('second')}"}


def repeated(x: Any) -> Any:
    out = nl.ndarray((8 * x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    for iteration in range(8):
        again = fetched(x)  # the reload
        nisa.dma_copy(dst=out[128 * iteration : 128 * iteration + 128, :], src=again)
    return out


def test_advice_names_the_call_behind_the_line() -> None:
    x = np.ones((128, 2048), np.float32)
    entries = advice_of(profile_of(compile_kernel(jit(repeated).trace((x,), target="trn2"))))
    (reload,) = [entry for entry in entries if entry.code == "PERF-RELOAD"]
    assert reload.place.endswith(place("the transfer"))
    names = [Path(line).name for line in reload.lines]
    assert names == [place("the transfer"), *sorted([place("in fetched"), place("the reload")])]
