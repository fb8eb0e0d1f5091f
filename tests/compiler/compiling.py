"""Shared steps of the compiler's tests: compile a module, prove it free of races, run it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import hlo_tools
from hlo_tools.ir.module import Module
from neff import runtime
from neff.compiler import compile
from neff.compiler.assembly.verify import verify
from neff.program import Program

TARGETS = ("trn1", "trn2", "trn3")

Array = np.ndarray[Any, Any]


def lowered(function: Any, *arguments: Any) -> Module:
    """The module that JAX makes of a function, before any optimisation."""
    import jax

    text = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    return hlo_tools.load(text.as_serialized_hlo_module_proto())


def run(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """Verify and run a program; predicates are bytes outside."""
    verify(program)
    inputs = [array.view(np.uint8) if array.dtype == np.bool_ else array for array in arrays]
    results = runtime.load(program).run(dict(zip(program.inputs, inputs, strict=True)))
    return [results[name] for name in program.outputs]


def same(actual: Array, expected: Array, tolerance: float) -> None:
    """Equal shape, type and, up to the tolerance, values; NaN equals NaN."""
    expected = np.asarray(expected)
    if expected.dtype == np.bool_:
        actual = actual.view(np.bool_)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance
    )


def check(
    function: Any, *arguments: Any, tolerance: float = 2e-6, target: str = "trn2", **options: Any
) -> Program:
    """Compile what JAX makes of a function, run it, and compare with JAX on the CPU."""
    import jax

    arrays = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(arguments)]
    program = compile(lowered(function, *arguments), target=target, **options)
    actual = run(program, arrays)
    expected = [
        np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    ]
    assert len(actual) == len(expected)
    for result, reference in zip(actual, expected, strict=True):
        same(result, reference, tolerance)
    return program


def wide_types() -> contextlib.AbstractContextManager[object]:
    """64-bit types within the block, by whichever name this version of JAX has."""
    import jax
    from jax import experimental

    home = jax if hasattr(jax, "enable_x64") else experimental
    return home.enable_x64(True)


def oracle(module: Module, arrays: Sequence[Array]) -> list[Array]:
    """Return the results of a module on jaxlib's CPU client."""
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import _jax as xla

    client = get_backend("cpu")
    code = xla.mlir.hlo_to_stablehlo(module.proto.SerializeToString())
    devices = xla.DeviceList(tuple(client.local_devices()[:1]))
    with wide_types():
        buffers = [jax.device_put(array) for array in arrays]
        loaded = client.compile_and_load(code, devices, xla.CompileOptions())
        return [np.asarray(out) for out in loaded.execute(buffers)]
