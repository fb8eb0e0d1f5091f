"""One module for each way of counting: name -> lines of the entry."""

from __future__ import annotations

__all__ = ["CASES", "module_text"]

_BODIES = """
%sum { %a = f32[] parameter(0)
 %b = f32[] parameter(1)
 ROOT %r = f32[] add(%a, %b) }

%sums { %a = f32[] parameter(0)
 %b = f32[] parameter(1)
 %c = f32[] parameter(2)
 %d = f32[] parameter(3)
 %e = f32[] add(%a, %c)
 %f = f32[] add(%b, %d)
 ROOT %r = (f32[], f32[]) tuple(%e, %f) }

%less { %a = f32[] parameter(0)
 %b = f32[] parameter(1)
 ROOT %r = pred[] compare(%a, %b), direction=LT }

%condition { %a = f32[4] parameter(0)
 %z = f32[4] add(%a, %a)
 ROOT %r = pred[] constant(true) }

%body { %a = f32[4] parameter(0)
 ROOT %r = f32[4] multiply(%a, %a) }

%wavy { %a = f32[4] parameter(0)
 ROOT %r = f32[4] sine(%a) }
%longer { %a = f32[4] parameter(0)
 %b = f32[4] multiply(%a, %a)
 ROOT %r = f32[4] add(%a, %b) }
"""

_X = "%x = f32[4,8] parameter(0)"
_I = "%i = s32[4,8] parameter(0)"
_Z = "%z = f32[] constant(0)"
_FOUR = "%x = f32[4] parameter(0)"

