"""Pipelines: their text, their checks, their reports."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import pytest

import hlo_tools
from hlo_tools import HloError, HloVerifyError, Module
from hlo_tools.passes import Pass, PassError, Pipeline
from hlo_tools.passes.arguments import arguments_of, print_pass
from hlo_tools.passes.auto_cast import AutoCast
from hlo_tools.passes.constant_folding import ConstantFolding
from hlo_tools.passes.dce import DeadCode
from hlo_tools.passes.outlining import Outlining
from hlo_tools.passes.pipeline_text import parse_passes
from hlo_tools.text import parse
from tests.passes.random_modules import random_module
from tests.passes.running import entry_of

TEXT = """
HloModule small

ENTRY main {
  x = f32[2] parameter(0)
  dead = f32[2] negate(x)
  a = f32[2] sine(x)
  b = f32[2] sine(x)
  ROOT out = f32[2] add(a, b)
}
"""


@pytest.fixture
def module() -> Module:
    return Module(parse(TEXT))


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", ()),
        (" \n ", ()),
        ("dce", (DeadCode(),)),
        ("dce{}", (DeadCode(),)),
        ("dce{computations=false}", (DeadCode(computations=False),)),
        (" dce ,\n auto-cast { which=all type=fp16 } ", (DeadCode(), AutoCast("all", "fp16"))),
        ("constant-folding{limit=0x10}", (ConstantFolding(limit=16),)),
        ('outlining{scope="a \\"b\\" }" called=c}', (Outlining(scope='a "b" }', called="c"),)),
        ("outlining{instructions=a,b.1}", (Outlining(("a", "b.1")),)),
    ],
)
def test_text_and_back(text: str, passes: tuple[Pass, ...]) -> None:
    assert parse_passes(text) == passes
    assert parse_passes(str(Pipeline(passes))) == passes


@pytest.mark.parametrize(
    ("text", "code", "place", "message"),
    [
        ("dce,", "HLO-PIPELINE", "1:4", "expected a pass after the comma"),
        (",dce", "HLO-PIPELINE", "1:1", "expected the name of a pass"),
        ("dce cse", "HLO-PIPELINE", "1:5", "expected a comma"),
        ("dce,\n  csee", "HLO-NO-PASS", "2:3", "there is no pass 'csee'"),
        ("dce{", "HLO-PIPELINE", "1:4", "never closed"),
        ("dce{computations=", "HLO-PIPELINE", "1:18", "expected a value"),
        ("dce{=1}", "HLO-PIPELINE", "1:5", "expected an argument"),
        ("dce{some=1}", "HLO-PASS-ARGUMENT", "1:5", "some is not an argument"),
        ("dce{computations computations}", "HLO-PASS-ARGUMENT", "1:18", "passed twice"),
        ("dce{computations=maybe}", "HLO-PASS-ARGUMENT", "1:18", "neither true nor false"),
        ("constant-folding{limit=few}", "HLO-PASS-ARGUMENT", "1:24", "not an integer"),
        ("constant-folding{limit=0}", "HLO-PASS-ARGUMENT", "1:1", "limit is 0"),
        (
            "auto-cast{type=f8}",
            "HLO-PASS-ARGUMENT",
            "1:16",
            "not one of bf16, fp16, tf32, fp8_e4m3",
        ),
        ('outlining{scope="x}', "HLO-PIPELINE", "1:17", "never closed"),
        ("strip-metadata{fields=colour}", "HLO-PASS-ARGUMENT", "1:1", "no field colour"),
        ("rename{module=9}", "HLO-PASS-ARGUMENT", "1:1", "not a name for a module"),
    ],
)
def test_wrong_text_is_shown_with_its_place(text: str, code: str, place: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        Pipeline.parse(text)
    assert (caught.value.code, caught.value.place) == (code, f"pipeline:{place}")
    assert message in caught.value.message
    caret = caught.value.message.splitlines()[-1]
    assert caret.index("^") - 2 == int(place.partition(":")[2]) - 1
    assert caught.value.remedy


def test_report_counts_and_times(module: Module) -> None:
    shown: list[str] = []
    report = Pipeline.parse("dce,dce,cse").run(
        module, verify_each=True, time_passes=True, print_between=shown.append
    )
    assert [(step.text, step.modified, step.before, step.after) for step in report.steps] == [
        ("dce", True, 5, 4), ("dce", False, 4, 4), ("cse", True, 4, 3),
    ]  # fmt: skip
    assert report.modified and all(step.seconds > 0 for step in report.steps)
    assert [text.partition("\n")[0] for text in shown] == [
        "// before the first pass", "// after dce", "// after cse",
    ]  # fmt: skip
    assert not Pipeline.parse("").run(module).modified


def test_untimed_steps_have_no_time(module: Module) -> None:
    assert Pipeline.parse("dce").run(module).steps[0].seconds == 0.0


@dataclass(frozen=True, slots=True)
class Breaking(Pass):
    """Give the root a wrong shape."""

    name: ClassVar[str] = "breaking"

    def run(self, module: Module) -> bool:
        module.entry.root.proto.shape.dimensions[0] = 3
        module.touch()
        return True


@dataclass(frozen=True, slots=True)
class Lying(Pass):
    """Say that dead code is gone."""

    name: ClassVar[str] = "lying"
    ensures: ClassVar[tuple[str, ...]] = ("no-dead-code",)

    def run(self, module: Module) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Demanding(Pass):
    """Need a module without dead code."""

    name: ClassVar[str] = "demanding"
    requires: ClassVar[tuple[str, ...]] = ("no-dead-code",)

    def run(self, module: Module) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Failing(Pass):
    """Fail."""

    name: ClassVar[str] = "failing"

    def run(self, module: Module) -> bool:
        raise HloError("no", code="HLO-SOME", place="%x", remedy="none")


def test_verify_each_names_the_pass(module: Module) -> None:
    Pipeline((Breaking(),)).run(Module(parse(TEXT)))
    with pytest.raises(HloVerifyError) as caught:
        Pipeline((DeadCode(), Breaking())).run(module, verify_each=True)
    assert caught.value.place.startswith("after breaking: %main/%out")


def test_a_wrong_module_is_noticed_before_the_first_pass(module: Module) -> None:
    Breaking().run(module)
    with pytest.raises(HloVerifyError, match="before the first pass"):
        Pipeline((DeadCode(),)).run(module, verify_each=True)


def test_what_a_pass_ensures_and_requires_is_checked(module: Module) -> None:
    with pytest.raises(
        PassError, match=r"lying ensures no-dead-code .*%dead violates it"
    ) as caught:
        Pipeline((Lying(),)).run(module, verify_each=True)
    assert caught.value.code == "HLO-PASS-ENSURES"
    with pytest.raises(PassError, match="demanding requires no-dead-code") as caught:
        Pipeline((Demanding(),)).run(module, verify_each=True)
    assert caught.value.code == "HLO-PASS-REQUIRES"
    Pipeline((DeadCode(), Demanding(), Lying())).run(module, verify_each=True)


def test_errors_name_the_pass_and_keep_their_code(module: Module) -> None:
    with pytest.raises(HloError) as caught:
        Pipeline((Failing(),)).run(module)
    assert (caught.value.code, caught.value.place) == ("HLO-SOME", "pass failing: %x")


def test_fields_that_have_no_text_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd(Pass):
        name: ClassVar[str] = "odd"
        table: dict = None  # type: ignore[assignment, type-arg]

        def run(self, module: Module) -> bool:
            return False

    with pytest.raises(PassError, match="field table of the pass Odd") as caught:
        arguments_of(Odd)
    assert caught.value.code == "HLO-PASS-FIELD"


def test_arguments_that_are_not_default_are_printed() -> None:
    assert print_pass(AutoCast(type="tf32")) == "auto-cast{type=tf32}"
    assert print_pass(Outlining(scope="a b")) == 'outlining{scope="a b"}'
    assert arguments_of(AutoCast)["which"].kind == "matmult|all"


@pytest.mark.parametrize("name", ["constant-folding", "reshape-transpose-cleaning"])
def test_an_instruction_that_contradicts_itself_is_an_error_of_the_module(name: str) -> None:
    module = Module(
        parse(
            "HloModule m\nENTRY e {\nc = s32[2,2] constant({{1,2},{3,4}})\n"
            "ROOT t = s32[2,2] transpose(c), dimensions={1,0}\n}\n"
        )
    )
    root = module.entry.root.proto
    if name == "constant-folding":
        del root.operand_ids[:]
    root.dimensions[:] = [1, 7]
    with pytest.raises(PassError, match="cannot read") as caught:
        Pipeline.parse(name).run(Module(module.proto))
    assert caught.value.code == "HLO-PASS-MODULE" and caught.value.place.startswith(f"pass {name}")


@dataclass(frozen=True, slots=True)
class Quiet(Pass):
    """Double the negation, in the messages alone, and tell nobody but by the result."""

    name: ClassVar[str] = "quiet"

    def run(self, module: Module) -> bool:
        rows = module.proto.computations[0].instructions
        (total,) = (row for row in rows if row.opcode == "add")
        (sine, *_) = (row for row in rows if row.opcode == "sine")
        total.operand_ids[:] = [sine.id, sine.id]
        return True


def test_a_pass_sees_what_the_one_before_it_did(module: Module) -> None:
    module.entry.find("b").proto.metadata.op_name = "b"
    report = Pipeline((DeadCode(), Quiet(), DeadCode())).run(module)
    assert [(step.before, step.after) for step in report.steps] == [(5, 4), (4, 4), (4, 3)]


@pytest.mark.parametrize("seed", range(8))
def test_passes_of_one_pipeline_do_as_they_do_alone(seed: int) -> None:
    text = (
        "dce,cse,algebraic-simplification,cse,dce,constant-folding,reshape-transpose-cleaning,"
        "cse,call-inlining,cse,dce,renumber,cse,strip-metadata,dce,schedule,cse,dce,tuple-flattening,dce"
    )
    together, alone = (random_module(random.Random(seed), size=40) for _ in range(2))
    Pipeline.parse(text).run(together)
    for pass_name in Pipeline.parse(text).passes:
        Pipeline((pass_name,)).run(alone)
    assert together.to_bytes() == alone.to_bytes()


def test_a_failing_pass_of_others_is_their_fault(module: Module) -> None:
    @dataclass(frozen=True, slots=True)
    class Failing(Pass):
        """Fail."""

        name: ClassVar[str] = "failing"

        def run(self, module: Module) -> bool:
            raise RuntimeError("on purpose")

    with pytest.raises(PassError, match="it fails: RuntimeError: on purpose") as caught:
        Pipeline((Failing(),)).run(module)
    assert caught.value.code == "HLO-PASS-FAILED"
    assert caught.value.place == "pass failing" and "bug of tests" in caught.value.remedy


@pytest.mark.parametrize(
    ("returned", "message"), [(False, "returned False"), (None, "returned None")]
)
def test_a_change_that_is_not_reported_is_refused(
    module: Module, returned: bool, message: str
) -> None:
    @dataclass(frozen=True, slots=True)
    class Silent(Pass):
        """Rename the root and report nothing."""

        name: ClassVar[str] = "silent"

        def run(self, module: Module) -> bool:
            module.entry.root.proto.name = "renamed"
            return returned

    with pytest.raises(PassError, match=message) as caught:
        Pipeline((Silent(),)).run(module)
    assert caught.value.code == "HLO-PASS-REPORT" and caught.value.place == "pass silent"


def test_a_failing_pass_of_ours_is_a_bug(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DeadCode, module: Module) -> bool:
        raise KeyError("missing")

    monkeypatch.setattr(DeadCode, "run", fail)
    with pytest.raises(KeyError):  # suites and fuzzers see it as it is
        Pipeline((DeadCode(),)).run(module)
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    with pytest.raises(PassError, match="it fails: KeyError: 'missing'") as caught:
        Pipeline((DeadCode(),)).run(module)
    assert caught.value.code == "HLO-INTERNAL" and "report it" in caught.value.remedy


@pytest.mark.parametrize("pipeline", ["dce", "cse", "schedule", "call-inlining"])
def test_damaged_modules_give_coded_errors(pipeline: str) -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    proto = module.proto
    proto.computations[-1].instructions[1].operand_ids[0] = 77
    with pytest.raises(HloError) as caught:
        Pipeline.parse(pipeline).run(hlo_tools.load(proto.SerializeToString()))
    assert caught.value.code == "HLO-REFERENCE"
