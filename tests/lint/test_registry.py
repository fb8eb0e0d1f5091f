"""Lint rules of other packages and of Python files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools import plugins
from hlo_tools.cli import main
from hlo_tools.cli.shared.codes import codes
from hlo_tools.errors import HloError
from hlo_tools.lint import RULES, Graph, Hit, LintRule, lint, registered_rules, registry, selected
from hlo_tools.rewrite.patterns import op
from tests.lint.cases import module

BY_CONSTANT = op("divide", "x", op("broadcast", op("constant", capture="c")))
TEXT = module(
    """
  x = f32[4] parameter(0)
  c = f32[] constant(2)
  b = f32[4] broadcast(c), dimensions={}
  d = f32[4] divide(x, b)
  ROOT e = f32[4] divide(d, x)"""
)


def _divided(graph: Graph) -> Iterator[Hit]:
    for view, match in graph.matching(BY_CONSTANT):
        yield Hit(f"%{match['x'].name} is divided by the constant %{match['c'].name}", view)


def _fails(graph: Graph) -> Iterator[Hit]:
    raise KeyError("oops")
    yield


DIVISION = LintRule(
    "TEAM-001", "nothing is divided by a constant", "It is slow.", "multiply", _divided
)
FAILING = LintRule("TEAM-002", "never", "It fails.", "none", _fails)
LOWER = LintRule("team", "never", "It fails.", "none", _fails)
TAKEN = LintRule("NCC_EVRF004", "never", "It is there already.", "none", _fails)
TAKEN_BY_VERIFY = LintRule("HLO-V001", "never", "It is there already.", "none", _fails)
SEVERAL = [DIVISION, FAILING]
NO_RULES = [DIVISION, "text"]


@pytest.fixture
def rule_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that an installed package would have."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [p for p in points if p.group == group]
    )
    for cached in (registered_rules, codes):
        cached.cache_clear()
    yield points
    for cached in (registered_rules, codes):
        cached.cache_clear()


def point(attribute: str) -> EntryPoint:
    return EntryPoint("team", f"{__name__}:{attribute}", registry.GROUP)


def test_a_rule_of_another_package_is_linted_selected_and_explained(
    rule_points: list[EntryPoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule_points.append(point("DIVISION"))
    assert list(registered_rules()) == [*RULES, "TEAM-001"]
    (hit,) = lint(hlo_tools.load(TEXT.encode()), target="trn2")
    assert (hit.code, hit.place) == ("TEAM-001", "%main/%d")
    assert hit.message == "%x is divided by the constant %c"
    assert [rule.code for rule in selected(["team"])] == ["TEAM-001"]
    (tmp_path / "m.hlo").write_text(TEXT)
    assert main(["lint", str(tmp_path / "m.hlo")]) == 1
    assert "error[TEAM-001] %main/%d" in capsys.readouterr().out
    assert main(["explain", "TEAM-001"]) == 0
    assert "Provided by: an unknown distribution." in capsys.readouterr().out


def test_a_rule_that_fails_is_named_and_can_be_left_out(
    rule_points: list[EntryPoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule_points.append(point("SEVERAL"))
    (tmp_path / "m.hlo").write_text(TEXT)
    assert main(["lint", str(tmp_path / "m.hlo")]) == 3
    err = capsys.readouterr().err
    assert "error[HLO-RULE-BROKEN]" in err and "rule TEAM-002" in err and "KeyError: 'oops'" in err
    assert "--ignore TEAM-002" in err
    assert main(["lint", str(tmp_path / "m.hlo"), "--ignore", "TEAM-002"]) == 1


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("Absent", "cannot be imported"),
        ("NO_RULES", "holds str, not a LintRule"),
        ("main", "not a LintRule or a list"),
        ("LOWER", "has the code 'team'"),
    ],
)
def test_what_is_no_rule_is_refused(
    rule_points: list[EntryPoint], attribute: str, message: str
) -> None:
    rule_points.append(point(attribute))
    with pytest.raises(HloError, match=message) as caught:
        registered_rules()
    assert caught.value.code == "HLO-RULE-BROKEN" and __name__ in caught.value.message


@pytest.mark.parametrize("attribute", ["TAKEN", "TAKEN_BY_VERIFY"])
def test_a_code_twice_is_an_error(rule_points: list[EntryPoint], attribute: str) -> None:
    rule_points.append(point(attribute))
    with pytest.raises(HloError, match="two rules have the code") as caught:
        registered_rules()
    assert caught.value.code == "HLO-RULE-CLASH"


OWN_RULES = """
from hlo_tools.lint import Hit, LintRule
from hlo_tools.rewrite.patterns import op

def check(graph):
    for view, found in graph.matching(op("divide", "x", "y")):
        yield Hit("a division", view)

NO_DIVISION = LintRule("TEAM-001", "no division", "It is slow.", "multiply", check)
ANSWER = 42
"""


def test_rules_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(TEXT)
    (tmp_path / "own_rules.py").write_text(OWN_RULES)

    def run(rules: str) -> tuple[int, str]:
        code = main(["lint", str(tmp_path / "m.hlo"), "--rules", rules])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    file = str(tmp_path / "own_rules.py")
    code, text = run(f"{file}:NO_DIVISION")
    assert code == 1 and text.count("error[TEAM-001]") == 2 and "help: multiply" in text
    assert "did you mean NO_DIVISION?" in run(f"{file}:NO_DIVISON")[1]
    code, text = run(f"{file}:ANSWER")
    assert code == 3 and "is int, not a LintRule" in text
    code, text = run(file)
    assert code == 2 and "is not FILE.py:NAME" in text
    assert run(f"{tmp_path}/none.py:X")[0] == 3
    (tmp_path / "own_rules.py").write_text("import not_there_at_all\n")
    code, text = run(f"{file}:NO_DIVISION")
    assert code == 3 and "error[HLO-IMPORT]" in text and "own_rules.py:1" in text
