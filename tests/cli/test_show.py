"""``nki-hlo show``: what it finds, and how long lines are shortened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools import HloError, load
from hlo_tools.cli import main
from hlo_tools.slicing import Query, parse_source, search

MODULE = """HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  x = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="x"}
  w = bf16[8,16]{0,1} parameter(1)
  c = f32[8,16] convert(w), metadata={op_name="jit(f)/while/body/cast" source_file="a/model.py" source_line=7}
  d = f32[4,16] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/while/body/dot_general" source_file="a/model.py" source_line=9}
  g = f32[4,16] all-reduce(d), replica_groups={{0,1}}, to_apply=sum, metadata={op_name="jit(f)/psum" source_file="b/model.py" source_line=9}
  ROOT t = (f32[4,16], f32[4,16]) tuple(d, g)
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return str(path)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(grep="contracting"), "d"),
        (Query(grep=r"^%[cd] = "), "c d"),
        (Query(grep="%x\\b"), "x d"),
        (Query(opcodes=frozenset({"dot", "convert"})), "c d"),
        (Query(shape="f32[4,16]"), "d g t"),
        (Query(shape="bf16"), "w"),
        (Query(shape="[8,*]"), "w c"),
        (Query(shape="*{0,1}"), "w"),
        (Query(shape="f32[]"), "p q s"),
        (Query(source=parse_source("model.py")), "c d g"),
        (Query(source=parse_source("a/model.py:9")), "d"),
        (Query(source=parse_source("model.py:7-8")), "c"),
        (Query(scope="while/body"), "c d"),
        (Query(scope="wh*"), "c d"),
        (Query(scope="hile"), ""),
        (Query(opcodes=frozenset({"dot"}), users=1), "d g t"),
        (Query(opcodes=frozenset({"dot"}), operands=2), "x w c d"),
        (Query(scope="body", shape="f32[8,16]"), "c"),
    ],
)
def test_what_answers(query: Query, names: str) -> None:
    module = load(MODULE.encode())
    assert [view.name for view in search(module.computations, query)] == names.split()


def test_no_regular_expression() -> None:
    with pytest.raises(HloError, match=r"not a regular expression") as caught:
        search((), Query(grep="("))
    assert caught.value.code == "HLO-ARGUMENT"


@pytest.mark.parametrize("shape", ["f33[4", "f33", "f32[4", "f32(4)", "float32[4]"])
def test_no_shape(shape: str) -> None:
    with pytest.raises(HloError, match=r"is not a shape") as caught:
        search((), Query(shape=shape))
    assert caught.value.code == "HLO-ARGUMENT"


def test_command_finds(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", file, "--grep", "dot", "--users", "1"]) == 0
    text = capsys.readouterr().out
    assert "lhs_contracting_dims={1} rhs_contracting_dims={0}" in text
    assert "replica_groups={{0,1}}" in text
    assert "convert" not in text.partition("ENTRY")[2]
    assert main(["show", file, "--source", "model.py:7", "--json"]) == 0
    computations = json.loads(capsys.readouterr().out)["computations"]
    names = [inst["name"] for computation in computations for inst in computation["instructions"]]
    assert names == ["c"]
    assert main(["show", file]) == 0
    assert "sharding={devices=[2,1]<=[2]}" in capsys.readouterr().out


def test_finding_nothing_is_said(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", file, "--grep", "nowhere"]) == 0
    assert capsys.readouterr().out.endswith("\n\nno instructions match\n")
    assert main(["show", file, "--summary"]) == 0
    assert "match" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--grep", "("], 2, "HLO-ARGUMENT"),
        (["--source", "f:9-3"], 2, "HLO-ARGUMENT"),
        (["--users", "2"], 2, "extend what --grep"),
    ],
)
def test_wrong_questions(
    file: str, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", file, *words]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def test_long_lists_are_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = range(40)
    lines = [f"  p{n} = f32[128,256] parameter({n})" for n in numbers]
    shape = ", ".join("f32[128,256]" for _ in numbers)
    lines.append(f"  ROOT t = ({shape}) tuple({', '.join(f'p{n}' for n in numbers)})")
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n")
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "29 more) -> (" in text
    assert "f32[128,256]{1,0}, … 36 more)" in text
    assert max(map(len, text.splitlines())) < 900
    assert main(["show", str(path), "--full"]) == 0
    assert "more" not in capsys.readouterr().out
