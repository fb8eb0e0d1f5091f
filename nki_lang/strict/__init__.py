"""The strict subset: Python that the vendor's compiler accepts, which is less than tracing accepts.

:func:`check_file` checks a file without running it, :func:`check_kernel` a kernel object.
"""

from __future__ import annotations

from nki_lang.base.versions import VERSIONS
from nki_lang.strict.checker import Violation, check_file, check_kernel
from nki_lang.strict.rules import RULES, Rule
from nki_lang.strict.versions import SYMBOLS, VERSION_RULES

__all__ = [
    "RULES",
    "SYMBOLS",
    "VERSIONS",
    "VERSION_RULES",
    "Rule",
    "Violation",
    "check_file",
    "check_kernel",
]
