"""Constants that are not folded."""

from __future__ import annotations

from hlo_tools.passes import Pipeline
from tests.passes.running import entry_of


def test_elided_constants_are_not_folded() -> None:
    body = "c = f32[100] constant({...})\nROOT n = f32[100] negate(c)"
    assert (
        not Pipeline.parse("constant-folding,algebraic-simplification").run(entry_of(body)).modified
    )
