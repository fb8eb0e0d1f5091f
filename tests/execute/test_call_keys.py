"""Calls that differ in a constant, or in what the kernel reads, never share what was traced."""

from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import functools
import itertools
import operator
import os
import sys
import types
import typing
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.frontend.objects import NKIObject
from nki_lang.kernel import jit
from tests.execute.ways import run

WAYS = pytest.mark.parametrize(
    "mode",
    ["direct", pytest.param("jax", marks=pytest.mark.jax),
     pytest.param("torch", marks=pytest.mark.torch_xla)],
)  # fmt: skip
X = np.ones((2, 2), np.float32)


def scaled(x, number):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, float(number))
    nl.store(out, tile)
    return out


@jit
def by_reader(x, read, value):
    return scaled(x, read(value))


class Plain:
    def __init__(self, value):
        self.value = value

    def read(self):
        return self.value


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Wide(float):
    """A number with an attribute of its own."""


class Names(list):
    pass


class Quiet:
    """An object whose pickled state does not show its value."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return (Quiet, (0,))


class Fields(NKIObject):
    value: float


Configured = dataclasses.make_dataclass("Configured", ["value"], slots=True)
Frozen = dataclasses.make_dataclass("Frozen", ["value"], frozen=True)
Named = collections.namedtuple("Named", ["value"])


def attributed(value):
    def function():
        return function.value

    function.value = value
    return function


def with_attribute(value):
    wide = Wide(1)
    wide.value = value
    return wide


def labelled(value):
    names = Names([1])
    names.value = value
    return names


def module(value):
    settings = types.ModuleType("settings_of_a_call")
    settings.value = value
    return settings


def first(value):
    return next(iter(value))


def call(value):
    return value()


def inner_kernel(value):
    return jit(lambda x: scaled(x, value))


attribute = operator.attrgetter("value")
KINDS = {
    "partial": (call, lambda v: functools.partial(max, v, -1.0)),
    "partial keywords": (call, lambda v: functools.partial(dict, a=v)),
    "bound method": (call, lambda v: Plain(v).read),
    "lambda": (call, lambda v: lambda: v),
    "default": (call, lambda v: lambda v=v: v),
    "function attribute": (call, attributed),
    "cached function": (call, lambda v: functools.lru_cache(lambda: v)),
    "object": (attribute, Plain),
    "slots": (attribute, Slots),
    "slots dataclass": (attribute, Configured),
    "frozen dataclass": (attribute, Frozen),
    "named tuple": (attribute, Named),
    "fields": (attribute, lambda v: Fields(value=v)),
    "namespace": (attribute, lambda v: SimpleNamespace(value=v)),
    "nested": (attribute, lambda v: SimpleNamespace(value=np.float32(v))),
    "array in an object": (lambda o: o.value[0], lambda v: Plain(np.full(1, v))),
    "attribute of a number": (attribute, with_attribute),
    "attribute of a list": (attribute, labelled),
    "class": (attribute, lambda v: type("Config", (), {"value": v})),
    "class with a property": (
        lambda kind: kind().value, lambda v: type("Config", (), {"value": property(lambda _: v)}),
    ),
    "module": (attribute, module),
    "set": (first, lambda v: {v}),
    "frozenset": (first, lambda v: frozenset({v})),
    "bytearray": (first, lambda v: bytearray([int(v)])),
    "memoryview": (first, lambda v: memoryview(bytes([int(v)]))),
    "array": (first, lambda v: array.array("f", [v])),
    "deque": (first, lambda v: collections.deque([v])),
    "counter": (first, lambda v: collections.Counter([v])),
    "default dict": (lambda d: d["a"], lambda v: collections.defaultdict(float, a=v)),
    "iterator": (first, lambda v: itertools.repeat(v)),
    "pickles to nothing": (attribute, Quiet),
    "kernel": (lambda k: k.func.__closure__[0].cell_contents, inner_kernel),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("kind", KINDS)
def test_constants_that_differ(kind, mode):
    read, make = KINDS[kind]
    if kind == "partial keywords":
        read = lambda value: value()["a"]  # noqa: E731
    for number in (1.0, 6.0, 2.0, 1.0):
        np.testing.assert_array_equal(run(mode, by_reader, X, read, make(number)), number * X)


@WAYS
def test_the_sign_of_zero(mode):
    for number in (0.0, -0.0, 0.0):
        result = run(mode, by_reader, X, float, number)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(np.float32(number)))


@WAYS
def test_a_class_that_changes(mode):
    class Config:
        value = 1.0

    for number in (1.0, 6.0, 2.0):
        Config.value = number
        np.testing.assert_array_equal(run(mode, by_reader, X, attribute, Config), number * X)


def test_kernels_on_other_grids_are_other_arguments():
    kernel = jit(lambda x: x)
    collected = []
    for grid in (kernel, kernel[1], kernel[2]):
        read = jit(lambda x, k: scaled(x, len(k.grid) + sum(k.grid)))
        collected.append(float(by_reader(X, lambda k: len(k.grid) + sum(k.grid), grid)[0, 0]))
        assert read is not kernel
    assert collected == [0.0, 2.0, 3.0]


def test_equal_constants_share_what_was_traced():
    counted = []

    @jit
    def counting(x, value):
        counted.append(1)
        return scaled(x, 2.0)

    shared = [k for k in KINDS if k not in ("iterator", "pickles to nothing")]
    for kind in shared:
        read_twice = [KINDS[kind][1](3.0) for _ in range(2)]
        counted.clear()
        for value in read_twice:
            counting(X, value)
        assert len(counted) <= 1, kind


SETTINGS = sys.modules["settings_of_these_tests"] = types.ModuleType("settings_of_these_tests")
SETTINGS.inner = types.ModuleType("inner")
SLOTS, QUEUE, HOLDER = Slots(1.0), collections.deque([1.0]), Plain(1.0)
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
AMOUNT = 1.0


def attributed_global():
    return attributed_global.value


def by_local_import():
    import settings_of_these_tests

    return settings_of_these_tests.value


def by_local_name():
    from settings_of_these_tests import value

    return value


def through(function):
    @functools.wraps(np.sum)
    def wrapper():
        return function()

    return wrapper


def _set(location, name):
    return lambda value: setattr(location, name, value)


THIS_MODULE = sys.modules[__name__]
READS = {
    "import": (by_local_import, _set(SETTINGS, "value")),
    "import from": (by_local_name, _set(SETTINGS, "value")),
    "wrapped": (through(lambda: SLOTS.value), _set(SLOTS, "value")),
    "module in a module": (lambda: SETTINGS.inner.value, _set(SETTINGS.inner, "value")),
    "getattr": (lambda: getattr(SETTINGS, "value"), _set(SETTINGS, "value")),  # noqa: B009
    "sys.modules": (
        lambda: sys.modules["settings_of_these_tests"].value, _set(SETTINGS, "value")),
    "slots": (lambda: SLOTS.value, _set(SLOTS, "value")),
    "deque": (lambda: QUEUE[0], lambda value: operator.setitem(QUEUE, 0, value)),
    "context": (CONTEXT.get, CONTEXT.set),
    "context of a lambda": (lambda: CONTEXT.get(), CONTEXT.set),
    "environment": (
        lambda: os.environ["AMOUNT_OF_THESE_TESTS"],
        lambda value: operator.setitem(os.environ, "AMOUNT_OF_THESE_TESTS", str(value))),
    "getenv": (
        lambda: os.getenv("AMOUNT_OF_THESE_TESTS"),
        lambda value: operator.setitem(os.environ, "AMOUNT_OF_THESE_TESTS", str(value))),
    "globals()": (lambda: globals()["AMOUNT"], _set(THIS_MODULE, "AMOUNT")),
    "eval": (lambda: eval("AMOUNT"), _set(THIS_MODULE, "AMOUNT")),
    "function attribute": (attributed_global, _set(attributed_global, "value")),
    "bound method": (HOLDER.read, _set(HOLDER, "value")),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("what", READS)
def test_what_a_kernel_reads(what, mode, monkeypatch):
    monkeypatch.setenv("AMOUNT_OF_THESE_TESTS", "1")
    read, change = READS[what]
    kernel = jit(lambda x: scaled(x, read()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*traced again")
        for number in (1.0, 6.0, 2.0, 1.0):
            change(number)
            np.testing.assert_array_equal(run(mode, kernel, X), number * X)


@WAYS
def test_kernels_that_are_no_plain_functions(mode):
    kernel = jit(functools.partial(lambda holder, x: scaled(x, holder[0]), numbers := [1.0]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*traced again")
        for number in (1.0, 6.0):
            numbers[0] = number
            np.testing.assert_array_equal(run(mode, kernel, X), number * X)


class Answering:
    """Has any attribute, so ``shape`` and ``dtype`` too, and is no tensor."""

    values: typing.ClassVar[dict[str, int]] = {"any": 2}

    def __getattr__(self, name):
        return self.values["any"]


@pytest.mark.filterwarnings("ignore:.*traced again")
@WAYS
def test_an_object_with_every_attribute_is_no_tensor(mode, monkeypatch):
    @jit
    def kernel(x, settings):
        return scaled(x, settings.anything)

    held_object = Answering()
    assert run(mode, kernel, X, held_object)[0, 0] == 2
    monkeypatch.setitem(Answering.values, "any", 5)
    assert run(mode, kernel, X, held_object)[0, 0] == 5


class Table:
    """Gives what is in a table, and raises anything for the rest, ``shape`` and ``__dict__`` too."""

    __slots__ = ("numbers",)

    def __init__(self, numbers):
        self.numbers = numbers

    def __getattr__(self, name):
        if name in self.numbers:
            return self.numbers[name]
        raise RuntimeError(f"no {name}")


class Settings(Table):
    """With a dict of attributes, too."""


@pytest.mark.filterwarnings("ignore:.*traced again")
@pytest.mark.parametrize("kind", [Table, Settings])
@WAYS
def test_an_object_that_raises_for_unknown_attributes(mode, kind):
    @jit
    def kernel(x, settings):
        return scaled(x, settings.factor)

    held_object = kind({"factor": 2.0})
    assert run(mode, kernel, X, held_object)[0, 0] == 2
    held_object.numbers["factor"] = 5.0
    assert run(mode, kernel, X, held_object)[0, 0] == 5


@WAYS
def test_a_module_whose_getattr_raises_otherwise(mode):
    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = lambda name: {"factor": 3.0}[name]

    @jit
    def kernel(x, settings):
        return scaled(x, settings.factor)

    assert run(mode, kernel, X, lazy)[0, 0] == 3
