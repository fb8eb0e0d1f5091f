"""Damaged modules give coded errors, or compile; nothing else ever comes out."""

from __future__ import annotations

import random

import pytest

import hlo_tools
from hlo_tools.errors import HloError
from neff.compiler import compile
from neff.errors import NeffError
from nki_lang.base.errors import NkiError

TEXT = b"""HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
twice { a = f32[6,8]{1,0} parameter(0) ROOT c = f32[6,8]{1,0} add(a, a) }
ENTRY main {
  x = f32[6,8]{1,0} parameter(0)
  y = f32[8,4]{1,0} parameter(1)
  k = f32[2,2]{1,0} constant({{1, 2}, {3, 4}})
  zero = f32[] constant(0)
  c = f32[6,8]{1,0} call(x), to_apply=twice
  d = f32[6,4]{1,0} dot(c, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[4]{0} reduce(d, zero), dimensions={0}, to_apply=add
  b = f32[6,4]{1,0} broadcast(r), dimensions={1}
  e = pred[6,4]{1,0} compare(b, d), direction=LT
  s = f32[6,4]{1,0} select(e, b, d)
  p = f32[9,8]{1,0} pad(s, zero), padding=1_2x0_1_1
  t = f32[4,6]{0,1} transpose(s), dimensions={1,0}
  l = f32[2,3]{1,0} slice(t), slice={[0:4:2], [1:4]}
  i = s32[6,4]{1,0} iota(), iota_dimension=1
  n = f32[4,3]{1,0} concatenate(l, l), dimensions={0}
  ROOT o = (f32[9,8]{1,0}, f32[4,3]{1,0}, s32[6,4]{1,0}, f32[2,2]{1,0}) tuple(p, n, i, k)
}"""


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_and_cut_files(seed: int) -> None:
    good = hlo_tools.load(TEXT).to_bytes()
    compile(hlo_tools.load(good), target="trn1")
    generator = random.Random(seed)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(generator.choice([1, 1, 1, 3])):
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        if generator.random() < 0.1:
            data = data[: generator.randrange(len(data))]
        try:
            compile(hlo_tools.load(bytes(data)), target="trn1")
        except (HloError, NeffError, NkiError) as error:
            assert error.code
            assert error.message
