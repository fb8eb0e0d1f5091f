"""The versions of JAX whose interface, private parts included, ours was tested with."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Final

from hlo_tools.errors import HloUnsupportedError

__all__ = ["NEWEST", "OLDEST", "check_version", "is_untested"]

OLDEST: Final = (0, 6)
"""The oldest version that works; ``pyproject.toml`` has the same bound."""
NEWEST: Final = (0, 12)
"""The newest version that was tested; later ones run with a warning."""


def check_version(version: str = "") -> None:
    """Refuse a version of JAX (the installed one by default) that is too old.

    A version that is newer than the tested ones causes a ``RuntimeWarning``, once in a process.

    Raises:
        HloUnsupportedError: code ``HLO-JAX-VERSION``.
    """
    if not version:
        import jax

        version = jax.__version__
    if is_untested(version):
        _warn(version)
    if _release(version) >= OLDEST:
        return
    oldest = _dotted(OLDEST)
    raise HloUnsupportedError(
        f"JAX {version} is older than {oldest}, the oldest version that NKI kernels and the neuron "
        "device were tested with",
        code="HLO-JAX-VERSION",
        remedy=f"pip install 'jax>={oldest}'",
    )


def is_untested(version: str) -> bool:
    """Return True for a version that is newer than the tested ones."""
    return _release(version) > NEWEST


@cache
def _warn(version: str) -> None:
    warnings.warn(
        f"[HLO-JAX-VERSION] JAX {version} is newer than {_dotted(NEWEST)}, the newest version that "
        "NKI kernels and the neuron device were tested with",
        RuntimeWarning,
        stacklevel=3,
    )


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
