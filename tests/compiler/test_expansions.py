"""Compound operations, as HLO text, against jaxlib."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import check, oracle, run, same

pytestmark = pytest.mark.jax

NORMALISATION = b"""HloModule m
ENTRY main {
  x = f32[4,6,5]{2,1,0} parameter(0)
  g = f32[6]{0} parameter(1)
  b = f32[6]{0} parameter(2)
  d = f32[4,6,5]{2,1,0} parameter(3)
  t = (f32[4,6,5]{2,1,0}, f32[6]{0}, f32[6]{0}) batch-norm-training(x, g, b), epsilon=1e-05, feature_index=1
  y = f32[4,6,5]{2,1,0} get-tuple-element(t), index=0
  m = f32[6]{0} get-tuple-element(t), index=1
  v = f32[6]{0} get-tuple-element(t), index=2
  i = f32[4,6,5]{2,1,0} batch-norm-inference(x, g, b, m, v), epsilon=1e-05, feature_index=1
  r = (f32[4,6,5]{2,1,0}, f32[6]{0}, f32[6]{0}) batch-norm-grad(x, g, m, v, d), epsilon=1e-05, feature_index=1
  p = f32[4,6,5]{2,1,0} get-tuple-element(r), index=0
  q = f32[6]{0} get-tuple-element(r), index=1
  s = f32[6]{0} get-tuple-element(r), index=2
  ROOT o = (f32[4,6,5]{2,1,0}, f32[6]{0}, f32[6]{0}, f32[4,6,5]{2,1,0}, f32[4,6,5]{2,1,0}, f32[6]{0}, f32[6]{0}) tuple(y, m, v, i, p, q, s)
}"""

EVERY = b"""HloModule m
every { x = pred[] parameter(0) y = pred[] parameter(1) f = pred[] constant(false) t = pred[] constant(true)
  a = pred[] compare(y, f), direction=NE b = pred[] compare(x, f), direction=NE
  c = pred[] and(a, b) ROOT r = pred[] select(c, t, f) }
ENTRY main {
  x = f32[5,7]{1,0} parameter(0)
  z = f32[] constant(0)
  zs = f32[5,7]{1,0} broadcast(z), dimensions={}
  p = pred[5,7]{1,0} compare(x, zs), direction=GT
  t = pred[] constant(true)
  ROOT r = pred[7]{0} reduce(p, t), dimensions={0}, to_apply=every
}"""


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def compare(text: bytes, arguments: list[np.ndarray], tolerance: float = 1e-5) -> None:
    module = hlo_tools.load(text)
    for target in ("trn1", "trn3"):
        results = run(compile(module, target=target), arguments)
        for result, reference in zip(results, oracle(module, arguments), strict=True):
            same(result, reference, tolerance)


CONVOLUTIONS = {
    "plain": ("NCHW", "OIHW", {}),
    "strided": ("NCHW", "OIHW", {"window_strides": (2, 3), "padding": ((1, 2), (0, 1))}),
    "dilated": ("NHWC", "HWIO", {"rhs_dilation": (2, 1), "padding": "SAME"}),
    "holes": ("NCHW", "IOHW", {"lhs_dilation": (2, 2), "padding": ((2, 1), (1, 1))}),
    "cropped": ("NCHW", "OIHW", {"padding": ((-1, 0), (-2, -1))}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    from jax import lax

    data, weights, fields = CONVOLUTIONS[name]
    sizes = {"N": 2, "C": 3, "H": 9, "W": 8, "O": 5, "I": 3}
    x, k = arrays(
        tuple(sizes[dim] for dim in data),
        tuple({**sizes, "H": 3, "W": 2}[dim] for dim in weights),
    )
    fields = {"window_strides": (1, 1), "padding": "VALID", **fields}
    numbers = (data, weights, data)
    check(
        lambda x, k: lax.conv_general_dilated(x, k, dimension_numbers=numbers, **fields),
        x, k, tolerance=1e-4,
    )  # fmt: skip


def test_grouped_convolution_and_gradients() -> None:
    import jax
    from jax import lax

    def loss(x, k):
        return (lax.conv_general_dilated(x, k, (2, 1), "SAME", feature_group_count=2) ** 2).sum()

    def plain(x, k):
        return (lax.conv(x, k, (2, 1), "SAME") ** 2).sum()

    x, grouped, k = arrays((2, 4, 7, 6), (6, 2, 3, 3), (5, 4, 3, 3))
    check(lambda x, k: loss(x, k), x, grouped, tolerance=1e-4)
    check(lambda x, k: jax.grad(plain, (0, 1))(x, k), x, k, tolerance=1e-4)


def test_windows() -> None:
    from jax import lax

    def function(x):
        return (
            lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
            lax.reduce_window(x, np.float32(0), lax.add, (1, 1, 3, 3), (1, 1, 1, 2), "SAME"),
            lax.cumsum(x, 3), lax.reduce_window(x, np.inf, lax.min, (2, 1, 1, 3), (1,) * 4, "VALID"),
        )  # fmt: skip

    check(function, arrays((2, 3, 6, 8))[0], tolerance=1e-5)


def test_batch_normalisation() -> None:
    compare(NORMALISATION, arrays((4, 6, 5), (6,), (6,), (4, 6, 5)))


def test_an_and_that_is_written_in_another_way() -> None:
    (values,) = arrays((5, 7))
    compare(EVERY, [values + 0.5])
