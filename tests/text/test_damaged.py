"""Modules with fields out of range: coded errors or findings, and prints that end."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.rewrite import inline_calls
from hlo_tools.text import parse, print_module
from hlo_tools.types.literal import Literal
from hlo_tools.verify import verify

REDUCE = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups=[2,2]<=[4], to_apply=sum }
"""
RAGGED = """HloModule m
ENTRY e { x = f32[4,8] parameter(0)
  k = f32[2,8,8] parameter(1)
  g = s32[2] parameter(2)
  ROOT r = f32[4,8] ragged-dot(x, k, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
    lhs_ragged_dims={0}, rhs_group_dims={0} }
"""
CONVOLUTION = """HloModule m
ENTRY e { a = f32[1,3,2] parameter(0)
  k = f32[3,2,1] parameter(1)
  ROOT c = f32[1,3,1] convolution(a, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f }
"""
NEGATE = """HloModule m
ENTRY e { x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] negate(x), sharding={devices=[2,2]<=[2,2]T(1,0)} }
"""


def groups(row: Any) -> Any:
    if row.HasField("iota_collective_device_list"):
        return row.iota_collective_device_list
    return row.collective_device_list.iota_replica_group_list


def damaged(text: str, harm: Callable[[Any], None]) -> Module:
    proto = parse(text)
    harm(proto.computations[-1].instructions[-1])
    return Module(proto)


def no_product(row: Any) -> None:
    groups(row).iota_reshape_dims[:] = [3]


def no_order(row: Any) -> None:
    groups(row).iota_transpose_perm[:] = [0, 5]


def too_many(row: Any) -> None:
    groups(row).num_replica_groups = 1 << 40


def batch(row: Any) -> None:
    row.ragged_dot_dimension_numbers.dot_dimension_numbers.lhs_batch_dimensions.append(-9)


def contracting(row: Any) -> None:
    row.ragged_dot_dimension_numbers.dot_dimension_numbers.rhs_contracting_dimensions.append(7)


@pytest.mark.parametrize(
    ("text", "harm", "message"),
    [
        (REDUCE, no_product, "number no devices"),
        (REDUCE, no_order, "number no devices"),
        (REDUCE, too_many, "number no devices"),
        (RAGGED, batch, "lhs_batch_dims"),
        (RAGGED, contracting, "rhs_contracting_dims"),
    ],
)
def test_numbers_out_of_range_are_findings(text: str, harm: Any, message: str) -> None:
    module = damaged(text, harm)
    print_module(module)
    (finding,) = verify(module)
    assert finding.code == "HLO-V019" and finding.place == "%e/%r" and message in finding.message


def test_a_short_permutation_of_a_sharding() -> None:
    module = damaged(NEGATE, lambda row: row.sharding.iota_transpose_perm.__delitem__(0))
    print_module(module)
    verify(module)


def test_a_control_edge_from_nowhere() -> None:
    module = damaged(NEGATE, lambda row: row.control_predecessor_ids.append(99))
    assert "control-predecessors={%<missing 99>}" in print_module(module)
    assert [problem.code for problem in verify(module)] == ["HLO-V008"]


@pytest.mark.parametrize(
    "field", ["input_batch_dimension", "kernel_output_feature_dimension", "output_batch_dimension"]
)
def test_labels_of_dimensions_have_an_end(field: str) -> None:
    def harm(row: Any) -> None:
        setattr(row.convolution_dimension_numbers, field, 1 << 40)

    module = damaged(CONVOLUTION, harm)
    assert len(print_module(module)) < 2000
    assert [problem.code for problem in verify(module)] == ["HLO-V019"]


def test_half_a_number_in_a_literal() -> None:
    module = damaged(
        "HloModule m\nENTRY e { ROOT c = c64[] constant((1,2)) }",
        lambda row: row.literal.c64s.append(1.0),
    )
    with pytest.raises(HloError) as caught:
        Literal(module.entry.root.proto.literal).numpy()
    assert caught.value.code == "HLO-LITERAL-SIZE"
    assert [problem.code for problem in verify(module)] == ["HLO-V021"]


def test_a_file_that_unpacks_to_much_more(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(b" " * (80 << 20))
    with pytest.raises(HloError) as caught:
        hlo_tools.load(data)
    assert caught.value.code == "HLO-TOO-LARGE"
    monkeypatch.setenv("NKI_HLO_MOST_UNPACKED", "1000")
    small = gzip.compress(REDUCE.encode() * 20)
    with pytest.raises(HloError) as caught:
        hlo_tools.load(small)
    assert caught.value.code == "HLO-TOO-LARGE"
    monkeypatch.setenv("NKI_HLO_MOST_UNPACKED", "many")
    with pytest.raises(HloError) as caught:
        hlo_tools.load(small)
    assert caught.value.code == "HLO-CONFIGURATION"


def test_calls_that_double_are_not_inlined_for_ever() -> None:
    lines = ["f0 { p = f32[] parameter(0)\n ROOT r = f32[] negate(p) }"]
    for n in range(1, 40):
        called = f"to_apply=f{n - 1}"
        lines.append(f"f{n} {{ p = f32[] parameter(0)\n a = f32[] call(p), {called}\n"
                     f" ROOT r = f32[] call(a), {called} }}")  # fmt: skip
    entry = "ENTRY e { p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=f39 }"
    module = Module(parse("\n".join(["HloModule m", *lines, entry])))
    with pytest.raises(HloError) as caught:
        inline_calls(module)
    assert caught.value.code == "HLO-INLINE-LIMIT"
    assert len(module.computations) == 41  # nothing was inlined before


@pytest.mark.parametrize("loaded", [False, True])
def test_scheduled_computations_of_one_id_are_printed(loaded: bool) -> None:
    """The schedule of the longer one names instructions that the other does not have."""
    proto = parse(
        """HloModule m, is_scheduled=true
f { x = f32[] parameter(0)
  ROOT n = f32[] negate(x) }
ENTRY e { x = f32[] parameter(0)
  a = f32[] call(x), to_apply=f
  b = f32[] negate(a)
  ROOT c = f32[] negate(b) }"""
    )
    assert proto.schedule.sequences
    proto.computations[0].id = proto.computations[1].id
    module = hlo_tools.load(proto.SerializeToString()) if loaded else proto
    text = print_module(module)
    assert "ROOT %n = " in text and "ROOT %c = " in text


def test_a_sharding_without_devices_is_printed() -> None:
    def no_devices(row: Any) -> None:
        row.sharding.ClearField("iota_reshape_dims")
        row.sharding.replicate_on_last_tile_dim = True

    assert "sharding={devices=[2,2]" in print_module(damaged(NEGATE, no_devices))
