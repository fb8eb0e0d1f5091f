"""The textual form: golden texts, and errors that point at the place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki_lang.base.errors import NkiFileError
from nki_lang.ir import Constant
from nki_lang.ir.text import statement_to_text, to_text
from nki_lang.ir.text_parser import parse
from tests.klir import samples

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["scale", "everything"])
def test_golden(name, update_golden):
    kernel = getattr(samples, name)()
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(kernel))
    assert str(kernel) == path.read_text()
    assert parse(path.read_text()) == kernel


def test_written_by_a_person():
    kernel = parse(
        """
        # comments and free layout
        kernel k target=trn1 {
          input %a: float32[4, 4] shared_hbm
          core {
            tensor %t: float32[4, 4] sbuf at (32, 0) fixed
            new_op(dst=%t[0; 4*4, 1*4,], values=(1, -2, 0.5, -inf, nan, None, True, word, "a b",),)
          }
        }
        """
    )
    (instruction,) = kernel.bodies[0]
    assert instruction.operands["values"][:4] == (1, -2, 0.5, float("-inf"))
    assert instruction.operands["values"][5:] == (None, True, "word", "a b")
    assert instruction.operands["dst"].tensor.address == (32, 0)


def test_one_statement():
    text = statement_to_text(samples.scale().bodies[0][0].body[1])
    assert text.startswith("tensor_scalar(dst=%tile, data=%tile, op0=multiply, operand0=0.1,")
    assert text.endswith('engine=vector name=scaled @"scale.py":9 in scale')


_HEAD = "kernel k target=trn2 {\n  input %a: float32[4] shared_hbm\n  core {\n"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "1:1", "expected 'kernel', the text ends"),
        ("kernel k target=trn2 {", "1:23", "expected '}', the text ends"),
        ("kernel k target=trn2 ?", "1:22", "the character '?' is not expected here"),
        ("kernel k {}", "1:10", "expected 'target', found '{'"),
        ("kernel k target=trn2 {} x", "1:25", "expected the end of the text"),
        ("kernel k target=trn2 {\n input %a: float99[1] sbuf }", "2:12", "'float99' is not a known data type"),
        ("kernel k target=trn2 {\n input %a: int8[1] cache }", "2:20", "'cache' is not a known memory"),
        ("kernel k target=trn2 {\n input %a: int8[x] sbuf }", "2:17", "expected an extent"),
        (_HEAD + "    op(x=%b)\n  }\n}", "4:11", "the tensor %b is not declared"),
        (_HEAD + "    op(x=%a[0; 1*])\n  }\n}", "4:18", "expected a count, found ']'"),
        (_HEAD + "    op(x=%a[0; 1*2 | size=1])\n  }\n}", "4:22", "'size' is not a known part of an access"),
        (_HEAD + "    op(x=@)\n  }\n}", "4:10", "expected a value, found '@'"),
        (_HEAD + "    op(x=1 y=2)\n  }\n}", "4:12", "expected ',', found 'y'"),
        (_HEAD + "    op() engine=warp\n  }\n}", "4:17", "'warp' is not a known engine"),
        (_HEAD + "    for $i in 0 {}\n  }\n}", "4:17", "expected '..'"),
        (_HEAD + "    loop $i {}\n  }\n}", "4:5", "expected a statement, found 'loop'"),
        (_HEAD + '    op(x="\\q")\n  }\n}', "4:10", "wrong escape"),
        (_HEAD + "    op(x={[1]: 2})\n  }\n}", "4:11", "is not a key"),
        (_HEAD + f"    op(x={'(' * 99}\n", "4:73", "more than 64 deep"),
        (_HEAD + f"    op(x={'9' * 50})\n", "4:10", "too many digits"),
    ],
)  # fmt: skip
def test_errors_point_at_the_place(text, place, said):
    with pytest.raises(NkiFileError) as caught:
        parse(text, "k.txt")
    message = caught.value.message
    assert caught.value.code == "NKI-TEXT"
    assert message.startswith(f"k.txt:{place}: "), message
    assert said in message
    *_, shown, caret = message.splitlines()
    column = int(place.split(":")[1])
    if column <= 60:
        assert caret.index("^") - 2 == column - 1
        assert len(shown) - 2 >= column - 1


def test_constants():
    kernel = samples.everything()
    second_constant = Constant(samples.IDENTITY, np.arange(64, dtype=np.int8).reshape(8, 8))
    kernel.constants += (second_constant,)
    assert "= int8[8, 8] identity" in to_text(kernel)
    assert parse(to_text(kernel)) == kernel
    text = to_text(kernel)
    start = text.index('int8[8, 8] "') + len('int8[8, 8] "')
    for damaged in (
        text[:start] + "!!!" + text[start + 3 :],
        text.replace('int8[8, 8] "', 'int8[8, 9] "'),
        text.replace('int8[8, 8] "', 'integer[8, 8] "'),
    ):
        with pytest.raises(NkiFileError, match="constant is damaged"):
            parse(damaged)


def test_a_text_cut_anywhere_is_one_kind_of_error():
    text = to_text(samples.everything()).rstrip()
    for size in range(len(text)):
        with pytest.raises(NkiFileError):
            parse(text[:size])
