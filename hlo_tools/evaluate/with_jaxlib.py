"""The same module run by jaxlib, as a second opinion."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hlo_tools.evaluate.arguments import arrays_of
from hlo_tools.evaluate.jaxlib_child import read_arrays, write_arrays
from hlo_tools.evaluate.values import EvaluationError
from hlo_tools.ir.module import Module
from hlo_tools.types.comparison import for_older_readers
from hlo_tools.types.element_types import Array

__all__ = ["is_available", "run_with_jaxlib", "without_tuples"]

_SECONDS = 600


def is_available() -> bool:
    """Return True if jaxlib is installed."""
    return importlib.util.find_spec("jaxlib") is not None


def run_with_jaxlib(module: Module, inputs: Sequence[object]) -> list[Array]:
    """The arrays of the module's result from XLA's CPU backend, in a process of its own.

    Raises:
        EvaluationError: code ``HLO-JAXLIB``; jaxlib is missing, refuses the module or dies of it.
    """
    if not is_available():
        raise EvaluationError(
            "jaxlib is not installed",
            code="HLO-JAXLIB",
            remedy="pip install '.[jax]' in the checkout",
        )
    module.require_known_fields()
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as name:
        folder = Path(name)
        data, arrays = without_tuples(module, inputs)
        content = for_older_readers(_without_result_tokens(data, module))
        (folder / "module.pb").write_bytes(content)
        write_arrays(folder, "in", arrays)
        command = [sys.executable, "-m", "hlo_tools.evaluate.jaxlib_child", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EvaluationError(
                f"jaxlib did not end within {_SECONDS} s", code="HLO-JAXLIB"
            ) from error
        if done.returncode:
            raise EvaluationError(
                f"jaxlib does not run the module: {_reason(done)}", code="HLO-JAXLIB"
            )
        return read_arrays(folder, "out")


def without_tuples(module: Module, inputs: Sequence[object]) -> tuple[bytes, list[Array]]:
    """The module and its inputs with arrays for parameters: jaxlib takes no tuples and tokens."""
    if all(parameter.shape.is_array for parameter in module.entry.parameters):
        return module.module_bytes(), arrays_of(inputs)
    from hlo_tools.ir.loading import load
    from hlo_tools.rewrite.tuples import flatten_entry

    flat = load(module.module_bytes(), allow_unknown_fields=True)
    flatten_entry(flat, results=False)
    _make_tokens(flat)
    return flat.module_bytes(), arrays_of(inputs)


def _without_result_tokens(data: bytes, module: Module) -> bytes:
    """The module with a flat tuple of arrays for its result, if there are tokens in it."""
    if all(shape.is_array for _, shape in module.entry.root.shape.leaves()):
        return data
    from hlo_tools.ir.loading import load
    from hlo_tools.rewrite.emitting import get_part, make_tuple

    changed = load(data, allow_unknown_fields=True)
    entry = changed.entry
    parts = [entry.root]
    while any(leaf.shape.is_tuple for leaf in parts):
        parts = [
            piece
            for leaf in parts
            for piece in (
                [get_part(leaf, number) for number in range(len(leaf.shape.tuple_shapes))]
                if leaf.shape.is_tuple
                else [leaf]
            )
        ]
    changed.proto.ClearField("input_output_alias")
    entry.set_root(make_tuple(entry.root, [leaf for leaf in parts if leaf.shape.is_array]))
    return changed.module_bytes()


def _make_tokens(module: Module) -> None:
    """Create the entry's tokens inside it; renumber the other parameters."""
    entry = module.entry
    arrays = [parameter for parameter in entry.parameters if parameter.shape.is_array]
    tokens = [parameter for parameter in entry.parameters if not parameter.shape.is_array]
    if not tokens:
        return
    positions = {
        parameter.proto.parameter_number: number for number, parameter in enumerate(arrays)
    }
    for token in tokens:
        token.proto.opcode = "after-all"
        token.proto.ClearField("parameter_number")
    for number, parameter in enumerate(arrays):
        parameter.proto.parameter_number = number
    proto = module.proto
    for alias in (*proto.input_output_alias.entries, *proto.buffer_donor.entries):
        alias.parameter_number = positions[alias.parameter_number]
    entry.set_root(entry.root)  # the entry's signature is updated


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode < 0:
        fatal = [line for line in lines if re.match(r"F\d{4} ", line)]
        message = f": {fatal[0].partition('] ')[2][:300]}" if fatal else ""
        return f"it was killed by signal {-done.returncode}{message}"
    return lines[-1][:300] if lines else f"exit code {done.returncode}"
