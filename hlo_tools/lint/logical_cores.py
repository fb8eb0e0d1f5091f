"""The compiler's LNC degree: how many physical cores a logical core has when a module is compiled."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, cast

from hlo_tools.files.plain import read_beside
from nki_lang.base.targets import Target
from nki_lang.base.versions import selects_since

__all__ = ["compiler_degree"]

FLAGS_FILE: Final = "compile_flags.json"
DEGREE_FLAGS: Final = frozenset({"--lnc", "--logical-nc-config", "-lnc"})
DEGREE_VARIABLE: Final = "NEURON_LOGICAL_NC_CONFIG"
FIRST_VERSION: Final = "0.7"
"""The first version of NKI whose compiler refuses kernels of another degree."""


def compiler_degree(root: Path | None, target: Target) -> tuple[int, str]:
    """Return the LNC degree and who states it; (0, "") where nobody does.

    The flags beside the module, then ``NEURON_LOGICAL_NC_CONFIG``. The default of the compiler, the
    target's most cores, counts only if NKI 0.7 or later is selected: earlier compilers took
    kernels of either degree.

    Source: the vendor's page of the error NCC_EVRF066 and its page about LNC (SDK 2.33).
    """
    stated = _degree_of(_flags(root))
    if stated:
        return stated, FLAGS_FILE
    variable = os.environ.get(DEGREE_VARIABLE, "")
    if variable in ("1", "2"):
        return int(variable), DEGREE_VARIABLE
    if selects_since(FIRST_VERSION):
        return target.max_lnc, f"the default on {target.name}"
    return 0, ""


def _flags(root: Path | None) -> list[str]:
    """Return the flags beside a module; none from a damaged file, which the build reports."""
    if root is None or not (root / FLAGS_FILE).exists():
        return []
    try:
        flags: object = json.loads(read_beside(root / FLAGS_FILE))
    except (OSError, ValueError, RecursionError):
        return []
    return [str(flag) for flag in cast("list[object]", flags)] if isinstance(flags, list) else []


def _degree_of(flags: Sequence[str]) -> int:
    """Return the last degree that the flags state, 0 if none does."""
    degree = 0
    for flag, following in zip_longest(flags, flags[1:], fillvalue=""):
        name, equals, value = flag.partition("=")
        text = value if equals else following
        if name in DEGREE_FLAGS and text in ("1", "2"):
            degree = int(text)
    return degree
