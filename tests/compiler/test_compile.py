"""``neff.compile`` as a whole: kernels in modules, names, options, errors, equal bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
import neff
from hlo_tools.errors import HloFileError
from hlo_tools.ir.module import Module
from neff.compiler import compile, compile_kernel
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from nki_lang.base.errors import NkiValidationError
from tests.compiler.compiling import run
from tests.compiler.kernels import (
    add,
    counted,
    double_in_place,
    doubled_by_halves,
    tiled_matmul,
    traced,
    written,
)

TARGET = "AwsNeuronCustomNativeKernel"


def module(text: str) -> Module:
    return hlo_tools.load(text.encode())


def call(config: str, operands: str, shape: str = "f32[64,32]{1,0}") -> str:
    return (
        f'{shape} custom-call({operands}), custom_call_target="{TARGET}", '
        f'api_version=API_VERSION_STATUS_RETURNING, backend_config="{config}"'
    )


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_kernel_between_graph_operations(tmp_path: Path) -> None:
    config = written(traced(add, (64, 32), (64, 32)), tmp_path)
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          b = f32[32,64]{{1,0}} parameter(1)
          t = f32[64,32]{{0,1}} transpose(b), dimensions={{1,0}}
          s = f32[64,32]{{1,0}} multiply(a, t)
          k = {call(config, "s, t")}
          ROOT r = f32[64,32]{{1,0}} subtract(k, a)
        }}"""
    )
    program = compile(hlo_module, target="trn2", root=tmp_path)
    a, b = arrays((64, 32), (32, 64))
    (actual,) = run(program, [a, b])
    np.testing.assert_allclose(actual, a * b.T + b.T - a, rtol=1e-6, atol=1e-6)
    assert not program.returns_tuple
    assert (program.inputs, program.outputs) == (["input0", "input1"], ["output0"])


def test_kernel_that_writes_in_place_leaves_the_operand_alone(tmp_path: Path) -> None:
    config = written(traced(double_in_place, (64, 32)), tmp_path)
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          k = {call(config, "a")}
          s = f32[64,32]{{1,0}} add(k, a)
          ROOT r = (f32[64,32]{{1,0}}, f32[64,32]{{1,0}}) tuple(k, s)
        }}"""
    )
    program = compile(hlo_module, target="trn2", root=tmp_path)
    (a,) = arrays((64, 32))
    original = a.copy()
    doubled, total = run(program, [a])
    np.testing.assert_array_equal(a, original)
    np.testing.assert_allclose(doubled, 2 * a)
    np.testing.assert_allclose(total, 3 * a, rtol=1e-6)
    assert program.returns_tuple


def test_two_calls_of_one_kernel_and_a_constant_operand(tmp_path: Path) -> None:
    config = written(traced(add, (64, 32), (64, 32)), tmp_path)
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          one = f32[] constant(1)
          ones = f32[64,32]{{1,0}} broadcast(one), dimensions={{}}
          k = {call(config, "a, ones")}
          ROOT l = {call(config, "k, k")}
        }}"""
    )
    (a,) = arrays((64, 32))
    (actual,) = run(compile(hlo_module, target="trn1", root=tmp_path), [a])
    np.testing.assert_allclose(actual, 2 * (a + 1), rtol=1e-6)


def test_kernel_that_is_alone() -> None:
    program = compile_kernel(traced(tiled_matmul, (256, 128), (256, 64)))
    assert (program.inputs, program.outputs) == (["lhsT", "rhs"], ["output_0"])
    a, b = arrays((256, 128), (256, 64))
    (actual,) = run(program, [a, b])
    np.testing.assert_allclose(actual, a.T @ b, rtol=1e-4, atol=1e-4)


def test_kernel_alone_that_writes_in_place() -> None:
    program = compile_kernel(traced(double_in_place, (64, 32)))
    (name,) = program.outputs
    assert program.variables[name].alias == "values"
    (a,) = arrays((64, 32))
    (actual,) = run(program, [a.copy()])
    np.testing.assert_allclose(actual, 2 * a)


def test_loop_of_the_device() -> None:
    program = compile_kernel(traced(counted, (64, 32)))
    (a,) = arrays((64, 32))
    (actual,) = run(program, [a])
    np.testing.assert_allclose(actual, a + 8, rtol=1e-5, atol=1e-5)


