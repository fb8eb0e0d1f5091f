"""Pipelines inside frameworks: in JAX's compiler, and in our device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hlo_tools.ir.module import Module
from hlo_tools.passes.pipeline import Pipeline
from hlo_tools.rewrite.errors import PassError

__all__ = ["VARIABLE", "install_into_device", "install_into_jax", "transform_bytes"]

VARIABLE = "NKI_HLO_PASSES"
"""Environment variable that names the pipeline of our device."""


def transform_bytes(pipeline: str | Pipeline, data: bytes) -> bytes | None:
    """Run a pipeline on a serialized HloModuleProto, for somebody who calls it as it was.

    Args:
        pipeline: the passes, or their text.
        data: the module's bytes in protobuf's wire format.

    Returns:
        the rewritten module, or None when no pass changed anything.

    Raises:
        HloError: the bytes are not a module, or a pass fails.
        PassError: parameters or results have other types afterwards (HLO-PASS-SIGNATURE).
    """
    from hlo_tools.ir.loading import load

    module = load(data)
    chosen = Pipeline.parse(pipeline) if isinstance(pipeline, str) else pipeline
    before = _signature(module)
    if not chosen.run(module).modified:
        return None
    after = _signature(module)
    if before != after:
        raise PassError(
            f"{chosen} makes {' '.join(after)} of {' '.join(before)}, but the program's callers "
            "stay as they are",
            code="HLO-PASS-SIGNATURE",
            remedy="leave out passes that change parameters or results",
        )
    return module.module_bytes()


def _signature(module: Module) -> list[str]:
    entry = module.entry
    shapes = [str(parameter.shape) for parameter in entry.parameters]
    return [f"({', '.join(shapes)})", "->", str(entry.result_shape)]


def install_into_jax(
    pipeline: str,
    *,
    name: str = "nki_hlo",
    stage: Literal["pre_scheduler", "post_scheduler"] = "pre_scheduler",
    platforms: Sequence[str] | str | None = None,
) -> Pipeline:
    """Let JAX run a pipeline on every module that it compiles from now on, in this process.

    It runs inside XLA's own pipeline, on what XLA made of the program by then.

    Args:
        pipeline: text of a pipeline; parsed here, so that mistakes show at once.
        name: what XLA calls the pass.
        stage: before or after XLA's scheduling.
        platforms: names such as ``"cpu"``; all known ones when not given.

    Raises:
        PassError: text that is not a pipeline, or a JAX that cannot do it (HLO-JAX; it needs jax and
            jaxlib 0.10.2 or later).
    """
    parsed = Pipeline.parse(pipeline)
    try:
        from jax.extend.xla import PipelineStage, register_hlo_module_transformation
    except ImportError as error:
        raise _no_hook(str(error)) from error
    try:
        register_hlo_module_transformation(
            lambda data: transform_bytes(parsed, data),
            name=name,
            stage=PipelineStage[stage.upper()],
            platforms=platforms,
        )
    except (NotImplementedError, KeyError) as error:
        raise _no_hook(str(error)) from error
    return parsed


def _no_hook(reason: str) -> PassError:
    return PassError(
        f"this JAX does not support passes: {reason}",
        code="HLO-JAX",
        remedy="install jax and jaxlib 0.10.2 or later, or use our device with " + VARIABLE,
    )


def install_into_device(pipeline: str) -> Pipeline:
    """Let our device run a pipeline on every module it compiles from now on, in this process.

    The same as setting NKI_HLO_PASSES; an empty text takes it away again.

    Raises:
        PassError: text that is not a pipeline.
    """
    import os

    parsed = Pipeline.parse(pipeline)
    os.environ[VARIABLE] = str(parsed)
    return parsed
