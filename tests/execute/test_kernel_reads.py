"""Values that a kernel reads indirectly: a change traces the kernel again."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import datetime
import enum
import functools
import importlib
import io
import itertools
import logging
import math
import operator
import os
import pathlib
import random
import sys
import time
import types
import warnings
from importlib import import_module as imported
from os import getenv as variable
from os.path import expandvars as expanded

import numpy as np
import pytest

from nki_lang.kernel import jit
from tests.execute.test_call_keys import X, scaled
from tests.execute.ways import run

WAYS = pytest.mark.parametrize("mode", ["direct", pytest.param("jax", marks=pytest.mark.jax)])
NAME = "module_of_these_"
MODULE = sys.modules["module_of_these_reads"] = types.ModuleType("module_of_these_reads")
PACKAGE = sys.modules["package_of_these_reads"] = types.ModuleType("package_of_these_reads")
LAZY = types.ModuleType("lazy_module_of_these_reads")
FILE = pathlib.Path()
NUMBERS = {"value": 1.0}
OPEN, LOAD = io.open, np.loadtxt
MODULE.value = 1.0
PACKAGE.module = MODULE


class Dynamic(types.ModuleType):
    @property
    def dynamic(self):
        return NUMBERS["value"]


class Meta(type):
    value = 1.0


class Made(metaclass=Meta):
    pass


DYNAMIC = Dynamic("dynamic_module_of_these_reads")
LAZY.__getattr__ = lambda name: {"value": NUMBERS["value"]}[name]
INSTALLED = """
scale = 1.0
class Config: scale = 1.0
def helper(): return scale
def make(value):
    def made(value=value): return value
    return made
