"""Flattened tuples keep the results."""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate import evaluate
from tests.passes.running import entry_of, run

F4 = np.float32


def test_tuples_flatten_to_the_same_results() -> None:
    body = """
    p = (f32[2], (f32[2], s32[])) parameter(0)
    a = f32[2] get-tuple-element(p), index=0
    inner = (f32[2], s32[]) get-tuple-element(p), index=1
    b = f32[2] get-tuple-element(inner), index=0
    s = f32[2] add(a, b)
    ROOT out = ((f32[2], f32[2]), (f32[2], s32[])) tuple(q, inner)
    """.replace("ROOT", "q = (f32[2], f32[2]) tuple(s, a)\nROOT")
    module = entry_of(body)
    a, b, c = np.arange(2, dtype=F4), np.ones(2, F4), np.asarray(3, "i4")
    s, first, inner, number = evaluate(module, [(a, (b, c))])
    results = evaluate(run("tuple-flattening", module), [a, b, c])
    for reference, result in zip((s, first, inner, number), results, strict=True):
        np.testing.assert_array_equal(reference, result)
