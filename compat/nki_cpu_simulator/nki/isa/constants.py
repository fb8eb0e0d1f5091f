"""The names of :mod:`nki.isa.constants`."""

from nki.isa.constants import *  # noqa: F403
from nki.isa.constants import __all__ as __all__
