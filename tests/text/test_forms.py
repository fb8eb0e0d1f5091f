"""Forms of text that XLA reads and writes since 2026, and those of ours that it never knew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.ir.module import Module
from hlo_tools.text import parse, print_module
from hlo_tools.types.literal import Literal

CONVOLUTION = """HloModule m
ENTRY e {
  a = f32[1,2,3] parameter(0)
  k = f32[2,3,1] parameter(1)
  ROOT c = f32[1,3,3] convolution(a, k), window={size=1}, dim_labels=bf0_io0->b0f, {}
}
"""
SPARSE = "sparsity_config={lhs={sparsity=1x4 dimension=1 stride=1} rhs={sparsity=3x4 dimension=0 stride=2}}"


def root(text: str) -> Any:
    return parse(text).computations[-1].instructions[-1]


def one(line: str) -> str:
    return f"HloModule m\nENTRY e {{\n  a = u32[2] parameter(0)\n  ROOT r = {line}\n}}\n"


def again(text: str) -> str:
    """The printed line of the root, which reads back as the same message."""
    proto = parse(text)
    printed = print_module(Module(proto))
    assert (
        parse(printed).computations[-1].instructions[-1] == proto.computations[-1].instructions[-1]
    )
    return next(line for line in printed.splitlines() if "ROOT" in line)


def test_kinds_and_sparsity_of_convolutions() -> None:
    kind = CONVOLUTION.replace("{}\n", "convolution_kind=fprop\n")
    assert "convolution_kind=fprop" in again(kind)
    assert root(kind) == root(kind.replace("convolution_kind", "conv_kind"))
    sparse = CONVOLUTION.replace("{}\n", SPARSE + "\n")
    assert SPARSE in again(sparse)
    assert root(sparse).sparsity_config.rhs.block_size == 4


def test_the_high_half_of_a_product() -> None:
    assert again(one("mulhi(a, a)")).strip() == "ROOT %r = u32[2]{0} mulhi(%a, %a)"


@pytest.mark.parametrize(
    ("literal", "printed"),
    [
        ("s32[2]{0} {1, 2}", "literal=s32[2]{0} {1, 2}"),
        ("s32[] 7", "literal=s32[] 7"),
        ("s32[2]{0}({1, 2})", "literal=s32[2]{0} {1, 2}"),
        ("( s32[2]{0} {1, 2}, pred[] true )", "literal=( s32[2]{0} {1, 2}, pred[] true )"),
        ("(s32[], pred[])((7, true))", "literal=( s32[] 7, pred[] true )"),
    ],
)
def test_literals_of_custom_calls(literal: str, printed: str) -> None:
    line = one(f'u32[] custom-call(a), custom_call_target="t", literal={literal}')
    assert printed in again(line)


def test_metadata() -> None:
    line = again(
        one('negate(a), metadata={op_name="x" profile_type={1} metadata_payload="a\\377"}')
    )
    assert 'profile_type={1} metadata_payload="a\\377"' in line
    named = root(one("negate(a), metadata={profile_type={window}}"))
    assert list(named.metadata.profile_type) == [1]


@pytest.mark.parametrize(
    "size", ["size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes"]
)
def test_sizes_that_a_backend_adds_to_metadata_are_left_out(size: str) -> None:
    """Compiled TPU programs have them; XLA's parser refuses the words (jaxlib 0.10.2)."""
    from jaxlib import _hlo

    proto = parse(one(f'negate(a), metadata={{op_name="x" {size}=2048}}'))
    assert getattr(proto.computations[0].instructions[1].metadata, size) == 2048
    printed = print_module(Module(proto))
    assert 'metadata={op_name="x"}' in printed
    _hlo.hlo_module_from_text(printed)


def value(text: str) -> Any:
    return Literal(root(f"HloModule m\nENTRY e {{ ROOT c = {text} }}").literal).numpy()


