"""Each rule of the verifier has a module that breaks it alone; valid modules give no finding."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hlo_tools import schema
from hlo_tools.errors import HloVerifyError
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import RULES, check, verify
from tests.counting import calls_made
from tests.text.samples import SAMPLES

BASE = """
HloModule m, input_output_alias={ {}: (0, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

inner {
  q = f32[2,3] parameter(0)
  ROOT m = f32[2,3] multiply(q, q)
}

ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[2,3] constant({ {1, 2, 3}, {4, 5, 6} })
  y = f32[2,3] subtract(x, c)
  z = f32[] constant(0)
  r = f32[2] reduce(y, z), dimensions={1}, to_apply=add
  f = f32[2,3] fusion(y), kind=kLoop, calls=inner
  k = f32[2,3] custom-call(f), custom_call_target="k", output_to_operand_aliasing={{}: (0, {})}
  ROOT n = f32[2,3] negate(k)
}
"""


def entry(proto: Any) -> Any:
    return next(row for row in proto.computations if row.name == "main")


def row(proto: Any, name: str) -> Any:
    return next(inst for c in proto.computations for inst in c.instructions if inst.name == name)


def computation(proto: Any, name: str) -> Any:
    return next(computation for computation in proto.computations if computation.name == name)


def no_entry(proto: Any) -> None:
    proto.entry_computation_id = 99


def computation_id_twice(proto: Any) -> None:
    computation(proto, "add").id = computation(proto, "inner").id


def instruction_id_twice(proto: Any) -> None:
    row(proto, "z").id = row(proto, "c").id


def name_twice(proto: Any) -> None:
    row(proto, "c").name = "x"


def missing_operand(proto: Any) -> None:
    row(proto, "n").operand_ids[0] = 77


def missing_computation(proto: Any) -> None:
    row(proto, "r").called_computation_ids[0] = 77


def missing_root(proto: Any) -> None:
    entry(proto).root_id = 77


def missing_predecessor(proto: Any) -> None:
    row(proto, "n").control_predecessor_ids.append(77)


def circle(proto: Any) -> None:
    row(proto, "y").operand_ids[0] = row(proto, "n").id


def recursion(proto: Any) -> None:
    main = entry(proto)
    body = computation(proto, "add")
    call = body.instructions.add(name="again", opcode="call", id=body.id << 32 | 9)
    call.shape.CopyFrom(main.program_shape.result)
    call.called_computation_ids.append(main.id)


def unknown_opcode(proto: Any) -> None:
    row(proto, "n").opcode = "negat"


def operand_count(proto: Any) -> None:
    row(proto, "n").operand_ids.append(row(proto, "k").id)


def parameter_numbers(proto: Any) -> None:
    row(proto, "q").parameter_number = 1


def program_shape(proto: Any) -> None:
    inner = computation(proto, "inner").program_shape
    inner.result.element_type = 10
    row(proto, "f").shape.element_type = 11


def host_shape(proto: Any) -> None:
    proto.host_program_shape.parameters.add().CopyFrom(proto.host_program_shape.result)


def schedule(proto: Any) -> None:
    order = [inst.id for inst in entry(proto).instructions]
    order[0], order[-1] = order[-1], order[0]
    proto.schedule.sequences[entry(proto).id].instruction_ids.extend(order)


def test_a_computation_without_a_schedule_in_a_scheduled_module() -> None:
    proto = parse(BASE)
    order = [inst.id for inst in entry(proto).instructions]
    proto.schedule.sequences[entry(proto).id].instruction_ids.extend(order)
    [finding] = verify(Module(proto))
    assert (finding.code, finding.place) == ("HLO-V016", "%add"), "the fused one needs none"


def alias(proto: Any) -> None:
    proto.input_output_alias.entries[0].parameter_number = 5


def result_shape(proto: Any) -> None:
    row(proto, "r").shape.dimensions[0] = 4


def operand_rules(proto: Any) -> None:
    row(proto, "r").dimensions[0] = 5


def layout(proto: Any) -> None:
    row(proto, "y").shape.layout.minor_to_major[:] = [0, 0]


def elided(proto: Any) -> None:
    del row(proto, "c").literal.f32s[:]


def literal_shape(proto: Any) -> None:
    shape = row(proto, "z").literal.shape
    shape.dimensions.append(1)
    shape.layout.minor_to_major.append(0)


def called_count(proto: Any) -> None:
    del row(proto, "r").called_computation_ids[:]


def element_type(proto: Any) -> None:
    shape = schema.ShapeProto(element_type=77)
    extra = entry(proto).instructions.add(
        name="odd", opcode="custom-call", id=entry(proto).id << 32 | 50
    )
    extra.shape.CopyFrom(shape)


def no_shape(proto: Any) -> None:
    extra = entry(proto).instructions.add(
        name="odd", opcode="custom-call", id=entry(proto).id << 32 | 50
    )
    extra.custom_call_target = "k"


def frame(proto: Any) -> None:
    row(proto, "n").metadata.stack_frame_id = 3


def call_alias(proto: Any) -> None:
    row(proto, "k").output_operand_aliasing[0].operand_index = 4


def shared_fusion(proto: Any) -> None:
    again = entry(proto).instructions.add()
    again.CopyFrom(row(proto, "f"))
    again.name, again.id = "f2", entry(proto).id << 32 | 60


def negative_extent(proto: Any) -> None:
    shapes = [row(proto, "x").shape, row(proto, "c").shape, row(proto, "c").literal.shape]
    shapes += [row(proto, name).shape for name in ("y", "f", "k", "n", "q", "m")]
    for program in (entry(proto).program_shape, proto.host_program_shape):
        shapes += [*program.parameters, program.result]
    inner = computation(proto, "inner").program_shape
    for shape in [*shapes, *inner.parameters, inner.result]:
        shape.dimensions[1] = -3


def payload(proto: Any) -> None:
    row(proto, "k").backend_config_payload.id = 2


def unknown_field(proto: Any) -> None:
    row(proto, "k").MergeFromString(b"\xa2\x3f\x02ab")  # field 1012


BREAKS: dict[str, Callable[[Any], None]] = {
    "HLO-V001": no_entry, "HLO-V002": computation_id_twice, "HLO-V003": instruction_id_twice,
    "HLO-V004": name_twice, "HLO-V005": missing_operand, "HLO-V006": missing_computation,
    "HLO-V007": missing_root, "HLO-V008": missing_predecessor, "HLO-V009": circle,
    "HLO-V010": recursion, "HLO-V011": unknown_opcode, "HLO-V012": operand_count,
    "HLO-V013": parameter_numbers, "HLO-V014": program_shape, "HLO-V015": host_shape,
    "HLO-V016": schedule, "HLO-V017": alias, "HLO-V018": result_shape, "HLO-V019": operand_rules,
    "HLO-V020": layout, "HLO-V021": elided, "HLO-V022": literal_shape, "HLO-V023": called_count,
    "HLO-V024": element_type, "HLO-V025": no_shape, "HLO-V026": frame, "HLO-V027": call_alias,
    "HLO-V028": shared_fusion, "HLO-V029": negative_extent,
    "HLO-V030": payload, "HLO-V044": unknown_field,
}  # fmt: skip


def broken(code: str) -> Module:
    proto = parse(BASE)
    BREAKS[code](proto)
    return Module(proto)


ELSEWHERE = {f"HLO-V0{number}" for number in range(31, 44)}
"""Rules of how instructions go together: tests/verify/test_connections.py breaks them."""


def test_every_rule_is_broken_here() -> None:
    assert set(BREAKS) == set(RULES) - ELSEWHERE
    connections = Path(__file__).with_name("test_connections.py").read_text()
    assert all(f'"{code}"' in connections for code in ELSEWHERE)


def test_the_base_is_valid() -> None:
    assert verify(Module(parse(BASE))) == []


ALSO = {
    "HLO-V003": {"HLO-V005"},
    "HLO-V002": {"HLO-V003", "HLO-V006"},
    "HLO-V014": {"HLO-V018"},
    "HLO-V028": set(),
    "HLO-V029": {"HLO-V021"},
}
"""Codes that must accompany a broken rule."""


@pytest.mark.parametrize("code", BREAKS)
def test_a_rule_is_broken_alone(code: str) -> None:
    codes = {problem.code for problem in verify(broken(code))}
    assert code in codes
    assert codes - {code} <= ALSO.get(code, set())


def comparison(proto: Any) -> None:
    inst = row(proto, "y")
    inst.opcode, inst.comparison_direction = "compare", "XX"
    inst.shape.element_type = row(proto, "f").shape.element_type


@pytest.mark.parametrize(
    ("harm", "code", "message"),
    [
        (lambda p: setattr(row(p, "f"), "fusion_kind", "kFoo"), "HLO-V019", "fusion_kind 'kFoo'"),
        (comparison, "HLO-V019", "comparison_direction 'XX'"),
        (lambda p: setattr(row(p, "y"), "name", ""), "HLO-V004", "(subtract) has no name"),
        (
            lambda p: p.input_output_alias.entries.add().CopyFrom(p.input_output_alias.entries[0]),
            "HLO-V017", "the output {} has two aliases",
        ),
    ],
)  # fmt: skip
def test_what_jaxlib_refuses_to_read(harm: Any, code: str, message: str) -> None:
    proto = parse(BASE)
    harm(proto)
    assert any(
        problem.code == code and message in problem.message for problem in verify(Module(proto))
    )


def test_findings_say_where() -> None:
    (finding,) = verify(broken("HLO-V018"))
    assert finding.place == "%main/%r"
    assert "f32[2]" in finding.message and "f32[4]" in finding.message


@pytest.mark.parametrize("name", SAMPLES)
def test_valid_modules_have_no_finding(name: str) -> None:
    assert verify(Module(parse(SAMPLES[name]))) == []


def test_check_raises_with_the_code() -> None:
    with pytest.raises(HloVerifyError) as caught:
        check(broken("HLO-V012"))
    assert caught.value.code == "HLO-V012"


@pytest.mark.jax
def test_what_jax_makes_is_valid() -> None:
    import jax
    import jax.numpy as jnp

    def step(w: Any, x: Any) -> Any:
        return jnp.tanh(jnp.sort(x @ w)).sum() + jnp.cumsum(x)[-1]

    lowered = jax.jit(jax.value_and_grad(step)).lower(jnp.ones((4, 5)), jnp.ones((3, 4)))
    data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    assert verify(Module(schema.HloModuleProto.FromString(data))) == []


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hlo_tools.cli", "verify", *words], capture_output=True, text=True
    )


def test_command(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pb", tmp_path / "bad.pb"
    good.write_bytes(Module(parse(BASE)).module_bytes())
    bad.write_bytes(broken("HLO-V018").module_bytes())
    assert run(str(good)).returncode == 0
    done = run(str(bad), "--json")
    assert done.returncode == 1
    assert [finding["code"] for finding in json.loads(done.stdout)["findings"]] == ["HLO-V018"]
    assert run(str(bad), "--exit-zero").returncode == 0
    assert run(str(tmp_path / "none.pb")).returncode == 3


CONVOLUTION = """
HloModule m

ENTRY main {
  x = f32[2,4,4,3] parameter(0)
  k = f32[3,3,3,8] parameter(1)
  ROOT c = f32[2,2,2,8] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f
}
"""


def test_convolution_dimensions_that_do_not_exist() -> None:
    module = Module(parse(CONVOLUTION))
    assert verify(module) == []
    numbers = row(module.proto, "c").convolution_dimension_numbers
    numbers.output_feature_dimension = 9
    (finding,) = verify(Module(module.proto))
    assert (finding.code, "dimensions [0, 9, 1, 2] of its result" in finding.message) == (
        "HLO-V019",
        True,
    )


def test_alike_instructions_are_each_found_and_others_not() -> None:
    """A cached result is not reused for instructions that only look alike."""
    text = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
pick { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = s32[] constant(1) }
ENTRY e { x = f32[2,3] parameter(0)
  z = f32[] constant(0)
  s = s32[2,3] parameter(1)
  good = f32[2] reduce(x, z), dimensions={1}, to_apply=sum
  axis = f32[2] reduce(x, z), dimensions={0}, to_apply=sum
  again = f32[2] reduce(x, z), dimensions={0}, to_apply=sum
  other = f32[2] reduce(x, z), dimensions={1}, to_apply=pick
  wide = f32[3,2] transpose(x), dimensions={1,0}
  same = f32[3,2] transpose(x), dimensions={0,1}
  t = (f32[2,3], s32[2,3]) tuple(x, s)
  first = f32[2,3] get-tuple-element(t), index=0
  second = f32[2,3] get-tuple-element(t), index=1
  ROOT d = f32[2,2] dot(x, wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[2,2] dot(x, wide), lhs_contracting_dims={0}, rhs_contracting_dims={1}
}
"""
    problems = verify(Module(parse(text)))
    assert [problem.instruction for problem in problems] == [
        "axis",
        "again",
        "other",
        "same",
        "second",
        "f",
    ]


def test_parts_of_a_large_tuple_cost_in_proportion() -> None:
    def verified(size: int) -> int:
        kind = "(" + ", ".join(["f32[]"] * size) + ")"
        lines = [f"p = {kind} parameter(0)"]
        lines += [f"v{n} = f32[] get-tuple-element(p), index={n}" for n in range(size)]
        body = "\n".join([*lines, f"ROOT r = f32[] negate(v{size - 1})"])
        module = Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))
        return calls_made(lambda: verify(module))

    verified(2)
    assert verified(200) < 2.2 * verified(100)
