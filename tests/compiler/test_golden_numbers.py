"""Every lowering computes the evaluator's numbers: the modules of ``golden`` run as NEFFs.

``test_golden.py`` demands such a module of every covered opcode, so a new lowering is run here
without further work, and fails when its numbers are wrong. The evaluator has jaxlib as its oracle
(tests/evaluate); extents, element types and levels are varied in the other files of this folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate_devices
from hlo_tools.evaluate.devices import partitions_of
from neff.compiler import compile
from neff.compiler.assembly.verify import verify
from neff.options import CompileOptions
from neff.runtime import run_ranks
from tests.compiler.compiling import same
from tests.compiler.test_golden import BECOMES, FILES

Array = np.ndarray[Any, Any]

TOLERANCE = 2e-5

RANGES = ((0.5, 1.5), (-1.5, 1.5))
"""Floats of the two runs: within every function's domain, and partly outside, where both are NaN."""


def device_count(text: str) -> int:
    """Return the devices that the groups of a module's collectives name."""
    groups = re.findall(r"(?:replica_groups|source_target_pairs)=\{(\{[0-9,{}]*\})\}", text)
    numbers = [int(number) for group in groups for number in re.findall(r"\d+", group)]
    return max(numbers, default=0) + 1


def random_value(shape: Any, random: np.random.Generator, low: float, high: float) -> Any:
    """Draw an array, or a tuple of them; integers are small and not negative."""
    if shape.is_tuple:
        return tuple(random_value(leaf, random, low, high) for leaf in shape.tuple_shapes)
    if shape.dtype.kind in "biu":
        limit = 2 if shape.dtype == np.bool_ else 4
        return random.integers(0, limit, shape.dimensions).astype(shape.dtype)
    values = random.uniform(low, high, (2, *shape.dimensions))
    return (values[0] + 1j * values[1] if shape.dtype.kind == "c" else values[0]).astype(
        shape.dtype
    )


@pytest.mark.parametrize("opcode", FILES)
def test_numbers(opcode: str) -> None:
    head, _, tail = FILES[opcode].read_text().partition("\n")
    text = tail.partition(BECOMES)[0].strip()
    devices = device_count(text)
    module = hlo_tools.load(text.encode())
    partitions = partitions_of(module, devices)
    options = CompileOptions(replicas=devices // partitions, partitions=partitions)
    program = compile(module, target=head.removeprefix("// -t "), options=options)
    verify(program)
    for seed, (low, high) in enumerate(RANGES):
        inputs = []
        for device in range(devices):
            random = np.random.default_rng((seed, device))
            shapes = [parameter.shape for parameter in module.entry.parameters]
            inputs.append([random_value(shape, random, low, high) for shape in shapes])
        rows = [dict(zip(program.inputs, leaves(row), strict=True)) for row in inputs]
        results = run_ranks(program, rows)
        expected = evaluate_devices(module, inputs, partitions=partitions)
        for result, reference in zip(results, expected, strict=True):
            for name, value in zip(program.outputs, reference, strict=True):
                same(result[name], value, TOLERANCE)


def leaves(values: Any) -> Iterator[Array]:
    """Yield the arrays of nested tuples; predicates are bytes outside of a program."""
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value.view(np.uint8) if value.dtype == np.bool_ else value
