"""StableHLO loads and saves in every form, and runs as the HLO that it came from."""

from __future__ import annotations

import io
import math
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.files.detection import detect
from hlo_tools.ir.formats import render
from hlo_tools.types.element_types import BY_NAME
from neff import runtime
from neff.cli import main as build_command
from neff.cli import neuronx_cc

pytestmark = pytest.mark.jax
TEXT = b"""module @m {
  func.func public @main(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.tanh %0 : tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}
"""


def programs() -> dict[str, tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    k = np.ones((1, 1, 3), np.float32)
    return {
        "matmul": (lambda a: jnp.tanh(a @ a.T), x),
        "softmax": (lambda a: jax.nn.softmax(a, axis=-1), x),
        "gradient": (jax.grad(lambda a: (a * a).sum()), x),
        "loop": (lambda a: lax.fori_loop(0, 3, lambda _, v: v * 2, a), x),
        "branch": (lambda a: lax.cond(a[0, 0] > 0, lambda v: v, lambda v: -v, a), x),
        "sort": (lambda a: jnp.sort(a, axis=1), x),
        "gather": (lambda a: a[jnp.array([2, 0])], x),
        "convolution": (lambda a: lax.conv(a[:, None, :], k, (1,), "SAME"), x),
        "scan": (lambda a: jnp.cumsum(a, axis=0), x),
        "integers": (lambda a: (a * 7).astype(jnp.int32) // 2, x),
    }


@pytest.mark.parametrize("name", list(programs()))
def test_programs_of_jax_go_out_and_in(name: str, tmp_path: Path) -> None:
    import jax

    function, x = programs()[name]
    lowered = jax.jit(function).lower(x)
    module = hlo_tools.load(lowered.as_text().encode())
    expected = np.asarray(function(x))
    for suffix in (".mlir", ".mlirbc", ".stablehlo"):
        module.save(tmp_path / f"m{suffix}")
        again = hlo_tools.load(tmp_path / f"m{suffix}")
        (value,) = evaluate(again, [x])
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


HALVES = b"""module {
  func.func @entry(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi1>) {
    %z = func.call @half(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %r = stablehlo.compare GE, %z, %x, NOTYPE : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %z, %r : tensor<3xf32>, tensor<3xi1>
  }
  func.func private @half(%x: tensor<3xf32>) -> tensor<3xf32> {
    %c = stablehlo.constant dense<0.5> : tensor<3xf32>
    %0 = stablehlo.multiply %x, %c : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""


@pytest.mark.parametrize("form", ["text", "bytecode", "artifact"])
def test_the_only_public_function_is_the_entry(form: str) -> None:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        stream = io.BytesIO()
        ir.Module.parse(HALVES.decode()).operation.write_bytecode(stream)
    artifact = stablehlo.serialize_portable_artifact_str(HALVES.decode(), "1.0.0")
    data = {"text": HALVES, "bytecode": stream.getvalue(), "artifact": bytes(artifact)}[form]
    x = np.array([2, -4, 0], np.float32)
    halves, signs = evaluate(hlo_tools.load(data), [x])
    assert halves.tolist() == [1, -2, 0] and signs.tolist() == [False, True, True]


def test_several_public_functions_are_named() -> None:
    with pytest.raises(HloError, match="2 are public: entry, half") as caught:
        hlo_tools.load(HALVES.replace(b"private ", b""))
    assert caught.value.code == "HLO-STABLEHLO"


def test_commands_take_stablehlo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # neuronx-cc writes its log there
    file, small, built = (tmp_path / name for name in ("m.mlir", "small.mlir", "m.neff"))
    file.write_bytes(HALVES)
    assert main(["lint", "-t", "trn2", str(file)]) == 0
    words = ["reduce", str(file), "--while", "grep -q stablehlo.multiply {}", "-o", str(small)]
    assert main(words) == 0
    assert "stablehlo.multiply" in small.read_text() and "compare" not in small.read_text()
    assert build_command(["build", "-t", "trn2", str(file), "-o", str(built)]) == 0
    assert neuronx_cc.main(
        ["compile", "--framework=XLA", "--target=trn2", str(file), f"--output={built}"]
    ) == 0  # fmt: skip
    capsys.readouterr()
    x = np.array([2, -4, 0], np.float32)
    halves, signs = runtime.load(built).run({"input0": x}).values()
    assert halves.tolist() == [1, -2, 0] and signs.astype(bool).tolist() == [False, True, True]


def test_an_artifact_of_an_older_version() -> None:
    from jaxlib.mlir.dialects import stablehlo

    old = stablehlo.serialize_portable_artifact_str(TEXT.decode(), "0.9.0")
    opcodes = [view.opcode for view in hlo_tools.load(bytes(old)).instructions]
    assert opcodes == [view.opcode for view in hlo_tools.load(TEXT).instructions]
    assert opcodes[-2:] == ["dot", "tanh"]


def test_a_file_of_jax_export() -> None:
    import jax
    from jax import export

    exported = export.export(jax.jit(lambda a: a + 1))(jax.ShapeDtypeStruct((3,), "float32"))
    code = exported.mlir_module_serialized
    file = struct.pack("<I", 24) + bytes(20) + struct.pack("<I", len(code)) + code + b"behind"
    assert detect(file).kind == "stablehlo"
    assert "add" in [view.opcode for view in hlo_tools.load(file).instructions]
    with pytest.raises(HloError) as caught:
        hlo_tools.load(file[:-60])
    assert caught.value.code == "HLO-TRUNCATED"


def test_symbolic_shapes_are_refused() -> None:
    import jax
    from jax import export

    (size,) = export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((size, 8), "float32")
    code = export.export(jax.jit(lambda a: a + 1))(shape).mlir_module_serialized
    with pytest.raises(HloError) as caught:
        hlo_tools.load(code)
    assert caught.value.code == "HLO-SYMBOLIC-SHAPE"


def test_copies_and_fusions_have_other_forms() -> None:
    """As NumPy programs have them: the traced layer of docs/modules.md ends with a copy."""
    text = """HloModule m
half { p = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(p) }
ENTRY e { x = f32[4,8]{1,0} parameter(0)
  f = f32[4,8] fusion(x), kind=kLoop, calls=half
  b = f32[32] bitcast(f)
  ROOT c = f32[32] copy(b), frontend_attributes={neff_output_names="output0"} }
"""
    module = hlo_tools.load(text.encode())
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    for form in ("stablehlo", "stablehlo-bytecode", "stablehlo-portable"):
        again = hlo_tools.load(render(module, form))
        np.testing.assert_array_equal(evaluate(again, [x])[0], -x.reshape(-1))
    assert module.entry.root.opcode == "copy"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("c64[4] cosh(z)", "for c64"),
        ("s8[4] stochastic-convert(x, u)", ""),
        ("u8[16] bitcast(b)", "booleans"),
        ("(f32[4], f32[4], u32[]) copy-start(x)", "other operations than the one that completes"),
        ("f32[8]{0:T(2)} bitcast(q)", "tiles move elements"),
    ],
)
def test_opcodes_that_stablehlo_lacks_are_named(line: str, reason: str) -> None:
    text = f"""HloModule m
ENTRY e {{
 x = f32[4] parameter(0)
 z = c64[4] parameter(1)
 u = u32[4] parameter(2)
 b = pred[16] parameter(3)
 q = f32[2,4]{{1,0:T(2,2)}} parameter(4)
 ROOT r = {line} }}"""
    opcode = line.partition("(x")[0].split()[-1].partition("(")[0]
    with pytest.raises(HloError) as caught:
        render(hlo_tools.load(text.encode()), "stablehlo")
    assert caught.value.code == "HLO-STABLEHLO-OPCODE" and opcode in caught.value.message
    assert reason in caught.value.message and caught.value.place == "%e/%r"


FUNCTIONS = {
    "erf": math.erf, "sinh": math.sinh, "cosh": math.cosh, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": math.atanh, "asin": math.asin, "acos": math.acos,
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-7, -3e-4, 2.5, -7.0, 30.0, -88.5, np.inf, -np.inf, np.nan]


def reference(name: str, value: float, limit: float) -> float:
    """Python's function with the values that it raises an error for."""
    if name == "atanh" and abs(value) == 1:
        return math.copysign(math.inf, value)
    try:
        result = FUNCTIONS[name](value)
    except ValueError:
        return math.nan
    return math.copysign(math.inf, result) if abs(result) > limit else result


@pytest.mark.parametrize(("element", "tolerance"), [("f32", 1e-6), ("f64", 2e-14), ("bf16", 1e-2)])
def test_functions_that_stablehlo_lacks(element: str, tolerance: float) -> None:
    random = np.random.default_rng(0)
    dtype = BY_NAME[element].dtype
    x = np.array([*SPECIAL, *random.normal(0, 2, 40), *random.uniform(-1, 1, 40)]).astype(dtype)
    lines = [f" v{n} = {element}[94] {name}(x)" for n, name in enumerate(FUNCTIONS)]
    names = ", ".join(f"v{n}" for n in range(len(lines)))
    shape = ", ".join([f"{element}[94]"] * len(lines))
    text = f"HloModule m\nENTRY e {{ x = {element}[94] parameter(0)\n" + "\n".join(lines)
    module = hlo_tools.load(f"{text}\n ROOT r = ({shape}) tuple({names}) }}".encode())
    again = hlo_tools.load(render(module, "stablehlo"))
    limit = float(ml_dtypes.finfo(dtype).max)
    for values in (evaluate(again, [x]), run_with_jaxlib(again, [x])):
        for name, value in zip(FUNCTIONS, values, strict=True):
            expected = np.array([reference(name, float(item), limit) for item in x])
            np.testing.assert_allclose(
                value.astype(float), expected, rtol=tolerance, atol=tolerance, err_msg=name
            )
            zero = expected == 0
            assert (np.signbit(value[zero]) == np.signbit(expected[zero])).all(), name


@pytest.mark.parametrize("element", ["s8", "u32", "s64", "u64"])
def test_upper_halves_of_products(element: str) -> None:
    dtype = BY_NAME[element].dtype
    limits = np.iinfo(dtype)
    random = np.random.default_rng(3)
    corners = [limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1]
    a = np.array([*corners, *random.integers(limits.min, limits.max, 20, dtype, True)], dtype)
    b = np.array([*random.permutation(a)], dtype)
    text = f"HloModule m\nENTRY e {{ a = {element}[26] parameter(0)\n b = {element}[26] parameter(1)\n ROOT r = {element}[26] mulhi(a, b) }}"
    again = hlo_tools.load(render(hlo_tools.load(text.encode()), "stablehlo"))
    expected = [int(x) * int(y) >> limits.bits for x, y in zip(a, b, strict=True)]
    for run in (evaluate, run_with_jaxlib):
        assert run(again, [a, b])[0].tolist() == expected


BITCASTS = {
    "f32[3,8]{0,1} bitcast(x)": lambda x: x.reshape(8, 3).T,
    "f32[2,3,4]{1,2,0} bitcast(x)": lambda x: x.reshape(2, 4, 3).transpose(0, 2, 1),
    "u32[24] bitcast(x)": lambda x: x.reshape(-1).view(np.uint32),
    "u16[4,12] bitcast(x)": lambda x: x.reshape(-1).view(np.uint16).reshape(4, 12),
    "u64[3,4] bitcast(x)": lambda x: x.reshape(-1).view(np.uint64).reshape(3, 4),
    "f32[1,4,6]{2,1,0:T(4,128)} bitcast(t)": lambda x: x.reshape(1, 4, 6),
    "f32[24] copy-done(s)": lambda x: x.reshape(-1),
    "f32[4,6] async-done(n)": lambda x: -x,
    "f32[4,6] add-dependency(x, k)": lambda x: x,
}


def test_data_movement_that_stablehlo_lacks() -> None:
    lines = "\n".join(f" v{n} = {line}" for n, line in enumerate(BITCASTS))
    names = ", ".join(f"v{n}" for n in range(len(BITCASTS)))
    shapes = ", ".join(line.partition(" ")[0] for line in BITCASTS)
    text = f"""HloModule m, is_scheduled=true
wrapped {{ p = f32[4,6] parameter(0)
  ROOT n = f32[4,6] negate(p) }}
ENTRY e {{
 x = f32[4,6] parameter(0)
 t = f32[4,6]{{1,0:T(4,128)}} reshape(x)
 k = token[] after-all()
 w = f32[24] reshape(x)
 s = (f32[24], f32[24], u32[]) copy-start(w)
 n = ((f32[4,6]), f32[4,6], u32[]) async-start(x), calls=wrapped
{lines}
 ROOT r = ({shapes}) tuple({names}) }}"""
    again = hlo_tools.load(render(hlo_tools.load(text.encode()), "stablehlo"))
    for seed in (0, 1):
        x = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
        for values in (evaluate(again, [x]), run_with_jaxlib(again, [x])):
            for value, expected in zip(values, BITCASTS.values(), strict=True):
                np.testing.assert_array_equal(value, expected(x))


@pytest.mark.parametrize("largest", ["true", "false"])
def test_top_k(largest: str) -> None:
    text = f"""HloModule m
ENTRY e {{ x = f32[3,9] parameter(0)
  n = s32[9] parameter(1)
  v = (f32[3,4], s32[3,4]) topk(x), k=4, largest={largest}
  w = (s32[2], s32[2]) topk(n), k=2, largest={largest}
  ROOT i = ((f32[3,4], s32[3,4]), (s32[2], s32[2])) tuple(v, w)
}}"""
    again = hlo_tools.load(render(hlo_tools.load(text.encode()), "stablehlo"))
    random = np.random.default_rng(5)
    x = random.standard_normal((3, 9)).astype(np.float32)
    x[0, 2] = x[0, 5] = np.float32(9)
    n = random.integers(-5, 5, 9, np.int32)
    for values in (evaluate(again, [x, n]), run_with_jaxlib(again, [x, n])):
        for operand, values_of_k, locations in ((x, *values[:2]), (n, *values[2:])):
            sign = -1 if largest == "true" else 1
            order = np.argsort(sign * operand, -1, kind="stable")[..., : locations.shape[-1]]
            assert locations.tolist() == order.tolist()
            assert (values_of_k == np.take_along_axis(operand, order, -1)).all()


@pytest.mark.parametrize("name", ["softmax", "loop", "branch", "sort", "convolution"])
def test_compiled_programs_become_stablehlo(name: str) -> None:
    import jax

    function, x = programs()[name]
    compiled = jax.jit(function).lower(x).compile().runtime_executable().hlo_modules()[0]
    module = hlo_tools.load(compiled.as_serialized_hlo_module_proto())
    again = hlo_tools.load(render(module, "stablehlo"))
    expected = np.asarray(function(x))
    for values in (evaluate(again, [x]), run_with_jaxlib(again, [x])):
        np.testing.assert_allclose(values[0], expected, rtol=1e-5, atol=1e-6)


def test_a_schedule_is_left_out_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "m.hlo"
    source.write_text(
        "HloModule m, is_scheduled=true\nENTRY e { x = f32[4] parameter(0)\n ROOT n = f32[4] negate(x) }"
    )
    assert main(["convert", str(source), "-o", str(tmp_path / "m.mlir")]) == 0
    assert "schedule" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "n.mlir")]) == 0
    assert capsys.readouterr().err == ""


def test_without_jaxlib_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HloError) as caught:
        hlo_tools.load(TEXT)
    assert caught.value.code == "HLO-JAXLIB"


def test_damaged_text_is_refused_with_its_line() -> None:
    with pytest.raises(HloError) as caught:
        hlo_tools.load(b"module @m { func.func public @main() -> foo }")
    assert caught.value.code == "HLO-STABLEHLO" and "1:40" in caught.value.message


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    module = hlo_tools.load(b"HloModule m\nENTRY e { ROOT c = f32[] constant(1) }")
    for name in ("m.onnx", "m.hl", "m.neff"):
        with pytest.raises(HloError) as caught:
            module.save(tmp_path / name)
        assert caught.value.code == "HLO-FORMAT"
    module.save(tmp_path / "m.pb")
    module.save(tmp_path / "m.onnx", form="text")
