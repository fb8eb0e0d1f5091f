"""``nki.collectives``: the names of :mod:`nki_lang.collectives`."""

from nki_lang.collectives import *  # noqa: F403
from nki_lang.collectives import __all__ as __all__
