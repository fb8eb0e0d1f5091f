"""Parsing and printing, against jaxlib and against each other."""

from __future__ import annotations

import pytest

from hlo_tools import schema
from hlo_tools.text import PRESETS, parse, print_module
from tests.text.comparing import differences
from tests.text.samples import SAMPLES

EVERY = pytest.mark.parametrize("name", SAMPLES)


def jaxlib_bytes(text: str) -> bytes:
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


@pytest.mark.jax
@EVERY
def test_parses_as_jaxlib_does(name: str) -> None:
    ours = parse(SAMPLES[name]).SerializeToString()
    assert not differences(jaxlib_bytes(SAMPLES[name]), ours)


@EVERY
def test_print_reads_back(name: str) -> None:
    proto = parse(SAMPLES[name])
    again = parse(print_module(proto))
    assert not differences(proto.SerializeToString(), again.SerializeToString())


@pytest.mark.jax
@EVERY
def test_jaxlib_reads_our_print(name: str) -> None:
    proto = parse(SAMPLES[name])
    again = jaxlib_bytes(print_module(proto))
    assert not differences(proto.SerializeToString(), again)


@pytest.mark.jax
@EVERY
def test_prints_as_jaxlib_does(name: str) -> None:
    from jaxlib import _hlo

    module = _hlo.hlo_module_from_text(SAMPLES[name])
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    theirs = [line.rstrip() for line in module.to_string(options).splitlines() if line.strip()]
    ours = print_module(schema.HloModuleProto.FromString(module.as_serialized_hlo_module_proto()))
    lines = [line.rstrip() for line in ours.splitlines() if line.strip()]
    # The header also shows the configuration, which the proto does not hold.
    assert sorted(lines[1:]) == sorted(theirs[1:])


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_print(preset: str) -> None:
    assert print_module(parse(SAMPLES["reduce"]), PRESETS[preset])


def test_short_text_reads_back() -> None:
    text = print_module(parse(SAMPLES["control"]), PRESETS["short_parsable"])
    assert "%" not in text
    assert parse(text).entry_computation_name == "main"


def test_large_constants_can_be_left_out_and_are_marked() -> None:
    text = "HloModule m\nENTRY e { ROOT c = f32[12]{0} constant({...}) }"
    proto = parse(text)
    assert not proto.computations[0].instructions[0].literal.f32s
    assert "constant({...})" in print_module(proto)