def test_kernel_on_two_cores_between_graph_operations(tmp_path: Path) -> None:
    config = written(traced(doubled_by_halves, (64, 32), grid=2), tmp_path)
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          s = f32[64,32]{{1,0}} add(a, a)
          k = {call(config, "s")}
          l = {call(config, "k")}
          ROOT r = f32[64,32]{{1,0}} add(l, a)
        }}"""
    )
    program = compile(hlo_module, target="trn2", root=tmp_path)
    assert len(program.subgraphs) == 2
    (a,) = arrays((64, 32))
    (actual,) = run(program, [a])
    np.testing.assert_allclose(actual, 9 * a, rtol=1e-5)
    with pytest.raises(NeffCompileError, match="2 cores") as caught:
        compile(hlo_module, target="trn2", root=tmp_path, options=CompileOptions(lnc=1))
    assert caught.value.code == "NEFF-LNC"


def test_kernel_of_an_older_family_runs_on_a_newer_one(tmp_path: Path) -> None:
    kernel = traced(tiled_matmul, (256, 128), (256, 64), target="trn1")
    a, b = arrays((256, 128), (256, 64))
    for target in ("trn1", "trn2", "trn3"):
        (actual,) = run(compile_kernel(kernel, target=target), [a, b])
        np.testing.assert_allclose(actual, a.T @ b, rtol=1e-4, atol=1e-4)


def test_kernel_with_an_instruction_that_the_target_lacks() -> None:
    def copied(values):
        import nki_lang.isa as nisa
        import nki_lang.language as nl

        out = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(values.shape, dtype=values.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=values)
        nisa.core_barrier(data=out, cores=(0, 1))
        nisa.dma_copy(dst=out, src=tile)
        return out

    kernel = traced(copied, (64, 32), target="trn3", grid=2)
    kernel.bodies = kernel.bodies[:1]
    with pytest.raises(NeffCompileError, match="trn1 does not have") as caught:
        compile_kernel(kernel, target="trn1")
    assert caught.value.code == "NEFF-TARGET"
    assert "test_compile.py" in caught.value.place


NAMED = """HloModule m, frontend_attributes={%s}
ENTRY main {
  a = f32[4]{0} parameter(0)
  b = f32[4]{0} parameter(1)
  ROOT s = f32[4]{0} add(a, b)
}"""


def test_names_from_frontend_attributes() -> None:
    hlo_module = module(NAMED % "")
    hlo_module.frontend_attributes["neff_input_names"] = "left,right"
    hlo_module.frontend_attributes["neff_output_names"] = '["total"]'
    program = compile(hlo_module, target="trn1")
    assert (program.inputs, program.outputs) == (["left", "right"], ["total"])


@pytest.mark.parametrize(
    ("names", "count"), [("left", 1), ("a,b,c", 3), ("a,a", 2), ('["left", ', 0), ("[[], []]", 2)]
)
def test_names_that_are_not_one_for_each_tensor(names: str, count: int) -> None:
    hlo_module = module(NAMED % "")
    hlo_module.frontend_attributes["neff_input_names"] = names
    with pytest.raises(NeffCompileError, match=f"names {count} tensors") as caught:
        compile(hlo_module, target="trn1")
    assert caught.value.code == "NEFF-NAMES"


def test_names_that_the_compiler_would_use_itself() -> None:
    hlo_module = module(
        """HloModule m
        ENTRY main {
          a = f32[8,8]{1,0} parameter(0)
          d = f32[8,8]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          e = f32[8,8]{1,0} dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT s = f32[8,8]{1,0} dot(e, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }"""
    )
    hlo_module.frontend_attributes["neff_input_names"] = "t1"
    hlo_module.frontend_attributes["neff_output_names"] = "t2"
    program = compile(hlo_module, target="trn1")
    (a,) = arrays((8, 8))
    (actual,) = run(program, [a])
    np.testing.assert_allclose(actual, a @ a @ a @ a @ a, rtol=1e-4, atol=1e-4)
    hlo_module.frontend_attributes["neff_output_names"] = "t1"
    with pytest.raises(NeffCompileError, match="both an input and an output"):
        compile(hlo_module, target="trn1")


BODY = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { p = (s32[], s32[]) parameter(0) a = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1 ROOT c = pred[] compare(a, b), direction=LT }
next { p = (s32[], s32[]) parameter(0) a = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1 one = s32[] constant(1) c = s32[] add(a, one)
  ROOT t = (s32[], s32[]) tuple(c, b) }
ENTRY main {
  x = f32[4,4]{1,0} parameter(0)
  zero = f32[] constant(0)
  %s
}"""
PLACE = ', metadata={op_name="f" source_file="/model/net.py" source_line=12}'

UNCOVERED = {
    "power of integers": ("i = s32[4]{0} iota(), iota_dimension=0\n"
                          "ROOT r = s32[4]{0} power(i, i)" + PLACE,
                          "NEFF-OP", "power of s32 is not covered"),
    "custom call": ('ROOT r = f32[4,4]{1,0} custom-call(x), custom_call_target="Other"' + PLACE,
                    "NEFF-CUSTOM-CALL", "custom call to 'Other'"),
    "float64": ("y = f64[4,4]{1,0} convert(x)\n ROOT r = f64[4,4]{1,0} add(y, y)" + PLACE,
                "NEFF-F64", "no float64 arithmetic"),
    "complex": ("y = c64[4,4]{1,0} convert(x)\n"
                'ROOT z = c64[4,4]{1,0} custom-call(y), custom_call_target="Foreign"' + PLACE,
                "NEFF-COMPLEX", "custom-call of complex numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCOVERED)
def test_what_is_not_covered_is_one_clear_error(name: str) -> None:
    lines, code, message = UNCOVERED[name]
    with pytest.raises(NeffCompileError) as caught:
        compile(module(BODY % lines), target="trn1")
    error = caught.value
    assert error.code.startswith(code)
    assert message in error.message
    assert error.place == "/model/net.py:12"
    assert error.remedy


def test_loop_with_a_known_trip_count_is_unrolled() -> None:
    lines = (
        "i = s32[] constant(0)\n n = s32[] constant(5)\n s = (s32[], s32[]) tuple(i, n)\n"
        "w = (s32[], s32[]) while(s), condition=less, body=next\n"
        "e = s32[] get-tuple-element(w), index=0\n f = f32[] convert(e)\n"
        "b = f32[4,4]{1,0} broadcast(f), dimensions={}\n ROOT r = f32[4,4]{1,0} add(x, b)"
    )
    (x,) = arrays((4, 4))
    (actual,) = run(compile(module(BODY % lines), target="trn1"), [x])
    np.testing.assert_allclose(actual, x + 5)


def test_float64_is_converted_at_the_edges() -> None:
    hlo_module = module(
        """HloModule m
        ENTRY main {
          d = f64[40]{0} parameter(0)
          x = f32[40]{0} convert(d)
          two = f32[] constant(2)
          b = f32[40]{0} broadcast(two), dimensions={}
          y = f32[40]{0} multiply(x, b)
          e = f64[40]{0} convert(y)
          ROOT t = (f32[40]{0}, f64[40]{0}, f64[40]{0}) tuple(x, e, d)
        }"""
    )
    values = np.random.default_rng(0).standard_normal(40) * 10.0 ** np.arange(-20, 20)
    values[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1 / 3]
    values[8] = 1 + 2.0**-24
    values[9] = 1 + 3 * 2.0**-24
    program = compile(hlo_module, target="trn2")
    single, doubled, same = run(program, [values])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float32)
    np.testing.assert_array_equal(single, expected)
    np.testing.assert_array_equal(doubled, (expected * 2).astype(np.float64))
    np.testing.assert_array_equal(same, values)


def test_missing_kernel_file(tmp_path: Path) -> None:
    config = written(traced(add, (64, 32), (64, 32)), tmp_path)
    (tmp_path / "add.klir").unlink()
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          ROOT k = {call(config, "a, a")}
        }}"""
    )
    with pytest.raises(HloFileError) as caught:
        compile(hlo_module, target="trn1", root=tmp_path)
    assert caught.value.code == "HLO-KERNEL-MISSING"


def test_operands_that_do_not_fit_the_kernel(tmp_path: Path) -> None:
    config = written(traced(add, (64, 32), (64, 32)), tmp_path)
    hlo_module = module(
        f"""HloModule m
        ENTRY main {{
          a = f32[64,31]{{1,0}} parameter(0)
          ROOT k = {call(config, "a, a", "f32[64,31]{1,0}")}
        }}"""
    )
    with pytest.raises(NeffCompileError, match="does not fit kernel add"):
        compile(hlo_module, target="trn1", root=tmp_path)


def test_targets_and_cores() -> None:
    hlo_module = module(NAMED % "")
    assert compile(hlo_module, target="inf2").target == "trn1"
    with pytest.raises(NkiValidationError, match="there is no target"):
        compile(hlo_module, target="trn9")
    with pytest.raises(NeffCompileError) as caught:
        compile(hlo_module, target="trn1", options=CompileOptions(lnc=2))
    assert caught.value.code == "NEFF-LNC"
    program = compile(hlo_module, target="trn2", options=CompileOptions(lnc=2))
    assert len(program.subgraphs) == 2
    a, b = arrays((4,), (4,))
    np.testing.assert_allclose(run(program, [a, b])[0], a + b)


def test_more_than_the_device_holds() -> None:
    hlo_module = module(
        """HloModule m
        ENTRY main {
          a = f32[4096,1048577]{1,0} parameter(0)
          ROOT k = f32[4096,1048577]{1,0} copy(a)
        }"""
    )
    with pytest.raises(NeffCompileError, match="bytes of device memory") as caught:
        compile(hlo_module, target="trn1")
    assert caught.value.code == "NEFF-HBM"
    assert "input 17179885568" in caught.value.message


PRODUCT = """HloModule m
ENTRY main {
  a = f32[64,64]{1,0} parameter(0)
  b = f32[64,64]{1,0} parameter(1)
  d = f32[64,64]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[64,64]{1,0} add(d, a)
}"""


@pytest.mark.parametrize("cast", ["matmult", "all"])
@pytest.mark.parametrize(("kind", "error"), [("bf16", 0.2), ("fp16", 0.02), ("tf32", 0.02)])
def test_auto_cast(cast: str, kind: str, error: float) -> None:
    options = CompileOptions(auto_cast=cast, auto_cast_type=kind)
    a, b = arrays((64, 64), (64, 64))
    (actual,) = run(compile(module(PRODUCT), target="trn2", options=options), [a, b])
    exact = a.astype(np.float64) @ b + a
    difference = np.abs(actual - exact).max()
    assert 1e-4 < difference < error
    assert actual.dtype == np.float32
    (plain,) = run(compile(module(PRODUCT), target="trn2"), [a, b])
    assert np.abs(plain - exact).max() < 1e-4


_CHILD = """
import hashlib, sys
from pathlib import Path
import hlo_tools, neff
module = hlo_tools.load(sys.argv[1])
neff.write(neff.compile(module, target="trn2"), sys.argv[2])
print(hashlib.sha256(Path(sys.argv[2]).read_bytes()).hexdigest())
"""


def test_equal_bytes_in_other_folders_and_under_other_hash_seeds(
    tmp_path: Path, python_environment: dict[str, str]
) -> None:
    digests = set()
    for seed in ("0", "1", "77"):
        folder = tmp_path / f"folder{seed}"
        folder.mkdir()
        config = written(traced(add, (64, 32), (64, 32)), folder)
        text = f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          t = f32[32,64]{{1,0}} reshape(a)
          u = f32[32,64]{{1,0}} exponential(t)
          v = f32[64,32]{{1,0}} reshape(u)
          k = {call(config, "v, a")}
          d = f32[64,64]{{1,0}} dot(k, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
          ROOT r = (f32[64,64]{{1,0}}, f32[64,32]{{1,0}}) tuple(d, k)
        }}"""
        path = folder / "model.hlo_module.pb"
        path.write_bytes(module(text).to_bytes())
        result = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path), str(folder / "out.neff")],
            env={**python_environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout.strip())
    assert len(digests) == 1
    path = tmp_path / "folder0" / "out.neff"
    assert hashlib.sha256(path.read_bytes()).hexdigest() in digests
    assert os.fspath(tmp_path).encode() not in path.read_bytes()
    assert neff.read(path).outputs == ["output0", "output1"]
