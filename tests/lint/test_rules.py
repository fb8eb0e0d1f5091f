"""Every rule has a module that breaks it alone; good modules give nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import replace_matches
from hlo_tools.kernels.backend_config import decode, encode
from hlo_tools.lint import RULES, lint, selected
from hlo_tools.verify import Severity
from nki_lang import klir, trace
from nki_lang.errors import NkiError
from nki_lang.targets import TARGETS, target_of
from tests.lint.broken import BROKEN, module
from tests.lint.near_misses import NEAR

NO_GRAPH_SHOWS = {
    "NCC_EBIR023", "NCC_EBVF030", "NCC_EHCA005", "NCC_EOOM001", "NCC_EOOM002", "NCC_EVRF007",
    "NCC_EXSP001", "NCC_EXTP004",
}  # fmt: skip
ON_KERNELS = {
    "NCC_EARG001", "NCC_EVRF059", "NCC_EVRF065", "HLO-L001", "HLO-L002", "HLO-L003", "HLO-L004",
    "HLO-L005", "HLO-L006",
}  # fmt: skip
AFTER_TRN3 = {"NCC_EVRF052"}

CLEAN = """
HloModule clean
f {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT o = f32[] add(p, q)
}
ENTRY main {
  x = bf16[4,8] parameter(0)
  w = bf16[8,4] parameter(1)
  i = s32[4,1] parameter(2)
  d = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  r = f32[4] reduce(d, z), dimensions={1}, to_apply=f
  b = f32[4,4] broadcast(r), dimensions={0}
  e = f32[4,4] exponential(b)
  g = f32[4,4] gather(e, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,4}
  s = f32[4,4] custom-call(g), custom_call_target="AwsNeuronSilu"
  ROOT t = (f32[4,4], bf16[4,8]) tuple(s, x)
}
"""


def load(text: str) -> Module:
    return hlo_tools.load(text.encode())


def codes(text: str, target: str) -> list[str]:
    return [finding.code for finding in lint(load(text), target=target)]


@pytest.mark.parametrize("code", BROKEN)
def test_module_breaks_its_rule_alone(code: str) -> None:
    target, text = BROKEN[code]
    assert codes(text, target) == [code]


@pytest.mark.parametrize("code", BROKEN)
def test_module_that_comes_close_is_fine(code: str) -> None:
    target, text = NEAR[code]
    assert lint(load(text), target=target) == []
    assert NEAR[code] != BROKEN[code]


@pytest.mark.parametrize("target", TARGETS)
def test_clean_module(target: str) -> None:
    assert codes(CLEAN, target) == []


def test_every_rule_is_tested() -> None:
    assert set(BROKEN) | ON_KERNELS | AFTER_TRN3 | NO_GRAPH_SHOWS == set(RULES)
    assert {code for code, rule in RULES.items() if rule.check is None} == NO_GRAPH_SHOWS


def test_every_rule_explains_itself() -> None:
    for rule in RULES.values():
        assert rule.title and rule.why.endswith(".") and rule.remedy and rule.targets


# -- targets ----------------------------------------------------------------------------------


def test_32_bit_products_are_fine_on_trn1_and_64_bit_ones_nowhere() -> None:
    text = BROKEN["NCC_EVRF035"][1]
    assert codes(text, "trn1") == []
    assert codes(text.replace("s32", "s64"), "trn1") == ["NCC_EVRF035"]


def test_f8e4m3fn_is_fine_on_trn3() -> None:
    assert codes(BROKEN["NCC_EVRF051"][1], "trn3") == []


def test_f8e4m3_ends_after_trn3() -> None:
    text = BROKEN["NCC_EVRF051"][1].replace("f8e4m3fn", "f8e4m3")
    later = dataclasses.replace(target_of("trn3"), generation=5)
    assert codes(text, "trn3") == []
    assert [one.code for one in lint(load(text), target=later)] == ["NCC_EVRF052"]


def test_unknown_target() -> None:
    with pytest.raises(NkiError, match="NKI-TARGET"):
        lint(load(CLEAN), target="trn0")


# -- what a finding says ------------------------------------------------------------------------


def test_finding_names_place_remedy_and_severity() -> None:
    (found,) = lint(load(BROKEN["NCC_EVRF022"][1]), target="trn2")
    assert found.place == "%main/%s" and "s16[8]" in found.message and "s32" in found.remedy
    assert found.severity is Severity.error


def test_operator_that_is_only_unlisted_is_a_note() -> None:
    text = module("  x = f32[4] parameter(0)\n  ROOT y = f32[4] cbrt(x)")
    (found,) = lint(load(text), target="trn2")
    assert (found.code, found.severity) == ("NCC_EVRF001", Severity.note)


def test_types_are_reported_where_they_enter() -> None:
    text = module("""
  x = c64[4] parameter(0)
  y = c64[4] negate(x)
  ROOT z = c64[4] add(x, y)""")
    assert [one.instruction for one in lint(load(text), target="trn2")] == ["x"]


def test_broken_references_stop_at_what_the_verifier_says() -> None:
    broken = load(CLEAN)
    broken.proto.computations[0].instructions[2].operand_ids[0] = 77
    found = lint(hlo_tools.load(broken.proto.SerializeToString()), target="trn2")
    assert {one.code for one in found} == {"NCC_EVRF064"} and "HLO-V005" in found[0].message


@pytest.mark.parametrize("code", ["NCC_EVRF031", "NCC_EVRF056"])
def test_index_numbers_beyond_the_operand_are_no_crash(code: str) -> None:
    damaged = load(BROKEN[code][1])
    for view in damaged.instructions:
        if view.opcode == "iota":
            view.proto.dimensions[:] = [9]
    damaged.touch()
    assert all(one.code == "NCC_EVRF064" for one in lint(damaged, target="trn2"))


def test_selection() -> None:
    assert [rule.code for rule in selected(["HLO-L"], ["HLO-L00"])] == []
    assert [rule.code for rule in selected(["ncc_evrf004"])] == ["NCC_EVRF004"]
    assert len(selected()) == len(RULES) and len(selected([], ["NCC"])) == 6
    with pytest.raises(HloError, match="HLO-RULE"):
        selected(["XYZ"])


# -- kernels ------------------------------------------------------------------------------------

SHAPE = (128, 64)
PATTERN = module(f"""
  a = f32[{SHAPE[0]},{SHAPE[1]}] parameter(0)
  ROOT n = f32[{SHAPE[0]},{SHAPE[1]}] negate(a)""")


def negated(a):
    """-a."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=-1.0)
    nisa.dma_copy(dst=out, src=x)
    return out


