"""Functions of higher layers that lower layers call, registered as entry points of this product.

The kernel object estimates its time with the compiler and the timing model, which are layers
above it. Lower layers never name a module of a higher layer; pyproject.toml binds each service.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, PackageNotFoundError, distribution
from typing import Any

from nki_lang.base.errors import NkiError

__all__ = ["COMMANDS", "DISTRIBUTION", "service"]

DISTRIBUTION = "nki-hlo"
SERVICES = "nki_hlo.services"
COMMANDS = "nki_hlo.commands"
"""Entry points of this group are modules of commands."""


@cache
def _entry_points() -> EntryPoints:
    # Only the metadata of this distribution is read: scanning all installed ones takes 50 ms.
    try:
        return distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return EntryPoints()


def service(name: str, group: str = SERVICES) -> Any:
    """Return the object that this product registers under a name.

    Raises:
        NkiError: ``NKI-INSTALL``; the installed metadata lacks the name.
    """
    registered = _entry_points().select(group=group, name=name)
    if not registered:
        raise NkiError(
            f"the installed {DISTRIBUTION} does not register {name!r} in {group!r}",
            code="NKI-INSTALL",
            remedy="install the project again: pip install -e . in the checkout, or "
            "pip install --force-reinstall . without -e",
        )
    return next(iter(registered)).load()