CASES: dict[str, tuple[str, ...]] = {
    "select": (_X, "%p = pred[4,8] parameter(1)", "ROOT %r = f32[4,8] select(%p, %x, %x)"),
    "clamp": (_X, "ROOT %r = f32[4,8] clamp(%x, %x, %x)"),
    "compare": (_X, "ROOT %r = pred[4,8] compare(%x, %x), direction=LT"),
    "convert": (_I, "ROOT %r = f32[4,8] convert(%i)"),
    "bitcast-convert": (_I, "ROOT %r = f32[4,8] bitcast-convert(%i)"),
    "is-finite": (_X, "ROOT %r = pred[4,8] is-finite(%x)"),
    "copy": (_X, "ROOT %r = f32[4,8] copy(%x)"),
    "complex": (_X, "ROOT %r = c64[4,8] complex(%x, %x)"),
    "reduce-precision": (
        _X, "ROOT %r = f32[4,8] reduce-precision(%x), exponent_bits=5, mantissa_bits=3",
    ),
    "dot": (
        _X, "%y = f32[8,16] parameter(1)",
        "ROOT %r = f32[4,16] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot with batch": (
        "%x = f32[3,4,8] parameter(0)", "%y = f32[3,8,5] parameter(1)",
        "ROOT %r = f32[3,4,5] dot(%x, %y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "reduce": (_X, _Z, "ROOT %r = f32[4] reduce(%x, %z), dimensions={1}, to_apply=%sum"),
    "reduce of two": (
        _X, _Z,
        "ROOT %r = (f32[4], f32[4]) reduce(%x, %x, %z, %z), dimensions={1}, to_apply=%sums",
    ),
    "reduce-window": (
        _X, _Z, "ROOT %r = f32[3,8] reduce-window(%x, %z), window={size=2x1}, to_apply=%sum",
    ),
    "select-and-scatter": (
        _X, "%s = f32[2,8] parameter(1)", _Z,
        "ROOT %r = f32[4,8] select-and-scatter(%x, %s, %z), window={size=2x1 stride=2x1}, "
        "select=%less, scatter=%sum",
    ),
    "map": (_X, "ROOT %r = f32[4,8] map(%x, %x), dimensions={0,1}, to_apply=%sum"),
    "all-reduce": (_X, "ROOT %r = f32[4,8] all-reduce(%x), to_apply=%sum"),
    "broadcast": ("%x = f32[] parameter(0)", "ROOT %r = f32[4,8] broadcast(%x), dimensions={}"),
    "transpose": (_X, "ROOT %r = f32[8,4] transpose(%x), dimensions={1,0}"),
    "reshape": (_X, "ROOT %r = f32[32] reshape(%x)"),
    "slice": (_X, "ROOT %r = f32[2,8] slice(%x), slice={[0:2],[0:8]}"),
    "dynamic-slice": (
        _X, "%i = s32[] parameter(1)", "%j = s32[] parameter(2)",
        "ROOT %r = f32[2,8] dynamic-slice(%x, %i, %j), dynamic_slice_sizes={2,8}",
    ),
    "dynamic-update-slice": (
        _X, "%u = f32[1,8] parameter(1)", "%i = s32[] parameter(2)", "%j = s32[] parameter(3)",
        "ROOT %r = f32[4,8] dynamic-update-slice(%x, %u, %i, %j)",
    ),
    "concatenate": (_X, "ROOT %r = f32[8,8] concatenate(%x, %x), dimensions={0}"),
    "pad": (_X, _Z, "ROOT %r = f32[6,8] pad(%x, %z), padding=1_1x0_0"),
    "iota": ("ROOT %r = f32[4,8] iota(), iota_dimension=0",),
    "gather": (
        _X, "%i = s32[3,1] parameter(1)",
        "ROOT %r = f32[3,8] gather(%x, %i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
    ),
    "scatter": (
        _X, "%i = s32[3,1] parameter(1)", "%u = f32[3,8] parameter(2)",
        "ROOT %r = f32[4,8] scatter(%x, %i, %u), update_window_dims={1}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=%sum",
    ),
    "sort": (
        "%x = f32[100] parameter(0)",
        "ROOT %r = f32[100] sort(%x), dimensions={0}, to_apply=%less",
    ),
    "rng": (
        "%x = f32[] parameter(0)", "ROOT %r = f32[10] rng(%x, %x), distribution=rng_uniform",
    ),
    "rng-bit-generator": (
        "%x = u64[2] parameter(0)",
        "ROOT %r = (u64[2], u32[16]) rng-bit-generator(%x), algorithm=rng_default",
    ),
    "fft": (
        "%x = c64[4,8] parameter(0)", "ROOT %r = c64[4,8] fft(%x), fft_type=FFT, fft_length={8}",
    ),
    "cholesky": (
        "%x = f32[3,4,4] parameter(0)", "ROOT %r = f32[3,4,4] cholesky(%x), lower=true",
    ),
    "triangular-solve": (
        "%x = f32[3,4,4] parameter(0)", "%y = f32[3,4,5] parameter(1)",
        "ROOT %r = f32[3,4,5] triangular-solve(%x, %y), left_side=true, lower=true, "
        "transpose_a=NO_TRANSPOSE",
    ),
    "convolution": (
        "%x = f32[2,8,8,3] parameter(0)", "%w = f32[3,3,3,16] parameter(1)",
        "ROOT %r = f32[2,8,8,16] convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    ),
    "convolution in groups": (
        "%x = f32[2,8,8,4] parameter(0)", "%w = f32[3,3,2,16] parameter(1)",
        "ROOT %r = f32[2,4,4,16] convolution(%x, %w), "
        "window={size=3x3 stride=2x2 pad=1_0x1_0}, dim_labels=b01f_01io->b01f, "
        "feature_group_count=2",
    ),
    "convolution of batches": (
        "%x = f32[4,8,8,4] parameter(0)", "%w = f32[3,3,4,16] parameter(1)",
        "ROOT %r = f32[2,8,8,16] convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, batch_group_count=2",
    ),
    "convolution dilated": (
        "%x = f32[2,8,9,4] parameter(0)", "%w = f32[3,3,4,16] parameter(1)",
        "ROOT %r = f32[2,6,13,16] convolution(%x, %w), window={size=3x3 stride=3x2 "
        "pad=2_4x-1_3 lhs_dilate=2x3 rhs_dilate=2x1}, dim_labels=b01f_01io->b01f",
    ),
    "tuple": (_X, "ROOT %r = (f32[4,8], f32[4,8]) tuple(%x, %x)"),
    "get-tuple-element": (
        "%x = (f32[4,8], f32[2]) parameter(0)",
        "ROOT %r = f32[4,8] get-tuple-element(%x), index=0",
    ),
    "call": ("%x = f32[] parameter(0)", "ROOT %r = f32[] call(%x, %x), to_apply=%sum"),
    "while": (_FOUR, "ROOT %r = f32[4] while(%x), condition=%condition, body=%body"),
    "conditional": (
        _FOUR, "%p = pred[] parameter(1)",
        "ROOT %r = f32[4] conditional(%p, %x, %x), true_computation=%body, "
        "false_computation=%longer",
    ),
    "conditional between arithmetic and functions": (
        _FOUR, "%p = pred[] parameter(1)",
        "ROOT %r = f32[4] conditional(%p, %x, %x), true_computation=%wavy, "
        "false_computation=%longer",
    ),
    "fusion": (_FOUR, "ROOT %r = f32[4] fusion(%x), kind=kLoop, calls=%longer"),
    "batch-norm-training": (
        _X, "%s = f32[8] parameter(1)",
        "ROOT %r = (f32[4,8], f32[8], f32[8]) batch-norm-training(%x, %s, %s), epsilon=0.1, "
        "feature_index=1",
    ),
    "topk": (_X, "ROOT %r = (f32[4,2], s32[4,2]) topk(%x), k=2, largest=true"),
    "reverse": (_X, "ROOT %r = f32[4,8] reverse(%x), dimensions={0}"),
    "partition-id": ("ROOT %r = u32[] partition-id()",),
}  # fmt: skip

_UNARY = (
    "abs ceil floor negate sign round-nearest-even round-nearest-afz exponential log sqrt rsqrt "
    "cbrt tanh sine cosine tan erf logistic log-plus-one exponential-minus-one acos acosh asin "
    "asinh atanh cosh sinh"
)
_BINARY = "add divide maximum minimum multiply power remainder subtract atan2"
_INTEGER = "and or xor shift-left shift-right-logical shift-right-arithmetic"
for _opcode in _UNARY.split():
    CASES[_opcode] = (_X, f"ROOT %r = f32[4,8] {_opcode}(%x)")
for _opcode in _BINARY.split():
    CASES[_opcode] = (_X, f"ROOT %r = f32[4,8] {_opcode}(%x, %x)")
for _opcode in _INTEGER.split():
    CASES[_opcode] = (_I, f"ROOT %r = s32[4,8] {_opcode}(%i, %i)")
for _opcode in ("not", "popcnt", "count-leading-zeros"):
    CASES[_opcode] = (_I, f"ROOT %r = s32[4,8] {_opcode}(%i)")


def module_text(name: str) -> str:
    """The module of a case."""
    return f"HloModule m\n{_BODIES}\nENTRY %main {{\n" + "\n".join(CASES[name]) + "\n}\n"
