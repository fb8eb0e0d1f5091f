"""Kernel calls put in, exchanged and taken out by passes, and ``nki-hlo opt --prove``."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloVerifyError
from hlo_tools.kernel_calls import Prover
from hlo_tools.kernels.backend_config import decode
from hlo_tools.passes import PassError, Pipeline
from tests.kernel_calls.test_kernel_calls import PLAIN_TEXT, plain

pytestmark = pytest.mark.usefixtures("folder")

REPLACE = "replace{pattern=pattern.hlo kernel=scaled_add.klir}"


def test_there_and_back_again() -> None:
    pipeline = Pipeline.parse(
        f"{REPLACE},swap{{calls=scaled_add kernel=scaled_add_again.klir}},embed,"
        "expand{kernel=scaled_add_again reference=pattern.hlo},dce"
    )
    module = plain()
    prover = Prover(module)
    report = pipeline.run(module, verify_each=True, check=prover.compare)
    assert [step.modified for step in report.steps] == [True, True, True, True, False]
    assert module.find_custom_calls() == []
    assert str(Pipeline.parse(str(pipeline))) == str(pipeline)


def test_a_second_run_changes_nothing() -> None:
    module = plain()
    for text in (REPLACE, "embed", "embed{take-out=kernels}"):
        assert Pipeline.parse(text).run(module).modified
        assert not Pipeline.parse(text).run(module).modified
    assert len(list(Path("kernels").rglob("*.klir"))) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("replace", "HLO-PASS-ARGUMENT"),
        ("replace{pattern=pattern.hlo}", "HLO-PASS-ARGUMENT"),
        ("swap{calls=scaled_add}", "HLO-PASS-ARGUMENT"),
        ("expand{kernel=scaled_add}", "HLO-PASS-ARGUMENT"),
        ("replace{pattern=plain.hlo kernel=difference.klir required}", "HLO-KERNEL-RESULT"),
        ("replace{pattern=none.hlo kernel=scaled_add.klir}", "HLO-READ"),
        ("replace{pattern=pattern.hlo kernel=none.klir}", "HLO-KERNEL-MISSING"),
        ("swap{calls=none kernel=scaled_add.klir}", "HLO-NO-KERNEL"),
    ],
)
def test_wrong_arguments(text: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = code == "HLO-PASS-ARGUMENT"
    assert main(["opt", "plain.hlo", "-p", text, "-o", "no.hlo"]) == (2 if usage else 3)
    name = text.partition("{")[0]
    assert f"error[{code}] pass {name}" in capsys.readouterr().err
    assert not Path("no.hlo").exists()


def test_a_pattern_that_has_to_be_there() -> None:
    module = hlo_tools.load(PLAIN_TEXT.replace("constant(2)", "constant(3)").encode())
    assert not Pipeline.parse(REPLACE).run(module).modified
    with pytest.raises(PassError) as caught:
        Pipeline.parse(REPLACE.replace("}", " required}")).run(module)
    assert caught.value.code == "HLO-NO-MATCH"


def test_opt_proves_after_each_pass_and_names_files_relative(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["opt", "plain.hlo", "-p", f"{REPLACE},dce", "-o", "called.hlo", "--prove"]
    assert main(words) == 0
    assert "after 1 pass that changed something" in capsys.readouterr().err
    calls = hlo_tools.load("called.hlo").find_custom_calls()
    assert {decode(call.backend_config).binary for call in calls} == {"scaled_add.klir"}


def test_opt_names_the_pass_that_changes_results(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "swap{calls=scaled_add kernel=difference.klir}"
    words = ["opt", "plain.hlo", "-p", f"{REPLACE},{wrong},dce", "-o", "no.hlo", "--prove"]
    assert main(words) == 1
    assert f"error[HLO-DIFFERENT] pass {wrong}: the results differ" in capsys.readouterr().err
    assert not Path("no.hlo").exists()
    assert main([*words, "--tolerance", "100"]) == 0


def test_other_tuples_and_types_are_compared_by_their_arrays() -> None:
    text = """
HloModule t
ENTRY main {
  p = (f32[3], (s64[2], f32[])) parameter(0)
  a = f32[3] get-tuple-element(p), index=0
  q = (s64[2], f32[]) get-tuple-element(p), index=1
  b = s64[2] get-tuple-element(q), index=0
  c = f32[] get-tuple-element(q), index=1
  n = f32[3] negate(a)
  m = s64[2] add(b, b)
  i = (s64[2], f32[]) tuple(m, c)
  ROOT r = (f32[3], (s64[2], f32[])) tuple(n, i)
}
"""
    module = hlo_tools.load(text.encode())
    prover = Prover(module)
    report = Pipeline.parse("tuple-flattening,dtype-legalisation{boundary=change}").run(module)
    assert [step.modified for step in report.steps] == [True, True]
    assert len(module.entry.parameters) == 3
    assert prover.compare(module).difference == 0
    with pytest.raises(HloVerifyError, match="takes 2 arrays; it took 3 before"):
        prover.compare(plain())


def test_standard_output_gets_what_came_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "kernel",
                "replace",
                "plain.hlo",
                "-p",
                "pattern.hlo",
                "-k",
                "scaled_add.klir",
                "-o",
                "-",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("HloModule plain")
    assert main(["kernel", "replace", "plain.hlo", "-p", "pattern.hlo", "-k", "scaled_add.klir",
                 "-o", "called.json"]) == 0  # fmt: skip
    assert Path("called.json").read_text().startswith("{")
    assert main(["kernel", "embed", "called.json", "-o", "whole.pbtxt"]) == 0
    assert "nki_hlo" not in Path("called.json").read_text()
    assert hlo_tools.load("whole.pbtxt").find_custom_calls()
