"""Details in which texts of real programs and of XLA's own tests once parted us from jaxlib."""

from __future__ import annotations

import random

import pytest

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.text import parse, print_module
from tests.text.comparing import differences, in_older_words, states_orders

HEAD = """HloModule m
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = add(x, y) }
less { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = compare(x, y), direction=LT }
one { x = f32[2,3]{0,1} parameter(0)
  ROOT s = negate(x) }
step { x = (f32[2,3]{0,1}) parameter(0)
  y = get-tuple-element(x), index=0
  ROOT s = tuple(y) }
always { x = (f32[2,3]{0,1}) parameter(0)
  ROOT s = pred[] constant(true) }
"""
MAIN = "ENTRY e { a = f32[2,3]{0,1} parameter(0)\n b = f32[2,3]{1,0} parameter(1)\n z = f32[] constant(0)\n"

INFERRED = {
    "tuple": "tuple(a, b)",
    "first of two": "add(b, a)",
    "comparison": "compare(a, b), direction=EQ",
    "complex": "complex(a, a)",
    "clamp": "clamp(z, a, z)",
    "transpose": "transpose(a), dimensions={1,0}",
    "reverse": "reverse(a), dimensions={0}",
    "reduce": "reduce(a, z), dimensions={}, to_apply=sum",
    "map": "map(a, a), dimensions={0,1}, to_apply=sum",
    "pad": "pad(a, z), padding=0_0x0_0",
    "call": "call(a), to_apply=one",
    "conditional": "conditional(pred[] constant(true), a, a), true_computation=one, false_computation=one",
    "while": "while(tuple(a)), condition=always, body=step",
    "sort": "sort(a), dimensions={0}, to_apply=less",
    "select": "select(compare(a, b), b, a)",
    "select and scatter": "select-and-scatter(a, b, z), window={size=1x1}, select=less, scatter=sum",
    "normalisation": "batch-norm-training(a, f32[3] constant({1,2,3}), f32[3] constant({1,2,3})), epsilon=1, feature_index=1",
    "size": "set-dimension-size(a, s32[] constant(1)), dimensions={0}",
}  # fmt: skip


def jaxlib_reads(text: str) -> tuple[bytes, str]:
    from jaxlib import _hlo

    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    module = _hlo.HloModule.from_serialized_hlo_module_proto(proto)
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return proto, in_older_words(module.to_string(options))


def agree(text: str) -> None:
    """The same proto, the same print (but for the order of computations), and the print reads."""
    again = agree_once(text)
    orders = states_orders(jaxlib_reads(text)[0])
    ours, read_again = (parse(source).SerializeToString() for source in (text, again))
    assert not differences(ours, read_again, orders=orders)


def agree_once(text: str) -> str:
    proto, printed = jaxlib_reads(text)
    assert not differences(proto, parse(text).SerializeToString())
    ours = in_older_words(print_module(schema.HloModuleProto.FromString(proto)))
    our_lines, their_lines = (
        [row for row in text.splitlines()[1:] if row] for text in (ours, printed)
    )
    assert sorted(our_lines) == sorted(their_lines)
    return ours


@pytest.mark.xla_text
@pytest.mark.parametrize("name", INFERRED)
def test_layouts_of_shapes_that_are_left_out(name: str) -> None:
    text = INFERRED[name].replace("compare(a, b), b", "p, b")
    before = "p = compare(a, b), direction=EQ\n" if "(p, b" in text else ""
    agree(f"{HEAD}{MAIN}{before}ROOT r = {text} }}")


@pytest.mark.xla_text
@pytest.mark.parametrize(
    "shape", ["s4[2]{0}", "s4[2]{0:E(4)}", "s8[2]{0:E(8)}", "f32[16,8]{0,1:T(8,128)S(1)}"]
)
@pytest.mark.parametrize(
    "operation", ["add(c, c)", "compare(c, c), direction=EQ", "tuple(c, c)", "negate(c)"]
)
def test_layout_details_of_shapes_that_are_left_out(shape: str, operation: str) -> None:
    agree(f"HloModule m\nENTRY e {{ c = {shape} parameter(0)\n ROOT r = {operation} }}")


def random_sharding(chance: random.Random) -> tuple[int, str]:
    """(rank of the data, text) of a sharding with sizes of one, subgroups, iota or listed devices."""
    count = chance.choice((2, 4, 6, 8, 12, 16, 24, 36))
    rank, groups = chance.randint(1, 3), chance.randint(0, 3)
    sizes, reshape = (
        factors(chance, count, rank + groups),
        factors(chance, count, chance.randint(1, 4)),
    )
    order = chance.sample(range(len(reshape)), len(reshape))
    devices = ",".join(map(str, chance.sample(range(count), count)))
    if chance.random() < 0.7:
        devices = f"<={reshape}".replace(" ", "")
        devices += f"T({','.join(map(str, order))})" if len(order) > 1 else ""
    text = f"devices={sizes}".replace(" ", "") + devices
    if groups == 1 and chance.random() < 0.5:
        return rank, text + " last_tile_dim_replicate"
    if groups:
        kinds = ",".join(chance.choices(("manual", "replicated", "unreduced"), k=groups))
        return rank, f"{text} last_tile_dims={{{kinds}}}"
    return rank, text


