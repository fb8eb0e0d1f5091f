"""The ways in which a kernel runs: ``WAYS[name](kernel, args, kwargs)`` gives its results."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

__all__ = ["RANK_WAYS", "WAYS"]

Calls = list[dict[str, Any]]


def _by_executor(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kernel(*args, **kwargs)


def _by_simulation(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import nki

    return nki.simulate(kernel)(*args, **kwargs)


def _by_jax(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As a custom call in a compiled JAX function, of which the arrays are the parameters."""
    import jax

    from nki_lang.tracing.arguments import replace_tensors

    arrays: list[Any] = []

    def replaced(take: Any) -> tuple[list[Any], dict[str, Any]]:
        return (
            [replace_tensors(value, "", take) for value in args],
            {name: replace_tensors(value, "", take) for name, value in kwargs.items()},
        )

    def call(*traced: Any) -> Any:
        remaining = iter(traced)
        positional, named = replaced(lambda _value, _name: next(remaining))
        return kernel(*positional, **named)

    replaced(lambda value, _name: arrays.append(value))
    return jax.jit(call)(*arrays)


def _by_neff(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as an HLO module, built into a NEFF that is written, read back and executed."""
    from hlo_tools.extract.protocol import EXECUTOR
    from neff.device.frameworks.numpy_calls import Calls

    os.environ[EXECUTOR] = "neff"
    try:
        return Calls().run(kernel, args, kwargs)
    finally:
        del os.environ[EXECUTOR]


WAYS: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "simulate": _by_simulation,
    "executor": _by_executor,
    "neff": _by_neff,
    "jax": _by_jax,
}


def _ranks_by_simulation(kernel: Any, calls: Calls) -> list[Any]:
    from nki_lang.execute import simulate_ranks

    return simulate_ranks(kernel, calls)


def _ranks_by_executor(kernel: Any, calls: Calls) -> list[Any]:
    from nki_lang.execute import run_ranks

    traced = kernel.trace((), calls[0])
    returned = traced.metadata.get("returned", len(traced.outputs))
    results = run_ranks(traced, [_arrays(call) for call in calls])
    return [tuple(rank_results[:returned]) for rank_results in results]


def _ranks_by_neff(kernel: Any, calls: Calls) -> list[Any]:
    """One NEFF for all ranks, written, read back and executed by each."""
    from hlo_tools.frameworks.numpy_kernel import NumpyKernel
    from hlo_tools.ir.loading import load as load_module
    from neff.compiler import compile as compile_module
    from neff.container import write
    from neff.device.frameworks.numpy_calls import call_program
    from neff.runtime import run_ranks
    from nki_lang.base.targets import current_target

    numpy_kernel = NumpyKernel(kernel.__name__, kernel.func, kernel.grid)
    bound = [numpy_kernel.bind(**call) for call in calls]
    plan = bound[0].plan
    program = compile_module(load_module(call_program(plan)), target=current_target().name)
    inputs = [
        dict(zip(program.inputs, (bound_call.tensors[i] for i in plan.operands), strict=True))
        for bound_call in bound
    ]
    with TemporaryDirectory() as folder:
        write(program, Path(folder) / "ranks.neff")
        results = run_ranks(Path(folder) / "ranks.neff", inputs)
    return [plan.pack([outputs[name] for name in program.outputs]) for outputs in results]


def _ranks_by_jax(kernel: Any, calls: Calls) -> list[Any]:
    """One program for as many devices as there are ranks, each with its own arrays."""
    import jax
    from jax.sharding import Mesh, PartitionSpec

    names = [name for name, value in calls[0].items() if isinstance(value, np.ndarray)]
    other_arguments = {name: value for name, value in calls[0].items() if name not in names}

    def run(*parts: Any) -> tuple[Any, ...]:
        results = kernel(
            **other_arguments, **{name: piece[0] for name, piece in zip(names, parts, strict=True)}
        )
        return tuple(leaf[None] for leaf in jax.tree.leaves(results))

    mesh = Mesh(np.array(jax.devices()[: len(calls)]), ("rank",))
    spec = PartitionSpec("rank")
    mapped = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec))
    results = mapped(*(np.stack([call[name] for call in calls]) for name in names))
    return [tuple(result[rank] for result in results) for rank in range(len(calls))]


def _arrays(call: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    return [value for value in call.values() if isinstance(value, np.ndarray)]


RANK_WAYS: dict[str, Callable[[Any, Calls], list[Any]]] = {
    "simulate": _ranks_by_simulation,
    "executor": _ranks_by_executor,
    "neff": _ranks_by_neff,
    "jax": _ranks_by_jax,
}
"""``RANK_WAYS[name](kernel, arguments by name for each rank)`` gives the results of each rank."""
