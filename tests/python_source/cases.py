"""Small modules for opcodes of every kind."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "compiler" / "golden"

LEFT_OUT = {"cholesky"}
"""Golden modules whose random operands have no result; ``factors`` below has."""

COLLECTIVES = {
    "all-gather", "all-gather-done", "all-gather-start", "all-reduce", "all-reduce-done",
    "all-reduce-start", "all-to-all", "async-done", "async-start", "async-update",
    "collective-broadcast", "collective-permute", "collective-permute-done",
    "collective-permute-start", "collective-reduce", "partition-id", "reduce-scatter", "replica-id",
}  # fmt: skip
"""Golden modules of the compiler that need several devices."""

SCALARS = """
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
mix { x = f32[] parameter(0)
  y = f32[] parameter(1)
  h = f32[] constant(0.5)
  s = f32[] multiply(x, h)
  ROOT r = f32[] add(s, y) }
ge { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=GE }
keep { x = f32[] parameter(0)
  ROOT y = f32[] parameter(1) }
most { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(v, w), direction=GE
  a = f32[] select(p, v, w)
  b = s32[] select(p, i, j)
  ROOT t = (f32[], s32[]) tuple(a, b) }
step { x = f32[2] parameter(0)
  s = f32[2] parameter(1)
  n = f32[2] add(s, x)
  m = f32[2] multiply(n, x)
  ROOT t = (f32[2], f32[2]) tuple(m, n) }
far { x = f32[] parameter(0)
  y = f32[] parameter(1)
  a = f32[] abs(x)
  b = f32[] abs(y)
  ROOT r = pred[] compare(a, b), direction=GT }
