"""The ways a JAX program runs, beside jaxlib on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz.drivers.children import failed, serve
from tests.fuzz.drivers.compiler_choices import compile_by_chance
from tests.fuzz.drivers.rounding import rounded_runs

__all__ = ["WAYS", "Request", "Way", "neff_of", "serve_programs"]

Arrays = list[np.ndarray[Any, Any]]


class Way(NamedTuple):
    """A row of the table.

    Attributes:
        make: from the module to what runs it.
        error: relative error that is allowed, beyond that of float32.
        refuses: codes with which it may refuse a program; any other refusal is a difference.
    """

    make: Callable[[Any], Callable[[Arrays], Arrays]]
    error: float = 0.0
    refuses: frozenset[str] = frozenset({"NEFF-F64", "NEFF-INT64"})


def _evaluated(module: Any) -> Callable[[Arrays], Arrays]:
    from hlo_tools.evaluate import evaluate

    return lambda arrays: [np.asarray(result) for result in evaluate(module, arrays)]


def neff_of(
    target: str, *, by_chance: bool = False, **options: Any
) -> Callable[[Any], Callable[[Arrays], Arrays]]:
    """From a module to what runs its NEFF for a target, compiled with these options."""

    def make(module: Any) -> Callable[[Arrays], Arrays]:
        import neff
        from neff import runtime
        from neff.options import CompileOptions

        compiled = compile_by_chance if by_chance else neff.compile
        program = compiled(module, target=target, options=CompileOptions(**options))
        model = runtime.load(program)

        def run(arrays: Arrays) -> Arrays:
            inputs = [
                array.view(np.uint8) if array.dtype == np.bool_ else array for array in arrays
            ]
            outputs = model.run(dict(zip(program.inputs, inputs, strict=True)))
            return [np.array(outputs[name]) for name in program.outputs]

        return run

    return make


WAYS: dict[str, Way] = {
    "evaluate": Way(_evaluated, refuses=frozenset()),
    "trn1": Way(neff_of("trn1")),
    "trn2": Way(neff_of("trn2")),
    "trn3": Way(neff_of("trn3")),
    "trn2 lnc=1": Way(neff_of("trn2", lnc=1)),
    "trn2 lnc=2": Way(neff_of("trn2", lnc=2)),
    "trn2 by chance": Way(neff_of("trn2", by_chance=True, lnc=2)),
    "trn1 by chance": Way(neff_of("trn1", by_chance=True)),
    "trn2 O1": Way(neff_of("trn2", optlevel=1)),
    "trn1 matmult bf16": Way(neff_of("trn1", auto_cast="matmult"), 3e-2),
    "trn2 matmult fp16": Way(neff_of("trn2", auto_cast="matmult", auto_cast_type="fp16"), 1e-2),
    "trn3 matmult tf32": Way(neff_of("trn3", auto_cast="matmult", auto_cast_type="tf32"), 1e-2),
    "trn2 all bf16": Way(neff_of("trn2", auto_cast="all"), 1e-1),
}
"""Every way by name."""


def _arrays(results: Any) -> Arrays:
    return [np.asarray(result) for result in results]


class Request(NamedTuple):
    """A program and what it is run with.

    Attributes:
        source: defines ``program``.
        wide: 64-bit types are on.
        calls: the arguments of each call.
        disturbed: further arguments, for jaxlib alone.
        ways: names of :data:`WAYS`.
        unsimplified: jaxlib leaves out the simplification that takes ``p * x`` of a predicate as
            ``select(p, x, 0)``, which loses -0.0 and NaN.
        least: relative rounding error of each float operation, at least, in ``rounded``.
    """

    source: str
    wide: bool
    calls: list[Arrays]
    disturbed: list[Arrays]
    ways: list[str]
    unsimplified: bool = False
    least: float = 0.0


def _answer(request: Request) -> dict[str, Any]:
    """Return jaxlib's results of each call, also disturbed and rounded, and each execution mode's."""
    import jax

    import hlo_tools

    scope: dict[str, Any] = {}
    exec(compile(request.source, "<program>", "exec"), scope)
    options = {"xla_disable_hlo_passes": "algsimp"} if request.unsimplified else {}
    with jax.enable_x64(request.wide):
        lowered = jax.jit(scope["program"], keep_unused=True).lower(*request.calls[0])
        text = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        compiled = lowered.compile(compiler_options=options)
        expected = [_arrays(compiled(*arrays)) for arrays in request.calls]
        shaken = [_arrays(compiled(*arrays)) for arrays in request.disturbed]
    outcomes: dict[str, Any] = {}
    for mode in request.ways:
        try:
            run = WAYS[mode].make(hlo_tools.load(text))
            results = [run([array.copy() for array in arrays]) for arrays in request.calls]
            outcomes[mode] = {"results": results}
        except Exception as error:
            outcomes[mode] = failed(error, valid=True)
    rounded = [_rounded(text, arrays, request.least) for arrays in request.calls]
    return {
        "wanted": expected, "disturbed": shaken, "rounded": rounded, "found": outcomes,
        "extremes": b"minimum" in text or b"maximum" in text,
    }  # fmt: skip


def _rounded(text: bytes, arrays: Arrays, least: float) -> list[Arrays]:
    """Results that differ by roundings alone; none of what the evaluator refuses."""
    import hlo_tools

    try:
        return rounded_runs(hlo_tools.load(text), arrays, range(6), least)
    except hlo_tools.HloError:
        return []


def serve_programs() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        serve(_answer, valid=True)
