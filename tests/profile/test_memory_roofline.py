"""Who holds memory when, and what share of the machine's roof is reached: figures by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neff import write
from neff.cli import main
from neff.profile import profile_of
from neff.profile.memory import holdings, peak
from neff.profile.roofline import roof_of, roofline
from neff.timing import Parameters
from tests.profile.programs import matmul, softmax
from tests.profile.slow_kernels import PAIRS


def test_tiles_of_a_product_by_hand() -> None:
    """[128, 64] and [128, 512] go in, [64, 512] is copied out of one bank."""
    profile = profile_of(matmul())
    by_name = {
        holding.name.rpartition(".")[0]: holding
        for holding in holdings(profile)
        if holding.memory != "hbm"
    }
    assert (by_name["k0.left"].partitions, by_name["k0.left"].size) == (128, 64 * 4)
    assert (by_name["k0.bank"].memory, by_name["k0.bank"].partitions) == ("psum", 64)
    assert by_name["k0.bank"].size == 512 * 4
    assert by_name["k0.bank"].start_ns < by_name["k0.result"].end_ns
    assert by_name["k0.left"].end_ns <= by_name["k0.result"].end_ns
    assert by_name["k0.result"].start_ns >= by_name["k0.bank"].start_ns


def test_the_peak_is_the_sum_of_what_is_held_then() -> None:
    profile = profile_of(PAIRS["two_passes"].mended())
    held_tensors = holdings(profile)
    maximum = peak(profile, held_tensors, "sbuf", 0)
    assert maximum.used == sum(holder.nbytes for holder in maximum.holders)
    moments = [holding.start_ns for holding in held_tensors]
    totals = [
        sum(o.nbytes for o in held_tensors if o.memory == "sbuf" and o.start_ns <= t < o.end_ns)
        for t in moments
    ]
    assert maximum.used == max(totals)
    assert maximum.used <= maximum.capacity
    assert maximum.holders[0].place.partition(":")[0].endswith("slow_kernels.py")


def test_variables_are_held_in_hbm_all_the_time() -> None:
    profile = profile_of(PAIRS["two_passes"].slow())
    by_name = {holding.name: holding for holding in holdings(profile) if holding.memory == "hbm"}
    total = profile.estimate.total.value
    assert (by_name["x"].start_ns, by_name["x"].end_ns, by_name["x"].nbytes) == (
        0.0,
        total,
        1024 * 1024 * 4,
    )
    (scratch,) = (holding for name, holding in by_name.items() if name not in ("x", "output_0"))
    assert 0 < scratch.start_ns < scratch.end_ns < total


def test_the_roof_is_that_of_the_architecture_guides() -> None:
    """79 TFLOP/s in bf16 and 20 in fp32 a core of trn2 (trainium2_arch)."""
    roof = roof_of(Parameters("trn2"), 1)
    assert roof.half / 1e3 == pytest.approx(79, rel=0.01)
    assert roof.full / 1e3 == pytest.approx(20, rel=0.02)
    assert roof_of(Parameters("trn2"), 64).bandwidth < roof.bandwidth


def test_flops_and_bytes_of_a_product_by_hand() -> None:
    (row,) = roofline(profile_of(matmul()))
    assert row.flops == row.full_flops == 2 * 128 * 64 * 512
    assert row.nbytes == 4 * (128 * 64 + 128 * 512 + 64 * 512)
    assert row.bound == "waiting"


def test_what_bounds_a_kernel() -> None:
    slow, fixed = (
        roofline(profile_of(p))[0]
        for p in (PAIRS["all_on_one_engine"].slow(), PAIRS["two_passes"].mended())
    )
    assert slow.bound == "vector"
    assert fixed.bound == "DMA"
    roof = roof_of(Parameters("trn2"), 1)
    assert 0.5 < fixed.share(roof) <= 1.0


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(softmax(), tmp_path / "a.neff")
    words = ["profile", str(tmp_path / "a.neff"), "--memory", "--roofline"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "core 0, SBUF" in text
    assert "FLOPs a byte" in text
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["profile"]
    assert {peak_row["memory"] for peak_row in document["memory"]["peaks"]} == {
        "sbuf",
        "psum",
        "hbm",
    }
    assert document["roofline"]["kernel"][0]["bytes"] == 2 * 128 * 512 * 4