def write(path: Path, *, shape=SHAPE, target="trn2", lnc: int = 1) -> Path:
    kernel = trace(negated, [np.zeros(shape, np.float32)], {}, target="trn2", grid=())
    bodies = kernel.bodies * lnc
    klir.write(dataclasses.replace(kernel, target=target, lnc=lnc, bodies=bodies), path)
    return path


@pytest.fixture
def calling(tmp_path: Path) -> Module:
    found = load(PATTERN)
    assert replace_matches(found, PATTERN, write(tmp_path / "negated.klir"))
    return found


def kernel_codes(found: Module, target: str = "trn2") -> list[str]:
    return [one.code for one in lint(found, target=target)]


def reconfigure(found: Module, change) -> None:
    call = found.find_custom_calls()[0]
    call.proto.backend_config = change(decode(call.backend_config)).encode()
    found.touch()


def test_kernel_that_fits(calling: Module) -> None:
    assert kernel_codes(calling) == []


def test_kernel_file_is_missing(calling: Module, tmp_path: Path) -> None:
    (tmp_path / "negated.klir").unlink()
    assert kernel_codes(calling) == ["NCC_EVRF059"]


def test_kernel_file_beside_the_module_counts_by_its_last_two_parts(
    calling: Module, tmp_path: Path
) -> None:
    folder = tmp_path / "moved" / tmp_path.name
    folder.mkdir(parents=True)
    for path in list(tmp_path.glob("negated.klir*")):
        path.rename(folder / path.name)
    assert [one.code for one in lint(calling, target="trn2", root=tmp_path / "moved")] == []
    assert kernel_codes(calling) == ["NCC_EVRF059"]


