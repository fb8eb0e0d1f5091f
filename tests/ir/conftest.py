"""Fixtures over the small modules of :mod:`hlo_examples`."""

from __future__ import annotations

import pytest

from hlo_tools import Module
from hlo_tools.types.shape import Shape
from tests.hlo_examples import F32, example


@pytest.fixture(params=["wide", "legacy"])
def module(request: pytest.FixtureRequest) -> Module:
    """The example in both id schemes."""
    return Module(example(request.param))


@pytest.fixture
def wide_bytes() -> bytes:
    return example().SerializeToString(deterministic=True)


@pytest.fixture
def f32_2x3() -> Shape:
    return F32
