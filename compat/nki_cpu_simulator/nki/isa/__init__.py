"""The names of :mod:`nki.isa`."""

from nki.isa import *  # noqa: F403
from nki.isa import __all__ as __all__
from nki.isa import __getattr__ as __getattr__
