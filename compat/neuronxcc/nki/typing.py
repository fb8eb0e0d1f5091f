"""``neuronxcc.nki.typing``: the names of :mod:`nki_lang.beta1.typing`."""

from typing import Any

import nki_lang.beta1.typing as _typing
from nki_lang.beta1.typing import *  # noqa: F403
from nki_lang.beta1.typing import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(_typing, name)
