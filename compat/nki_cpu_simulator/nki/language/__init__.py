"""The names of :mod:`nki.language`."""

from nki.language import *  # noqa: F403
from nki.language import __all__ as __all__
from nki.language import __getattr__ as __getattr__
