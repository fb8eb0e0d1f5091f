"""The script that reads XLA's simplifier tests: on a file made up here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
TEST_F(Simplifier, {reached}) {{
  const char* kModuleStr = R"(
    HloModule m
    ENTRY e {{
      x = s32[] parameter(0)
      y = s32[] parameter(1)
      d = s32[] subtract(y, x)
      ROOT r = s32[] add(x, d)
    }}
  )";
  TF_ASSERT_OK_AND_ASSIGN(auto m, ParseAndReturnVerifiedModule(kModuleStr));
  ASSERT_TRUE(AlgebraicSimplifier(options).Run(m.get()).value());
  EXPECT_THAT(m->entry_computation()->root_instruction(),
              GmockMatch(m::Parameter(1)));
}}

TEST_F(Simplifier, {missed}) {{
  const char* kModuleStr = R"(
    HloModule m
    ENTRY e {{
      x = f32[4] parameter(0)
      ROOT r = f32[4] cosine(x)
    }}
  )";
  TF_ASSERT_OK_AND_ASSIGN(auto m, ParseAndReturnVerifiedModule(kModuleStr));
  ASSERT_TRUE(AlgebraicSimplifier(options).Run(m.get()).value());
  EXPECT_THAT(m->entry_computation()->root_instruction(),
              GmockMatch(m::MultiplyAnyOrder(m::Op(), m::Parameter(0)).WithShape(F32, {{4}})));
}}
"""


def test_the_share_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "xla/hlo/transforms/simplifiers"
    folder.mkdir(parents=True)
    text = TESTS.format(reached="Reached", missed="Missed")
    (folder / "algebraic_simplifier_test.cc").write_text(text)
    lines = ""
    for words in ([], ["--held-out"]):
        done = subprocess.run(
            [sys.executable, "-m", "tests.suites.xla_simplifier", str(tmp_path), "--missed", *words],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        lines += done.stdout
    assert "Reached" not in lines
    assert "Missed: cosine(parameter) is no MultiplyAnyOrder(Op, Parameter)" in lines
