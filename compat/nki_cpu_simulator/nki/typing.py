"""The names of :mod:`nki.typing`."""

from nki.typing import *  # noqa: F403
from nki.typing import __all__ as __all__
