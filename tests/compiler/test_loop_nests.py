"""Inner blocks read the old values of outer loops: numbers beside jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check
from tests.compiler.loop_nests import NESTS, outer_counter

_NAMED = [pytest.param(function, given, id=function.__name__) for function, given in NESTS]


@pytest.mark.parametrize(("function", "given"), _NAMED)
def test_numbers(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    check(function, *given)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", [1, 3])
def test_every_target_and_level(target: str, level: int) -> None:
    function, given = NESTS[0]
    assert function is outer_counter
    check(function, *given, target=target, options=CompileOptions(optlevel=level))
