"""``nki.lang``: the short name of :mod:`nki.language` in the vendor's announcement."""

from typing import Any

import nki_lang.language as _language
from nki_lang.language import *  # noqa: F403
from nki_lang.language import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(_language, name)
