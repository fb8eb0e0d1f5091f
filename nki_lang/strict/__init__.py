"""The strict subset: what tracing accepts and the vendor's compiler does not.

:func:`check_file` checks a file without running it, :func:`check_kernel` a kernel object.
"""

from __future__ import annotations

from nki_lang.strict.checker import Violation, check_file, check_kernel
from nki_lang.strict.rules import RULES, Rule

__all__ = ["RULES", "Rule", "Violation", "check_file", "check_kernel"]
