"""Return the names of a NEFF's inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hlo_tools
import neff
from neff.compiler.importing.tensor_names import framework_names
from neff.options import CompileOptions
from neff.runtime import load


def parameter(number: int, name: str, op_name: str = "", shape: str = "f32[4]") -> str:
    metadata = f', metadata={{op_name="{op_name}"}}' if op_name else ""
    return f"  {name} = {shape} parameter({number}){metadata}"


def names(*parameters: str) -> list[str]:
    body = "\n".join(parameters)
    text = f"HloModule m\nENTRY e {{\n{body}\n  ROOT r = f32[] constant(0)\n}}"
    return json.loads(framework_names(hlo_tools.load(text.encode()).entry.proto))


def test_the_path_of_an_argument() -> None:
    assert names(
        parameter(1, "Arg_1.2", "params['dense']['kernel']"), parameter(0, "Arg_0.1", "x")
    ) == ["x", "params.dense.kernel"]


def test_the_instruction_s_name_where_there_is_no_path() -> None:
    assert names(parameter(0, "weights.12"), parameter(1, "bias", "jit(f)/jit(main)/bias")) == [
        "weights", "bias",
    ]  # fmt: skip


@pytest.mark.parametrize("made_up", ["p0", "Arg_0.1", "parameter.3", "param_7", "input1"])
def test_an_argument_without_a_name(made_up: str) -> None:
    assert names(parameter(0, "x.1"), parameter(1, made_up)) == ["x", "input1"]


def test_names_differ() -> None:
    tensor_names = names(
        *(parameter(n, f"w.{n}", "w") for n in range(3)), parameter(3, "v.3", "w_2")
    )
    assert tensor_names == ["w", "w_2", "w_3", "w_2_2"]


def test_elements_of_a_tuple() -> None:
    tensor_names = names(
        parameter(0, "x.1", "x"), parameter(1, "state.2", "", "(f32[4], (s32[], f32[]))")
    )
    assert tensor_names == ["x", "state.0", "state.1", "state.2"]


def test_a_program_has_them() -> None:
    text = "HloModule m\nENTRY e {\n" + "\n".join([
        parameter(0, "a.1", "params['w']"), parameter(1, "b.2", "x"),
        "  ROOT s = f32[4] subtract(a.1, b.2)\n}",
    ])  # fmt: skip
    module = hlo_tools.load(text.encode())
    program = neff.compile(module, target="trn2", options=CompileOptions(names="framework"))
    assert program.inputs == ["params.w", "x"]
    for seed in (1, 2):
        w, x = np.random.default_rng(seed).standard_normal((2, 4), np.float32)
        result = load(program).run({"x": x, "params.w": w})
        np.testing.assert_array_equal(result["output0"], w - x)
    assert neff.compile(module, target="trn2").inputs == ["input0", "input1"]
