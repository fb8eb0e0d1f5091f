"""Trip counts against running the loop."""

from __future__ import annotations

import pytest

from hlo_tools import Module, array_shape
from hlo_tools.passes import Pipeline
from hlo_tools.rewrite.trip_counts import trip_count
from tests.passes.running import entry_of


def loop(start: int, limit: int, step: int, direction: str, kind: str = "s32") -> Module:
    before = f"""
    body {{ p = {kind}[] parameter(0) s = {kind}[] constant({step}) ROOT n = {kind}[] add(p, s) }}
    condition {{
      p = {kind}[] parameter(0)
      l = {kind}[] constant({limit})
      ROOT c = pred[] compare(p, l), direction={direction}
    }}
    """
    return entry_of(
        f"z = {kind}[] constant({start})\n"
        f"ROOT w = {kind}[] while(z), condition=condition, body=body",
        before,
    )


def turns(start: int, limit: int, step: int, direction: str) -> int | None:
    """By doing it."""
    holds = {
        "LT": lambda v: v < limit, "LE": lambda v: v <= limit, "GT": lambda v: v > limit,
        "GE": lambda v: v >= limit, "EQ": lambda v: v == limit, "NE": lambda v: v != limit,
    }[direction]  # fmt: skip
    value, count = start, 0
    while holds(value):
        value, count = value + step, count + 1
        if count > 1000:
            return None
    return count


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_trip_counts_are_those_of_doing_it(direction: str) -> None:
    for start in (-3, 0, 5):
        for limit in (-4, 0, 5, 11):
            for step in (-2, -1, 0, 1, 3):
                root = loop(start, limit, step, direction).entry.root
                assert trip_count(root) == turns(start, limit, step, direction)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (loop(0, 120, 100, "LE", "s8"), "the counter would overflow"),
        (entry_of("x = s32[] parameter(0)\nROOT n = s32[] negate(x)"), "no loop"),
    ],
)
def test_trip_counts_that_are_not_known(module: Module, reason: str) -> None:
    assert trip_count(module.entry.root) is None, reason


def test_a_counter_that_starts_anywhere_has_no_count() -> None:
    module = loop(0, 5, 1, "LT")
    unknown = module.entry.add("parameter", array_shape("s32"), parameter_number=0)
    module.entry.root.replace_operand(0, unknown)
    assert trip_count(module.entry.root) is None


def test_somebody_elses_configuration_stays() -> None:
    module = loop(0, 5, 1, "LT")
    module.entry.root.proto.backend_config = b"not json"
    assert not Pipeline.parse("while-trip-counts").run(module).modified
    module.entry.root.proto.backend_config = b'{"own":1}'
    assert Pipeline.parse("while-trip-counts").run(module).modified
    assert module.entry.root.backend_config == b'{"own":1,"known_trip_count":{"n":"5"}}'
