"""Where two modules part, under other names, within calls, branches and loops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlo_tools import Module
from hlo_tools.cli import main
from hlo_tools.diff.bisect import Difference, against_jaxlib, between
from hlo_tools.evaluate import EvaluationError
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse

PLAIN_TEXT = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  b = f32[4] multiply(a, a)
  c = f32[4] tanh(b)
  ROOT d = f32[4] subtract(c, y)
}
"""
LOOP = """
HloModule m
square { p = f32[4] parameter(0)
  ROOT q = f32[4] multiply(p, p) }
body { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[4] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  two = s32[] constant(2)
  late = pred[] compare(i, two), direction=GE
  lates = pred[4] broadcast(late), dimensions={}
  s = f32[4] call(v), to_apply=square
  n = f32[4] negate(v)
  w = f32[4] select(lates, s, n)
  ROOT r = (s32[], f32[4]) tuple(j, w) }
cond { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  four = s32[] constant(4)
  ROOT more = pred[] compare(i, four), direction=LT }
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT o = f32[4] get-tuple-element(w), index=1
}
"""
BRANCHES = """
HloModule m
yes { p = f32[4] parameter(0)
  ROOT e = f32[4] exponential(p) }
no { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p) }
ENTRY main {
  x = f32[4] parameter(0)
  c = pred[] parameter(1)
  ROOT o = f32[4] conditional(c, x, x), true_computation=yes, false_computation=no
}
"""


def module(text: str) -> Module:
    return Module(parse(text))


def random(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [generator.normal(size=4).astype(np.float32) for _ in range(count)]


def found(first: str, second: str, inputs: list[np.ndarray]) -> Difference | None:
    return between(module(first), module(second), inputs, tolerance=1e-4)


def test_other_names_hide_nothing() -> None:
    changed_text = PLAIN_TEXT.replace("multiply(a, a)", "multiply(a, y)")
    for name in "abcd":
        changed_text = changed_text.replace(f"{name} = ", f"{name}{name} = ").replace(
            f"({name},", f"({name}{name},"
        )
        changed_text = changed_text.replace(f"({name})", f"({name}{name})")
    difference = found(PLAIN_TEXT, changed_text, random(2))
    assert difference is not None
    assert (difference.instruction, difference.other) == ("b", "bb")


def test_differences_that_no_result_shows_do_not_count() -> None:
    changed_text = PLAIN_TEXT.replace("ROOT d", "unused = f32[4] exponential(y)\n ROOT d")
    assert found(PLAIN_TEXT, changed_text, random(2)) is None


def test_the_first_turn_of_a_loop_that_differs_and_what_in_it() -> None:
    inputs = random(1)
    assert found(LOOP, LOOP, inputs) is None
    difference = found(LOOP, LOOP.replace("multiply(p, p)", "add(p, p)"), inputs)
    assert difference is not None
    assert (difference.computation, difference.instruction) == ("square", "q")
    assert difference.turn == 0
    limit = found(LOOP, LOOP.replace("direction=LT", "direction=LE"), inputs)
    assert limit is not None
    assert (limit.computation, limit.instruction, limit.turn) == ("cond", "more", 4)


def test_only_the_branch_that_is_taken_is_looked_into() -> None:
    x = random(1)[0]
    changed_text = BRANCHES.replace("negate(p)", "sine(p)")
    assert found(BRANCHES, changed_text, [x, np.array(True)]) is None
    difference = found(BRANCHES, changed_text, [x, np.array(False)])
    assert difference is not None and difference.computation == "no"


def test_results_that_differ_are_told_where_nothing_else_is_on_both_sides() -> None:
    changed_text = (
        "HloModule m\nENTRY main {\n x = f32[4] parameter(0)\n ROOT r = f32[4] parameter(1)\n}"
    )
    difference = found(PLAIN_TEXT, changed_text, random(2))
    assert difference is not None and difference.instruction == "d"


def test_inputs_are_converted_and_taken_out_of_tuples() -> None:
    first = module(PLAIN_TEXT.replace("f32", "f64"))
    second = module(PLAIN_TEXT.replace("f32", "f64"))
    Pipeline.parse("dtype-legalisation{boundary=change}").run(second)
    inputs = [array.astype(np.float64) for array in random(2)]
    assert between(first, second, inputs, tolerance=1e-5) is None
    assert between(first, second, inputs, tolerance=1e-12) is not None
    with pytest.raises(EvaluationError, match="takes other inputs") as caught:
        between(first, module(LOOP), inputs, tolerance=1)
    assert caught.value.code == "HLO-INPUTS"


def test_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", LOOP), ("b", LOOP.replace("multiply(p, p)", "add(p, p)"))):
        (tmp_path / f"{name}.hlo").write_text(text)
    files = [str(tmp_path / "a.hlo"), str(tmp_path / "b.hlo")]
    assert main(["bisect", *files, "--seed", "7"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("%q (multiply) in %square differs by ")
    assert "in iteration 0 of its loop" in out
    assert main(["bisect", *files, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["turn"] == 0


@pytest.mark.jax
def test_jaxlib_and_a_wrong_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo_tools.evaluate.operation import OPERATIONS

    text = """
    HloModule m
    wrong { p = f32[4] parameter(0)
      m = f32[4] negate(p)
      ROOT q = f32[4] tanh(m) }
    ENTRY main {
      x = f32[4] parameter(0)
      t = token[] parameter(1)
      first = f32[4] call(x), to_apply=wrong
      right = f32[4] cosine(x)
      after = token[] after-all(t)
      ROOT o = (f32[4], token[], f32[4], token[]) tuple(first, after, right, after)
    }"""
    inputs = [*random(1), None]
    assert against_jaxlib(module(text), inputs, tolerance=1e-4) is None
    monkeypatch.setitem(OPERATIONS, "tanh", lambda call: call.operands[0])
    difference = against_jaxlib(module(text), inputs, tolerance=1e-4)
    assert difference is not None
    assert (difference.instruction, difference.computation) == ("q", "wrong")
