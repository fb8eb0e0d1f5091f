"""The order of a comparison in field 102, as jaxlib 0.12 writes it.

Expected values are jaxlib 0.12.0.1's.
"""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
import neff
from hlo_tools import schema
from hlo_tools.diff import diff_modules
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.dialects import to_dialect
from hlo_tools.ir.module import Module
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse
from hlo_tools.types.comparison import for_older_readers
from hlo_tools.verify import verify
from neff import runtime

NAN = np.float32("nan")
LEFT = np.array([-0.0, 0, 1, NAN, 1, -1, -NAN, 2], np.float32)
RIGHT = np.array([0, -0.0, NAN, 1, 2, -2, -1, 2], np.float32)
LESS = [True, False, True, False, True, False, True, False]
KEYS = np.array([3, 0, -0.0, NAN, -1, -NAN, 2], np.float32)
SORTED = np.array([-NAN, -1, -0.0, 0, 2, 3, NAN], np.float32)
SORT = """HloModule m
before { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, order=TOTAL }
ENTRY e { x = f32[7] parameter(0)
  ROOT s = f32[7] sort(x), dimensions={0}, to_apply=before }"""


def compared(attributes: str = ", order=TOTAL", element: str = "f32") -> Module:
    return Module(
        parse(
            f"HloModule m\nENTRY e {{ a = {element}[8] parameter(0)\n b = {element}[8] parameter(1)\n"
            f" ROOT c = pred[8] compare(a, b), direction=LT{attributes} }}"
        )
    )


def run(module: Module, *inputs: np.ndarray) -> np.ndarray:
    """The result of the module's NEFF."""
    model = runtime.load(neff.compile(module, target="trn2"))
    arrays = {f"input{number}": array for number, array in enumerate(inputs)}
    return next(iter(model.run(arrays).values()))


def test_the_total_order_is_evaluated_and_built() -> None:
    module = compared()
    assert module.entry.root.proto.comparison_order == "TOTAL"
    assert not module.entry.root.proto.comparison_type
    assert evaluate(module, [LEFT, RIGHT])[0].tolist() == LESS
    assert run(module, LEFT, RIGHT).astype(bool).tolist() == LESS


def test_a_sort_by_the_total_order_keeps_every_value() -> None:
    module = Module(parse(SORT))
    for result in (evaluate(module, [KEYS])[0], run(module, KEYS)):
        np.testing.assert_array_equal(result, SORTED)
        assert np.signbit(result).tolist() == np.signbit(SORTED).tolist()


def test_the_order_survives_every_rewrite() -> None:
    wide = "HloModule m\nENTRY e { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    wide += " x = f32[4] broadcast(a), dimensions={}\n y = f32[4] broadcast(b), dimensions={}\n"
    wide += " c = pred[4] compare(x, y), direction=NE, order=TOTAL\n ROOT n = pred[4] not(c) }"
    module = Module(parse(wide))
    Pipeline.parse("algebraic-simplification,cse,dce").run(module)
    for left, right in ((-0.0, 0.0), (NAN, NAN), (1.0, 1.0)):
        inputs = [np.float32(left), np.float32(right)]
        expected = evaluate(Module(parse(wide)), inputs)[0]
        assert evaluate(module, inputs)[0].tolist() == expected.tolist()
    never = (
        compared(", order=TOTAL")
        .to_text()
        .replace("%b = f32[8]{0} parameter(1)", "%b = f32[8]{0} broadcast(%z), dimensions={}")
    )
    never = never.replace(
        "%a = f32", "%z = f32[] constant(0)\n  %p = f32[8]{0} parameter(0)\n  %a = f32", 1
    )
    never = (
        never.replace("%a = f32[8]{0} parameter(0)", "%a = f32[8]{0} abs(%p)")
        .replace(", b: f32[8]", "")
        .replace(", f32[8]{0})->", ")->")
    )
    module = hlo_tools.load(never.encode())
    Pipeline.parse("algebraic-simplification").run(module)
    assert module.entry.root.opcode == "compare"  # abs(-nan) < 0 depends on the order


@pytest.mark.parametrize(
    ("element", "attribute", "printed"),
    [
        ("f32", ", order=TOTAL", ", order=TOTAL"),
        ("f32", ", order=PARTIAL", ""),
        ("s32", ", order=TOTAL", ""),
        ("s32", ", order=PARTIAL", ", order=PARTIAL"),
        ("pred", ", order=TOTAL", ""),
        ("c64", ", order=PARTIAL", ""),
        ("f32", ", type=TOTALORDER", ", type=TOTALORDER"),
    ],
)
def test_text_has_what_is_not_the_default(element: str, attribute: str, printed: str) -> None:
    (line,) = (row for row in compared(attribute, element).to_text().splitlines() if "ROOT" in row)
    assert line.endswith(f"direction=LT{printed}")


def test_text_has_type_or_order() -> None:
    with pytest.raises(hlo_tools.HloTextError, match="not both"):
        compared(", type=FLOAT, order=TOTAL")
    with pytest.raises(hlo_tools.HloTextError, match="comparison order"):
        compared(", order=SOME")


def test_the_verifier_checks_the_order() -> None:
    assert not list(verify(compared()))
    module = compared()
    row = module.proto.computations[0].instructions[2]
    row.comparison_type = "FLOAT"
    assert [problem.code for problem in verify(module)] == ["HLO-V019"]
    row.comparison_order = "FIRST"
    assert "HLO-V019" in {problem.code for problem in verify(module)}


def test_older_readers_get_a_type() -> None:
    data = compared().module_bytes()
    row = schema.HloModuleProto.FromString(for_older_readers(data)).computations[0].instructions[2]
    assert (row.comparison_type, row.comparison_order) == ("TOTALORDER", "TOTAL")
    module = compared()
    to_dialect(module, "2024")
    row = module.proto.computations[0].instructions[2]
    assert (row.comparison_type, row.comparison_order) == ("TOTALORDER", "")
    totally_ordered = compared(", order=TOTAL", "s32")
    to_dialect(totally_ordered, "2024")
    assert totally_ordered.proto.computations[0].instructions[2].comparison_type == "SIGNED"
    damaged = compared()
    row = damaged.proto.computations[0].instructions[2]
    del row.operand_ids[:]
    to_dialect(damaged, "2024")
    assert row.comparison_type


@pytest.mark.jax
def test_stablehlo_of_an_older_jaxlib_keeps_the_order() -> None:
    from hlo_tools.ir.formats import render

    assert b"TOTALORDER" in render(compared(), "stablehlo")


def test_both_spellings_are_alike() -> None:
    assert diff_modules(compared(), compared(", type=TOTALORDER")).is_equal
    assert diff_modules(compared(""), compared(", order=PARTIAL")).is_equal
    assert not diff_modules(compared(), compared(", type=FLOAT")).is_equal


def test_options_of_products_are_read() -> None:
    module = Module(
        parse(
            "HloModule m\nENTRY e { a = f32[2,2] parameter(0)\n ROOT d = f32[2,2] dot(a, a),"
            " lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
        )
    )
    before = Module(schema.HloModuleProto.FromString(module.module_bytes()))
    module.proto.computations[0].instructions[1].empty_options.SetInParent()
    module.touch()
    assert not list(verify(module))
    assert diff_modules(before, module).is_equal
