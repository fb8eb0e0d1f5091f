"""Effects of what is called, near and far."""

from hlo_tools import Module
from hlo_tools.rewrite.effects import effectful_computations, has_effect_within
from hlo_tools.text import parse

TEXT = """
HloModule calls

pure { ROOT p = f32[] parameter(0) }
deep { d = f32[] parameter(0) ROOT c = f32[] custom-call(d), custom_call_target="t", custom_call_has_side_effect=true }
middle { m = f32[] parameter(0) ROOT a = f32[] call(m), to_apply=pure }
above { v = f32[] parameter(0) w = f32[] call(v), to_apply=middle ROOT b = f32[] call(w), to_apply=deep }
top { t = f32[] parameter(0) ROOT u = f32[] call(t), to_apply=above }

ENTRY main {
  x = f32[] parameter(0)
  one = f32[] call(x), to_apply=middle
  two = f32[] call(one), to_apply=top
  three = f32[] negate(two)
  four = f32[] call(three), to_apply=pure
  ROOT five = f32[] call(four), to_apply=above
}
"""


def test_what_an_instruction_calls_counts() -> None:
    module = Module(parse(TEXT))
    effectful = effectful_computations(module)
    effects: dict[int, bool] = {}
    by_name = {view.name: has_effect_within(view, effects) for view in module.entry.instructions}
    assert [name for name, acts in by_name.items() if acts] == ["x", "two", "five"]
    assert all((number in effectful) == acts for number, acts in effects.items())
    alone = {view.name: has_effect_within(view, {}) for view in module.entry.instructions}
    assert alone == by_name
