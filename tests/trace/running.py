"""Runs a traced function's proto in jaxlib: the reference for what our HLO means."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from hlo_tools.evaluate import evaluate
from hlo_tools.trace import TracedFunction, trace


@cache
def _client() -> Any:
    import jax

    jax.config.update("jax_platforms", "cpu")
    return jax.devices("cpu")[0].client


def run_proto(proto: bytes, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The results of a module on XLA:CPU."""
    import jax
    from jaxlib import _jax

    client = _client()
    stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
    device = client.local_devices()[0]
    program = client.compile_and_load(stablehlo, _jax.DeviceList((device,)), _jax.CompileOptions())
    buffers = [jax.device_put(np.ascontiguousarray(array), device) for array in arrays]
    return [np.asarray(result) for result in program.execute(buffers)]


def run_traced(
    function: Callable[..., Any], *args: Any
) -> tuple[TracedFunction, list[np.ndarray[Any, Any]]]:
    """Trace, run in jaxlib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = trace(function, *args)
    arrays = [
        a.astype(t.dtype)
        for a, t in zip((a for a in args if isinstance(a, np.ndarray)), traced.inputs, strict=True)
    ]
    return traced, run_proto(traced.to_proto().SerializeToString(), arrays)


def agree(
    function: Callable[..., Any],
    *args: Any,
    rtol: float = 2e-5,
    atol: float = 1e-5,
    names: list[str] | None = None,
) -> None:
    """Assert that the traced function gives NumPy's shapes, (narrowed) dtypes and values.

    ``names`` tells which of several results differs.
    """
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(*copies)
    traced, results = run_traced(function, *args)
    expected_arrays = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    assert len(results) >= len(expected_arrays)
    for number, (wanted_value, actual, tensor) in enumerate(
        zip(expected_arrays, results, traced.outputs, strict=False)
    ):
        label = names[number] if names else f"result {number}"
        _same(np.asarray(wanted_value), actual, tensor, label, rtol, atol)


_NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32"}


def _same(expected: Any, actual: Any, tensor: Any, label: str, rtol: float, atol: float) -> None:
    assert actual.shape == expected.shape == tensor.shape, label
    name = _NARROWER.get(str(expected.dtype), str(expected.dtype))
    assert str(tensor.dtype) == name, f"{label}: dtype {tensor.dtype}, NumPy has {expected.dtype}"
    if expected.dtype.kind not in "biu":
        if expected.dtype.itemsize < 4:
            rtol, atol = max(rtol, 2e-2), max(atol, 2e-2)
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=label)


def same_memory(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    """Assert that results, their dtypes and the arguments afterwards are NumPy's.

    The module is evaluated; what it writes to arguments is among its results.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = trace(function, *arrays)
        results = evaluate(traced.to_module(), list(arrays))
        written = [array.copy(order="K") for array in arrays]
        for alias in traced.aliases:
            written[alias.param_index] = results[alias.output_index]
        reference_arrays = [_alike(array) for array in arrays]
        expected = function(*reference_arrays)
    expected_arrays = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    for number, (wanted_value, actual) in enumerate(zip([*expected_arrays, *reference_arrays], [*results[: len(expected_arrays)], *written], strict=True)):  # fmt: skip
        value = np.asarray(wanted_value)
        name = _NARROWER.get(str(value.dtype), str(value.dtype))
        assert (str(actual.dtype), actual.shape) == (name, value.shape), number
        np.testing.assert_allclose(actual, value, rtol=1e-6, atol=1e-6, err_msg=str(number))


def _alike(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy with the same strides."""
    if array.base is None:
        return array.copy(order="K")
    span = np.zeros(sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) + array.itemsize, np.uint8)  # fmt: skip
    offset = sum(-s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True) if s < 0)
    aligned = np.ndarray(array.shape, array.dtype, span.data, offset, array.strides)
    aligned[...] = array
    return aligned
