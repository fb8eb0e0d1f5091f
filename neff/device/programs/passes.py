"""NKI_HLO_PASSES: passes that run on every program before anyone else sees it."""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "transformed"]

VARIABLE = "NKI_HLO_PASSES"


def transformed(module: bytes) -> bytes:
    """A serialized module after the pipeline that the environment names; itself without one.

    Raises:
        HloError: text that is not a pipeline, or a pass that fails; the compilation fails with it.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return module
    from hlo_tools.passes import transform_bytes

    return transform_bytes(text, module) or module
