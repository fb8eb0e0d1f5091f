"""The error of rewriting."""

from __future__ import annotations

from hlo_tools.errors import HloError

__all__ = ["PassError"]


class PassError(HloError):
    """A pass cannot do what it is meant to do."""

    default_code = "HLO-PASS"
