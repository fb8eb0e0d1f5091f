"""Scalars of NKI 0.7: arithmetic that wraps, bounds, indices, and what they lack."""

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.kernel import jit
from tests.execute.ways import every_way, run
from tests.nki_lang.specimen import refused, tracing


@jit
def doubled_rows(x, count):
    """Rows ``count - 1`` and below of ``x``, doubled by a loop with a scalar bound."""
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    bound = nisa.scalar_load(count)

    def body(i):
        assert isinstance(i, nisa.NkiScalar)
        row = nl.ndarray((1, x.shape[1]), nl.float32)
        nisa.dma_copy(row, x[nl.ds(i, 1), :])
        nisa.tensor_scalar(row, row, nl.multiply, 2.0)
        nisa.dma_copy(out[nl.ds(bound - 1 - i, 1), :], row)

    nl.fori_loop(0, bound, body)
    return out


@every_way
def test_scalars_are_bounds_and_indices(mode):
    for x, count in ((np.arange(24, dtype=np.float32).reshape(6, 4), 4),
                     (np.random.default_rng(2).standard_normal((6, 4), np.float32), 5)):  # fmt: skip
        expected = x.copy()
        expected[:count] = 2 * x[:count][::-1]
        result = run(mode, doubled_rows, x, np.array([[count]], np.int32))
        np.testing.assert_array_equal(result, expected)


@jit
def wrapped(x):
    tile = nl.load(x)
    first, second = nisa.scalar_load(tile[0:1, 0:1]), nisa.scalar_load(tile[0:1, 1:2])
    nisa.scalar_store(tile[0:1, 0:1], first * first)
    nisa.scalar_store(tile[0:1, 1:2], 1 + second)
    nisa.scalar_store(tile[0:1, 2:3], -first + second * 3 - 7)
    out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@every_way
def test_arithmetic_wraps_at_32_bits(mode):
    for row in ([100000, 2**31 - 1, 0], [-5, 12, 0]):
        x = np.array([row], np.int32)
        a, b = (x[:, location].astype(np.int64) for location in (0, 1))
        exact = np.stack([a * a, 1 + b, -a + b * 3 - 7], 1)
        np.testing.assert_array_equal(run(mode, wrapped, x), exact.astype(np.int32))


def test_counters_keep_the_operators_of_registers():
    """Kernels for NKI 0.6 compute so on the counters of loops."""
    with tracing():
        t = nl.ndarray((128, 64), nl.float32)

        def body(i):
            for index in ((i + 1) % 2, i // 2, (i & 1) + i, i == 3, nisa.register_alloc(1) + i):
                assert isinstance(index, nisa.VirtualRegister)
                assert t[:, nl.ds(index, 4)].is_indirect()

        nl.fori_loop(0, 4, body)
        kinds = []
        nl.fori_loop(nisa.register_alloc(2), 4, lambda i: kinds.append(type(i)))
        assert kinds == [nisa.VirtualRegister]


def scalar():
    return nisa.scalar_load(nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm))


def element(dtype, *shape):
    return nl.ndarray(shape or (1, 1), dtype, buffer=nl.shared_hbm)


REFUSED = {
    "int64": (lambda: nisa.scalar_load(element(nl.int64)), "NKI-SCALAR", "64 bits"),
    "unsigned": (lambda: nisa.scalar_load(element(nl.uint32)), "NKI-SCALAR", "uint32"),
    "shape": (lambda: nisa.scalar_load(element(nl.int32, 1, 2)), "NKI-REGISTER", "one element"),
    "number": (lambda: nisa.scalar_store(element(nl.int32), 3), "NKI-SCALAR", "memset"),
    "store width": (lambda: nisa.scalar_store(element(nl.int16), scalar()), "NKI-SCALAR", "int16"),
    "division": (lambda: scalar() // 2, "NKI-SCALAR", "floordiv"),
    "remainder": (lambda: 7 % scalar(), "NKI-SCALAR", "mod"),
    "comparison": (lambda: scalar() < 2, "NKI-SCALAR", "compared"),
    "equality": (lambda: scalar() == scalar(), "NKI-SCALAR", "compared"),
    "register": (lambda: scalar() + nisa.register_alloc(1), "NKI-SCALAR", "do not compute"),
    "float": (lambda: scalar() * 0.5, "NKI-REGISTER", "integers"),
    "condition": (lambda: range(scalar()), "NKI-REGISTER-VALUE", "fori_loop"),
    "written": (lambda: nisa.register_move(scalar(), 3), "NKI-REGISTER-FROZEN", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_scalars_lack_is_refused(case):
    use, code, word = REFUSED[case]
    with tracing(), refused(code, word):
        use()
