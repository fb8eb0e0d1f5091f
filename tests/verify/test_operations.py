"""The verifier reports exactly the faults that jaxlib 0.10.2 refuses when it compiles.

Every fault here was given to jaxlib by hand, in a process of its own.
"""

from __future__ import annotations

import pytest

from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import Options, verify

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
greater { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT g = pred[] compare(a, b), direction=GE }
halves { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b) }
wide { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = f32[] constant(1) }
whole { a = f32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = f32[] add(a, a) }
one { a = f32[] parameter(0)
  ROOT s = f32[] negate(a) }
rows { a = f32[2] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] constant(1) }
pair { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = (f32[], f32[]) tuple(a, b) }
integers { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT g = pred[] compare(a, b), direction=GE }
apart { a = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(a) }
ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[2,8] parameter(1)
  k = u64[2] parameter(2)
  i = s32[2,1] constant({{0},{1}})
  z = f32[] constant(0)
  t = token[] after-all()
  ROOT o = """

REDUCE = "f32[4] reduce(x, z), dimensions={1}, to_apply="
WINDOW = "f32[3,8] reduce-window(x, z), window={size=2x1}, to_apply="
SCATTER = (
    "f32[4,8] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply="
)
CHOICE = "f32[4,8] select-and-scatter(x, y, z), window={size=2x1 stride=2x1}, "
SORT = "f32[4,8] sort(x), dimensions={1}, to_apply="
MAP = "f32[4,8] map(x, x), dimensions={0,1}, to_apply="
ALL = "f32[4,8] all-reduce(x), replica_groups={}, to_apply="
GATHER = (
    "f32[2,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,8}"
)

FINE = [
    REDUCE + "sum", WINDOW + "sum", SCATTER + "sum", CHOICE + "select=greater, scatter=sum",
    SORT + "greater", MAP + "sum", ALL + "sum", GATHER,
    "f32[8,8] all-gather(x), dimensions={0}, replica_groups={{0,1},{2,3}}",
    "f32[8,8] all-gather(x), dimensions={0}, replica_groups={}",
    "f32[16,8] all-gather(x), dimensions={0}, replica_groups={{0,1}}, channel_id=1",
    "f32[2,8] reduce-scatter(x), dimensions={0}, replica_groups={{0,1}}, to_apply=sum",
    "f32[4,8] all-to-all(x), dimensions={0}, replica_groups={{0,1}}",
    "f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,0}}",
    "(u64[2], u32[4]) rng-bit-generator(k), algorithm=rng_default",
    "f32[8,4] broadcast(x), dimensions={1,0}",
    "f32[32] bitcast(x)",
    "(f32[4], token[]) infeed(t)",
    'f32[2] custom-call(x, y), custom_call_target="f", '
    "operand_layout_constraints={f32[4,8]{0,1}, f32[2,8]{1,0}}",
    "s8[4,8] stochastic-convert(x, u32[4,8] bitcast-convert(x))",
]  # fmt: skip


@pytest.mark.parametrize("text", FINE)
def test_valid(text: str) -> None:
    assert verify(Module(parse(HEAD + text + "\n}\n"))) == []


STARTED = [
    "((f32[4,8]), f32[4,8]) async-start(x), calls=apart\n  d = f32[4,8] async-done(o)",
    "(f32[4,8], f32[4,8], u32[]) copy-start(x)\n  d = f32[4,8] copy-done(o)",
    "(f32[4], u32[], token[]) recv(t), channel_id=1\n  d = (f32[4], token[]) recv-done(o), "
    "channel_id=1",
]


@pytest.mark.parametrize("text", STARTED)
def test_valid_pairs(text: str) -> None:
    head = HEAD.replace("ROOT o", "o")
    assert verify(Module(parse(head + text.replace("\n  d", "\n  ROOT d") + "\n}\n"))) == []


def test_bitcasts_of_another_size_are_found_in_final_layouts() -> None:
    module = Module(parse(HEAD + "f32[33] bitcast(x)\n}\n"))
    assert verify(module) == []
    (finding,) = verify(module, options=Options(layout_sensitive=True))
    assert finding.message == "bitcast makes f32[33] of f32[4,8], of another size"


def test_mixed_precision_is_an_option() -> None:
    text = HEAD + "bf16[4] reduce(x, z), dimensions={1}, to_apply=halves\n}\n"
    (finding,) = verify(Module(parse(text)))
    assert (
        finding.code == "HLO-V019" and "takes bf16[] as parameter 0 to f32[4,8]" in finding.message
    )
    assert verify(Module(parse(text)), options=Options(mixed_precision=True)) == []


FAULTS = [
    (REDUCE + "wide", "takes bf16[] as parameter 0 and returns f32[]"),
    (REDUCE + "whole", "takes s32[] as parameter 1 for elements of f32[4,8]"),
    (REDUCE + "rows", "takes f32[2] as parameter 0"),
    (REDUCE + "one", "reducer of 1 parameter for 1 input"),
    (REDUCE + "pair", "a reducer that returns (f32[], f32[]) for 1 input"),
    (WINDOW + "wide", "takes bf16[] as parameter 0 and returns f32[]"),
    (WINDOW + "whole", "takes s32[] as parameter 1"),
    (SCATTER + "wide", "takes bf16[] as parameter 0 and returns f32[]"),
    (SCATTER.replace("operand_dims={0}", "operand_dims={0,1}") + "sum", "for index vectors of 1"),
    (SCATTER.replace("inserted_window_dims={0}", "inserted_window_dims={2}") + "sum", "below 2"),
    (CHOICE + "select=greater, scatter=wide", "takes bf16[] as parameter 0"),
    (CHOICE + "select=sum, scatter=sum", "a selection that returns f32[] instead of pred[]"),
    (CHOICE + "select=integers, scatter=sum", "a selection that takes s32[] as parameter 0"),
    (
        GATHER.replace("index_vector", "operand_batching_dims={1}, index_vector"),
        "has the batching dimensions [1] in f32[4,8] and [] in s32[2,1]",
    ),
    (
        GATHER.replace(
            "index_vector",
            "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector",
        ),
        "has the batching dimensions [0] in f32[4,8] and [0] in s32[2,1]",
    ),
    (
        SCATTER.replace("index_vector", "scatter_indices_batching_dims={0}, index_vector") + "sum",
        "has the batching dimensions [] in f32[4,8] and [0] in s32[2,1]",
    ),
    (
        "f32[4,4] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "batch and contracting dimensions of lhs [0, 0]",
    ),
    (SORT + "integers", "a comparator that takes s32[] as parameter 0"),
    (SORT + "one", "comparator of 1 parameter for 1 operand"),
    (SORT + "sum", "a comparator that returns f32[] instead of pred[]"),
    (MAP + "whole", "takes s32[] as parameter 1"),
    (MAP + "one", "a computation of 1 parameter for 2 operands"),
    (MAP + "pair", "returns (f32[], f32[]) instead of a scalar"),
    (ALL + "whole", "takes s32[] as parameter 1"),
    (ALL + "one", "reducer of 1 parameter for 1 input"),
    (ALL.replace("={}", "={{0,1},{1,2}}") + "sum", "device 1 in its replica groups more than once"),
    (GATHER.replace("{1,8}", "{2,8}"), "drops dimension 0, of which it takes 2"),
    (GATHER.replace("map={0}", "map={0,1}"), "start_index_map [0, 1] for index vectors of 1"),
    (
        "f32[8,8] all-gather(x), dimensions={0}, replica_groups={{0,1,2}}",
        "makes 2 parts among groups of 3 devices",
    ),
    (
        "f32[8,4] all-gather(x), dimensions={0}, replica_groups={{0,1}}",
        "changes f32[4,8] and f32[8,4] in other dimensions than 0",
    ),
    (
        "f32[4,8] reduce-scatter(x), dimensions={0}, replica_groups={{0,1}}, to_apply=sum",
        "makes 1 part among groups of 2 devices",
    ),
    ("f32[4,8,1] all-gather(x), dimensions={0}, replica_groups={{0}}", "changes f32[4,8] and"),
    ("f32[4,8] all-gather(x), dimensions={0,1}, replica_groups={{0}}", "it needs one"),
    (
        "f32[8,8] concatenate(x, x), dimensions={0,1}",
        "needs one dimension in dimensions, not [0, 1]",
    ),
    (SORT.replace("dimensions={1}", "dimensions={}") + "greater", "needs one dimension"),
    ("s32[] get-dimension-size(x), dimensions={0,1}", "needs one dimension"),
    ("f32[8,8] concatenate(x, x), dimensions={}", "needs one dimension in dimensions, not []"),
    ("f32[4,8] all-to-all(x), dimensions={0,1}, replica_groups={{0}}", "it needs one"),
    ("f32[4,8] all-to-all(), dimensions={0}, replica_groups={{0}}", "needs an operand"),
    (
        "f32[4,8] all-to-all(x), dimensions={0}, replica_groups={{0,1,2}}",
        "divides an extent of 4 among 3 devices",
    ),
    (
        "f32[4,8] collective-permute(x), source_target_pairs={{0,1},{0,2}}",
        "device 0 as source more than once",
    ),
    ("f32[8,4] collective-permute(x), source_target_pairs={{0,1}}", "returns f32[4,8]"),
    (
        "(u64[3], u32[4]) rng-bit-generator(k), algorithm=rng_default",
        "takes the state u64[2] and returns the state u64[3]",
    ),
    ("(f32[4], token[]) infeed(x)", "infeed takes a token, not f32[4,8]"),
    ("f32[4] infeed(t)", "infeed returns (data, token[])"),
    (
        'f32[2] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[8,4]{1,0}}',
        "constrains the layout of operand 0 as f32[8,4], it is f32[4,8]",
    ),
    ("s8[4,8] stochastic-convert(x, s32[4,8] bitcast-convert(x))", "unsigned random bits"),
    ("s8[4,8] stochastic-convert(x, u16[4,8] convert(x))", "unsigned random bits"),
    ("((f32[4,8]), f32[8,4]) async-start(x), calls=apart", "the instruction states"),
    ("(f32[4,8], f32[8,4], u32[]) copy-start(x)", "returns (f32[4,8], f32[4,8], u32[])"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_fault(text: str, message: str) -> None:
    [finding] = verify(Module(parse(HEAD + text + "\n}\n")))
    assert finding.code in ("HLO-V018", "HLO-V019")
    assert finding.place == "%e/%o" and message in finding.message


def test_counts_are_in_the_right_number() -> None:
    proto = parse(HEAD + "f32[4,8] negate(x)\n}\n")
    root = next(row for row in proto.computations[-1].instructions if row.name == "o")
    root.operand_ids.append(root.operand_ids[0])
    [finding] = verify(Module(proto))
    assert finding.message == "negate takes 1 operand, not 2"


def test_what_recv_gives() -> None:
    proto = parse(HEAD + "(f32[4], u32[], token[]) recv(t), channel_id=1\n}\n")
    body = proto.computations[-1]
    root = next(row for row in body.instructions if row.name == "o")
    for shape in (root.shape, body.program_shape.result, proto.host_program_shape.result):
        del shape.tuple_shapes[2]
    [finding] = verify(Module(proto))
    assert "recv returns (data, u32[], token[])" in finding.message


RAGGED_ROW_NUMBERS = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}"
INNER = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"
RAGGED = {
    "rows": ("f32[3,4,5]", "s32[3]", "f32[6,5]", RAGGED_ROW_NUMBERS, "{0}", ""),
    "inner": ("f32[4,5]", "s32[3]", "f32[3,6,5]", INNER, "{}", ""),
    "two sizes": (
        "f32[3,4,5]",
        "s32[2]",
        "f32[6,5]",
        RAGGED_ROW_NUMBERS,
        "{0}",
        "sizes of 3 groups",
    ),
    "a matrix of sizes": (
        "f32[3,4,5]",
        "s32[6,3]",
        "f32[6,5]",
        RAGGED_ROW_NUMBERS,
        "{0}",
        "sizes of its groups",
    ),
    "one size": (
        "f32[3,4,5]",
        "s32[]",
        "f32[6,5]",
        RAGGED_ROW_NUMBERS,
        "{0}",
        "the sizes of its groups",
    ),
    "no group": (
        "f32[3,4,5]",
        "s32[3]",
        "f32[6,3,5]",
        RAGGED_ROW_NUMBERS,
        "{}",
        "1 dimension in rhs_group",
    ),
    "inner groups": ("f32[4,5]", "s32[3]", "f32[3,6]", INNER, "{1}", "0 dimensions in rhs_group"),
    "inner matrix": ("f32[4,5]", "s32[6,3]", "f32[3,6,5]", INNER, "{}", "sizes of its groups"),
}


@pytest.mark.parametrize("name", RAGGED)
def test_groups_of_ragged_dots_are_those_that_jaxlib_accepts(name: str) -> None:
    from jaxlib import _hlo

    rhs, sizes, result, numbers, groups, message = RAGGED[name]
    body = (
        f"HloModule m\nENTRY e {{\n  p = f32[6,4] parameter(0)\n  q = {rhs} parameter(1)\n"
        f"  s = {sizes} parameter(2)\n  ROOT r = RESULT ragged-dot(p, q, s), {numbers}, "
        f"rhs_group_dims={groups}\n}}\n"
    )
    findings = verify(Module(parse(body.replace("RESULT", result))))
    inferred = body.replace("RESULT ", "")
    if not message:
        assert findings == []
        _hlo.hlo_module_from_text(inferred)
        return
    assert len(findings) == 1 and message in findings[0].message
    with pytest.raises(Exception, match="Cannot infer shape for ragged dot"):
        _hlo.hlo_module_from_text(inferred)
