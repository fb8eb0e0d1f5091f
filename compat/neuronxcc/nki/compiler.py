"""``neuronxcc.nki.compiler``: the names of :mod:`nki_lang.beta1.compiler`."""

from typing import Any

import nki_lang.beta1.compiler as _compiler
from nki_lang.beta1.compiler import *  # noqa: F403
from nki_lang.beta1.compiler import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(_compiler, name)