"""

BODIES = {
    "one device": """
  x = f32[4] parameter(0)
  a = f32[4] all-reduce(x), replica_groups={}, to_apply=add
  s = f32[4] all-reduce-start(a), replica_groups={{0}}, to_apply=add
  d = f32[4] all-reduce-done(s)
  g = f32[4] all-gather(d), dimensions={0}, replica_groups={{0}}
  gs = (f32[4], f32[4]) all-gather-start(g), dimensions={0}, replica_groups={{0}}
  gd = f32[4] all-gather-done(gs)
  r = f32[4] reduce-scatter(gd), dimensions={0}, replica_groups={{0}}, to_apply=add
  t = f32[4] all-to-all(r), dimensions={0}, replica_groups={{0}}
  b = f32[4] collective-broadcast(t), replica_groups={{0}}
  p = f32[4] collective-permute(b), source_target_pairs={{0,0}}
  q = f32[4] collective-reduce(p), replica_groups={{0}}, to_apply=add
  ps = (f32[4], f32[4]) collective-permute-start(q), source_target_pairs={{0,0}}
  pd = f32[4] collective-permute-done(ps)
  z = f32[4] collective-permute(b), source_target_pairs={}
  i = u32[] partition-id()
  j = u32[] replica-id()
  ROOT out = (f32[4], f32[4], u32[], u32[]) tuple(pd, z, i, j)""",
    "copies": """
  x = f32[2,3]{1,0} parameter(0)
  s = (f32[2,3], f32[2,3], u32[]) copy-start(x)
  d = f32[2,3] copy-done(s)
  b = f32[3,2]{0,1} bitcast(d)
  i = s32[6]{0} bitcast(d)
  n = s32[] get-dimension-size(d), dimensions={1}
  ROOT out = (f32[3,2], s32[6], s32[]) tuple(b, i, n)""",
    "complex": """
  x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  c = c64[5] complex(x, y)
  m = c64[5] multiply(c, c)
  r = f32[5] real(m)
  i = f32[5] imag(m)
  k = c64[2] constant({(1, -2), (0.5, nan)})
  ROOT out = (c64[5], f32[5], f32[5], c64[2]) tuple(m, r, i, k)""",
    "map": """
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = f32[2,3] map(x, y), dimensions={0,1}, to_apply=mix""",
    "reducers": """
  x = f32[4,6] parameter(0)
  i = s32[4,6] parameter(1)
  z = f32[] constant(0)
  l = f32[] constant(-inf)
  n = s32[] constant(-1)
  a = f32[4] reduce(x, z), dimensions={1}, to_apply=mix
  m = (f32[6], s32[6]) reduce(x, i, l, n), dimensions={0}, to_apply=most
  w = f32[3,6] reduce-window(x, z), window={size=2x1 stride=1x1}, to_apply=mix
  q = (f32[2,6], s32[2,6]) reduce-window(x, i, l, n), window={size=2x1 stride=2x1}, to_apply=most
  c = f32[4,8] reduce-window(x, z), window={size=2x3 pad=1_1x2_2 rhs_dilate=2x1}, to_apply=add
  ROOT out = (f32[4], (f32[6], s32[6]), f32[3,6], (f32[2,6], s32[2,6]), f32[4,8]) tuple(a, m, w, q, c)""",
    "scatters": """
  x = f32[5,3] parameter(0)
  i = s32[4,1] parameter(1)
  u = f32[4,3] parameter(2)
  far = s32[4,1] multiply(i, i)
  m = f32[5,3] scatter(x, far, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mix
  a = f32[5,3] scatter(x, far, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  k = s32[5,3] iota(), iota_dimension=0
  v = s32[4,3] iota(), iota_dimension=1
  t = (f32[5,3], s32[5,3]) scatter(x, k, far, u, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=most
  ROOT out = (f32[5,3], f32[5,3], (f32[5,3], s32[5,3])) tuple(m, a, t)""",
    "selected": """
  x = f32[4,6] parameter(0)
  s = f32[2,3] parameter(1)
  z = f32[] constant(0)
  a = f32[4,6] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, scatter=add
  t = f32[5,7] parameter(2)
  b = f32[4,6] select-and-scatter(x, t, z), window={size=2x2 pad=1_1x1_1}, select=ge, scatter=mix
  ROOT out = (f32[4,6], f32[4,6]) tuple(a, b)""",
    "sorts": """
  x = f32[3,9] parameter(0)
  a = f32[3,9] sort(x), dimensions={1}, is_stable=true, to_apply=far
  b = f32[3,9] sort(x), dimensions={0}, is_stable=true, to_apply=far
  t = (f32[3,2], s32[3,2]) topk(x), k=2, largest=true
  s = (f32[3,2], s32[3,2]) topk(x), k=2, largest=false
  c = (f32[3,4], s32[3,4]) custom-call(x), custom_call_target="TopK"
  ROOT out = (f32[3,9], f32[3,9], (f32[3,2], s32[3,2]), (f32[3,2], s32[3,2]), (f32[3,4], s32[3,4])) tuple(a, b, t, s, c)""",
    "asynchronous": """
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(x), calls=wrapped
  u = ((f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u)""",
    "transforms": """
  x = f32[2,6] parameter(0)
  a = c64[2,4] fft(x), fft_type=RFFT, fft_length={6}
  b = c64[2,4] fft(a), fft_type=FFT, fft_length={2,4}
  c = c64[2,4] fft(b), fft_type=IFFT, fft_length={4}
  d = f32[2,6] fft(a), fft_type=IRFFT, fft_length={6}
  ROOT t = (c64[2,4], c64[2,4], f32[2,6]) tuple(b, c, d)""",
    "scan": """
  x = f32[2,5] parameter(0)
  s = f32[2] parameter(1)
  a = (f32[2,5], f32[2]) scan(x, s), dimensions={1}, num_carries=1, to_apply=step
  b = (f32[2,5], f32[2]) scan(x, s), dimensions={1}, num_carries=1, is_reverse=true, to_apply=step
  ROOT out = ((f32[2,5], f32[2]), (f32[2,5], f32[2])) tuple(a, b)""",
    "products": """
  x = f32[6,4] parameter(0)
  w = f32[2,4,3] parameter(1)
  g = s32[2] constant({2, 3})
  r = f32[6,3] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  h = bf16[6,4] convert(x)
  k = f32[4,3] parameter(2)
  m = f32[6,3] dot(h, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = pred[6,4] is-finite(x)
  q = pred[4,3] is-finite(k)
  b = pred[6,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[6,3], f32[6,3], pred[6,3]) tuple(r, m, b)""",
    "scaled": """
  x = f8e4m3fn[2,8] parameter(0)
  y = f8e4m3fn[3,8] parameter(1)
  s = bf16[2,2] parameter(2)
  t = bf16[3,2] parameter(3)
  ROOT r = f32[2,3] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
    "halves": """
  x = u64[4] parameter(0)
  l = u32[4] custom-call(x), custom_call_target="X64SplitLow"
  h = u32[4] custom-call(x), custom_call_target="X64SplitHigh"
  j = u64[4] custom-call(h, l), custom_call_target="X64Combine"
  d = f64[3] parameter(1)
  dl = f32[3] custom-call(d), custom_call_target="X64SplitLow"
  dh = f32[3] custom-call(d), custom_call_target="X64SplitHigh"
  dj = f64[3] custom-call(dl, dh), custom_call_target="X64Combine"
  ROOT out = (u32[4], u32[4], u64[4], f64[3]) tuple(l, h, j, dj)""",
    "rounded": """
  x = f32[9] parameter(0)
  b = u32[9] constant({0, 4294967295, 2147483648, 7, 1000000000, 3, 4000000000, 1, 2})
  s = s8[9] stochastic-convert(x, b)
  p = f32[9] reduce-precision(x), exponent_bits=5, mantissa_bits=2
  ROOT out = (s8[9], f32[9]) tuple(s, p)""",
    "random bits": """
  k = u64[2] constant({7, 11})
  a = (u64[2], u32[3,4]) rng-bit-generator(k), algorithm=rng_three_fry
  b = (u64[2], u64[5]) rng-bit-generator(k), algorithm=rng_philox
  c = (u64[2], s32[5]) rng-bit-generator(k), algorithm=rng_default
  ROOT out = ((u64[2], u32[3,4]), (u64[2], u64[5]), (u64[2], s32[5])) tuple(a, b, c)""",
    "factors": """
  x = f32[3,3] parameter(0)
  i = s32[3,3] iota(), iota_dimension=0
  j = s32[3,3] iota(), iota_dimension=1
  e = pred[3,3] compare(i, j), direction=EQ
  n = f32[] constant(9)
  z = f32[] constant(0)
  ns = f32[3,3] broadcast(n), dimensions={}
  zs = f32[3,3] broadcast(z), dimensions={}
  d = f32[3,3] select(e, ns, zs)
  xt = f32[3,3] transpose(x), dimensions={1,0}
  y = f32[3,3] add(x, xt)
  a = f32[3,3] add(y, d)
  l = f32[3,3] cholesky(a), lower=true
  u = f32[3,3] cholesky(a), lower=false
  s = f32[3,3] triangular-solve(l, x), left_side=true, lower=true, transpose_a=TRANSPOSE
  ROOT out = (f32[3,3], f32[3,3], f32[3,3]) tuple(l, u, s)""",
    "outfeed": """
  x = f32[2] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(x, t), outfeed_shape=f32[2]
  y = f32[2] add-dependency(x, o)
  ROOT r = (f32[2], token[]) tuple(y, o)""",
    "numbers": """
  x = f32[3] parameter(0)
  b = bf16[3] constant({1.5, nan, -inf})
  n = f32[2,2] constant({{1e-45, 3.4e38}, {-0, 0.1}})
  w = f8e5m2[2] constant({1.5, -2})
  f = s4[3] constant({-8, 7, 1})
  e = f32[0] constant({})
  p = pred[2] constant({true, false})
  k = f32[20] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
  t = (f32[], s8[2]) constant((2.5, {1, -1}))
  g = s8[2] get-tuple-element(t), index=1
  ROOT out = (f32[3], bf16[3], f32[2,2], f8e5m2[2], s4[3], f32[0], pred[2], f32[20], s8[2]) tuple(x, b, n, w, f, e, p, k, g)""",
    "choices": """
  x = f32[3] parameter(0)
  i = s32[] parameter(1)
  four = s32[] constant(4)
  far = s32[] add(i, four)
  low = s32[] subtract(i, four)
  a = f32[3] conditional(far, x, x, x), branch_computations={double, square, flip}
  b = f32[3] conditional(low, x, x, x), branch_computations={double, square, flip}
  c = f32[3] conditional(i, x, x, x), branch_computations={double, square, flip}
  ROOT out = (f32[3], f32[3], f32[3]) tuple(a, b, c)""",
}
"""Name -> the entry; computations of :data:`SCALARS` and :data:`BRANCHES` can be called."""

BRANCHES = """
wrapped { x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x) }
double { x = f32[3] parameter(0)
  ROOT r = f32[3] add(x, x) }
square { x = f32[3] parameter(0)
  ROOT r = f32[3] multiply(x, x) }
flip { x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x) }
"""


def golden_texts() -> dict[str, str]:
    """Opcode -> the first module of the compiler's golden file."""
    texts: dict[str, str] = {}
    for path in sorted(GOLDEN.glob("*.hlo")):
        if path.stem in COLLECTIVES | LEFT_OUT:
            continue
        case = path.read_text().split("// -----")[0].split("// becomes")[0]
        texts[path.stem] = "\n".join(
            line for line in case.splitlines() if not line.startswith("//")
        )
    return texts


def texts() -> dict[str, str]:
    """All modules by name."""
    by_name = {
        name: f"HloModule m\n{SCALARS}{BRANCHES}\nENTRY e {{{body}\n}}\n"
        for name, body in BODIES.items()
    }
    return by_name | golden_texts()
