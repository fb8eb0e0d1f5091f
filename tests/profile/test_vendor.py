"""The vendor's tables: read back by pyarrow, and sums worked out by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from neff import write
from neff.cli import main
from neff.profile import profile_of
from neff.profile.vendor import totals, write_parquet
from neff.profile.vendor.rows import intervals
from neff.profile.vendor.schema import TABLES
from neff.program import Program
from tests.neff.programs import counted
from tests.profile.programs import line_of, matmul, softmax

parquet = pytest.importorskip("pyarrow.parquet")


def tables(program: Program, folder: Path) -> dict[str, list[dict[str, object]]]:
    paths = write_parquet(profile_of(program), folder)
    return {path.stem: parquet.read_table(path).to_pylist() for path in paths}


def test_layout_and_types(tmp_path: Path) -> None:
    paths = write_parquet(profile_of(matmul()), tmp_path)
    assert {path.parent for path in paths} == {
        tmp_path / "profiles" / "global" / "matmul_kernel@latest"
    }
    names = {"i": "int64", "f": "double", "s": "string", "b": "bool"}
    for path in paths:
        schema = parquet.read_schema(path)
        fields = TABLES[path.stem].fields
        assert schema.names == [field.name for field in fields]
        assert [str(kind) for kind in schema.types] == [names[field.type] for field in fields]
        table = parquet.read_table(path)
        assert table.num_rows
        for field in fields:
            assert not field.required or not table.column(field.name).null_count, field


def test_it_is_marked_as_simulated(tmp_path: Path) -> None:
    by_table = tables(softmax(), tmp_path)
    (metadata,) = by_table["Metadata"]
    assert (metadata["is_simulation"], metadata["profile_schema_version"]) == (True, "7.4.0")
    assert "estimated" in by_table["Warning"][0]["message"]


def test_instructions_and_transfers_are_the_events(tmp_path: Path) -> None:
    by_table = tables(softmax(), tmp_path)
    events = profile_of(softmax()).estimate.cores[0].events
    engines = [event for event in events if event.lane in ("vector", "scalar", "sync", "gpsimd")]
    rows = by_table["Instruction"]
    assert [row["start_ts"] for row in rows] == [round(event.start) for event in engines]
    line = line_of("nisa.reciprocal(")
    (row,) = [row for row in rows if row["opcode"] == "reciprocal"]
    assert row["nki_source_location"].endswith(f"programs.py:{line}")
    frames = {frame["stack_frame_id"]: frame for frame in by_table["KernelStackFrames"]}
    (kernel,) = [
        row_of_table for row_of_table in by_table["KernelInstructions"]
        if row_of_table["kernel_instruction_name"] == row["kernel_instruction_name"]
    ]  # fmt: skip
    assert frames[kernel["stack_frame_id"]]["line_number"] == line
    moved = by_table["DmaPacketAggregated"]
    assert [row["transfer_bytes"] for row in moved] == [128 * 512 * 4] * 2
    assert [(row["source"], row["dest"]) for row in moved] == [("HBM", "SBUF"), ("SBUF", "HBM")]
    ids = {row["id"] for row in rows} | {row["id"] for row in moved}
    assert all({flow["in_id"], flow["out_id"]} <= ids for flow in by_table["Flow"])


def test_totals_of_a_product_by_hand() -> None:
    """[128, 64]^T @ [128, 512] in fp32 on trn2: one core of 2 x 128 x 128 x 2.4 GHz."""
    profile = profile_of(matmul())
    sums, seconds = totals(profile), profile.estimate.total.value / 1e9
    flops, nbytes = 2 * 128 * 64 * 512, 4 * (128 * 64 + 128 * 512 + 64 * 512)
    peak, stack = 2 * 128 * 128 * 2.4e9, 750e9
    assert sums["model_flops"] == sums["hardware_flops"] == flops
    assert sums["adjusted_hardware_flops"] == 4 * flops
    assert sums["dma_transfer_total_bytes"] == nbytes
    assert sums["hbm_read_bytes"] + sums["hbm_write_bytes"] == nbytes
    assert sums["mm_arithmetic_intensity"] == pytest.approx(flops / nbytes)
    assert sums["mfu_estimated_percent"] == pytest.approx(flops / peak / seconds)
    assert sums["mbu_estimated_percent"] == pytest.approx(nbytes / stack / seconds)
    reachable = flops / nbytes / (peak / stack)
    assert sums["mfu_max_achievable_estimated_percent"] == pytest.approx(reachable)
    assert sums["matmul_instruction_count"] == 2
    assert sums["output_queue_bytes"] == 4 * 64 * 512


def test_totals_count_every_iteration() -> None:
    four, sixty_four = (totals(profile_of(counted(iterations))) for iterations in (4, 64))
    for name in ("vector_engine_instruction_count", "dma_transfer_count"):
        assert sixty_four[name] == 16 * four[name]
    assert four["dma_transfer_total_bytes"] == 2 * 128 * 64 * 4


def test_shares_are_shares() -> None:
    for program in (softmax(), matmul(), counted(100)):
        for name, value in totals(profile_of(program)).items():
            if name.endswith("_percent"):
                assert 0 <= value <= 1.000001, name


def test_a_table_without_rows_is_not_written(tmp_path: Path) -> None:
    assert "PsumUsage" not in tables(softmax(), tmp_path)
    assert tables(matmul(), tmp_path)["PsumUsage"][0]["bank_0_util_percent"] == 0.5


def test_memory_that_was_held_is_given_back(tmp_path: Path) -> None:
    rows = tables(softmax(), tmp_path)["SbufUsage"]
    assert max(row["avg_util_percent"] for row in rows) > 0
    assert rows[-1]["avg_util_percent"] == pytest.approx(0, abs=1e-9)


def test_intervals() -> None:
    assert intervals([(5, 6), (0, 2), (1, 3), (3, 4)]) == [(0, 4), (5, 6)]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "a.neff")
    write(matmul(), file)
    words = ["profile", file, "--output-format"]
    assert main([*words, "summary-json"]) == 0
    ((name, fields),) = json.loads(capsys.readouterr().out).items()
    assert re.fullmatch("n_[0-9a-f]+", name)
    assert fields["is_simulation"] is True
    assert main([*words, "summary-text"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(fields)
    assert main([*words, "parquet", "-o", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").rglob("*.parquet"))) > 15
    assert main([*words, "parquet"]) == 2
    assert main([*words, "csv"]) == 2