def test_kernel_file_is_damaged(calling: Module, tmp_path: Path) -> None:
    (tmp_path / "negated.klir").write_bytes(b"no kernel")
    assert kernel_codes(calling) == ["HLO-L004"]


def test_kernel_has_other_operands(calling: Module) -> None:
    entry = calling.entry
    old = calling.find_custom_calls()[0]
    wider = entry.add("bitcast-convert", hlo_tools.parse_shape("s32[128,64]"), [old.operands[0]])
    old.replace_operand(0, wider)
    assert kernel_codes(calling) == ["HLO-L001"]


def test_kernel_has_other_results(calling: Module) -> None:
    call = calling.find_custom_calls()[0]
    call.proto.shape.CopyFrom(hlo_tools.parse_shape("f32[64,128]{1,0}").proto)
    program = calling.entry.proto.program_shape.result
    program.CopyFrom(call.proto.shape)
    calling.proto.host_program_shape.result.CopyFrom(call.proto.shape)
    calling.touch()
    assert kernel_codes(calling) == ["HLO-L002"]


def test_call_states_an_alias_that_the_kernel_has_not(calling: Module) -> None:
    calling.find_custom_calls()[0].proto.output_operand_aliasing.add(operand_index=0)
    calling.touch()
    assert kernel_codes(calling) == ["HLO-L003"]


def test_kernel_for_another_target(calling: Module) -> None:
    assert kernel_codes(calling, "trn3") == ["HLO-L005"]


def test_more_cores_than_the_target_has(calling: Module, tmp_path: Path) -> None:
    write(tmp_path / "negated.klir", target="trn1", lnc=2)
    assert kernel_codes(calling, "trn1") == ["NCC_EARG001"]


def test_configuration_of_an_older_release(calling: Module) -> None:
    import base64

    def older(config) -> str:
        record = config.as_dict()
        del record["klir_binary"]
        return base64.b64encode(json.dumps(record).encode()).decode()

    reconfigure(calling, older)
    assert kernel_codes(calling) == ["NCC_EVRF065"]


def test_configuration_that_does_not_decode(calling: Module) -> None:
    reconfigure(calling, lambda config: encode(config)[5:] + "!")
    assert kernel_codes(calling) == ["HLO-L006"]


@pytest.mark.parametrize(
    ("root", "message"),
    [("(f32[], s32[]) tuple(a, b)", "several arrays at once"), ("f32[] atan2(a, a)", "in atan2;")],
)
def test_reductions_beyond_the_list_say_how(root: str, message: str) -> None:
    several = root.startswith("(")
    result = "(f32[4], s32[4])" if several else "f32[4]"
    operands = "x, y, z, n" if several else "x, z"
    more = "c = f32[] parameter(2)\n d = s32[] parameter(3)" if several else ""
    second = "s32" if several else "f32"
    text = f"""HloModule m
f {{ a = f32[] parameter(0)
 b = {second}[] parameter(1)
 {more}
 ROOT r = {root} }}
ENTRY e {{ x = f32[4,8] parameter(0)
 y = s32[4,8] parameter(1)
 z = f32[] constant(0)
 n = s32[] constant(0)
 ROOT o = {result} reduce({operands}), dimensions={{1}}, to_apply=f }}
"""
    [finding] = lint(hlo_tools.load(text.encode()), target="trn2", rules=selected(["NCC_EUOC002"]))
    assert message in finding.message
