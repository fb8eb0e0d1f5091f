"""The device as JAX sees it: platform ``neuron``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.frameworks.jax_versions import check_version
from neff.device.frameworks.callbacks import register_callbacks
from neff.device.pjrt.topology import PLATFORM
from neff.device.plugin import the_plugin

__all__ = ["register"]

_PRIORITY = 500  # above JAX's own platforms: the device was requested

_DECOMPOSITIONS = frozenset({"eig", "eigh", "geqp3", "hessenberg", "schur", "svd", "tridiagonal"})
"""Primitives that JAX lowers for named platforms only, or (``svd``) by way of one of these; on the
CPU, to calls of LAPACK."""

_TRIDIAGONAL = "tridiagonal_solve"


def register() -> None:
    """Register platform ``neuron`` with JAX; devices are made when JAX starts its backends."""
    xla_bridge: Any = import_module("jax._src.xla_bridge")

    try:
        check_version()
    except HloUnsupportedError as error:
        text = str(error)

        def refuse() -> NoReturn:
            raise RuntimeError(text)

        xla_bridge.register_backend_factory(PLATFORM, refuse, priority=_PRIORITY)
        return
    plugin = the_plugin()
    # JAX raises a plain ValueError for a launch that fails, and its own error of results that did.
    plugin.errors_belong_to_results = True
    # What JAX would warn of, "not all functionality", is described in docs/device.md.
    getattr(xla_bridge, "_nonexperimental_plugins", set[str]()).add(PLATFORM)
    xla_bridge.register_plugin(PLATFORM, priority=_PRIORITY, c_api=plugin.capsule())
    _lower_decompositions()
    register_callbacks()


def _lower_decompositions() -> None:
    """Lower matrix decompositions as for the CPU: XLA:CPU runs them, the compiler names them."""
    mlir: Any = import_module("jax._src.interpreters.mlir")
    rules = getattr(mlir, "_platform_specific_lowerings", {}).get("cpu", {})
    general = getattr(mlir, "_lowerings", {})
    for primitive, registered in list(rules.items()):
        function = getattr(registered, "rule", registered)
        if primitive.name in _DECOMPOSITIONS:
            mlir.register_lowering(primitive, function, platform=PLATFORM)
        elif primitive.name == _TRIDIAGONAL and primitive in general:
            general_rule = getattr(general[primitive], "rule", general[primitive])
            mlir.register_lowering(primitive, _solver(function, general_rule), platform=PLATFORM)


def _solver(named: Any, general: Any) -> Any:
    """Tridiagonal systems: JAX's general rule raises NotImplementedError for ``perturb_singular``."""

    def rule(context: Any, *operands: Any, **parameters: Any) -> Any:
        chosen = named if parameters.get("perturb_singular") else general
        return chosen(context, *operands, **parameters)

    return rule
