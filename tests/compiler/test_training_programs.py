"""Whole programs as training scripts have them, from NEFFs of every family, against jaxlib."""

from __future__ import annotations

import pytest

from tests.compiler.compiling import TARGETS, check

pytest.importorskip("jax")

from tests.compiler.training_programs import PROGRAMS

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_jaxlib_gives(name: str, target: str) -> None:
    function, arguments = PROGRAMS[name]
    check(function, *arguments, tolerance=2e-5, target=target)
