"""The versions of NKI whose rules can be applied, and the one that the environment selects."""

from __future__ import annotations

import os
from typing import Final

from nki_lang.base.errors import NkiValidationError

__all__ = ["NEWEST_VERSION", "VERSIONS", "VERSION_VARIABLE", "selected_version", "selects_since"]

VERSIONS: Final = ("0.6", "0.7")
"""The versions whose rules can be applied, oldest first."""

NEWEST_VERSION: Final = VERSIONS[-1]
"""The version of the strict mode when none is selected."""

VERSION_VARIABLE: Final = "NKI_HLO_NKI"
"""The version whose rules hold while kernels are traced; unset, what any version accepts works."""


def selected_version() -> str:
    """Return the version that ``NKI_HLO_NKI`` selects, "" when it is not set.

    Raises:
        NkiValidationError: code ``NKI-VERSION``; the variable names no version with rules.
    """
    version = os.environ.get(VERSION_VARIABLE, "").strip()
    if version not in ("", *VERSIONS):
        raise NkiValidationError(
            f"{VERSION_VARIABLE}={version} in the environment", code="NKI-VERSION",
            remedy=f"versions with rules are {', '.join(VERSIONS)}; unset it for all of them",
        )  # fmt: skip
    return version


def selects_since(version: str) -> bool:
    """Return True if the selected version is this one or a later one; False without a selection."""
    selected = selected_version()
    return bool(selected) and VERSIONS.index(selected) >= VERSIONS.index(version)
