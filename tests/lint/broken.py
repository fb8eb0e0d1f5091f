"""For each lint rule on graphs a module that breaks it, and nothing else."""

from __future__ import annotations

__all__ = ["BROKEN", "module"]


def module(body: str, *, before: str = "") -> str:
    """HLO text with an entry; ``before`` holds other computations."""
    return f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n"


_ADD = """
f {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT o = f32[] add(p, q)
}
"""


def _typed(name: str) -> str:
    return module(f"  ROOT x = {name}[4] parameter(0)")


def _window(opcode: str, window: str, result: str) -> str:
    if opcode == "convolution":
        return module(f"""
  x = f32[1,4,4,1] parameter(0)
  k = f32[3,3,1,1] parameter(1)
  ROOT c = f32[{result}] convolution(x, k), window={{{window}}}, dim_labels=b01f_01io->b01f""")
    return module(
        f"""
  x = f32[4,4] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{result}] reduce-window(x, z), window={{{window}}}, to_apply=f""",
        before=_ADD,
    )


def _reducer(element: str, opcode: str) -> str:
    return f"""
f {{
  p = {element}[] parameter(0)
  q = {element}[] parameter(1)
  ROOT o = {element}[] {opcode}(p, q)
}}
"""


_SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=f"
)


def _scatter(element: str, opcode: str) -> str:
    return module(
        f"""
  x = {element}[8,4] parameter(0)
  i = s32[3,1] parameter(1)
  u = {element}[3,4] parameter(2)
  ROOT s = {element}[8,4] scatter(x, i, u), {_SCATTER}""",
        before=_reducer(element, opcode),
    )


def _quantize(
    config: str = '{"dtype": "float8_e5m2", "dim": -1}',
    *,
    operand: str = "bf16[4,64]",
    result: str = "(u32[4,16], u8[4,2])",
    operands: str = "x",
) -> str:
    text = config.replace('"', '\\"')
    return module(f"""
  x = {operand} parameter(0)
  ROOT q = {result} custom-call({operands}), custom_call_target="QuantizeMX", \
backend_config="{text}\"""")


def _scaled(
    config: str = "",
    *,
    left: str = "u32[4,16]",
    right: str = "u32[8,16]",
    result: str = "f32[4,8]",
    operands: str = "a, b, c, d",
) -> str:
    text = config.replace('"', '\\"')
    return module(f"""
  a = {left} parameter(0)
  b = {right} parameter(1)
  c = u8[4,2] parameter(2)
  d = u8[8,2] parameter(3)
  ROOT q = {result} custom-call({operands}), custom_call_target="__op$block_scaled_dot", \
backend_config="{text}\"""")


def _dimensions(**lists: list[int]) -> str:
    inner = ", ".join(f'"{name}_dimensions": {value}' for name, value in lists.items())
    return f'{{"scaled_dot_backend_config": {{{inner}}}}}'


_GATHER = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}"
)