def factors(chance: random.Random, number: int, count: int) -> list[int]:
    extents = [1] * count
    for prime in (2, 3):
        while number % prime == 0:
            extents[chance.randrange(count)] *= prime
            number //= prime
    return extents


@pytest.mark.xla_text
def test_shardings_take_xlas_canonical_form() -> None:
    chance = random.Random(7)
    rows = []
    for number in range(400):
        rank, text = random_sharding(chance)
        shape = ",".join(["64"] * rank)
        rows.append(f"p{number} = f32[{shape}] parameter({number}), sharding={{{text}}}")
    agree_once("HloModule m\nENTRY e {\n" + "\n".join(rows) + "\nROOT r = f32[] constant(0)\n}")


MESH = "mesh['x'=2,'y'=2]"
SHARDINGS = (
    "maximal_mesh[device_id=3]", f"{MESH}, replicated", f"{MESH}, unreduced", f"{MESH}, manual",
    f"{MESH}, [{{'x','y'}},{{?}}]", f"{MESH}, device_ids=([2,2]T(1,0)), [{{'x'}},{{'y'}}]",
    f"{MESH}, device_ids=(0,2,1,3), [{{'x'}},{{}}], unreduced={{'y'}}",
    "mesh[\"b\"=4], [{'b':(1)2},{'b':(2)2}], metadata={op_name=\"a\"}",
    "replicated shard_like 3", "devices=[2,2]<=[4] shard_as 3", "unknown",
)  # fmt: skip


@pytest.mark.xla_text
@pytest.mark.parametrize("text", SHARDINGS)
@pytest.mark.parametrize("shape", ["f32[4,4]", "((f32[4,4]), f32[4,4])"])
def test_shardings_read_and_print(text: str, shape: str) -> None:
    inside = text if shape.startswith("f") else f"{{{text}}},{{{text}}}"
    agree(f"HloModule m\nENTRY e {{ ROOT p = {shape} parameter(0), sharding={{{inside}}} }}")


@pytest.mark.xla_text
@pytest.mark.parametrize("shape", ["()", "(f32[4], f32[4])", "((f32[4], ()), f32[4])"])
def test_one_sharding_of_a_tuple_is_that_of_every_leaf(shape: str) -> None:
    agree(f"HloModule m\nENTRY e {{ ROOT p = {shape} parameter(0), sharding={{replicated}} }}")


@pytest.mark.parametrize("text", ["devices=[1,1]0", "devices=[2,1]<=[2] last_tile_dims={unknown}"])
def test_shardings_that_xla_refuses(text: str) -> None:
    with pytest.raises(HloError):
        parse(f"HloModule m\nENTRY e {{ ROOT p = f32[4] parameter(0), sharding={{{text}}} }}")


@pytest.mark.xla_text
@pytest.mark.parametrize(
    "groups",
    [
        "[2,2]<=[2,1,2]T(2,1,0)", "[2,2]<=[2,2]T(0,1)", "[1,1]<=[1,1]T(1,0)", f"{MESH} {{'y'}}",
        f"{MESH}, device_ids=(0,2,1,3) {{'y','x'}}", "mesh['x'=4] {'x':(1)2}",
    ],
)  # fmt: skip
def test_replica_groups_take_xlas_canonical_form(groups: str) -> None:
    agree(
        f"HloModule m\nENTRY e {{ p = f32[4] parameter(0)\n"
        f" ROOT r = f32[4] all-to-all(p), replica_groups={groups}, dimensions={{0}} }}"
    )


@pytest.mark.xla_text
@pytest.mark.parametrize("element", ["pred", "s8", "u8", "f32"])
@pytest.mark.parametrize("kind", ["SIGNED", "UNSIGNED", "FLOAT", "TOTALORDER"])
def test_a_comparison_of_another_kind_says_so(element: str, kind: str) -> None:
    agree(
        f"HloModule m\nENTRY e {{ p = {element}[] parameter(0)\n"
        f" ROOT r = pred[] compare(p, p), direction=EQ, type={kind} }}"
    )


BODY = "HloModule m\nc { p = f32[4] parameter(0)\n ROOT n = f32[4] negate(p) }\n"
STARTS = {
    "custom call": 'custom-call-start(p), custom_call_target="t", async_execution_thread="u", '
    "output_to_operand_aliasing={{}: (0, {})}",
    "fusion": 'fusion-start(p), kind=kLoop, calls=c, async_execution_thread="u"',
    "call": 'call-start(p), to_apply=c, async_execution_thread="u"',
}


