"""Lines made from lines that were read before give what reading them in full gives."""

from __future__ import annotations

import pytest

from hlo_tools import HloError
from hlo_tools.text import parse
from hlo_tools.text.repeated import Repeated

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
product {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] multiply(a, b)
}
ENTRY main {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  i = s32[4]{0} parameter(2)
  zero = f32[] constant(0)
"""
BODIES = {
    "attributes": """
  %a = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%sum, metadata={op_name="one" source_line=3}
  %b = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%product, metadata={op_name="two"}
  %c = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%sum
  %d = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%sum, metadata={op_name="t, metadata={}"}
  %e = f32[] reduce(%y, %zero), dimensions={0}, metadata={op_name="}\\"{"}, to_apply=%product
""",
    "types of operands": """
  a = pred[4]{0} compare(x, y), direction=LT
  b = pred[4]{0} compare(i, i), direction=LT
  c = pred[4]{0} compare(y, x), direction=LT
  d = pred[4]{0} compare(i, i), direction=LT, type=SIGNED
""",
    "constants": """
  a = f32[2]{0} constant({1, 2})
  b = f32[2]{0} constant({1, 3})
  c = f32[2]{0} constant({1, 2})
  d = s32[] constant(1)
  e = f32[] constant(1)
""",
    "lines that go on": """
  a = f32[4]{0} add(x, y)
  b = f32[4]{0} add(x, y)
    , metadata={op_name="next line"}
  c = f32[4]{0} add(x, y) // a comment
  d = f32[4]{0} add(x, y) // a comment
  e = f32[4]{0} add(x, y), metadata={op_name="e"} /* a comment
     that goes on */
  f = f32[4]{0} add(x, y), metadata={op_name="f"} /* a comment
     g = f32[4]{0} that goes on */
""",
    "metadata": """
  a = f32[4]{0} add(x, y), metadata={op_type="t" op_name="a=\'b\' c" source_file="f.py" source_line=7}
  b = f32[4]{0} add(x, y), metadata={op_name="é" source_file="" source_line=0 stack_frame_id=3}
  c = f32[4]{0} add(x, y), metadata={}
  d = f32[4]{0} add(x, y), metadata={op_name="a, metadata={" source_line=3}
  e = f32[4]{0} add(x, y), metadata={op_name="e" preserve_layout=true}
  f = f32[4]{0} add(x, y), metadata={op_name="f", source_line=5}
""",
    "metadata that is none": """
  a = f32[4]{0} add(x, y), metadata={op_name="last" source_line=2147483647}
  b = f32[4]{0} add(x, y), frontend_attributes={k="v, metadata={}"}
  c = f32[4]{0} add(x, y), frontend_attributes={k="v, metadata={}"}
  d = f32[4]{0} add(x, y), frontend_attributes={k="v, metadata={}"}, metadata={op_name="d"}
  e = f32[4]{0} add(x, y), frontend_attributes={k="v, metadata={}"}, metadata={op_name="e"}
  f = f32[4]{0} add(x, y), metadata={op_name="f"}, frontend_attributes={k=", metadata={}"}
  g = f32[4]{0} add(x, y), metadata={op_name="f"}, frontend_attributes={k=", metadata={}"}
""",
    "edges": """
  a = f32[4]{0} add(x, y), control-predecessors={zero}
  b = f32[4]{0} add(x, y), control-predecessors={a}
  c = f32[4]{0} add(x, y), sharding={replicated}
  d = f32[4]{0} add(x, y), sharding={replicated}
""",
    "forms of operands": """
  a = f32[4]{0} add(%x, y)
  b = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %y)
  c = f32[4]{0} add(x, /*index=1*/y)
  d = (f32[4]{0}, f32[4]{0}) tuple(x, y)
  e = (f32[4]{0}, f32[4]{0}) tuple(y, x)
  f = f32[4]{0} get-tuple-element(d), index=0
  g = f32[4]{0} get-tuple-element(e), index=1
  h = f32[4]{0} get-tuple-element(e), index=0
""",
    "nested and named": """
  a = f32[4]{0} fusion(x), kind=kLoop, calls={ p = f32[4]{0} parameter(0)
    ROOT n = f32[4]{0} negate(p) }
  b = f32[4]{0} negate(a)
  c = f32[4]{0} negate(b)
  n = f32[4]{0} negate(c)
""",
    "what depends on operands": """
  t = token[] after-all()
  a = (f32[4]{0}, u32[], token[]) send(x, t), channel_id=1
  b = (s32[4]{0}, u32[], token[]) send(i, t), channel_id=1
  c = f32[4]{0} map(x, y), to_apply=sum
  d = f32[4]{0} map(y, x), to_apply=product, dimensions={0}
""",
}
WRONG = {
    "a name twice": ("  a = f32[4]{0} negate(x)\n", "  a = f32[4]{0} negate(x)\n"),
    "an operand too many": ("  a = f32[4]{0} negate(x)\n", "  b = f32[4]{0} negate(x, y)\n"),
    "an operand that is nowhere": ("  a = f32[4]{0} negate(x)\n", "  b = f32[4]{0} negate(q)\n"),
    "a computation that is nowhere": (
        "  a = f32[] reduce(x, zero), dimensions={0}, to_apply=sum\n",
        "  b = f32[] reduce(x, zero), dimensions={0}, to_apply=some\n",
    ),
    "a parameter twice": ("  a = f32[4]{0} parameter(3)\n", "  b = f32[4]{0} parameter(2)\n"),
    "metadata that is none": (
        '  a = f32[4]{0} negate(x), metadata={op_name="a"}\n',
        '  b = f32[4]{0} negate(x), metadata={op_nome="a"}\n',
    ),
    "metadata of another type": (
        "  a = f32[4]{0} negate(x), metadata={source_line=1}\n",
        '  b = f32[4]{0} negate(x), metadata={source_line="one"}\n',
    ),
    "a number that does not fit": (
        "  a = f32[4]{0} negate(x), metadata={source_line=1}\n",
        "  b = f32[4]{0} negate(x), metadata={source_line=99999999999}\n",
    ),
}


def read_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repeated, "match", lambda self, cursor: None)


@pytest.mark.parametrize("body", BODIES)
def test_the_same_as_read_in_full(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + BODIES[body] + "  ROOT last = f32[4]{0} add(x, y)\n}\n"
    parsed = parse(text)
    read_in_full(monkeypatch)
    assert parsed == parse(text)


@pytest.mark.parametrize("lines", WRONG)
def test_the_same_error(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + "".join(WRONG[lines]) + "}\n"
    with pytest.raises(HloError) as fast:
        parse(text)
    read_in_full(monkeypatch)
    with pytest.raises(HloError) as full:
        parse(text)
    assert (fast.value.code, fast.value.place) == (full.value.code, full.value.place)
    assert fast.value.message == full.value.message
