"""``neuronxcc.nki.language``: the names of :mod:`nki_lang.beta1.language`."""

from typing import Any

import nki_lang.beta1.language as _language
from nki_lang.base.dtypes import BY_NAME as _BY_NAME
from nki_lang.beta1.language import *  # noqa: F403
from nki_lang.beta1.language import __all__ as __all__


def __getattr__(name: str) -> Any:
    return _BY_NAME[name] if name in _BY_NAME else getattr(_language, name)
