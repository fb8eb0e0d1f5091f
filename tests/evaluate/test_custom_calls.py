"""Custom calls of compilers that have a reference, against jaxlib and NumPy; others are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate

RANDOM = np.random.default_rng(3)
COMPLEX = (RANDOM.standard_normal((2, 4, 4)) + 1j * RANDOM.standard_normal((2, 4, 4))).astype("c8")
MATRICES = {
    "float32": RANDOM.standard_normal((2, 5, 4)).astype(np.float32),
    "complex64": COMPLEX,
    "wide": RANDOM.standard_normal((3, 6)).astype(np.float32),
}
SQUARES = {"float32": RANDOM.standard_normal((4, 4)).astype(np.float32), "complex64": COMPLEX}


def jax_programs() -> dict[str, tuple[Callable[..., Any], dict[str, np.ndarray]]]:
    import jax
    import jax.numpy as jnp

    def transposed(a: Any) -> Any:
        return jnp.swapaxes(a, -1, -2).conj()

    def solve(mode: str, lower: bool) -> Callable[..., Any]:
        return lambda a: jax.scipy.linalg.solve_triangular(a, a, trans=mode, lower=lower)

    return {
        "cholesky": (lambda a: jnp.linalg.cholesky(a @ transposed(a)), SQUARES),
        "cholesky of none": (lambda a: jnp.linalg.cholesky(a + transposed(a)), SQUARES),
        "lu": (jax.lax.linalg.lu, MATRICES),
        "determinant": (jnp.linalg.det, SQUARES),
        "inverse": (jnp.linalg.inv, SQUARES),
        "qr": (jnp.linalg.qr, MATRICES),
        "complete qr": (lambda a: jnp.linalg.qr(a, mode="complete"), MATRICES),
        "svd": (lambda a: jnp.linalg.svd(a, full_matrices=False), MATRICES),
        "full svd": (jnp.linalg.svd, MATRICES),
        "singular values": (lambda a: jnp.linalg.svd(a, compute_uv=False), MATRICES),
        "eigh": (lambda a: jnp.linalg.eigh(a + transposed(a)), SQUARES),
        "solve": (solve("N", True), SQUARES),
        "solve transposed": (solve("T", False), SQUARES),
        "solve adjoint": (solve("C", True), SQUARES),
    }


NAMES = (
    "cholesky", "cholesky of none", "lu", "determinant", "inverse", "qr", "complete qr", "svd",
    "full svd", "singular values", "eigh", "solve", "solve transposed", "solve adjoint",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_lapack_calls_of_jax(name: str) -> None:
    import jax

    function, inputs = jax_programs()[name]
    for a in inputs.values():
        lowered = jax.jit(function).lower(a)
        proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        module = hlo_tools.load(proto)
        assert any("lapack" in view.custom_call_target for view in module.instructions)
        expected = jax.tree.leaves(lowered.compile()(a))
        for ours, jax_result in zip(evaluate(module, [a]), expected, strict=True):
            np.testing.assert_allclose(ours, jax_result, rtol=2e-4, atol=2e-4)


def called(target: str, result: str, *operands: str, config: str = "") -> hlo_tools.Module:
    """A module of one custom call."""
    lines = [f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(operands)]
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    tail = f", api_version=API_VERSION_TYPED_FFI, backend_config={config}" if config else ""
    call = f'  ROOT r = {result} custom-call({names}), custom_call_target="{target}"{tail}'
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, call, "}"])
    return hlo_tools.load(text.encode())


def test_halves_of_integers() -> None:
    wide = np.array([-1, 5, 2**40 + 3, -(2**62), 2**31], np.int64)
    (low,) = evaluate(called("X64SplitLow", "u32[5]", "s64[5]"), [wide])
    (high,) = evaluate(called("X64SplitHigh", "u32[5]", "s64[5]"), [wide])
    assert low.tolist() == [int(value) % 2**32 for value in wide]
    assert high.tolist() == [(int(value) >> 32) % 2**32 for value in wide]
    (again,) = evaluate(called("X64Combine", "s64[5]", "u32[5]", "u32[5]"), [low, high])
    assert again.tolist() == wide.tolist()


def test_halves_of_floats() -> None:
    """The low half is the one that compiled programs sum first: the nearest float32."""
    wide = np.array([1 / 3, -1e10 / 7, 0.0])
    (main,) = evaluate(called("X64SplitLow", "f32[3]", "f64[3]"), [wide])
    (remainder,) = evaluate(called("X64SplitHigh", "f32[3]", "f64[3]"), [wide])
    assert main.tolist() == [float(np.float32(value)) for value in wide]
    (again,) = evaluate(called("X64Combine", "f64[3]", "f32[3]", "f32[3]"), [main, remainder])
    np.testing.assert_allclose(again, wide, rtol=1e-13)


@pytest.mark.parametrize("seed", [0, 1])
def test_decompositions_of_the_tpu_compiler(seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.standard_normal((6, 4)).astype(np.float32)
    packed, taus = evaluate(called("QrDecompositionBlock", "(f32[6,4], f32[4])", "f32[6,4]"), [a])
    v = np.tril(packed, -1) + np.eye(6, 4, dtype=np.float32)
    m = (np.triu(v.T @ v, 1) + np.eye(4)).astype(np.float32) * -taus
    (t,) = evaluate(called("CompactWyHelper", "f32[4,4]", "f32[4,4]"), [m])
    q = np.eye(6) + v @ t @ v.T
    np.testing.assert_allclose(q @ q.T, np.eye(6), atol=1e-5)
    np.testing.assert_allclose((q @ np.triu(packed))[:, :4], a, atol=1e-5)
    square = a[:4]
    call = called("LuRealDecompositionBlock", "(f32[4,4], s32[4], s32[4])", "f32[4,4]")
    lu, pivots, permutation = evaluate(call, [square])
    lower = np.tril(lu, -1) + np.eye(4)
    np.testing.assert_allclose(lower @ np.triu(lu), square[permutation], atol=1e-5)
    assert all(pivots[row] >= row for row in range(4))
    (inverse,) = evaluate(called("InvertDiagBlocksLowerTriangular", "f32[4,4]", "f32[4,4]"), [lu])
    np.testing.assert_allclose(np.tril(lu) @ inverse, np.eye(4), atol=1e-4)


def test_a_buffer_that_nothing_wrote_shows() -> None:
    assert np.isnan(evaluate(called("AllocateBuffer", "f32[3]"), [])[0]).all()
    assert evaluate(called("AllocateBuffer", "s8[2]"), [])[0].tolist() == [-128, -128]


A4 = np.ones((4, 4), np.float32)
REFUSED = {
    "no reference": (called("EighTpu", "f32[4]", "f32[4,4]"), "calls 'EighTpu', which cannot"),
    "operands": (called("Cholesky", "f32[4,4]"), "with 0 operands; it takes 1"),
    "result": (called("Cholesky", "f32[4,5]", "f32[4,4]"), "which returns float32[4,4]"),
    "a missing option": (
        called("lapack_spotrf_ffi", "(f32[4,4], s32[])", "f32[4,4]", config="{}"),
        "uplo is missing, not one of L, U",
    ),
    "an option of LAPACK that overwrites": (
        called(
            "lapack_sgesdd_ffi",
            "(f32[4,4], f32[4], f32[4,4], f32[4,4], s32[])",
            "f32[4,4]",
            config="{mode = 79 : ui8}",
        ),
        "mode is O, not one of A, S, N",
    ),
    "not a matrix": (called("Cholesky", "f32[4]", "f32[4]"), "operands or attributes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_without_a_reference_are_refused_by_name(name: str) -> None:
    module, message = REFUSED[name]
    inputs = [
        np.ones(parameter.shape.dimensions, np.float32) for parameter in module.entry.parameters
    ]
    with pytest.raises(HloError, match="HLO-CUSTOM-CALL") as caught:
        evaluate(module, inputs)
    assert message in caught.value.message


def test_a_copy_converts_floats() -> None:
    """Compiled TPU programs do so (f32 to bf16)."""
    text = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT c = bf16[2] copy(x)\n}\n"
    (result,) = evaluate(hlo_tools.load(text.encode()), [np.array([1.0, 1.001], np.float32)])
    assert result.dtype.name == "bfloat16" and result.astype(float).tolist() == [1.0, 1.0]


def bitcast(result: str, operand: str, value: np.ndarray) -> np.ndarray:
    text = f"HloModule m\nENTRY e {{\n  x = {operand} parameter(0)\n  ROOT b = {result} bitcast(x)\n}}\n"
    return evaluate(hlo_tools.load(text.encode()), [value])[0]


def test_a_bitcast_reads_memory_tile_by_tile() -> None:
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    tiled = bitcast("f32[2,2,2,3]{3,2,1,0}", "f32[4,6]{1,0:T(2,3)}", x)
    assert tiled.tolist() == x.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3).tolist()
    columns = bitcast("f32[2,2,2,3]", "f32[6,4]{0,1:T(2,3)}", np.ascontiguousarray(x.T))
    assert columns.tolist() == tiled.tolist()
    twice = bitcast("f32[1,1,2,6,2]", "f32[4,6]{1,0:T(4,6)(2,1)}", x)
    assert twice.tolist() == x.reshape(1, 1, 2, 2, 6).transpose(0, 1, 2, 4, 3).tolist()


def test_a_bitcast_drops_and_reads_padding() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert bitcast("f32[2,2]{1,0:T(2,4)}", "f32[2,4]{1,0:T(2,4)}", x).tolist() == [[0, 1], [4, 5]]
    padded = bitcast("f32[2,4]{1,0:T(2,4)}", "f32[2,2]{1,0:T(2,4)}", x[:, :2].copy())
    assert np.isnan(padded[:, 2:]).all() and padded[:, :2].tolist() == [[0, 1], [4, 5]]
    with pytest.raises(HloError, match="8 elements of memory for 4"):
        bitcast("f32[2,2]", "f32[2,4]{1,0:T(2,4)}", x)
