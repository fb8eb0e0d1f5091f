"""``nki-hlo convert --to jax``: what the file computes, beside the evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.python_source import UnwritableError, to_python, write_python
from hlo_tools.python_source.jax_target import JAX
from tests.python_source.cases import SCALARS, texts
from tests.python_source.elementwise import ELEMENTS, elementwise_module, single_texts
from tests.python_source.running import check_equal, module_of, random_arrays

pytestmark = pytest.mark.jax

CASES = texts()
NOT_COMPARED = {("asinh", "c64")}
"""Another branch of the function on the imaginary axis."""

REFUSED = NOT_COMPARED | {
    ("abs", "s4"), ("mulhi", "s4"), ("mulhi", "u4"), ("popcnt", "s4"), ("popcnt", "u4"),
}  # fmt: skip

WITHOUT_ROW = {
    "constant": "the writer has the literal",
    "dynamic-reshape": "JAX's arrays have fixed shapes",
    "ragged-all-to-all": "needs several devices",
    "set-dimension-size": "JAX's arrays have fixed shapes",
}


def test_every_evaluated_opcode_has_a_row() -> None:
    assert OPERATIONS.keys() - JAX.rows.keys() == WITHOUT_ROW.keys()
    assert JAX.rows.keys() <= OPERATIONS.keys()


def test_every_row_runs_in_a_case() -> None:
    opcodes = {
        instruction.opcode
        for text in CASES.values()
        for computation in module_of(text).computations
        for instruction in computation.instructions
    }
    assert not JAX.rows.keys() - opcodes


@pytest.mark.parametrize("name", CASES)
def test_equals_the_evaluator(name: str, tmp_path: Path) -> None:
    module = module_of(CASES[name])
    check_equal(module, tmp_path, "jax", random_arrays(module, 1), random_arrays(module, 2))


@pytest.mark.parametrize("element", ELEMENTS)
def test_elementwise_opcodes_of_every_type(element: str, tmp_path: Path) -> None:
    module, inputs = elementwise_module(element, REFUSED)
    check_equal(module, tmp_path, "jax", inputs)


@pytest.mark.parametrize(("opcode", "element"), sorted(REFUSED - NOT_COMPARED))
def test_types_that_jax_does_not_take_are_refused(opcode: str, element: str) -> None:
    for text in single_texts(element, opcode):
        with pytest.raises(UnwritableError, match=opcode) as caught:
            to_python(module_of(text), "jax")
        assert caught.value.code == "HLO-PYTHON-OPCODE"


def test_refused_instructions_are_named(tmp_path: Path) -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  n = s32[] constant(2)
  s = f32[<=4] set-dimension-size(x, n), dimensions={0}
  k = f32[4] custom-call(x), custom_call_target="MyKernel"
  ROOT t = (f32[<=4], f32[4]) tuple(s, k)
}"""
    with pytest.raises(UnwritableError) as caught:
        write_python(module_of(text), tmp_path / "m.py")
    assert caught.value.code == "HLO-PYTHON-OPCODE"
    assert "%s set-dimension-size" in caught.value.message
    assert "%k custom-call calls 'MyKernel'" in caught.value.message
    assert not list(tmp_path.iterdir())


def test_communication_is_refused(tmp_path: Path) -> None:
    text = f"""HloModule m
{SCALARS}
ENTRY e {{
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=add
}}"""
    with pytest.raises(UnwritableError, match="communicates with other devices"):
        to_python(module_of(text))
