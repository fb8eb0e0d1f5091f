"""Passes: rewritings of modules, each a value, run one after the other as a pipeline.

>>> from hlo_tools.passes import Pipeline
>>> Pipeline.parse("dce,cse").run(module, verify_each=True)  # doctest: +SKIP
"""

from __future__ import annotations

from hlo_tools.passes.base import Pass
from hlo_tools.passes.installing import (
    install_into_device,
    install_into_jax,
    transform_bytes,
)
from hlo_tools.passes.pipeline import Pipeline, Report, Step
from hlo_tools.passes.registry import Registered, find_pass, registered_passes
from hlo_tools.passes.separators import SEPARATOR, join_modules, split_modules
from hlo_tools.rewrite.errors import PassError

__all__ = [
    "SEPARATOR",
    "Pass",
    "PassError",
    "Pipeline",
    "Registered",
    "Report",
    "Step",
    "find_pass",
    "install_into_device",
    "install_into_jax",
    "join_modules",
    "registered_passes",
    "split_modules",
    "transform_bytes",
]
