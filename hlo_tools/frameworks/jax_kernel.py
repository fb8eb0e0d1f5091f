"""Kernels as JAX operations.

One primitive, ``nki_call``, with two lowerings. By default it becomes the vendor's form, a custom
call of API version 2 whose ``backend_config`` names the kernel binary; that is what
``jax.jit(f).trace(*args).lower(lowering_platforms=("neuron",))`` shows on any machine, and what
the "neuron" device receives. On JAX's own CPU backend it becomes the typed-FFI call, which
:mod:`hlo_tools.frameworks.xla_ffi` executes.

Importing this module imports JAX.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util

import hlo_tools
import nki_lang
from hlo_tools.frameworks import xla_ffi
from hlo_tools.frameworks.framework_kernel import FrameworkKernel
from hlo_tools.frameworks.plan import CallPlan
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of

__all__ = ["JaxKernel", "nki_call_p"]

# An operation's source line is the user's call, not the lines here that make it.
for _package in (hlo_tools, nki_lang):
    source_info_util.register_exclusion(os.path.abspath(_package.__path__[0]))

# JAX annotates these in part only.
_mlir = import_module("jax.interpreters.mlir")
_autodiff = import_module("jax.interpreters.ad")
_ffi_lowering: Callable[..., Callable[..., Any]] = import_module("jax.ffi").ffi_lowering
_jit: Callable[[Callable[..., Any]], Callable[..., Any]] = import_module("jax").jit
_map: Callable[..., Sequence[jax.Array]] = import_module("jax.lax").map
_asarray: Callable[[Any], jax.Array] = import_module("jax.numpy").asarray

Aliases = tuple[tuple[int, int], ...]
Results = tuple[tuple[tuple[int, ...], str], ...]
"""Shape and dtype name of each result."""


class _Primitive(Protocol):
    """The used part of ``jax.extend.core.Primitive``, whose annotations lack these."""

    multiple_results: bool

    def bind(self, *operands: object, **parameters: object) -> Sequence[jax.Array]: ...
    def def_impl(self, function: Callable[..., object]) -> object: ...
    def def_abstract_eval(self, function: Callable[..., object]) -> object: ...


nki_call_p: _Primitive = import_module("jax.extend.core").Primitive("nki_call")
nki_call_p.multiple_results = True


def _abstract(*_operands: object, results: Results, **_: object) -> list[Any]:
    return [jax.core.ShapedArray(shape, _jax_dtype(name)) for shape, name in results]


@functools.lru_cache(maxsize=1024)
def _jitted(config: str, results: Results, aliases: Aliases) -> Callable[..., Any]:
    """The call as a program of its own, for calls outside of any jit."""

    def nki_call(*operands: object) -> Any:
        return nki_call_p.bind(*operands, config=config, results=results, aliases=aliases)

    return _jit(nki_call)


def _run_eagerly(*operands: object, config: str, results: Results, aliases: Aliases) -> Any:
    return _jitted(config, results, aliases)(*operands)


def _lower_for_neuron(
    ctx: object, *operands: object, config: str, results: Results, aliases: Aliases
) -> Any:
    rule = _ffi_lowering(
        xla_ffi.TARGET,
        api_version=2,
        backend_config=config,
        operand_output_aliases=dict(aliases),
    )
    values: Any = rule(ctx, *operands)
    attributes = values[0].owner.attributes
    for name in ("operand_layouts", "result_layouts"):  # Neuron's calls constrain no layout
        if name in attributes:
            del attributes[name]
    return values


def _lower_for_cpu(
    ctx: object, *operands: object, config: str, results: Results, aliases: Aliases
) -> Any:
    xla_ffi.register()
    rule = _ffi_lowering(xla_ffi.TARGET, operand_output_aliases=dict(aliases))
    return rule(ctx, *operands, **{xla_ffi.CONFIG_ATTRIBUTE: config})


def _refuse_derivative(*_: object, **__: object) -> Any:
    raise NotImplementedError(
        "[HLO-KERNEL-GRADIENT] an NKI kernel has no derivative of its own\n"
        "  help: wrap the call in jax.custom_vjp (or jax.custom_jvp) and give its rule"
    )


def _batch(
    operands: Sequence[Any], dims: Sequence[int | None], **parameters: object
) -> tuple[list[Any], list[int]]:
    """One call for each batch element, one after the other: kernels have fixed shapes."""
    mapped = [dim is not None for dim in dims]
    front = [
        operand if dim is None else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands, dims, strict=True)
    ]

    def one(slices: list[object]) -> tuple[Any, ...]:
        remaining = iter(slices)
        return tuple(
            nki_call_p.bind(
                *(
                    next(remaining) if is_mapped else operand
                    for is_mapped, operand in zip(mapped, front, strict=True)
                ),
                **parameters,
            )
        )

    stacked = [operand for is_mapped, operand in zip(mapped, front, strict=True) if is_mapped]
    results = _map(one, stacked)
    return list(results), [0] * len(results)


nki_call_p.def_impl(_run_eagerly)
nki_call_p.def_abstract_eval(_abstract)
_mlir.register_lowering(nki_call_p, _lower_for_neuron)
_mlir.register_lowering(nki_call_p, _lower_for_cpu, platform="cpu")
_autodiff.primitive_jvps[nki_call_p] = _refuse_derivative
import_module("jax.interpreters.batching").primitive_batchers[nki_call_p] = _batch


def _require_returned(plan: CallPlan, func: object) -> None:
    lost = [plan.output_names[result] for result, _ in plan.written if result not in plan.returned]
    if plan.returned and lost:
        raise NkiValidationError(
            f"kernel {plan.func_name} writes its argument {', '.join(lost)} and does not return"
            " it; JAX's arrays cannot be written in place, so the values would be lost",
            code="NKI-WRITE-LOST",
            location=definition_of(func),
            remedy="return the argument too, or let the kernel write a tensor of its own",
        )


def _jax_dtype(name: str) -> np.dtype[Any]:
    return dtype_of(name).dtype


class JaxKernel(FrameworkKernel):
    """A kernel that takes and returns JAX arrays, also inside ``jit``, ``vmap``, ``shard_map``.

    NumPy arrays among the arguments count as tensors, as everywhere in JAX.
    """

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        """The kernel language's dtype for a JAX dtype."""
        return dtype_of(np.dtype(_dtype))

    def is_framework_tensor(self, t: object) -> bool:
        """True for JAX arrays, tracers and NumPy arrays."""
        return isinstance(t, (jax.Array, np.ndarray))

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        """(shape, dtype)."""
        return tuple(t.shape), jax.dtypes.canonicalize_dtype(t.dtype)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the kernel; arguments that it writes in place come back as results.

        Raises:
            NkiValidationError: code ``NKI-WRITE-LOST``; it returns something, but not all that it
                writes: JAX's arrays cannot be written.
        """
        call = self.bind(*args, **kwargs)
        plan = call.plan
        _require_returned(plan, self.func)
        values = nki_call_p.bind(
            *map(_asarray, call.operands),
            *plan.constants,
            config=plan.backend_config,
            results=tuple((spec.shape, spec.dtype.name) for spec in plan.results),
            aliases=plan.aliases,
        )
        return plan.pack(values)
