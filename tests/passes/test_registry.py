"""Passes of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from hlo_tools import Module, plugins
from hlo_tools.passes import Pass, PassError, Pipeline, find_pass, registered_passes, registry
from hlo_tools.text import parse


@dataclass(frozen=True, slots=True)
class Nothing(Pass):
    """Do nothing."""

    name: ClassVar[str] = "nothing"

    def run(self, module: Module) -> bool:
        return False


class NoPass:
    pass


@pytest.fixture
def pass_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that an installed package would have."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [p for p in points if p.group == group]
    )
    registered_passes.cache_clear()
    yield points
    registered_passes.cache_clear()


def point(name: str, attribute: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{attribute}", registry.GROUP)


def test_all_of_ours_load_and_are_documented() -> None:
    for name, entry in registered_passes().items():
        kind = entry.load()
        assert kind.name == name and kind.__doc__ and kind() == kind()
        assert kind.__doc__.splitlines()[0].endswith(".")


def test_a_pass_of_another_package(pass_points: list[EntryPoint]) -> None:
    pass_points.append(point("nothing", "Nothing"))
    assert Pipeline.parse("nothing,dce").passes[0] == Nothing()
    assert list(registered_passes())[-1] == "nothing"
    assert registered_passes()["nothing"].origin == "an unknown distribution"


def test_a_name_twice_is_an_error(pass_points: list[EntryPoint]) -> None:
    pass_points.append(point("dce", "Nothing"))
    with pytest.raises(PassError, match="two passes are called dce") as caught:
        find_pass("cse")
    assert caught.value.code == "HLO-PASS-CLASH"


@pytest.mark.parametrize(
    ("name", "attribute", "message"),
    [
        ("odd", "NoPass", "is not a class derived from"),
        ("odd", "Absent", "cannot be imported"),
        ("odd", "Nothing", "calls itself 'nothing'"),
    ],
)
def test_broken_passes_are_named(
    pass_points: list[EntryPoint], name: str, attribute: str, message: str
) -> None:
    pass_points.append(point(name, attribute))
    with pytest.raises(PassError, match=message) as caught:
        find_pass(name)
    assert caught.value.code == "HLO-PASS-BROKEN"


def test_passes_without_arguments_are_those_that_run_without() -> None:
    module = Module(parse("HloModule m\n\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n"))
    refused: set[str] = set()
    for name in registered_passes():
        try:
            Pipeline.parse(name).run(module)
        except PassError as error:
            assert error.code == "HLO-PASS-ARGUMENT"
            refused.add(name)
    assert refused == {
        name
        for name, registered_pass in registered_passes().items()
        if registered_pass.needs_arguments
    }
    assert refused == {"outlining", "replace", "swap"}
