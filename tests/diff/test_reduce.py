"""Planted faults are reduced to a few instructions; verdicts are kept, runs are counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hlo_tools.cli import main
from hlo_tools.diff.reduce import reduce_module
from hlo_tools.diff.trials import Plan, Trials
from hlo_tools.errors import HloError
from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import verify

LOOP = """HloModule m
body { p = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[8,8] get-tuple-element(p), index=1
  y = f32[8,8] sine(x)
  z = f32[8,8] tan(y)
  w = f32[8,8] multiply(z, y)
  ROOT t = (s32[], f32[8,8]) tuple(j, w) }
condition { q = (s32[], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(q), index=0
  n = s32[] constant(100)
  ROOT l = pred[] compare(k, n), direction=LT }
ENTRY e {
  a = f32[8,8] parameter(0)
  a1 = f32[8,8] negate(a), metadata={op_name="first"}
  a2 = f32[8,8] add(a1, a)
  c0 = s32[] constant(0)
  s = (s32[], f32[8,8]) tuple(c0, a2)
  r = (s32[], f32[8,8]) while(s), condition=condition, body=body
  g = f32[8,8] get-tuple-element(r), index=1
  h = f32[8,8] exponential(g)
  ROOT o = f32[8,8] add(h, g)
}
"""


def chain(length: int) -> Module:
    lines = ["v0 = f32[4] parameter(0)"]
    lines += [f"v{n} = f32[4] {'tan' if n in (170, 175) else 'add'}(v{n - 1}{'' if n in (170, 175) else ', v0'})"
              for n in range(1, length)]  # fmt: skip
    body = "\n".join([*lines, f"ROOT r = f32[4] negate(v{length - 1})"])
    return Module(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"))


def opcodes(module: Module) -> list[str]:
    return [row.opcode for body in module.proto.computations for row in body.instructions]


def reduced(module: Module, command: str, **plan: int) -> tuple[Module, Trials]:
    trials = Trials(Plan(command=command, **plan), lambda candidate: not verify(candidate))
    reduction = reduce_module(module, trials)
    assert verify(reduction.module) == []
    return reduction.module, trials


def test_an_operation_in_a_loop_becomes_the_entry() -> None:
    small, trials = reduced(Module(parse(LOOP)), 'grep -q " tan(" {}')
    assert opcodes(small) == ["parameter", "tan"]
    assert list(small.entry.root.shape.dimensions) == [2, 2]
    assert trials.runs < 40


def test_a_loop_that_is_needed_stays() -> None:
    small, _ = reduced(Module(parse(LOOP)), 'grep -q " tan(" {} && grep -q " while(" {}')
    assert {"while", "tan"} < set(opcodes(small))
    assert len(opcodes(small)) <= 12


def test_two_operations_of_a_chain() -> None:
    command = 'test "$(grep -c " tan(" {})" = 2'
    small, trials = reduced(chain(400), command)
    assert opcodes(small).count("tan") == 2 and len(opcodes(small)) <= 5
    assert trials.runs <= 60


def test_candidates_at_the_same_time_give_the_same() -> None:
    command = 'grep -q " tan(" {}'
    first, _ = reduced(Module(parse(LOOP)), command)
    second, _ = reduced(Module(parse(LOOP)), command, jobs=3)
    assert first.to_text() == second.to_text()


def test_the_runs_have_an_end() -> None:
    trials = Trials(Plan(command="true", most=3), lambda candidate: True)
    reduction = reduce_module(chain(400), trials)
    assert trials.runs == 3 and not reduction.is_whole


def test_a_command_that_never_succeeds_is_refused() -> None:
    with pytest.raises(HloError) as caught:
        reduce_module(Module(parse(LOOP)), Trials(Plan(command="false"), lambda candidate: True))
    assert caught.value.code == "HLO-REDUCE"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hlo_tools.cli", "reduce", *words], capture_output=True, text=True
    )


def test_the_command_resumes(tmp_path: Path) -> None:
    source, small, verdicts = tmp_path / "m.hlo", tmp_path / "small.hlo", tmp_path / "v.jsonl"
    source.write_text(LOOP)
    words = [str(source), "--while", 'grep -q " tan(" {}', "-o", str(small), "--json"]
    first = run(*words, "--resume", str(verdicts))
    assert first.returncode == 0, first.stderr
    again = run(*words, "--resume", str(verdicts))
    before, after = json.loads(first.stdout), json.loads(again.stdout)
    assert (before["instructions"], after["instructions"]) == (2, 2)
    assert after["runs"] == 0 and after["cached"] >= before["runs"]
    assert "22 instructions became 2 in" in first.stderr
    assert "tan" in small.read_text()


def test_a_foreign_journal_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "v.jsonl"
    journal.write_text("hello\n")
    with pytest.raises(HloError) as caught:
        Trials(Plan(command="true", journal=journal), lambda candidate: True)
    assert caught.value.code == "HLO-ARGUMENT"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [("test -f", True), ("test -f {}", True), ("false {}", False),
     ('test "$NKI_HLO_MODULE" = {}', True)],
)  # fmt: skip
def test_how_a_command_gets_the_module(command: str, verdict: bool) -> None:
    trials = Trials(Plan(command=command), lambda candidate: True)
    assert trials.succeeds(chain(2)) is verdict


@pytest.mark.jax
def test_it_starts_where_our_values_and_those_of_jaxlib_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sine that is wrong, in the middle of a chain, is looked at first."""
    monkeypatch.setitem(OPERATIONS, "sine", lambda call: np.cos(call.operands[0]))
    lines = ["v0 = f32[4] parameter(0)"]
    lines += [f"v{n} = f32[4] {'sine' if n == 31 else 'abs'}(v{n - 1})" for n in range(1, 60)]
    source, small = tmp_path / "m.hlo", tmp_path / "small.hlo"
    source.write_text(
        "\n".join(["HloModule m\nENTRY e {", *lines, "ROOT r = f32[4] negate(v59)\n}"])
    )
    words = ["reduce", str(source), "--while", 'grep -q " sine(" {}', "-o", str(small), "--json"]
    assert main([*words, "--from-bisect"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["steps"][0]["what"] == "%v31 alone" and printed["steps"][0]["instructions"] == 2
    assert printed["runs"] <= 3 and "sine" in small.read_text()
    monkeypatch.undo()
    assert main([*words, "--from-bisect"]) == 3
    assert "our values and jaxlib's do not differ" in capsys.readouterr().err