def test_literals() -> None:
    assert value("u64[] constant(-1)") == np.uint64(2**64 - 1)
    assert value("f32[2,2] constant({{1,2} {3 4}})").tolist() == [[1, 2], [3, 4]]
    payloads = value("bf16[2] constant({-nan(0x7f), nan(0x3f)})").view("u2")
    assert payloads.tolist() == [0xFFFF, 0x7FBF]


def test_computations_inside_computations_have_their_own_names() -> None:
    inner = "{ q = u32[2] parameter(0)\n ROOT n = u32[2] negate(q) }"
    outer = f"{{ p = u32[2] parameter(0)\n ROOT c = u32[2] call(p), to_apply={inner} }}"
    proto = parse(one(f"u32[2] call(a), to_apply={outer}"))
    assert len({body.name for body in proto.computations}) == 3
    assert len(parse(print_module(Module(proto))).computations) == 3


def test_asynchronous_computations_keep_their_names() -> None:
    text = """HloModule m
wrapped { p = u32[2] parameter(0)
  ROOT inner = u32[2] negate(p) }
ENTRY e { a = u32[2] parameter(0)
  s = ((u32[2]), u32[2], u32[]) async-start(a), calls=wrapped
  ROOT d = u32[2] async-done(s) }
"""
    printed = print_module(Module(parse(text)))
    assert [body.name for body in parse(printed).computations] == ["wrapped", "e"]


def test_a_reduce_scatter_without_its_dimension_is_read() -> None:
    text = """HloModule m
sum { x = u32[] parameter(0)
  y = u32[] parameter(1)
  ROOT s = u32[] add(x, y) }
ENTRY e { a = u32[2] parameter(0)
  ROOT r = u32[2] reduce-scatter(a), replica_groups={{0}}, dimensions={0}, to_apply=sum }
"""
    proto = parse(text)
    del proto.computations[-1].instructions[-1].dimensions[:]
    assert parse(print_module(Module(proto))).computations[-1].instructions[-1].dimensions == []


PARSABLE = CONVOLUTION.replace(", {}", "")

HEADERS = [
    "replica_count=4, num_partitions=2",
    "is_scheduled=true, alias_passthrough_params=true, replica_count=3",
    "allow_spmd_sharding_propagation_to_parameters={true}, allow_spmd_sharding_propagation_to_output={false,true}",
]


@pytest.mark.parametrize("attributes", HEADERS)
def test_the_compile_configuration_stays_in_text(attributes: str) -> None:
    text = f"HloModule m, {attributes}\n\n{PARSABLE.partition(chr(10))[2]}"
    module = load(text.encode())
    printed = module.to_text().splitlines()[0]
    parts = attributes.split(", ")
    assert [printed.index(attribute) for attribute in parts] == sorted(map(printed.index, parts))
    assert load(module.to_text().encode()).configuration == module.configuration


FOREIGN_NAMES = {
    "x*x": "x_x", "1x": "_x", "a b": "a_b", "%q": "_q", "é": "a_", "日本": "a_____", "-x": "_x", ".x": "_x",
    "a/b[0]": "a_b_0_", "a-b.c": "a-b.c", "_x": "_x",
}  # fmt: skip
"""Names, and what XLA prints for them (jaxlib 0.10)."""


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_names_of_other_builders_are_printed_as_xla_prints_them(name: str) -> None:
    proto = parse(PARSABLE)
    entry = proto.computations[-1]
    entry.name, entry.instructions[0].name = f"{name}.1", name
    entry.program_shape.parameter_names[0] = name
    printed = FOREIGN_NAMES[name]
    lines = print_module(Module(proto)).splitlines()[2:]
    assert lines[0].startswith(f"ENTRY %{printed}.1 ({printed}: f32[1,2,3], ")
    assert lines[1].startswith(f"  %{printed} = ")
    assert f"convolution(%{printed}, %k)" in lines[3]


def test_names_stay_different_in_text() -> None:
    proto = parse(PARSABLE)
    first, second, last = proto.computations[-1].instructions
    first.name, second.name, last.name = "x_x", "x*x", "x/x"
    again = parse(print_module(Module(proto))).computations[-1].instructions
    assert [row.name for row in again] == ["x_x", "x_x.1", "x_x.2"]
