"""Parsing and printing, against jaxlib and against each other."""

from __future__ import annotations

import pytest

from hlo_tools import schema
from hlo_tools.errors import HloTextError
from hlo_tools.text import PRESETS, parse, print_module
from tests.text.comparing import differences
from tests.text.samples import SAMPLES

EVERY = pytest.mark.parametrize("name", SAMPLES)


def jaxlib_bytes(text: str) -> bytes:
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


@pytest.mark.xla_text
@EVERY
def test_parses_as_jaxlib_does(name: str) -> None:
    ours = parse(SAMPLES[name]).SerializeToString()
    assert not differences(jaxlib_bytes(SAMPLES[name]), ours)


@EVERY
def test_print_reads_back(name: str) -> None:
    proto = parse(SAMPLES[name])
    again = parse(print_module(proto))
    assert not differences(proto.SerializeToString(), again.SerializeToString())


@pytest.mark.xla_text
@EVERY
def test_jaxlib_reads_our_print(name: str) -> None:
    proto = parse(SAMPLES[name])
    again = jaxlib_bytes(print_module(proto))
    assert not differences(proto.SerializeToString(), again)


@pytest.mark.xla_text
@EVERY
def test_prints_as_jaxlib_does(name: str) -> None:
    from jaxlib import _hlo

    module = _hlo.hlo_module_from_text(SAMPLES[name])
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    jaxlib_lines = [
        line.rstrip() for line in module.to_string(options).splitlines() if line.strip()
    ]
    ours = print_module(schema.HloModuleProto.FromString(module.as_serialized_hlo_module_proto()))
    lines = [line.rstrip() for line in ours.splitlines() if line.strip()]
    # The header also shows the configuration, which the proto does not hold.
    assert sorted(lines[1:]) == sorted(jaxlib_lines[1:])


@pytest.mark.xla_text
def test_metadata_as_jaxlib_reads_it() -> None:
    metadata = (
        r"""{op_name="w[\'a\'][\"b\"]\\ \303\251 \t" source_file="é.py" source_line=7}""",
        r"""{op_type="t" op_name="\x41\101" source_line=2147483647 stack_frame_id=0}""",
        r"""{op_name='single "quotes"' source_end_line=-3}""",
        "{}",
    )
    lines = "".join(
        f"  a{number} = f32[] parameter({number}), metadata={text}\n"
        for number, text in enumerate(metadata)
    )
    text = f"HloModule m\nENTRY e {{\n{lines}  ROOT r = f32[] add(a0, a1)\n}}\n"
    proto = parse(text)
    assert not differences(jaxlib_bytes(text), proto.SerializeToString())
    assert not differences(jaxlib_bytes(print_module(proto)), proto.SerializeToString())
    assert [row.metadata.op_name for row in proto.computations[0].instructions[:2]] == [
        "w['a'][\"b\"]\\ é \t", "AA",
    ]  # fmt: skip


def test_metadata_that_say_a_property_twice() -> None:
    text = "HloModule m\nENTRY e {\n  ROOT a = f32[] parameter(0), metadata={%s}\n}\n"
    with pytest.raises(HloTextError, match="twice") as error:
        parse(text % 'op_name="a" source_line=1 op_name="b"')
    assert error.value.place == "<text>:3:68"
    with pytest.raises(HloTextError, match="twice"):
        parse(text % "source_line=-1, source_line=-2")


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


COMMENTED = """HloModule m, /* a */ is_scheduled=true // b, x=1

%add (a: f32[], b: f32[/*,*/]) -> /*"*/ f32[] {
  %a = f32[] parameter(0)
  /*c*/ %b /*d*/ = /*e*/ f32[] /*f*/ parameter(1)
  ROOT /*g*/ %s = f32[] add(%a, /*h*/ %b)
}

ENTRY /*i*/ e {
  p = f32[2,3]/*j*/{/*k*/0,1} parameter(0)
  z = f32[] constant(0)
  q = f32[3,2] transpose(p), /*why, x=1*/ dimensions={1,0}
  w = f32[3,2] {0,1} negate(q), // the end
     metadata={op_name="x // no comment /* here */" /*k*/ source_line=7}
  ROOT r = f32[] reduce(w, z), /* one
     line */ dimensions={0,/*l*/1} /*m*/ , to_apply=/*n*/%add
}
"""


@pytest.mark.xla_text
def test_comments_may_stand_anywhere() -> None:
    ours = parse(COMMENTED)
    assert not differences(jaxlib_bytes(COMMENTED), ours.SerializeToString())
    assert [row.metadata.op_name for row in ours.computations[1].instructions][-2] == (
        "x // no comment /* here */"
    )


def test_errors_behind_comments_keep_their_place() -> None:
    with pytest.raises(HloTextError, match=":12:54: "):
        parse(COMMENTED.replace("dimensions={1,0}", "dimensions=[1,0]"))


@pytest.mark.parametrize(
    ("line", "near"),
    [("ROOT y = f32[2] addd(value, value)", "add"), ("ROOT y = f32[2] add(value, valeu)", "value"),
     ("ROOT y = f32[2] add(value, f32[2] vlaue)", "value"),
     ("ROOT y = f32[2] transpose(value), dimension={0}", "dimensions")],
)  # fmt: skip
def test_misspelt_words_get_a_suggestion(line: str, near: str) -> None:
    with pytest.raises(HloTextError) as caught:
        parse(f"HloModule m\nENTRY e {{\n value = f32[2] parameter(0)\n {line}\n}}\n")
    assert caught.value.remedy.startswith(f"did you mean {near}")
