"""Properties of every rule: locations, remedies, selection, targets; good modules give no finding."""

from __future__ import annotations

import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.lint import RULES, lint, selected
from hlo_tools.verify import Severity
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import TARGETS
from tests.lint.cases import broken, codes, load

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


@pytest.mark.parametrize("target", TARGETS)
def test_clean_module(target: str) -> None:
    assert codes(CLEAN, target) == []


def test_every_rule_explains_itself() -> None:
    for rule in RULES.values():
        assert rule.title and rule.why.endswith(".") and rule.remedy and rule.targets


def test_unknown_target() -> None:
    with pytest.raises(NkiError, match="NKI-TARGET"):
        lint(load(CLEAN), target="trn0")


def test_finding_names_place_remedy_and_severity() -> None:
    (hit,) = lint(load(broken("NCC_EVRF022")[1]), target="trn2")
    assert hit.place == "%main/%s" and "s16[8]" in hit.message and "s32" in hit.remedy
    assert hit.severity is Severity.error


def test_broken_references_stop_at_what_the_verifier_says() -> None:
    broken = load(CLEAN)
    broken.proto.computations[0].instructions[2].operand_ids[0] = 77
    hits = lint(hlo_tools.load(broken.proto.SerializeToString()), target="trn2")
    assert {hit.code for hit in hits} == {"NCC_EVRF064"} and "HLO-V005" in hits[0].message


@pytest.mark.parametrize("code", ["NCC_EVRF031", "NCC_EVRF056"])
def test_index_numbers_beyond_the_operand_are_no_crash(code: str) -> None:
    damaged = load(broken(code)[1])
    for view in damaged.instructions:
        if view.opcode == "iota":
            view.proto.dimensions[:] = [9]
    damaged.touch()
    assert all(hit.code == "NCC_EVRF064" for hit in lint(damaged, target="trn2"))


def test_selection() -> None:
    assert [rule.code for rule in selected(["HLO-L"], ["HLO-L00"])] == []
    assert [rule.code for rule in selected(["ncc_evrf004"])] == ["NCC_EVRF004"]
    assert len(selected()) == len(RULES)
    ours = [rule.code for rule in selected([], ["NCC"])]
    assert ours == [code for code in RULES if not code.startswith("NCC")]
    with pytest.raises(HloError, match="HLO-RULE"):
        selected(["XYZ"])
