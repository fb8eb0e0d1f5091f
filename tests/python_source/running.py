"""Generated files, run beside the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.evaluate import evaluate
from hlo_tools.ir.module import Module
from hlo_tools.python_source import write_python
from hlo_tools.text import parse
from hlo_tools.types.element_types import element_of
from hlo_tools.types.shape import Shape

Arrays = list[np.ndarray[Any, Any]]


def module_of(text: str) -> Module:
    return Module(parse(text))


def function_of(module: Module, folder: Path, target: str) -> Callable[..., Arrays]:
    """The entry of the generated file; the arrays of its result in order."""
    source = write_python(module, folder / "generated.py", target)
    names: dict[str, Any] = {"__name__": "generated", "__file__": str(folder / "generated.py")}
    exec(compile(source.text, "generated.py", "exec"), names)
    entry = names[source.entry]
    if target == "jax":
        entry = names["jax"].jit(entry)
    else:
        entry = np.errstate(all="ignore")(entry)
    return lambda *inputs: [np.asarray(array) for array in names["leaves"](entry(*inputs))]


def check_equal(module: Module, folder: Path, target: str, *input_sets: list[Any]) -> None:
    """The results are the evaluator's: in type, shape and value."""
    function = function_of(module, folder, target)
    for inputs in input_sets:
        expected, results = evaluate(module, inputs), function(*inputs)
        assert [(r.dtype, r.shape) for r in results] == [(e.dtype, e.shape) for e in expected]
        for result, reference in zip(results, expected, strict=True):
            _check_close(result, reference)


def _check_close(result: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> None:
    element = element_of(reference.dtype)
    wide = np.complex128 if element.kind == "complex" else np.float64
    is_small_float = element.kind == "float" and element.bits < 32
    np.testing.assert_allclose(
        result.astype(wide), reference.astype(wide),
        rtol=0.02 if is_small_float else 1e-4, atol=1e-5,
    )  # fmt: skip


def random_arrays(module: Module, seed: int) -> list[Any]:
    """Normal floats; integers from 0 to 3, which are indices and counts too."""
    random = np.random.default_rng(seed)
    return [_random(parameter.shape, random) for parameter in module.entry.parameters]


def _random(shape: Shape, random: np.random.Generator) -> Any:
    if shape.is_tuple:
        return tuple(_random(element, random) for element in shape.tuple_shapes)
    if not shape.is_array:
        return None
    if shape.element.kind in ("int", "uint", "pred"):
        high = 2 if shape.element.kind == "pred" else 4
        return random.integers(0, high, shape.dimensions).astype(shape.dtype)
    return np.asarray(random.standard_normal(shape.dimensions)).astype(shape.dtype)
