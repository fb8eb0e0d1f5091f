"""Build common operations and their gradients at many lengths: none may be refused or too slow.

python -m scripts.bench build_sweep [--only NAME ...] [--sample 200 --seed 7] [--values 0.1]

Each operation of ``sweep_programs.py``, forward and as a gradient, is lowered by JAX for every
length and dtype, and compiled for every target and level. A refusal with any code, an exception and
a build that takes more than ``--seconds`` are faults; a share of the programs is run, and compared
with jaxlib. Exit code 1 after a fault, 2 when nothing was built.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import hlo_tools
import neff
from hlo_tools.errors import CodedError
from neff.options import CompileOptions
from neff.program import Program
from scripts.bench.sweep_programs import DTYPES, LENGTHS, OPERATIONS, Operation

__all__ = ["Build", "builds", "fault_of", "fault_of_values"]

TARGETS = ("trn1", "trn2", "trn3")
LEVELS = (1, 2)
TOLERANCES = {"float32": 2e-3, "bfloat16": 6e-2}
"""Limits of the difference from jaxlib, relative to the largest element of a result."""


@dataclass(frozen=True, slots=True)
class Build:
    """One program of the sweep, for one target and level."""

    operation: Operation
    gradient: bool
    length: int
    dtype: str
    target: str
    level: int

    def __str__(self) -> str:
        form = " gradient" if self.gradient else ""
        return (
            f"{self.operation.name}{form} {self.length} {self.dtype} {self.target} -O{self.level}"
        )

    def function(self) -> Any:
        """Return the function of the arrays that JAX lowers."""
        import jax
        import jax.numpy as jnp

        def forward(*arrays: Any) -> Any:
            return self.operation.function(jax, jnp, *arrays)

        def gradient(*arrays: Any) -> Any:
            result, pull = jax.vjp(forward, *arrays)
            return pull(jnp.cos(result))

        return gradient if self.gradient else forward

    def arrays(self, seed: int) -> list[Any]:
        """Return random arrays for the function."""
        import jax.numpy as jnp

        draws = np.random.default_rng(seed)
        shapes = self.operation.shapes(self.length)
        return [jnp.asarray(draws.standard_normal(shape), self.dtype) for shape in shapes]

    def module(self) -> hlo_tools.Module:
        """Return the module that JAX lowers."""
        import jax

        specs = [
            jax.ShapeDtypeStruct(shape, self.dtype) for shape in self.operation.shapes(self.length)
        ]
        lowered: Any = jax.jit(self.function()).lower(*specs).compiler_ir("hlo")
        return hlo_tools.load(lowered.as_serialized_hlo_module_proto())

    def program(self) -> Program:
        """Return the compiled program."""
        options = CompileOptions(optlevel=self.level)
        return neff.compile(self.module(), target=self.target, options=options)


def builds() -> Iterator[Build]:
    """Yield every program of the sweep."""
    for operation in OPERATIONS:
        for gradient in (False, True) if operation.differentiable else (False,):
            for length in LENGTHS:
                if length > operation.longest:
                    continue
                for dtype in DTYPES:
                    for target in TARGETS:
                        for level in LEVELS:
                            yield Build(operation, gradient, length, dtype, target, level)


def fault_of(build: Build, max_seconds: float) -> str:
    """Return what is wrong with a build; "" if it succeeds in time."""
    begin = time.process_time()
    try:
        build.program()
    except CodedError as error:
        return f"{error.code} {error.message.splitlines()[0]}"
    seconds = time.process_time() - begin
    return f"took {seconds:.1f} s" if seconds > max_seconds else ""


def fault_of_values(build: Build, seed: int) -> str:
    """Return how the program's results differ from those of jaxlib; "" if they do not."""
    import jax

    from neff import runtime

    arrays = build.arrays(seed)
    program = build.program()
    inputs = dict(zip(program.inputs, map(np.asarray, arrays), strict=True))
    results = runtime.load(program).run(inputs)
    expected = jax.tree_util.tree_leaves(jax.jit(build.function())(*arrays))
    for name, oracle in zip(program.outputs, expected, strict=True):
        right = np.asarray(oracle).astype(np.float64)
        difference = np.abs(results[name].astype(np.float64) - right)
        limit = TOLERANCES[build.dtype] * max(1.0, float(np.abs(right).max()))
        if not float(difference.max()) <= limit:
            return f"{name} differs from jaxlib by {difference.max():.3g}, limit {limit:.3g}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of operations")
    parser.add_argument("--sample", type=int, default=0, help="number of builds; all by default")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=120, help="limit of a build, CPU time")
    parser.add_argument("--values", type=float, default=0.05, help="share of the builds that run")
    options = parser.parse_args()
    selected = [
        build for build in builds() if not options.only or build.operation.name in options.only
    ]
    draws = random.Random(options.seed)
    if options.sample:
        selected = draws.sample(selected, min(options.sample, len(selected)))
    faults = 0
    for number, build in enumerate(selected):
        fault = fault_of(build, options.seconds)
        if not fault and draws.random() < options.values:
            fault = fault_of_values(build, options.seed + number)
        if fault:
            faults += 1
            print(f"{build}: {fault}", flush=True)
    print(f"{len(selected)} builds, {faults} faults")
    return 1 if faults else 0 if selected else 2


if __name__ == "__main__":
    sys.exit(main())
