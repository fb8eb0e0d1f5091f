"""Damaged and excessive modules through the commands: a code or a result, never another exception.

Guards are off here (``NKI_HLO_UNGUARDED=1``): an exception that is a bug of ours comes through.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.evaluate import Evaluator
from hlo_tools.ir.module import Module
from hlo_tools.passes import Pipeline, registered_passes
from hlo_tools.text import parse
from hlo_tools.types.shape import array_shape
from tests.text.test_damaged import CONVOLUTION, NEGATE, RAGGED, REDUCE, groups, no_product

Harm = Callable[[Any], object]
PASSES = ",".join(
    name
    for name, registered_pass in registered_passes().items()
    if not registered_pass.needs_arguments
)

ASYNC = """HloModule m
body { b = f32[4] parameter(0)
  ROOT n = f32[4] negate(b) }
ENTRY e { p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(p), calls=body
  ROOT d = f32[4] async-done(s) }
"""
CONSTANT = "HloModule m\nENTRY e { ROOT c = s8[2] constant({1,2}) }\n"
ORIGIN = """HloModule m
ENTRY e { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p), origin={{"x"}} }
"""
RANK = f"HloModule m\nENTRY e {{ p = f32[] parameter(0)\n ROOT b = f32[{','.join('1' * 70)}] broadcast(p), dimensions={{}} }}\n"  # fmt: skip
IOTA = """HloModule m
ENTRY e { i = s32[1000000000000] iota(), iota_dimension=0
  n = s32[1000000000000] negate(i)
  ROOT s = s32[1] slice(n), slice={[0:1]} }
