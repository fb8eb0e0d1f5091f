"""A model's program as a NEFF beside jaxlib: built, written, read back, verified, run on two inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hlo_tools
import neff
from neff import runtime
from neff.compiler import compile
from neff.compiler.assembly.verify import verify
from tests.models.model import Model, program_of

__all__ = ["Measured", "measure"]

SEEDS = (1000, 2000)


@dataclass(slots=True)
class Measured:
    """The cost and the error of one program.

    Attributes:
        seconds: CPU seconds of each step: lower, build, verify, load, first (run), run, jaxlib.
        operations: instructions of the HLO module.
        worst: the largest difference, relative to the largest value of its array.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    operations: int = 0
    worst: float = 0.0

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds what the block takes."""
        begun = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun


def measure(model: Model, kind: str, target: str, folder: Path) -> Measured:
    """Build and run; AssertionError when a result differs by more than the model's tolerance."""
    import jax

    function, arguments = program_of(model, kind)
    measured = Measured()
    path = folder / f"{kind}.neff"
    jitted = jax.jit(function, keep_unused=True)
    with measured.timed("lower"):
        code = jitted.lower(*arguments(SEEDS[0])).compiler_ir("hlo")
        module = hlo_tools.load(code.as_serialized_hlo_module_proto())
    measured.operations = sum(len(row.instructions) for row in module.proto.computations)
    with measured.timed("build"):
        neff.write(compile(module, target=target), path)
    program = neff.read(path)
    with measured.timed("verify"):
        verify(program)
    with measured.timed("load"):
        loaded = runtime.load(path)
    for seed in SEEDS:
        step_arguments = arguments(seed)
        arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(step_arguments)]
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(*step_arguments))]
        first = seed == SEEDS[0]  # the first run simplifies the instructions
        with measured.timed("first jaxlib" if first else "jaxlib"):
            jax.block_until_ready(jitted(*step_arguments))
        with measured.timed("first" if first else "run"):
            results = loaded.run(dict(zip(program.inputs, arrays, strict=True)))
        actual = [results[name] for name in program.outputs]
        for number, (result, reference) in enumerate(zip(actual, expected, strict=True)):
            measured.worst = max(measured.worst, _difference(result, reference))
            _compare(result, reference, model.tolerance, f"result {number} of seed {seed}")
    return measured


def _difference(actual: Any, expected: Any) -> float:
    if expected.dtype.kind != "f" or not expected.size:
        return 0.0
    return float(np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), 1e-2))


def _compare(actual: Any, expected: Any, tolerance: float, location: str) -> None:
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, location
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=location)
        return
    # Gradients that are zero but for rounding (of a key's bias) have no size of their own.
    scale = max(float(np.max(np.abs(expected), initial=0.0)), 1e-2)
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * scale, err_msg=location
    )
