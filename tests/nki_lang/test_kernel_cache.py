"""Changes of values that a kernel reads besides its arguments are noticed and reported."""

import functools
import sys
import types
import warnings

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute import simulate
from nki_lang.kernel import jit

X = np.ones((2, 4), np.float32)
FACTOR = 2.0
NUMBERS = [1.0]
TABLE = {"a": 1.0}
settings = types.ModuleType("kernel_settings")
settings.SHIFT = 1.0
sys.modules["kernel_settings"] = settings


class Base:
    bias = 1.0

    def extra(self):
        return self.bias


class Amount(Base):
    def __init__(self, number):
        self.number = number

    def total(self):
        return self.number + self.extra()


def helper(tile):
    nisa.tensor_scalar(tile, tile, nl.multiply, FACTOR)


def added(x, number):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, number)
    nl.store(out, tile)
    return out


@jit
def kernel(x, amount, f=1.0):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    helper(tile)
    number = amount.total() + f + NUMBERS[0] + TABLE["a"] + settings.SHIFT
    nisa.tensor_scalar(tile, tile, nl.add, number)
    nl.store(out, tile)
    return out


def change(place, name, value):
    return lambda patch: patch.setattr(place, name, value)


THIS_MODULE = sys.modules[__name__]
CHANGES = {
    "a global of a helper": (change(THIS_MODULE, "FACTOR", 3.0), "helper"),
    "a helper": (change(THIS_MODULE, "helper", lambda tile: nisa.memset(tile, 5.0)), "helper"),
    "an entry of a dict": (lambda patch: patch.setitem(TABLE, "a", 9.0), "TABLE"),
    "a name of a module": (change(settings, "SHIFT", 9.0), "settings.SHIFT"),
    "a method": (change(Amount, "total", lambda self: 50.0), "class Amount"),
    "a method of a base": (change(Base, "extra", lambda self: 50.0), "class Base"),
    "a value of a base": (change(Base, "bias", 50.0), "class Base"),
    "a default": (change(kernel.func, "__defaults__", (9.0,)), "its defaults"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_and_named(name, monkeypatch):
    amount = Amount(3.0)
    before = kernel(X, amount)
    apply, label = CHANGES[name]
    apply(monkeypatch)
    with pytest.warns(UserWarning, match=f"traced again because .*{label}") as caught:
        after = kernel(X, amount)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(after, simulate(kernel)(X, amount))
    assert not np.array_equal(before, after)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="traced again"):
        np.testing.assert_array_equal(kernel(X, amount), before)


def test_an_element_of_a_global_list_is_noticed():
    before = kernel(X, Amount(3.0))
    NUMBERS[0] += 2
    with pytest.warns(UserWarning, match="NUMBERS"):
        np.testing.assert_array_equal(kernel(X, Amount(3.0)), before + 2)
    NUMBERS[0] -= 2
    with pytest.warns(UserWarning, match="NUMBERS"):
        kernel(X, Amount(3.0))


def test_an_object_that_changes_is_another_argument():
    amount = Amount(3.0)
    before = kernel(X, amount)
    amount.number = 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(kernel(X, amount), before + 1)
        np.testing.assert_array_equal(kernel(X, Amount(3.0)), before)


def test_closures_are_read_by_content():
    numbers, step = [1.0], 1.0

    @jit
    def inner(x):
        return added(x, numbers[0] + step)

    assert inner(X)[0, 0] == 3
    numbers[0] = 5.0
    with pytest.warns(UserWarning, match="numbers"):
        assert inner(X)[0, 0] == 7
    step = 2.0
    with pytest.warns(UserWarning, match="step"):
        assert inner(X)[0, 0] == 8


def test_what_a_kernel_fills_is_no_input():
    shapes = []

    @jit
    def noting(x):
        shapes.append(x.shape)
        return added(x, 1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            noting(X)
    assert len(shapes) == 1


class Remembering:
    step = 1.0

    @functools.cached_property
    def doubled(self):
        return 2 * self.step


def test_what_a_kernel_fills_hides_nothing_else():
    """An object that remembers what it computed while the kernel was traced is read all the same."""
    remembering = Remembering()
    kernel = jit(lambda x: added(x, remembering.doubled))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*traced again")
        for step in (1.0, 3.0, 2.0, 2.0):
            Remembering.step = step
            remembering.__dict__.clear()
            assert kernel(X)[0, 0] == X[0, 0] + 2 * step


class Naming:
    def __init__(self):
        self.count, self.prefix = 0, 1.0


def test_a_kernel_that_fills_is_traced_once_for_each_shape():
    traced, names = [], Naming()

    @jit
    def noting(x):
        traced.append(x.shape)
        names.count += 1
        return added(x, names.prefix)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((2, 2), (2, 3), (2, 4)) * 3:
            noting(np.ones(shape, np.float32))
    assert len(traced) <= 4
    names.prefix = 5.0
    with pytest.warns(UserWarning, match="prefix"):
        assert noting(X)[0, 0] == X[0, 0] + 5
