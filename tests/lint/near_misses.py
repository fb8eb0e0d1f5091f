"""For each lint rule on graphs a module that comes close to breaking it, and is fine."""

from __future__ import annotations

from tests.lint.broken import (
    _GATHER,
    _SCATTER,
    BROKEN,
    _dimensions,
    _quantize,
    _reducer,
    _scaled,
    _scatter,
    _typed,
    _window,
    module,
)

__all__ = ["NEAR"]


def _changed(code: str, *pairs: tuple[str, str]) -> tuple[str, str]:
    """The module that breaks a rule with some texts exchanged."""
    target, text = BROKEN[code]
    for old, new in pairs:
        assert old in text, (code, old)
        text = text.replace(old, new)
    return target, text


NEAR: dict[str, tuple[str, str]] = {
    "NCC_EMOD025": ("trn2", module("  ROOT x = f32[4] parameter(0)")),
    "NCC_ESFH002": ("trn2", module("  ROOT x = u64[2] constant({1, 4294967295})")),
    "NCC_ESPP004": ("trn2", _typed("f8e5m2")),
    "NCC_ESPP047": ("trn2", _typed("f8e4m3")),
    "NCC_EVRF001": (
        "trn2",
        module("  a = f32[4,4] parameter(0)\n  ROOT t = f32[4,4] reverse(a), dimensions={0}"),
    ),
    "NCC_EUOC002": (
        "trn2",
        module("  a = f32[4] parameter(0)\n  c = f32[] constant(3)\n"
               "  b = f32[4] broadcast(c), dimensions={}\n  ROOT p = f32[4] power(a, b)"),
    ),
    "NCC_EVRF004": ("trn2", _typed("f32")),
    "NCC_EVRF005": ("trn2", _typed("f8e5m2")),
    "NCC_EVRF006": _changed("NCC_EVRF006", ("rng_three_fry", "rng_default")),
    "NCC_EVRF009": ("trn2", module("  ROOT x = f32[2,1024,1024,1024] parameter(0)")),
    "NCC_EVRF010": (
        "trn2", _window("convolution", "size=3x3 pad=2_2x2_2 rhs_dilate=2x2", "1,4,4,1"),
    ),
    "NCC_EVRF011": (
        "trn2", _window("convolution", "size=3x3 stride=2x2 pad=2_2x2_2", "1,3,3,1"),
    ),
    "NCC_EVRF013": _changed("NCC_EVRF013", ("x = s32[8]", "x = f32[8]"), ("(s32[2], s32", "(f32[2], s32")),
    "NCC_EVRF015": _changed("NCC_EVRF015", ('"mine"', '"AwsNeuronSilu"')),
    "NCC_EVRF016": ("trn2", _scatter("f32", "add")),
    "NCC_EVRF017": ("trn2", _window("reduce-window", "size=1x1 stride=1x2", "4,2")),
    "NCC_EVRF018": ("trn2", _window("reduce-window", "size=1x2", "4,3")),
    "NCC_EVRF019": ("trn2", _window("reduce-window", "size=1x2", "4,3")),
    "NCC_EVRF022": _changed("NCC_EVRF022", ("s16", "s32")),
    "NCC_EVRF031": (
        "trn2",
        module(
            f"""
  x = f32[10,4] parameter(0)
  i = s32[10] iota(), iota_dimension=0
  j = s32[10,1] reshape(i)
  u = f32[10,4] parameter(1)
  ROOT s = f32[10,4] scatter(x, j, u), {_SCATTER}""",
            before=_reducer("f32", "add"),
        ),
    ),
    "NCC_EVRF035": ("trn1", BROKEN["NCC_EVRF035"][1]),
    "NCC_EVRF036": ("trn3", _quantize()),
    "NCC_EVRF037": ("trn3", _quantize(operands="x")),
    "NCC_EVRF038": (
        "trn3",
        _quantize(
            '{"dtype": "float8_e5m2", "dim": 2}',
            operand="bf16[2,4,64]", result="(u32[2,4,16], u8[2,4,2])",
        ),
    ),
    "NCC_EVRF039": ("trn3", _quantize('{"dtype": "float8_e5m2", "dim": -1, "block_size": 32}')),
    "NCC_EVRF040": ("trn3", _quantize('{"dtype": "float8_e5m2", "dim": 1, "scale_method": "EMAX"}')),
    "NCC_EVRF041": ("trn3", _quantize(operand="f16[4,64]")),
    "NCC_EVRF042": ("trn3", _quantize(result="(u32[4,16], u8[4,2])")),
    "NCC_EVRF043": ("trn3", _scaled()),
    "NCC_EVRF044": ("trn3", _scaled(left="u32[4,16]")),
    "NCC_EVRF045": ("trn3", _scaled(result="bf16[4,8]")),
    "NCC_EVRF046": ("trn3", _scaled()),
    "NCC_EVRF047": ("trn3", _scaled()),
    "NCC_EVRF048": (
        "trn3",
        _changed("NCC_EVRF048", ("b = u32[3,8,16]", "b = u32[2,8,16]"), ("u8[4,2]", "u8[2,4,2]"),
                 ("u8[8,2]", "u8[2,8,2]"), ("f32[4,8]", "f32[2,4,8]"))[1],
    ),
    "NCC_EVRF049": ("trn3", _scaled(_dimensions(lhs_contracting=[1], rhs_contracting=[1]))),
    "NCC_EVRF050": ("trn3", _scaled(right="u32[8,16]")),
    "NCC_EVRF051": ("trn3", BROKEN["NCC_EVRF051"][1]),
    "NCC_EVRF053": ("trn3", _scaled(_dimensions(lhs_contracting=[1], rhs_contracting=[1]))),
    "NCC_EVRF054": ("trn3", _scaled(_dimensions(lhs_batch=[], rhs_batch=[]))),
    "NCC_EVRF055": ("trn3", _scaled(_dimensions(lhs_contracting=[1]))),
    "NCC_EVRF056": (
        "trn2",
        module(f"""
  x = f32[10,4] parameter(0)
  i = s32[10] iota(), iota_dimension=0
  j = s32[10,1] reshape(i)
  ROOT g = f32[10,4] gather(x, j), {_GATHER}"""),
    ),
    "NCC_EVRF057": ("trn3", _quantize()),
    "NCC_EVRF058": ("trn3", _quantize(operand="bf16[4,64]")),
    "NCC_EVRF060": ("trn2", _scatter("f32", "add")),
    "NCC_EVRF061": _changed("NCC_EVRF061", ("s32", "f32")),
    "NCC_EVRF062": _changed("NCC_EVRF062", ("s64", "f32")),
    "NCC_EVRF063": _changed("NCC_EVRF063", ("s32", "f32")),
    "NCC_EVRF064": _changed("NCC_EVRF064", ("f32[5]", "f32[4]")),
}  # fmt: skip
"""Code -> (target, HLO text)."""
