"""``tile[...] = value``: as NumPy assigns, in every way that a kernel runs."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute import simulate
from nki_lang.kernel import jit
from tests.execute.ways import every_way, run
from tests.nki_lang.specimen import refused, tracing

ARRAYS = [
    np.random.default_rng(3).standard_normal((16, 8), np.float32),
    np.arange(128, dtype=np.float32).reshape(16, 8) - 60,
]


@jit
def assigned(x, wide):
    """Views of HBM, SBUF and PSUM on the left; tiles, views, numbers and arrays on the right."""
    t = nl.load(x)
    sums = nl.zeros((16, 16), nl.float32, buffer=nl.psum)
    out = nl.ndarray((16, 40), nl.float32, buffer=nl.shared_hbm)
    out[:, 0:4] = nl.multiply(t[:, 0:4], 2.0)
    out[:, 4:8] = t[:, 7:8]  # repeated along the free dimension
    sums[:, 0:8] = t
    sums[:, 8:12] = -3
    sums[:, 12:16] = wide[:, 0:4]
    out[:, 8:24] = sums
    t[:, 2:8] = t[:, 0:6]  # overlaps what it reads
    t[0:1, :] = 0.5
    out[:, 24:32] = t
    out[..., 32:34] = 7
    out[:, 34:36] = np.array([1.5, 2.5], np.float32)
    out[3, 36:40] = x[4, 0:4]
    out[0:3, 36:40] = x[5:6, 2:6]
    out[4:16, 36:40] = np.float32(2)
    return out


def expected(x, wide):
    t, out = x.copy(), np.empty((16, 40), np.float32)
    out[:, 0:4] = t[:, 0:4] * 2
    out[:, 4:8] = t[:, 7:8]
    out[:, 8:16], out[:, 16:20], out[:, 20:24] = t, -3, wide[:, 0:4]
    t[:, 2:8] = t[:, 0:6].copy()
    t[0] = 0.5
    out[:, 24:32], out[:, 32:34], out[:, 34:36] = t, 7, [1.5, 2.5]
    out[3, 36:40], out[0:3, 36:40], out[4:16, 36:40] = x[4, 0:4], x[5, 2:6], 2
    return out


@every_way
def test_assignments_agree_with_numpy(mode):
    for x in ARRAYS:
        np.testing.assert_array_equal(run(mode, assigned, x, x + 100), expected(x, x + 100))


@jit
def integers(x):
    t = nl.load(x)
    out = nl.ndarray((4, 12), nl.uint32, buffer=nl.shared_hbm)
    out[:, 0:4] = t  # int32 bits stay
    out[:, 4:8] = (1 << 31) + 1
    row = nl.ndarray((1, 4), nl.int32, buffer=nl.sbuf)
    row[...] = x[1:2, :]
    wide = nl.ndarray((4, 4), nl.int32, buffer=nl.sbuf)
    wide[...] = row  # repeated along the partitions
    wide[0, 3] = nisa.register_alloc(11)
    wide[2, 0] = (1 << 25) + 1
    out[:, 8:12] = wide
    return out


@every_way
def test_integers_keep_their_bits(mode):
    for x in (
        np.array([[-1, 2, 3, (1 << 30) + 1]] * 4, np.int32),
        np.arange(16, dtype=np.int32).reshape(4, 4),
    ):
        wide = np.repeat(x[1:2], 4, 0)
        wide[0, 3], wide[2, 0] = 11, (1 << 25) + 1
        reference = np.concatenate([x, np.full((4, 4), -(1 << 31) + 1, np.int32), wide], 1)
        np.testing.assert_array_equal(run(mode, integers, x), reference.view(np.uint32))


def test_conversions_to_floats_round_as_numpy():
    @jit
    def narrow(x):
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        out[...] = nl.load(x)
        return out

    for x in ARRAYS:
        result = simulate(narrow)(x)
        np.testing.assert_array_equal(result, x.astype(result.dtype))


def test_an_integer_index_drops_a_dimension_as_in_numpy():
    @jit
    def columns(x):
        t = nl.zeros((8, 8), nl.float32)
        t[:, 1] = x[0, :]  # of shape (8,), as NumPy's t[:, 1]
        t[2, :] = x[1, :]
        out = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)
        out[...] = t
        return out

    for x in ARRAYS:
        reference = np.zeros((8, 8), np.float32)
        reference[:, 1], reference[2, :] = x[0], x[1]
        np.testing.assert_array_equal(simulate(columns)(x), reference)


REFUSED = {
    "shape": (lambda t, n: t.__setitem__((slice(None), slice(0, 2)), t[:, 0:3]), "(4, 3)"),
    "partitions": (lambda t, n: t.__setitem__(slice(0, 3), t[0:2, :]), "(2, 8)"),
    "column for row": (lambda t, n: t.__setitem__((slice(0, 1), slice(0, 4)), t[:, 0:1]), "(4, 1)"),
    "float to integer": (lambda t, n: n.__setitem__(..., t), "nl.copy"),
    "integer to fewer bits": (lambda t, n: n[:, 0:4].view(nl.int8).__setitem__((..., slice(0, 8)), n), "nl.copy"),
    "fraction": (lambda t, n: n.__setitem__(..., 1.5), "1.5"),
    "nan": (lambda t, n: n.__setitem__(..., float("nan")), "nan"),
    "too large": (lambda t, n: n.__setitem__(..., 1 << 31), "2147483648"),
    "array of fractions": (lambda t, n: n.__setitem__(..., np.full((4, 8), 0.5)), "float64"),
    "text": (lambda t, n: t.__setitem__(..., "zero"), "zero"),
    "none": (lambda t, n: t.__setitem__(..., None), "None"),
    "complex": (lambda t, n: t.__setitem__(..., np.complex64(1j)), "complex"),
    "list": (lambda t, n: t.__setitem__(..., [1.0] * 8), "list"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_ambiguous_is_refused(case):
    assign, word = REFUSED[case]
    with tracing():
        t, n = nl.ndarray((4, 8), nl.float32), nl.ndarray((4, 8), nl.int32)
        with refused("NKI-ASSIGN", word):
            assign(t, n)
