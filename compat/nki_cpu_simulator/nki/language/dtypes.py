"""The names of :mod:`nki.dtype`."""

from nki.dtype import *  # noqa: F403
from nki.dtype import __all__ as __all__