@pytest.mark.xla_text
@pytest.mark.parametrize("name", STARTS)
def test_asynchronous_sugar(name: str) -> None:
    """The thread reaches called computations; what the operation can say is the operation's."""
    done = name.replace(" ", "-")
    agree(
        f"{BODY}ENTRY e {{ p = f32[4] parameter(0)\n s = ((f32[4]), f32[4], u32[]) {STARTS[name]}\n"
        f" ROOT d = f32[4] {done}-done(s) }}"
    )


def test_aliases_that_sugar_has_no_room_for_keep_the_start_plain() -> None:
    text = (
        f"{BODY}ENTRY e {{ p = f32[4] parameter(0)\n"
        " s = ((f32[4]), f32[4], u32[]) async-start(p), calls=c,"
        " output_to_operand_aliasing={{1}: (0, {})}\n ROOT d = f32[4] async-done(s) }"
    )
    proto = parse(text)
    printed = print_module(proto)
    assert "async-start(%p" in printed and "calls=%c" in printed
    assert not differences(proto.SerializeToString(), parse(printed).SerializeToString())


@pytest.mark.xla_text
@pytest.mark.parametrize("names", ["a.0 a.0", "a.0 a", "a a.0 a", "a.1 a a a.1", "a.b.3 a.b.3 a.b"])
def test_names_are_made_unique_as_xla_does(names: str) -> None:
    bodies = "".join(
        f"c{number} {{ ROOT {name} = f32[] parameter(0) }}\n"
        for number, name in enumerate(names.split())
    )
    agree(f"HloModule m\n{bodies}ENTRY e {{ ROOT p = f32[] parameter(0) }}")


@pytest.mark.xla_text
@pytest.mark.parametrize(
    "shape", ["f32[2,1]", "bf16[1,1,1,1]", "s8[2,2,2,1]", "f32[3,0]", "f32[0]"]
)
def test_braces_of_short_rows(shape: str) -> None:
    zero = parse(f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({{...}}) }}")
    zero.computations[0].instructions[0].literal.ClearField("bf16s")
    sizes = [int(size) for size in shape.split("[")[1][:-1].split(",")]
    text = "0"
    for size in reversed(sizes):
        text = "{" + ",".join([text] * size) + "}"
    agree(f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({text}) }}")


@pytest.mark.xla_text
@pytest.mark.parametrize("shape", ["s4[2]{0:E(4)}", "pred[2]{0:E(1)}", "f32[2]{0:S(1)}"])
def test_constants_are_never_packed(shape: str) -> None:
    agree(f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({{1,0}}) }}")


@pytest.mark.xla_text
def test_buffers_print_and_read() -> None:
    agree(
        "HloModule m\nENTRY e { p = f32[32] parameter(0)\n"
        ' ROOT b = b(f32[32]) custom-call(p), custom_call_target="Pin",'
        " output_to_operand_aliasing={{}: (0, {})} }"
    )


TABLE = """HloModule m, origin_recovery_table={
  {"a" {0,1}} : {"b"}
  {"c"} : {"d" {1}},
  "
    ENTRY f (q: f32[4]) -> f32[4] { ROOT q = f32[4] parameter(0), metadata={op_name=\\"k\\"} }
  "
  {} : {"e"}
}
ENTRY e { ROOT p = f32[4] parameter(0) }"""


@pytest.mark.xla_text
def test_the_recovery_table_is_read_and_our_print_of_it_by_jaxlib() -> None:
    proto, _ = jaxlib_reads(TABLE)
    ours = parse(TABLE)
    assert not differences(proto, ours.SerializeToString())
    again, _ = jaxlib_reads(print_module(ours))
    assert not differences(proto, again)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('{{"a"} : {"b"}, "junk"}', "the module in the table does not parse"),
        ('{{"a"} {"b"}}', "between the old and the new"),
        ('{{"a"} : {"b"}, {"c"} : {"d"}}', "the text of a module between quotes"),
    ],
)
def test_a_wrong_recovery_table(table: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        parse(
            f"HloModule m, origin_recovery_table={table}\nENTRY e {{ ROOT p = f32[] parameter(0) }}"
        )


def test_debug_attributes_read_and_print() -> None:
    text = (
        'HloModule m, debug_attributes={\n  {"c" {1}}:({log_mode=default,callback_id=1,op_id=0,'
        'partitioned=true}),\n  {"r"}:({log_mode=guaranteed,callback_id=2,op_id=3,partitioned=false})\n}\n'
        "ENTRY e { ROOT p = f32[] parameter(0) }"
    )
    proto = parse(text)
    assert len(proto.debug_attributes) == 2
    again = parse(print_module(proto))
    assert list(again.debug_attributes) == list(proto.debug_attributes)


def test_origins_of_earlier_years_are_left_out_of_text() -> None:
    proto = parse("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }")
    row = proto.computations[0].instructions[0]
    for earlier in (
        b"\x0a\x07\x0a\x01\x00\x12\x02ab",
        b"\x0a\x04\x08\x01\x10",
        b"\x12\x02\x08\x01",
    ):
        row.original_value = earlier
        assert "origin" not in print_module(proto)