one = lambda: 1.0
six = lambda: 6.0
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A module of a package that is installed."""
    location = tmp_path / "site-packages"
    location.mkdir()
    (location / "installed_for_reads.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(location))
    yield importlib.import_module("installed_for_reads")
    del sys.modules["installed_for_reads"]


def factor(module):
    return module.value


def passed_on_here():
    import module_of_these_reads as local

    return factor(local)


def passed_on_from():
    from package_of_these_reads import module as local

    return factor(local)


def kept_by_name():
    module = sys.modules["module_of_these_reads"]
    return module.value


def opened():
    with FILE.open() as stream:
        return stream.read()


def _put(location, name):
    return lambda value: setattr(location, name, value)


def _write(value):
    FILE.write_text(str(value))


def _set_variable(value):
    os.environ["AMOUNT_OF_THESE_READS"] = str(value)


MODULES = {
    "passed on": lambda: factor(MODULE),
    "member passed on": lambda: factor(PACKAGE.module),
    "local import passed on": passed_on_here,
    "import from passed on": passed_on_from,
    "default": lambda module=MODULE: module.value,
    "getattr": lambda: getattr(MODULE, "".join(("val", "ue"))),
    "getattr of a name": lambda: getattr(
        sys.modules["module_of_these_reads"], "".join(("val", "ue"))
    ),
    "kept by name": kept_by_name,
    "vars": lambda: max(v for v in vars(MODULE).values() if isinstance(v, float)),
    "import_module": lambda: importlib.import_module(f"{NAME}reads").value,
    "import_module by another name": lambda: imported(f"{NAME}reads").value,
    "__import__": lambda: __import__(NAME + "reads").value,
    "sys.modules": lambda: sys.modules[NAME + "reads"].value,
    "builtins.globals": lambda: builtins.globals()["MODULE"].value,
    "__globals__": lambda: factor.__globals__["MODULE"].value,
    "frame of a module": lambda: __import__("sys")._getframe().f_globals["MODULE"].value,
    "frame": lambda: sys._getframe().f_globals["MODULE"].value,
}
FILES = {
    "read_text": lambda: FILE.read_text(),
    "getattr read_text": lambda: getattr(FILE, "read_text")(),  # noqa: B009
    "path opened": opened,
    "io.open": lambda: OPEN(str(FILE)).read(),
    "module io": lambda: __import__("io").open(str(FILE)).read(),
    "partial": lambda: functools.partial(open, str(FILE))().read(),
    "loadtxt": lambda: np.loadtxt(str(FILE)),
    "loadtxt by another name": lambda: LOAD(str(FILE)),
    "fromfile": lambda: np.fromfile(str(FILE), np.uint8)[0] - 48,
}
VARIABLES = {
    "getenv by another name": lambda: variable("AMOUNT_OF_THESE_READS"),
    "expandvars": lambda: os.path.expandvars("$AMOUNT_OF_THESE_READS"),
    "expandvars by another name": lambda: expanded("$AMOUNT_OF_THESE_READS"),
}
READS = {
    **{name: (read, _put(MODULE, "value")) for name, read in MODULES.items()},
    **{name: (read, _write) for name, read in FILES.items()},
    **{name: (read, _set_variable) for name, read in VARIABLES.items()},
    "put into builtins": (
        lambda: AMOUNT_OF_THESE_READS,  # noqa: F821
        lambda value: setattr(builtins, "AMOUNT_OF_THESE_READS", value)),
    "builtins by name": (
        lambda: builtins.AMOUNT_OF_THESE_READS,
        lambda value: setattr(builtins, "AMOUNT_OF_THESE_READS", value)),
    "__getattr__ of a module": (
        lambda: LAZY.value, lambda value: operator.setitem(NUMBERS, "value", value)),
    "property of a module": (
        lambda: DYNAMIC.dynamic, lambda value: operator.setitem(NUMBERS, "value", value)),
    "metaclass": (lambda: Made.value, _put(Meta, "value")),
    "geterr": (
        lambda: 1.0 if np.geterr()["over"] == "ignore" else 6.0,
        lambda value: np.seterr(over="ignore" if value == 1.0 else "raise")),
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("what", READS)
def test_what_the_code_does_not_name(what, mode, tmp_path, monkeypatch):
    monkeypatch.setenv("AMOUNT_OF_THESE_READS", "1")
    monkeypatch.setattr(sys.modules[__name__], "FILE", tmp_path / "number")
    monkeypatch.setattr(builtins, "AMOUNT_OF_THESE_READS", 1.0, raising=False)
    read, change = READS[what]
    kernel = jit(lambda x: scaled(x, read()))
    with warnings.catch_warnings(), np.errstate():
        warnings.simplefilter("ignore")
        for number in (1.0, 6.0):
            change(number)
            np.testing.assert_array_equal(run(mode, kernel, X), number * X)


GENERATOR = np.random.default_rng(0)


def drawn_by(module):
    return module.random()


def local_random():
    from random import random as drawn

    return drawn()


CHANCES = {
    "random": lambda: random.random(),
    "random by another name": local_random,
    "random of a module": lambda: __import__("random").random(),
    "module passed on": lambda: drawn_by(random),
    "numpy.random": lambda: np.random.rand(),
    "generator made": lambda: np.random.default_rng().random(),
    "generator": lambda: GENERATOR.random(),
    "time": lambda: time.perf_counter_ns() % 10**6,
    "now": lambda: datetime.datetime.now().microsecond,
}


@pytest.mark.parametrize("what", CHANCES)
def test_what_is_new_each_time_is_traced_each_time(what):
    read, traced = CHANCES[what], []

    @jit
    def kernel(x):
        traced.append(1)
        return scaled(x, read())

    for _ in range(3):
        kernel(X)
    assert len(traced) == 3


@WAYS
def test_installed_packages_are_read(installed, mode):
    reads = {
        "scale": (lambda: installed.scale, _put(installed, "scale")),
        "helper": (installed.helper, _put(installed, "scale")),
        "class": (lambda: installed.Config.scale, _put(installed.Config, "scale")),
    }
    for read, change in reads.values():
        kernel = jit(lambda x, read=read: scaled(x, read()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in (1.0, 6.0):
                change(number)
                np.testing.assert_array_equal(run(mode, kernel, X), number * X)


@WAYS
def test_functions_of_installed_packages_differ(installed, mode):
    kernel = jit(lambda x, read: scaled(x, read()))
    for first, six in ((installed.one, installed.six), (installed.make(1.0), installed.make(6.0))):
        np.testing.assert_array_equal(run(mode, kernel, X, first), X)
        np.testing.assert_array_equal(run(mode, kernel, X, six), 6 * X)


@WAYS
def test_arguments_that_are_equal_and_differ(mode):
    first = jit(lambda x, items: scaled(x, next(iter(items))))
    for items in ({8, 16}, {16, 8}, frozenset([8, 16]), frozenset([16, 8])):
        np.testing.assert_array_equal(run(mode, first, X, items), next(iter(items)) * X)
    rows = jit(lambda x, view: scaled(x, view.shape[0]))
    for count in (2, 4):
        view = memoryview(b"abcd").cast("B", (count, 4 // count))
        np.testing.assert_array_equal(run(mode, rows, X, view), count * X)
    by_class = jit(lambda x, kind: scaled(x, kind.value))
    for number in (1.0, 6.0):
        Meta.value = number
        np.testing.assert_array_equal(run(mode, by_class, X, Made), number * X)


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    names: list[str] = dataclasses.field(default_factory=list)
    place: pathlib.Path = pathlib.Path("/tmp")


class Colour(enum.Enum):
    RED = 2.0


LOGGER, SETTINGS, PARTIAL = logging.getLogger(__name__), Settings(), functools.partial(max, 2.0)


@functools.lru_cache
def remembered(value):
    return math.sqrt(value)


@functools.singledispatch
def dispatched(value):
    return 2.0


def logged():
    LOGGER.info("logged")
    logging.getLogger(__name__).debug("logged")
    return 2.0


def imported_here():
    import math as local
    from itertools import chain

    return local.sqrt(len([*chain("ab", "cd")]))


COMMON = {
    "math": lambda: math.sqrt(4.0),
    "numpy": lambda: np.sqrt(4.0) + np.arange(4).sum() * 0 + np.finfo(np.float32).eps * 0,
    "dataclass": lambda: SETTINGS.scale,
    "replaced": lambda: dataclasses.replace(SETTINGS, scale=2.0).scale,
    "enum": lambda: Colour.RED.value,
    "logging": logged,
    "partial": lambda: PARTIAL(1.0),
    "lru_cache": lambda: remembered(4.0),
    "singledispatch": lambda: dispatched(1),
    "local import": imported_here,
    "by name": lambda: importlib.import_module("math").sqrt(4.0),
    "own module": lambda: sys.modules[__name__].SETTINGS.scale,
    "names of files": lambda: len(os.path.basename("a/bb")) * len(SETTINGS.place.name) / 3,
    "errstate": lambda: 2.0 if np.errstate(over="ignore") else 1.0,
    "counter": lambda: collections.Counter("aa")["a"] + sum(itertools.repeat(0, 2)),
    "variable": lambda: os.environ.get("NOT_SET_FOR_THESE_READS", 2.0),
    "vars": lambda: vars(SETTINGS)["scale"] + len(locals()),
}


@pytest.mark.parametrize("what", COMMON)
def test_common_code_is_traced_once(what):
    read, traced = COMMON[what], []

    @jit
    def kernel(x):
        traced.append(1)
        return scaled(x, read())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(kernel(X), 2 * X)
    assert len(traced) == 1
