"""The roofline: its sums are the module's statistics, its times are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools import HloFileError, Module
from hlo_tools.cli import main
from hlo_tools.stats import statistics
from hlo_tools.stats.memory import memory
from hlo_tools.stats.peaks import PEAKS
from hlo_tools.stats.roofline import roofline
from hlo_tools.text import parse
from nki_lang.base.targets import TARGETS
from tests.stats.cases import CASES, module_text
from tests.stats.test_memory import LOOP
from tests.stats.test_stats import kernel_call

PRODUCT = """HloModule product

ENTRY main {{
  x = {0}[4096,4096] parameter(0)
  y = {0}[4096,4096] parameter(1)
  ROOT d = {0}[4096,4096] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def module_of(text: str) -> Module:
    return Module(parse(text))


@pytest.mark.parametrize("name", CASES)
def test_sums_are_the_module_s(name: str) -> None:
    module = module_of(module_text(name))
    total, analysis = statistics(module), roofline(module, "trn2")
    assert sum(work.flops for work in analysis.work) == total.flops
    functions = sum(work.transcendentals for work in analysis.work)
    # Statistics take the most of each kind that a branch has, the roofline the branch with the most.
    assert functions == total.transcendentals or ("conditional" in name and functions < total.transcendentals)  # fmt: skip
    assert sum(work.bytes for work in analysis.work) == total.bytes
    assert sum(group.time for group in analysis.by_source()) == pytest.approx(analysis.time)
    assert sum(group.time for group in analysis.by_scope()) == pytest.approx(analysis.time)
    assert sum(analysis.by_bound().values()) == pytest.approx(analysis.time)


@pytest.mark.parametrize(
    ("target", "element", "rate"),
    [("trn1", "f32", 23e12), ("trn1", "bf16", 92e12), ("trn2", "bf16", 79e12),
     ("trn2", "f8e4m3fn", 158e12), ("trn3", "f32", 20e12)],
)  # fmt: skip
def test_a_large_product_is_bound_by_the_tensor_engine(
    target: str, element: str, rate: float
) -> None:
    (work,) = roofline(module_of(PRODUCT.format(element)), target).work
    assert work.bound == "tensor"
    assert work.time == pytest.approx(2 * 4096**3 / rate)


def test_what_is_fused_counts_by_engine() -> None:
    text = """HloModule m

fused {
  x = bf16[512,512] parameter(0)
  y = bf16[512,512] parameter(1)
  d = bf16[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = bf16[512,512] exponential(d)
  ROOT s = bf16[512,512] add(e, x)
}

ENTRY main {
  x = bf16[512,512] parameter(0)
  y = bf16[512,512] parameter(1)
  ROOT f = bf16[512,512] fusion(x, y), kind=kOutput, calls=fused
}
"""
    (work,) = roofline(module_of(text), "trn2").work
    cells = 512 * 512
    assert work.products == 2 * 512 * cells
    assert work.seconds == pytest.approx(
        {"memory": 3 * 2 * cells / 375e9, "tensor": 2 * 512 * cells / 79e12,
         "vector": cells / 1e12, "scalar": cells / (128 * 1.2e9)}
    )  # fmt: skip


def test_loops_count_as_often_as_they_run() -> None:
    analysis = roofline(module_of(LOOP), "trn2")
    (added,) = [work for work in analysis.work if work.instruction == "y"]
    assert (added.runs, added.flops, added.bytes) == (5, 5 * 256, 5 * 3 * 1024)
    assert (added.bound, added.intensity) == ("memory", pytest.approx(1 / 12))
    assert analysis.unknown_loops == 0


def test_peaks_are_those_of_the_targets() -> None:
    assert set(PEAKS) == set(TARGETS)
    cores = {"trn1": 2, "trn2": 8, "trn3": 8}
    for name, target in TARGETS.items():
        peaks = PEAKS[name]
        assert peaks.bandwidth * cores[name] == pytest.approx(target.hbm_gb_per_s * 1e9)
        assert peaks.scalar == pytest.approx(target.partitions * target.clocks_ghz["scalar"] * 1e9)
        cells = 2 * 128 * 128 * target.clocks_ghz["tensor"] * 1e9
        assert peaks.tensor[16] == pytest.approx(cells, rel=0.02)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(PRODUCT.format("bf16"))
    assert main(["stats", "--roofline", "--target", "trn2", str(file)]) == 0
    text = capsys.readouterr().out
    assert "roofline of one core of trn2" in text
    assert "bound by tensor  1.74 ms (100.0%)" in text
    assert main(["stats", "--roofline", "-t", "trn1", "--json", str(file)]) == 0
    (document,) = json.loads(capsys.readouterr().out)["modules"]
    (row,) = document["roofline"]["instructions"]
    assert (row["bound"], row["products"]) == ("tensor", 2 * 4096**3)
    assert document["roofline"]["target"] == "trn1"


def test_kernels_count_what_they_multiply() -> None:
    text = kernel_call({"func_name": "scale", "grid": [2, 4], "mac_count": 7})
    (work,) = [
        candidate
        for candidate in roofline(module_of(text), "trn2").work
        if candidate.opcode == "custom-call"
    ]
    assert (work.flops, work.products) == (14, 14)


def test_damaged_modules_are_refused_or_counted() -> None:
    module = module_of(module_text("call"))
    module.entry.root.proto.called_computation_ids[:] = [77]
    for look in (memory, lambda module: roofline(module, "trn2")):  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(HloFileError) as caught:
            look(module)
        assert caught.value.code == "HLO-REFERENCE"
    for name in CASES:
        module = module_of(module_text(name))
        del module.entry.root.proto.operand_ids[:]
        assert memory(module).peak >= 0
        assert roofline(module, "trn2").time >= 0


def test_more_than_a_float_holds_is_counted() -> None:
    module = module_of(
        "HloModule m\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] add(x, x) }"
    )
    for row in module.entry.proto.instructions:
        row.shape.dimensions[:] = [2**62] * 20
    assert roofline(module, "trn2").time > 1e200
