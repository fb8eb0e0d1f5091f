"""``nki-hlo convert --to numpy``: what the file computes, beside the evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.python_source import UnwritableError, to_python
from hlo_tools.python_source.numpy_target import NUMPY
from hlo_tools.types.element_types import BY_NAME
from tests.python_source.cases import texts
from tests.python_source.elementwise import elementwise_module, single_texts
from tests.python_source.running import check_equal, module_of, random_arrays

CASES = texts()
REFUSED_CASES = {
    "halves": "custom-call calls",
    "products": "ragged-dot has no source",
    "random bits": "rng-bit-generator has no source",
    "rng-bit-generator": "rng-bit-generator has no source",
}
REFUSED = {(opcode, "c64") for opcode in ("atan2", "clamp", "maximum", "minimum")}
WITHOUT_ROW = {
    "constant": "the writer has the literal",
    "dynamic-reshape": "arrays of generated files have fixed shapes",
    "ragged-all-to-all": "needs several devices",
    "ragged-dot": "not written",
    "rng-bit-generator": "not written",
    "set-dimension-size": "arrays of generated files have fixed shapes",
}


def test_every_evaluated_opcode_has_a_row() -> None:
    assert OPERATIONS.keys() - NUMPY.rows.keys() == WITHOUT_ROW.keys()


@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED_CASES.keys()))
def test_equals_the_evaluator(name: str, tmp_path: Path) -> None:
    module = module_of(CASES[name])
    check_equal(module, tmp_path, "numpy", random_arrays(module, 1), random_arrays(module, 2))


@pytest.mark.parametrize(
    "element", ["f32", "f64", "bf16", "f8e5m2", "s32", "u8", "s64", "u64", "pred", "c64"]
)
def test_elementwise_opcodes_of_every_type(element: str, tmp_path: Path) -> None:
    module, inputs = elementwise_module(element, REFUSED)
    check_equal(module, tmp_path, "numpy", inputs)


@pytest.mark.parametrize("name", REFUSED_CASES)
def test_refused_instructions_are_named(name: str) -> None:
    with pytest.raises(UnwritableError, match=REFUSED_CASES[name]) as caught:
        to_python(module_of(CASES[name]), "numpy")
    assert caught.value.code == "HLO-PYTHON-OPCODE"


@pytest.mark.parametrize(("opcode", "element"), sorted(REFUSED))
def test_complex_numbers_have_no_order(opcode: str, element: str) -> None:
    for text in single_texts(element, opcode):
        with pytest.raises(UnwritableError, match=opcode):
            to_python(module_of(text), "numpy")


def test_products_of_other_types(tmp_path: Path) -> None:
    lines = [line for line in CASES["products"].splitlines() if " ragged-dot(" not in line]
    module = module_of("\n".join(lines).replace("tuple(r, m, b)", "tuple(m, m, b)"))
    check_equal(module, tmp_path, "numpy", random_arrays(module, 1), random_arrays(module, 2))


INDICES = """HloModule m
put { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
ENTRY e {
  x = f32[300] parameter(0)
  i = TYPE[4] parameter(1)
  u = f32[4] parameter(2)
  g = f32[4] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  s = f32[300] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=put
  ROOT t = (f32[4], f32[300]) tuple(g, s)
}"""


@pytest.mark.parametrize(
    ("element", "indices"),
    [("u8", [255, 127, 128, 0]), ("s8", [127, 64, -1, 100]), ("u64", [(1 << 64) - 1, 299, 300, 5])],
)
def test_indices_of_every_integer_type(element: str, indices: list[int], tmp_path: Path) -> None:
    module = module_of(INDICES.replace("TYPE", element))
    x, _, u = random_arrays(module, 1)
    check_equal(module, tmp_path, "numpy", [x, np.array(indices, BY_NAME[element].dtype), u])


@pytest.mark.parametrize(
    "line", ["(s4[2], s32[2]) topk(x), k=2, largest=true", "s4[9] clamp(x, x, x)"]
)
def test_narrow_integers_are_refused(line: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  x = s4[9] parameter(0)\n  ROOT r = {line}\n}}"
    with pytest.raises(UnwritableError, match="has operands of s4"):
        to_python(module_of(text), "numpy")
