"""A value that a kernel changes while it is traced is no input, and hides no input."""

from __future__ import annotations

import collections
import functools
import types
import warnings

import numpy as np
import pytest

from nki_lang.kernel import jit
from tests.nki_lang.test_kernel_cache import X, added


class Inner:
    def __init__(self):
        self.count, self.scale, self.inner = 0, 1.0, []


class Outer:
    def __init__(self):
        self.inner = Inner()


class Slots:
    __slots__ = ("count", "scale")

    def __init__(self):
        self.count, self.scale = 0, 1.0


class Table(dict):
    pass


class Row(list):
    pass


def _attributes(holder):
    def read():
        holder.count += 1
        return holder.scale

    return read, lambda number: setattr(holder, "scale", number)


def _entries(table):
    def read():
        table["count"] = table.get("count", 0) + 1
        return table["scale"]

    return read, lambda number: table.__setitem__("scale", number)


def _grown(row):
    def read():
        row.append(0)
        return row[0]

    return read, lambda number: row.__setitem__(0, number)


def _nested():
    table = {"a": {"count": 0, "scale": 1.0}, "rows": [[0, 1.0]]}

    def read():
        table["a"]["count"] += 1
        table["rows"][0][0] += 1
        return max(table["a"]["scale"], table["rows"][0][1])

    return read, lambda number: table["a"].__setitem__("scale", number)


def _function():
    def read():
        read.count += 1
        return read.scale

    read.count = 0
    return read, lambda number: setattr(read, "scale", number)


def _class():
    return type("Holder", (), {"count": 0, "scale": 1.0})


def _module():
    module = types.ModuleType("holder")
    module.count, module.scale = 0, 1.0
    return module


def _dispatched():
    dispatch = functools.singledispatch(lambda value: 1.0)
    return (
        lambda: dispatch(1),
        lambda number: dispatch.register(int, lambda value, number=number: number),
    )


COUNT, FACTOR = [0], 1.0


def unique():
    COUNT[0] += 1
    return f"tile{COUNT[0]}"


def helper():
    unique()
    return FACTOR


def _set_factor(number):
    global FACTOR
    FACTOR = number


def _tree():
    root = Inner()
    root.inner.append(Inner())

    def read():
        root.inner[0].inner.append(Inner())
        return root.inner[0].scale

    return read, lambda number: setattr(root.inner[0], "scale", number)


def _aliased():
    table = {"filled": {}, "row": [1.0]}

    def read():
        table["filled"]["row"] = table["row"]
        return table["row"][0]

    return read, lambda number: table["row"].__setitem__(0, number)


def _array(array):
    def read():
        array[0] += 1
        return array[1]

    return read, lambda number: array.__setitem__(1, int(number))


def _set():
    items = set()

    def read():
        items.add("name")
        return next((item for item in items if isinstance(item, float)), 0.0)

    return read, lambda number: (items.clear(), items.add(number))


FILLED = {
    "object in an object": lambda: _attributes(Outer().inner),
    "slots": lambda: _attributes(Slots()),
    "namespace": lambda: _attributes(types.SimpleNamespace(count=0, scale=1.0)),
    "class": lambda: _attributes(_class()),
    "module": lambda: _attributes(_module()),
    "function": _function,
    "nested": _nested,
    "tree": _tree,
    "deque": lambda: _grown(collections.deque([1.0])),
    "deque of one length": lambda: _array(collections.deque([0, 1.0], 2)),
    "list of a class": lambda: _grown(Row([1.0])),
    "ordered dict": lambda: _entries(collections.OrderedDict(scale=1.0)),
    "default dict": lambda: _entries(collections.defaultdict(float, scale=1.0)),
    "counter": lambda: _entries(collections.Counter(scale=1.0)),
    "dict of a class": lambda: _entries(Table(scale=1.0)),
    "set": _set,
    "dispatch": _dispatched,
    "global of a helper": lambda: (helper, _set_factor),
    "aliased": _aliased,
    "array": lambda: _array(np.ones(4)),
    "bytearray": lambda: _array(bytearray(4)),
}


@pytest.mark.parametrize("kind", FILLED)
def test_what_a_kernel_fills_hides_nothing_beside_it(kind):
    read, change = FILLED[kind]()
    kernel = jit(lambda x: added(x, float(read())))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*traced again")
        for number in (1.0, 6.0, 2.0):
            change(number)
            np.testing.assert_array_equal(kernel(X), X + number)


DIVIDED = sorted(set(FILLED) - {"array", "bytearray", "aliased"})


@pytest.mark.parametrize("kind", DIVIDED)
def test_a_kernel_that_fills_is_traced_once_for_a_shape(kind):
    (read, change), traced = FILLED[kind](), []

    @jit
    def kernel(x):
        traced.append(1)
        return added(x, float(read()))

    change(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (2, 3, 2, 3, 2):
            kernel(np.ones((rows, 4), np.float32))
    assert len(traced) == 2
