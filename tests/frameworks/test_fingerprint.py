"""Fingerprints: a kernel cache may only share equal kernels."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types

import numpy as np
import pytest

from nki_lang import language as nl
from nki_lang.base.dtypes import BY_NAME
from nki_lang.tracing.fingerprint import Unidentifiable, describe, fingerprint


def make(source: str, **names: object) -> types.FunctionType:
    scope: dict[str, object] = dict(names)
    exec(source, scope)
    return scope["kernel"]  # type: ignore[return-value]


def test_equal_code_is_one_kernel() -> None:
    source = "def kernel(a, b=1):\n    return a + b\n"
    assert fingerprint(make(source)) == fingerprint(make(source))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def kernel(a): return a + 1", "def kernel(a): return a + 2"),
        ("def kernel(a): return a + 1", "def kernel(a): return a - 1"),
        ("def kernel(a, k=1): return a", "def kernel(a, k=2): return a"),
        ("def kernel(a, *, k=1): return a", "def kernel(a, *, k=2): return a"),
        ("def kernel(a): return [x for x in (1, 2)]", "def kernel(a): return [x for x in (1, 3)]"),
        ("def kernel(a): return 1", "def kernel(a): return 1.0"),
        ("def kernel(a): return 1", "def kernel(a): return True"),
    ],
)
def test_a_change_in_the_function_is_seen(before: str, after: str) -> None:
    assert fingerprint(make(before)) != fingerprint(make(after))


def test_globals_and_the_functions_they_hold_are_followed() -> None:
    source = "def helper(a): return a * FACTOR\ndef kernel(a): return helper(a)"
    first, second = make(source, FACTOR=2), make(source, FACTOR=3)
    assert fingerprint(first) != fingerprint(second)
    before = fingerprint(first)
    first.__globals__["UNRELATED"] = 1
    assert fingerprint(first) == before
    first.__globals__["FACTOR"] = 3
    assert fingerprint(first) == fingerprint(second)


def test_members_of_a_users_module_are_followed() -> None:
    settings = types.ModuleType("settings")
    settings.__file__ = "settings.py"
    settings.tile = 128  # type: ignore[attr-defined]
    kernel = make("def kernel(a): return settings.tile", settings=settings)
    before = fingerprint(kernel)
    settings.tile = 64  # type: ignore[attr-defined]
    assert fingerprint(kernel) != before


def test_closures_are_followed() -> None:
    def outer(value: object) -> types.FunctionType:
        def kernel(a: object) -> object:
            return (a, value)

        return kernel

    assert fingerprint(outer(1)) == fingerprint(outer(1))
    assert fingerprint(outer(1)) != fingerprint(outer(2))
    assert fingerprint(outer(np.arange(3))) != fingerprint(outer(np.arange(4)))


def test_partials_and_methods() -> None:
    def kernel(a: object, b: object) -> object:
        return (a, b)

    assert fingerprint(functools.partial(kernel, b=1)) != fingerprint(
        functools.partial(kernel, b=2)
    )

    class Holder:
        def __init__(self, tile: int) -> None:
            self.tile = tile

        def kernel(self, a: object) -> object:
            return (a, self.tile)

    assert fingerprint(Holder(1).kernel) == fingerprint(Holder(1).kernel)
    assert fingerprint(Holder(1).kernel) != fingerprint(Holder(2).kernel)


def test_recursion_ends() -> None:
    ring: list[object] = []
    ring.append(ring)
    kernel = make("def kernel(a): return ring, kernel", ring=ring)
    assert fingerprint(kernel) == fingerprint(kernel)


class Mode(enum.Enum):
    fast = 1
    slow = 2


@dataclasses.dataclass
class Options:
    tile: int
    mode: Mode = Mode.fast


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ("a", b"a"),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Mode.fast, Mode.slow),
        (Options(1), Options(2)),
        (Options(1), Options(1, Mode.slow)),
        (np.float32(1), np.float64(1)),
        (np.zeros(2), np.zeros((2, 1))),
        (slice(1), slice(2)),
        (BY_NAME["float32"], BY_NAME["bfloat16"]),
        (BY_NAME["float32"], BY_NAME["tfloat32"]),
        (nl.exp, nl.gelu),
        ((1, (2,)), ((1, 2), ())),
    ],
)
def test_constants_that_a_kernel_can_tell_apart(first: object, second: object) -> None:
    assert describe(first) != describe(second)


def test_an_object_that_holds_a_function_is_more_than_that_function() -> None:
    class Step:
        def __init__(self, scale: float) -> None:
            self.func, self.scale = describe, scale

    assert describe(Step(1.0)) == describe(Step(1.0))
    assert describe(Step(1.0)) != describe(Step(2.0))
    kernel = "def kernel(a): return step.func(a) * step.scale"
    assert fingerprint(make(kernel, step=Step(1.0))) != fingerprint(make(kernel, step=Step(2.0)))


@pytest.mark.parametrize(
    "mark", ["", "@dataclasses.dataclass\n", "@dataclasses.dataclass(frozen=True)\n"]
)
@pytest.mark.parametrize("kind", ["", "@property\n  ", "@staticmethod\n  "])
def test_an_object_of_a_class_that_was_defined_anew(mark: str, kind: str) -> None:
    def defined(value: int) -> object:
        space = {"__name__": "__main__", "dataclasses": dataclasses}
        exec(f"{mark}class Config:\n  tile: int = 1\n  {kind}def size(*_): return {value}", space)
        return space["Config"]()  # type: ignore[operator]

    assert describe(defined(1)) == describe(defined(1))
    assert describe(defined(1)) != describe(defined(2))


def test_a_cached_function_is_followed() -> None:
    def wrapped(source: str) -> object:
        return functools.lru_cache(make(source))

    kernel = "def kernel(a): return helper(a)"
    first = make(kernel, helper=wrapped("def kernel(a): return a + 1"))
    same = make(kernel, helper=wrapped("def kernel(a): return a + 1"))
    second = make(kernel, helper=wrapped("def kernel(a): return a + 2"))
    assert fingerprint(first) == fingerprint(same) != fingerprint(second)


def test_equal_constants() -> None:
    assert describe((Options(1), {"x": [1, 2]})) == describe((Options(1), {"x": [1, 2]}))
    assert describe({3, 1, 2}) == describe({2, 1, 3})
    assert describe(float("nan")) == describe(float("nan"))


def test_an_opaque_object_is_not_comparable() -> None:
    with pytest.raises(Unidentifiable):
        describe(object())
    with pytest.raises(Unidentifiable):
        describe((1, {"x": iter(())}))
