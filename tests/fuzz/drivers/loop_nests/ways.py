"""The ways a loop nest runs, beside jaxlib on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz.drivers.children import failed, serve
from tests.fuzz.drivers.jax_programs.ways import neff_of

__all__ = ["WAYS", "Request", "serve_nests"]

Arrays = list[np.ndarray[Any, Any]]
Run = Callable[[Arrays], Arrays]


def _evaluated(module: Any) -> Run:
    from hlo_tools.evaluate import Evaluator
    from hlo_tools.evaluate.kernel_calls import kernel_calls

    def run(arrays: Arrays) -> Arrays:
        evaluator = Evaluator(module, custom_calls=kernel_calls(None))
        return [np.asarray(result) for result in evaluator.run(arrays)]

    return run


WAYS: dict[str, Callable[[Any], Run]] = {
    "evaluate": _evaluated,
    "trn1": neff_of("trn1"),
    "trn1 O1": neff_of("trn1", optlevel=1),
    "trn2": neff_of("trn2"),
    "trn2 O1": neff_of("trn2", optlevel=1),
    "trn2 O3": neff_of("trn2", optlevel=3),
    "trn2 lnc=1": neff_of("trn2", lnc=1),
    "trn2 lnc=2": neff_of("trn2", lnc=2),
    "trn2 lnc=2 O1": neff_of("trn2", lnc=2, optlevel=1),
    "trn3": neff_of("trn3"),
    "trn3 lnc=2": neff_of("trn3", lnc=2),
    "trn1 by chance": neff_of("trn1", by_chance=True),
    "trn2 by chance": neff_of("trn2", by_chance=True, lnc=2),
}
"""Every way by name; each result must be equal, and nothing may be refused."""


class Request(NamedTuple):
    """A nest and what it is run with.

    Attributes:
        source: defines ``program`` and ``donated``.
        oracle: the same without kernels.
        calls: the arguments of each call.
        ways: names of :data:`WAYS`.
    """

    source: str
    oracle: str
    calls: list[Arrays]
    ways: list[str]


def _loaded(source: str) -> dict[str, Any]:
    import linecache

    name = f"<nest {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    scope: dict[str, Any] = {}
    exec(compile(source, name, "exec"), scope)
    return scope


def _answer(request: Request) -> dict[str, Any]:
    """Results of jaxlib for each call, and of each way."""
    import jax

    import hlo_tools

    scope = _loaded(request.source)
    function, donated = scope["program"], scope["donated"]
    jitted = jax.jit(function, keep_unused=True, donate_argnums=donated)
    lowered = jitted.trace(*request.calls[0]).lower(lowering_platforms=("neuron",))
    text = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    compiled = jax.jit(_loaded(request.oracle)["program"], keep_unused=True)
    expected = [[np.asarray(result) for result in compiled(*arrays)] for arrays in request.calls]
    answers: dict[str, Any] = {}
    for mode in request.ways:
        try:
            run = WAYS[mode](hlo_tools.load(text))
            results = [run([array.copy() for array in arrays]) for arrays in request.calls]
            answers[mode] = {"results": results}
        except Exception as error:
            answers[mode] = failed(error, valid=True)
    return {"wanted": expected, "found": answers}


def serve_nests() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        serve(_answer, valid=True)
