"""The versions of JAX whose interface, private parts included, ours was tested with."""

from __future__ import annotations

from typing import Final

from hlo_tools.errors import HloUnsupportedError

__all__ = ["OLDEST", "TOO_NEW", "check_version"]

OLDEST: Final = (0, 6)
TOO_NEW: Final = (0, 11)
"""From 0.6 up to, without, 0.11; ``pyproject.toml`` has the same bounds."""


def check_version(version: str = "") -> None:
    """Refuse a version of JAX (the installed one by default) that nobody tested.

    Raises:
        HloUnsupportedError: code ``HLO-JAX-VERSION``.
    """
    if not version:
        import jax

        version = jax.__version__
    major, minor = version.split(".")[:2]
    if OLDEST <= (int(major), int(minor)) < TOO_NEW:
        return
    oldest, too_new = (".".join(map(str, version_pair)) for version_pair in (OLDEST, TOO_NEW))
    raise HloUnsupportedError(
        f"JAX {version} is not among the versions that NKI kernels and the neuron device were "
        "tested with",
        code="HLO-JAX-VERSION",
        remedy=f"pip install 'jax>={oldest},<{too_new}'",
    )