BROKEN: dict[str, tuple[str, str]] = {
    "NCC_EMOD025": ("trn2", module("  ROOT x = f32[<=4] parameter(0)")),
    "NCC_ESFH002": ("trn2", module("  ROOT x = u64[2] constant({1, 5000000000})")),
    "NCC_ESPP004": ("trn2", _typed("f4e2m1fn")),
    "NCC_ESPP047": ("trn2", _typed("f8e3m4")),
    "NCC_EVRF001": (
        "trn2",
        module("""
  a = f32[4,4] parameter(0)
  b = f32[4,2] parameter(1)
  ROOT t = f32[4,2] triangular-solve(a, b), left_side=true, lower=true, \
transpose_a=NO_TRANSPOSE"""),
    ),
    "NCC_EUOC002": (
        "trn2",
        module("""
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT p = f32[4] power(a, b)"""),
    ),
    "NCC_EVRF004": ("trn2", _typed("c64")),
    "NCC_EVRF005": ("trn2", _typed("f8e4m3fnuz")),
    "NCC_EVRF006": (
        "trn2",
        module("""
  s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[4]) rng-bit-generator(s), algorithm=rng_three_fry"""),
    ),
    "NCC_EVRF009": ("trn1", module("  ROOT x = f32[16,1024,1024,1024] parameter(0)")),
    "NCC_EVRF010": (
        "trn2",
        _window("convolution", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_dilate=2x2", "1,7,7,1"),
    ),
    "NCC_EVRF011": (
        "trn2",
        _window("convolution", "size=3x3 stride=2x2 pad=2_2x2_2 lhs_dilate=2x2", "1,5,5,1"),
    ),
    "NCC_EVRF013": (
        "trn2",
        module("""
  x = s32[8] parameter(0)
  ROOT t = (s32[2], s32[2]) topk(x), k=2, largest=true"""),
    ),
    "NCC_EVRF015": (
        "trn2",
        module("""
  x = f32[8] parameter(0)
  ROOT t = f32[8] custom-call(x), custom_call_target="mine\""""),
    ),
    "NCC_EVRF016": ("trn2", _scatter("s8", "add")),
    "NCC_EVRF017": ("trn2", _window("reduce-window", "size=1x1 lhs_dilate=1x2", "4,7")),
    "NCC_EVRF018": ("trn2", _window("reduce-window", "size=1x2 rhs_dilate=1x2", "4,2")),
    "NCC_EVRF019": (
        "trn2",
        module(
            """
  x = f32[4,4] parameter(0)
  z = f32[] constant(0)
  ROOT r = (f32[4,3], f32[4,3]) reduce-window(x, x, z, z), window={size=1x2}, to_apply=g""",
            before="""
g {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(a, c)
  h = f32[] add(b, d)
  ROOT t = (f32[], f32[]) tuple(e, h)
}
""",
        ),
    ),
    "NCC_EVRF022": (
        "trn2",
        module("""
  x = s16[8] parameter(0)
  ROOT s = s16[8] shift-right-arithmetic(x, x)"""),
    ),
    "NCC_EVRF031": (
        "trn2",
        module(
            f"""
  x = f32[3,4] parameter(0)
  i = s32[10] iota(), iota_dimension=0
  j = s32[10,1] reshape(i)
  u = f32[10,4] parameter(1)
  ROOT s = f32[3,4] scatter(x, j, u), {_SCATTER}""",
            before=_reducer("f32", "add"),
        ),
    ),
    "NCC_EVRF035": (
        "trn2",
        module("""
  x = s32[4,4] parameter(0)
  ROOT d = s32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""),
    ),
    "NCC_EVRF036": ("trn3", _quantize("dtype=float8_e5m2")),
    "NCC_EVRF037": ("trn3", _quantize(operands="x, x")),
    "NCC_EVRF038": (
        "trn3",
        _quantize(
            '{"dtype": "float8_e5m2", "dim": 0}',
            operand="bf16[2,4,64]", result="(u32[2,4,16], u8[2,4,2])",
        ),
    ),
    "NCC_EVRF039": ("trn3", _quantize('{"dtype": "float8_e5m2", "dim": -1, "block_size": 16}')),
    "NCC_EVRF040": ("trn3", _quantize('{"dtype": "float8_e5m2", "dim": 1, "scale_method": "X"}')),
    "NCC_EVRF041": ("trn3", _quantize(operand="f32[4,64]")),
    "NCC_EVRF042": ("trn3", _quantize(result="(u32[4,32], u8[4,2])")),
    "NCC_EVRF043": ("trn3", _scaled(operands="a, b, c")),
    "NCC_EVRF044": ("trn3", _scaled(left="u8[4,16]")),
    "NCC_EVRF045": ("trn3", _scaled(result="f16[4,8]")),
    "NCC_EVRF046": ("trn3", _scaled(left="u32[16]")),
    "NCC_EVRF047": ("trn3", _scaled(right="u32[16]")),
    "NCC_EVRF048": (
        "trn3",
        _scaled(_dimensions(lhs_batch=[0], rhs_batch=[0]), left="u32[2,4,16]", right="u32[3,8,16]"),
    ),
    "NCC_EVRF049": ("trn3", _scaled(_dimensions(lhs_batch=["x"]).replace("'", '"'))),
    "NCC_EVRF050": ("trn3", _scaled(right="u32[8,32]")),
    "NCC_EVRF051": (
        "trn2",
        module("""
  x = f8e4m3fn[4] parameter(0)
  ROOT c = f32[4] convert(x)"""),
    ),
    "NCC_EVRF053": (
        "trn3",
        _scaled(
            _dimensions(lhs_batch=[0], rhs_batch=[0], lhs_contracting=[0], rhs_contracting=[1]),
            left="u32[4,16]", right="u32[4,4]",
        ),
    ),
    "NCC_EVRF054": ("trn3", _scaled(_dimensions(lhs_batch=[2], rhs_batch=[0]))),
    "NCC_EVRF055": ("trn3", _scaled(_dimensions(lhs_contracting=[2]))),
    "NCC_EVRF056": (
        "trn2",
        module(f"""
  x = f32[3,4] parameter(0)
  i = s32[10] iota(), iota_dimension=0
  j = s32[10,1] reshape(i)
  ROOT g = f32[10,4] gather(x, j), {_GATHER}"""),
    ),
    "NCC_EVRF057": ("trn3", _quantize(result="(u32[4,16], u8[4,2], u8[4,2])")),
    "NCC_EVRF058": ("trn3", _quantize(operand="bf16[4,66]")),
    "NCC_EVRF060": ("trn2", _scatter("s32", "add")),
    "NCC_EVRF061": (
        "trn2",
        module(
            """
  x = s32[4] parameter(0)
  ROOT r = s32[4] all-reduce(x), replica_groups={}, to_apply=f""",
            before=_reducer("s32", "add"),
        ),
    ),
    "NCC_EVRF062": (
        "trn2",
        module("""
  x = s64[4] parameter(0)
  c = s64[] constant(2)
  b = s64[4] broadcast(c), dimensions={}
  ROOT p = s64[4] power(x, b)"""),
    ),
    "NCC_EVRF063": (
        "trn2",
        module(
            """
  x = s32[4] parameter(0)
  ROOT r = s32[2] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=f""",
            before=_reducer("s32", "add"),
        ),
    ),
    "NCC_EVRF064": (
        "trn2",
        module("""
  x = f32[4] parameter(0)
  ROOT n = f32[5] negate(x)"""),
    ),
}  # fmt: skip
"""Code -> (target, HLO text)."""
