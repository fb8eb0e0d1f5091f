"""HLO modules in text that together use every part of the grammar; written for these tests."""

from __future__ import annotations

__all__ = ["SAMPLES"]

SAMPLES: dict[str, str] = {
    "elementwise": """
HloModule elementwise, entry_computation_layout={(f32[4,3]{1,0}, f32[4,3]{1,0})->f32[4,3]{1,0}}

ENTRY %main (x: f32[4,3], y: f32[4,3]) -> f32[4,3] {
  %x = f32[4,3]{1,0} parameter(0)
  %y = f32[4,3]{1,0} parameter(1)
  %sum = f32[4,3]{1,0} add(%x, %y), metadata={op_type="add" op_name="a/b" source_file="f.py" source_line=7}
  %less = pred[4,3]{1,0} compare(%x, %y), direction=LT
  %pick = f32[4,3]{1,0} select(%less, %sum, %x)
  %low = f32[] constant(-1.5)
  %high = f32[] constant(2)
  %clamped = f32[4,3]{1,0} clamp(%low, %pick, %high)
  %e = f32[4,3]{1,0} exponential(%clamped)
  %t = f32[4,3]{1,0} tanh(%e)
  ROOT %n = f32[4,3]{1,0} negate(%t)
}
""",
    "no percent, no shapes of operands, comments": """
HloModule bare
// a comment
ENTRY main {
  p = f32[8]{0} parameter(0)   /* another */
  c = f32[8]{0} constant({1, 2, 3, 4, 5, 6, 7, 8})
  m = multiply(p, c)
  ROOT r = subtract(add(m, p), c)
}
""",
    "without a header": """
main {
  p = s32[2,2] parameter(0)
  ROOT t = s32[2,2] transpose(p), dimensions={1,0}
}
""",
    "reduce": """
HloModule reduce

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

arg_max {
  v0 = f32[] parameter(0)
  i0 = s32[] parameter(1)
  v1 = f32[] parameter(2)
  i1 = s32[] parameter(3)
  better = pred[] compare(v0, v1), direction=GE
  v = f32[] select(better, v0, v1)
  i = s32[] select(better, i0, i1)
  ROOT t = (f32[], s32[]) tuple(v, i)
}

ENTRY main {
  x = f32[3,5]{1,0} parameter(0)
  zero = f32[] constant(0)
  rows = f32[3]{0} reduce(x, zero), dimensions={1}, to_apply=add
  lowest = f32[] constant(-inf)
  first = s32[] constant(0)
  numbers = s32[3,5]{1,0} iota(), iota_dimension=1
  best = (f32[3]{0}, s32[3]{0}) reduce(x, numbers, lowest, first), dimensions={1}, to_apply=arg_max
  value = f32[3]{0} get-tuple-element(best), index=0
  place = s32[3]{0} get-tuple-element(best), index=1
  ROOT all = (f32[3]{0}, f32[3]{0}, s32[3]{0}) tuple(rows, value, place)
}
""",
    "dot and convolution": """
HloModule products
ENTRY main {
  a = f32[2,3,4]{2,1,0} parameter(0)
  b = f32[2,4,5]{2,1,0} parameter(1)
  d = f32[2,3,5]{2,1,0} dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={high,default}
  image = f32[1,8,8,2]{3,2,1,0} parameter(2)
  kernel = f32[3,3,2,4]{3,2,1,0} parameter(3)
  c = f32[1,4,4,4]{3,2,1,0} convolution(image, kernel), window={size=3x3 stride=2x2 pad=1_1x0_1}, dim_labels=b01f_01io->b01f
  g = f32[1,6,6,2]{3,2,1,0} parameter(4)
  k = f32[2,2,1,4]{3,2,1,0} parameter(5)
  grouped = f32[1,5,5,4]{3,2,1,0} convolution(g, k), window={size=2x2}, dim_labels=b01f_01io->b01f, feature_group_count=2
  ROOT t = (f32[2,3,5]{2,1,0}, f32[1,4,4,4]{3,2,1,0}, f32[1,5,5,4]{3,2,1,0}) tuple(d, c, grouped)
}
""",
    "windows": """
HloModule windows

maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

at_least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT g = pred[] compare(a, b), direction=GE
}

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  lowest = f32[] constant(-inf)
  pooled = f32[2,3]{1,0} reduce-window(x, lowest), window={size=2x2 stride=2x2}, to_apply=maximum
  wide = f32[4,2]{1,0} reduce-window(x, lowest), window={size=1x3 pad=0_0x1_1 stride=1x2 rhs_dilate=1x2}, to_apply=maximum
  source = f32[2,3]{1,0} parameter(1)
  zero = f32[] constant(0)
  back = f32[4,6]{1,0} select-and-scatter(x, source, zero), window={size=2x2 stride=2x2}, select=at_least, scatter=plus
  ROOT t = (f32[2,3]{1,0}, f32[4,2]{1,0}, f32[4,6]{1,0}) tuple(pooled, wide, back)
}
""",
    "moving": """
HloModule moving
ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  i = s32[] parameter(1)
  s = f32[2,2]{1,0} slice(x), slice={[1:3], [0:6:3]}
  z = f32[] constant(0)
  padded = f32[5,9]{1,0} pad(x, z), padding=-1_2x1_-3_1
  r = f32[4,6]{1,0} reverse(x), dimensions={0,1}
  b = f32[2,4,6]{2,1,0} broadcast(x), dimensions={1,2}
  h = f32[24]{0} reshape(x)
  cc = f32[8,6]{1,0} concatenate(x, r), dimensions={0}
  d = f32[1,6]{1,0} dynamic-slice(x, i, i), dynamic_slice_sizes={1,6}
  u = f32[4,6]{1,0} dynamic-update-slice(x, d, i, i)
  v = s32[4,6]{1,0} convert(x)
  w = s32[4,6]{1,0} bitcast-convert(x)
  ROOT t = (f32[2,2]{1,0}, f32[5,9]{1,0}, f32[2,4,6]{2,1,0}, f32[24]{0}, f32[8,6]{1,0}, /*index=5*/f32[4,6]{1,0}, s32[4,6]{1,0}, s32[4,6]{1,0}) tuple(s, padded, b, h, cc, /*index=5*/u, v, w)
}
""",
    "gather and scatter": """
HloModule indexed

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  table = f32[5,3]{1,0} parameter(0)
  rows = s32[4]{0} parameter(1)
  g = f32[4,3]{1,0} gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
  updates = f32[4,3]{1,0} parameter(2)
  sc = f32[5,3]{1,0} scatter(table, rows, updates), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus
  ROOT t = (f32[4,3]{1,0}, f32[5,3]{1,0}) tuple(g, sc)
}
""",
    "control": """
HloModule control

body {
  state = (s32[], f32[3]{0}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[3]{0} get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  doubled = f32[3]{0} add(x, x)
  ROOT t = (s32[], f32[3]{0}) tuple(next, doubled)
}

condition {
  state = (s32[], f32[3]{0}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(4)
  ROOT go = pred[] compare(i, limit), direction=LT
}

first { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} negate(p) }
second { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} sqrt(p) }

ENTRY main {
  x = f32[3]{0} parameter(0)
  which = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[3]{0}) tuple(zero, x)
  loop = (s32[], f32[3]{0}) while(start), condition=condition, body=body
  y = f32[3]{0} get-tuple-element(loop), index=1
  branch = f32[3]{0} conditional(which, x, y), branch_computations={first, second}
  called = f32[3]{0} call(branch), to_apply=first
  ROOT t = (f32[3]{0}, f32[3]{0}) tuple(y, called)
}
""",
    "sort": """
HloModule sorting

by_value {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT less = pred[] compare(a, b), direction=LT
}

ENTRY main {
  x = f32[2,7]{1,0} parameter(0)
  n = s32[2,7]{1,0} iota(), iota_dimension=1
  ROOT s = (f32[2,7]{1,0}, s32[2,7]{1,0}) sort(x, n), dimensions={1}, is_stable=true, to_apply=by_value
}
""",
    "types": """
HloModule types
ENTRY main {
  a = bf16[2]{0} constant({1.5, -2})
  b = f16[2]{0} constant({0.1, inf})
  c = f8e4m3fn[2]{0} constant({1, -448})
  d = s4[3]{0} constant({-8, 0, 7})
  e = u4[2]{0} constant({15, 1})
  f = pred[2,2]{1,0} constant({ {true, false}, {1, 0} })
  g = c64[2]{0} constant({(1, 2), (-0.5, 0)})
  h = s64[] constant(-9223372036854775808)
  i = u64[] constant(18446744073709551615)
  j = f32[2,2]{0,1} constant({ {1, 2}, {3, 4} })
  k = f32[0]{0} constant({})
  l = s8[1,2,2,2]{3,2,1,0} constant({ { /*i0=0*/ { /*i1=0*/ {1, 2}, {3, 4} }, { /*i1=1*/ {5, 6}, {7, 8} } } })
  m = f64[] constant(1e-300)
  n = f32[] constant(nan)
  o = u8[2]{0} constant({0, 255})
  p = (s32[], f32[2]{0}) constant((7, {1, 2}))
  ROOT t = (bf16[2]{0}) tuple(a)
}
""",
    "layouts": """
HloModule layouts, entry_computation_layout={(f32[8,128]{1,0:T(8,128)}, s4[16]{0:E(4)})->f32[8,128]{0,1}}
ENTRY main {
  a = f32[8,128]{1,0:T(8,128)} parameter(0)
  b = s4[16]{0:E(4)} parameter(1)
  c = f32[<=8,128]{1,0} custom-call(a), custom_call_target="dynamic"
  d = f32[8,128]{1,0:T(8,128)(2,1)S(1)} copy(a)
  ROOT e = f32[8,128]{0,1} copy(d)
}
""",
    "custom calls": """
HloModule calls, is_scheduled=true
ENTRY main {
  a = f32[2]{0} parameter(0), sharding={replicated}
  b = f32[2]{0} custom-call(a), custom_call_target="AwsNeuronCustomNativeKernel", api_version=API_VERSION_STATUS_RETURNING, backend_config="eyJhIjoxfQ=="
  c = f32[2]{0} custom-call(b), custom_call_target="foo\\"bar\\n", custom_call_has_side_effect=true, backend_config={"key":{"list":[1,2]}}
  d = (f32[2]{0}, s32[]) custom-call(c), custom_call_target="alias", output_to_operand_aliasing={{0}: (0, {})}, frontend_attributes={x="1",y={"z":2}}
  e = f32[2]{0} get-tuple-element(d), index=0
  ROOT f = f32[2]{0} add(e, a), control-predecessors={c}
}
""",
    "shardings": """
HloModule shardings, num_partitions=4
ENTRY main {
  a = f32[8,8]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[8,8]{1,0} copy(a), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}
  c = f32[8,8]{1,0} copy(b), sharding={devices=[2,2]<=[2,2]T(1,0)}
  d = f32[8,8]{1,0} copy(c), sharding={maximal device=1}
  e = f32[8,8]{1,0} copy(d), sharding={manual}
  ROOT t = (f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(e, c), sharding={{replicated}, {devices=[4,1]<=[4]}}
}
""",
    "collectives": """
HloModule collectives, replica_count=4

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ar = f32[8]{0} all-reduce(x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=plus
  ag = f32[16]{0} all-gather(x), replica_groups={{0,1},{2,3}}, dimensions={0}
  rs = f32[4]{0} reduce-scatter(x), replica_groups=[2,2]<=[4], dimensions={0}, to_apply=plus
  cp = f32[8]{0} collective-permute(x), source_target_pairs={{0,1},{1,2}}
  aa = f32[8]{0} all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={0}
  id = u32[] replica-id()
  ROOT t = (f32[8]{0}, f32[16]{0}, f32[4]{0}) tuple(ar, ag, rs)
}
""",
    "fusion and aliases": """
HloModule fused, input_output_alias={ {}: (0, {}, may-alias) }

inner {
  p = f32[4]{0} parameter(0)
  ROOT s = f32[4]{0} multiply(p, p)
}

ENTRY main {
  p = f32[4]{0} parameter(0)
  ROOT f = f32[4]{0} fusion(p), kind=kLoop, calls=inner
}
""",
    "asynchronous sugar": """
HloModule asynchronous
ENTRY main {
  p = f32[2,3]{1,0} parameter(0)
  s = ((f32[2,3]{1,0}), f32[2,3]{1,0}, u32[]) negate-start(p)
  u = ((f32[2,3]{1,0}), f32[2,3]{1,0}, u32[]) negate-update(s)
  ROOT d = f32[2,3]{1,0} negate-done(u)
}
""",
    "frames": """
HloModule frames

FileNames
1 "model.py"
2 "layers.py"

FunctionNames
1 "main"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=2 end_column=9}
2 {file_name_id=2 function_name_id=2 line=33 end_line=34 column=0 end_column=5}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY main {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p), metadata={op_name="n" stack_frame_id=2}
}
""",
    "linear algebra and random": """
HloModule algebra
ENTRY main {
  a = f32[3,3]{1,0} parameter(0)
  c = f32[3,3]{1,0} cholesky(a), lower=true
  b = f32[3,2]{1,0} parameter(1)
  s = f32[3,2]{1,0} triangular-solve(c, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  x = c64[8]{0} parameter(2)
  f = c64[8]{0} fft(x), fft_type=FFT, fft_length={8}
  k = u64[2]{0} parameter(3)
  r = (u64[2]{0}, u32[5]{0}) rng-bit-generator(k), algorithm=rng_three_fry
  p = f32[3,2]{1,0} reduce-precision(s), exponent_bits=5, mantissa_bits=10
  ROOT t = (f32[3,2]{1,0}, c64[8]{0}) tuple(p, f)
}
""",
    "batch norm": """
HloModule norm
ENTRY main {
  x = f32[4,3]{1,0} parameter(0)
  scale = f32[3]{0} parameter(1)
  offset = f32[3]{0} parameter(2)
  ROOT n = (f32[4,3]{1,0}, f32[3]{0}, f32[3]{0}) batch-norm-training(x, scale, offset), epsilon=0.001, feature_index=1
}
""",
    "tokens and hosts": """
HloModule hosts
ENTRY main {
  p = f32[2]{0} parameter(0)
  k = token[] after-all()
  s = (f32[2]{0}, u32[], token[]) send(p, k), channel_id=1, is_host_transfer=true
  sd = token[] send-done(s), channel_id=1, is_host_transfer=true
  i = ((s32[]), token[]) infeed(sd), infeed_config="abc"
  o = token[] outfeed(p, sd), outfeed_shape=f32[2]{0}
  ROOT d = f32[2]{0} add-dependency(p, o)
}
""",
}