"""


COUNTED = "HloModule m\nENTRY e { ROOT i = s32[1] iota(), iota_dimension=0 }\n"


def below_zero(row: Any) -> None:
    row.literal.shape.CopyFrom(array_shape("s8", (-1, -2)).proto)


def no_body(row: Any) -> None:
    row.ClearField("called_computation_ids")


DAMAGED: dict[str, tuple[str, Harm, str]] = {
    "replica groups whose product does not fit": (REDUCE, no_product, "HLO-V019"),
    "more replica groups than devices": (
        REDUCE, lambda row: setattr(groups(row), "num_replica_groups", 1 << 40), "HLO-V019",
    ),
    "bytes of a literal that are too many": (
        CONSTANT, lambda row: setattr(row.literal, "s8s", b"abc"), "HLO-V021",
    ),
    "a sharding whose permutation is short": (
        NEGATE, lambda row: row.sharding.iota_transpose_perm.pop(), "HLO-V034",
    ),
    "a sharding whose permutation leads outside": (
        NEGATE, lambda row: row.sharding.iota_transpose_perm.__setitem__(0, 9), "HLO-V034",
    ),
    "a control edge from nowhere": (
        NEGATE, lambda row: row.control_predecessor_ids.append(99), "HLO-V008",
    ),
    "an origin that is no message": (
        ORIGIN, lambda row: setattr(row, "original_value", b"\xff\xff\xff"), "",
    ),
    "a ragged dot without that dimension": (
        RAGGED, lambda row: row.ragged_dot_dimension_numbers.lhs_ragged_dimensions.append(7),
        "HLO-V019",
    ),
    "a ragged dot without numbers": (
        RAGGED, lambda row: row.ClearField("ragged_dot_dimension_numbers"), "HLO-V019",
    ),
    "dimension numbers of 2^40": (
        CONVOLUTION,
        lambda row: setattr(row.convolution_dimension_numbers, "input_feature_dimension", 1 << 40),
        "HLO-V019",
    ),
    "an array of 70 dimensions": (RANK, lambda row: None, ""),
    "an iota along no dimension": (
        COUNTED, lambda row: row.ClearField("dimensions"), "HLO-V019",
    ),
    "a literal of dimensions below zero": (CONSTANT, below_zero, "HLO-V022"),
    "an iota of 10^12 numbers": (IOTA, lambda row: None, ""),
}  # fmt: skip


def commands(file: str, out: str) -> dict[str, list[str]]:
    return {
        "show": ["show", file],
        "verify": ["verify", file],
        "lint": ["lint", "--target", "trn2", file],
        "convert": ["convert", file, "--to", "text", "-o", out],
        "evaluate": ["evaluate", file, "--fill", "zeros", "--work", "1e8", "--memory", "1e7"],
        "opt": ["opt", "-p", PASSES, file, "-o", out],
        "stats": ["stats", file],
    }


@pytest.mark.parametrize("name", DAMAGED)
def test_every_command_takes_or_refuses_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, harm, code = DAMAGED[name]
    proto = parse(text)
    harm(proto.computations[-1].instructions[-1])
    file = tmp_path / "m.pb"
    file.write_bytes(proto.SerializeToString())
    for command, words in commands(str(file), str(tmp_path / "out.hlo")).items():
        result = main(words)
        printed = capsys.readouterr()
        assert result in (0, 1, 3), (command, printed.err)
        assert result != 3 or ("error[" in printed.err and "help:" in printed.err), (
            command,
            printed.err,
        )
        if command == "verify":
            assert code in printed.out and (result == 1) == bool(code), printed.out


@pytest.mark.parametrize("field", ["called_computation_ids", "async_execution_thread", "shape"])
def test_an_async_start_that_is_not_whole(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = parse(ASYNC)
    proto.computations[-1].instructions[1].ClearField(field)
    file = tmp_path / "m.pb"
    file.write_bytes(proto.SerializeToString())
    for command, words in commands(str(file), str(tmp_path / "out.hlo")).items():
        result = main(words)
        assert result in (0, 1, 3), (command, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("element", "values", "message"),
    [
        ("s8", "300", "300 is outside -128..127"),
        ("u32", "-1", "-1 is outside 0..4294967295"),
        ("s4", "8", "8 is outside -8..7"),
        ("s64", "9" * 30, "is outside"),
        ("f8e4m3fn", "1e30", "out of range"),
    ],
)
def test_numbers_of_a_literal_that_do_not_fit(element: str, values: str, message: str) -> None:
    text = f"HloModule m\nENTRY e {{ ROOT c = {element}[] constant({values}) }}"
    with pytest.raises(HloError) as caught:
        hlo_tools.load(text.encode())
    assert caught.value.code == "HLO-TEXT" and message in caught.value.message
    assert caught.value.place.startswith("<text>:2:")


def doubling(levels: int) -> Module:
    """A call of a call of ... : 2^levels negations from 2 * levels lines."""
    lines = ["f0 { p = f32[] parameter(0)\n ROOT r = f32[] negate(p) }"]
    for n in range(1, levels):
        called = f"to_apply=f{n - 1}"
        lines.append(f"f{n} {{ p = f32[] parameter(0)\n a = f32[] call(p), {called}\n"
                     f" ROOT r = f32[] call(a), {called} }}")  # fmt: skip
    entry = f"ENTRY e {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=f{levels - 1} }}"
    return Module(parse("\n".join(["HloModule m", *lines, entry])))


def inlined() -> object:
    return Pipeline.parse("call-inlining").run(doubling(40))


def called() -> object:
    return Evaluator(doubling(40)).run([np.float32(1)])


def ranked() -> object:
    return Evaluator(Module(parse(RANK))).run([np.float32(1)])


def labelled() -> object:
    proto = parse(CONVOLUTION)
    row = proto.computations[-1].instructions[-1]
    row.convolution_dimension_numbers.input_batch_dimension = 1 << 40
    return Pipeline.parse("dce").run(Module(proto), verify_each=True)


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (inlined, "HLO-INLINE-LIMIT"),
        (called, "HLO-EVALUATE-LIMIT"),
        (ranked, "HLO-RANK"),
        (labelled, "HLO-V019"),
    ],
)
def test_limits_have_codes(attack: Callable[[], object], code: str) -> None:
    with pytest.raises(HloError) as caught:
        attack()
    assert caught.value.code == code


def test_constants_of_more_dimensions_than_numpy_has() -> None:
    literal = hlo_tools.literal_of(np.ones([1] * 60, np.float32)).proto
    literal.shape.CopyFrom(Module(parse(RANK)).entry.root.proto.shape)
    with pytest.raises(HloError) as caught:
        hlo_tools.Literal(literal).numpy()
    assert caught.value.code == "HLO-RANK"


@pytest.mark.parametrize(
    "line",
    [
        "s32[1] pad(y, z), padding=0_-1099511627776_1099511627775",
        "s32[1] reduce-window(x, z), window={size=1099511627776 pad=1099511627775_0}, to_apply=sum",
        "s32[4194304] broadcast(z), dimensions={}",
    ],
)
def test_folding_takes_no_more_than_it_may(line: str) -> None:
    """Constants that would cost too much memory or work are not folded."""
    add = "sum { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT s = s32[] add(a, b) }\n"
    entry = f"x = s32[1] constant({{1}})\n y = s32[2] constant({{1,2}})\n z = s32[] constant(0)\n ROOT r = {line}"
    for options in ("", "{limit=1000000000000 floats=all}"):
        module = Module(parse(f"HloModule m\n{add}ENTRY e {{ {entry} }}"))
        Pipeline.parse(f"constant-folding{options}").run(module)
        assert module.entry.root.opcode in ("pad", "reduce-window", "broadcast")


def test_an_option_lets_folding_take_more() -> None:
    text = """HloModule m
    ENTRY e { i = s32[100,100] iota(), iota_dimension=0
      ROOT d = s32[100,100] dot(i, i), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    for options, opcode in (
        ("{limit=10000 work=1000000}", "dot"),
        ("{limit=10000}", "constant"),
    ):
        module = Module(parse(text))
        Pipeline.parse(f"constant-folding{options}").run(module)
        assert module.entry.root.opcode == opcode


def no_root(body: Any) -> None:
    body.root_id = 99


def no_parameter(body: Any) -> None:
    body.instructions[0].parameter_number = 7


@pytest.mark.parametrize(("harm", "code"), [(no_root, "HLO-"), (no_parameter, "HLO-")])
def test_evaluating_what_is_not_verified(harm: Harm, code: str) -> None:
    """The rule that is broken is named, whatever fails on the way."""
    module = Module(parse(NEGATE))
    entry = module.proto.computations[-1]
    harm(entry)
    with pytest.raises(HloError) as caught:
        Evaluator(Module(module.proto)).run([np.zeros((4, 8), np.float32)])
    assert caught.value.code.startswith(code)


def test_a_prefetch_of_a_part_that_is_not_there() -> None:
    text = "HloModule m\nENTRY e { p = (f32[2], f32[2]) parameter(0)\n ROOT g = f32[2] get-tuple-element(p), index=0 }"
    proto = parse(text)
    proto.cross_program_prefetches.add(parameter=0, index=[1 << 40])
    with pytest.raises(HloError) as caught:
        Pipeline.parse("tuple-flattening").run(Module(proto))
    assert caught.value.code == "HLO-REFERENCE" and "a prefetch names" in caught.value.message


def test_two_instructions_of_one_id_are_no_module_for_passes() -> None:
    """One of them could be removed, and the other be meant."""
    proto = parse(REDUCE)
    body = proto.computations[0]
    body.instructions.add().CopyFrom(body.instructions[1])
    with pytest.raises(HloError) as caught:
        Pipeline.parse("dce,cse").run(Module(proto))
    assert caught.value.code == "HLO-PASS-MODULE" and "%sum" in caught.value.place
