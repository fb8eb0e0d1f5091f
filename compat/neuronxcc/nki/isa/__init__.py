"""``neuronxcc.nki.isa``: the names of :mod:`nki_lang.beta1.isa`."""

from typing import Any

import nki_lang.beta1.isa as _isa
from nki_lang.beta1.isa import *  # noqa: F403
from nki_lang.beta1.isa import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(_isa, name)
