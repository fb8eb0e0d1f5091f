"""Compares the kernels that two modules call: the files, not the names in the configurations."""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from hlo_tools.errors import HloError
from hlo_tools.kernels import calls

__all__ = ["CalledKernel", "first_difference"]

_LOCATION = re.compile(r' @"[^"\n]*":\d+(?: in [^\n]*)?$', re.MULTILINE)
"""A line of the user's at the end of an instruction; it may name several frames."""


class CalledKernel(NamedTuple):
    """The kernel of a custom call.

    Attributes:
        backend_config: the call's configuration.
        folder: where relative names of kernel files start; None for a module without a file.
    """

    backend_config: str
    folder: Path | None


def first_difference(
    left: CalledKernel, right: CalledKernel, *, locations: bool
) -> tuple[str, str] | None:
    """Return the first lines of the kernels' text that differ; None for equal kernels.

    Args:
        left, right: the calls.
        locations: lines of the user's source must be equal, too.
    """
    texts = [_text(kernel, locations) for kernel in (left, right)]
    if texts[0] == texts[1]:
        return None
    lines = [text.splitlines() for text in texts]
    return next(
        (before.strip(), after.strip())
        for before, after in zip_longest(*lines, fillvalue="")
        if before != after
    )


def _text(kernel: CalledKernel, locations: bool) -> str:
    try:
        ir = calls.resolve(kernel.backend_config, kernel.folder).kernel
    except HloError as error:
        return f"the kernel file cannot be read ({error.code})"
    text = str(ir) if locations else _LOCATION.sub("", str(ir))
    digests = [
        f"constant {constant.tensor.name}: sha256 {sha256(constant.value.tobytes()).hexdigest()}"
        for constant in ir.constants
    ]
    return "\n".join([text, *digests])
