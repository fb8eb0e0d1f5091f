"""HLO text: parse and print."""

from hlo_tools.text.options import (
    CANONICAL,
    DEFAULT,
    FINGERPRINT,
    PRESETS,
    SHORT_PARSABLE,
    PrintOptions,
)
from hlo_tools.text.parser import parse, parse_configured
from hlo_tools.text.printer import print_module

__all__ = [
    "CANONICAL",
    "DEFAULT",
    "FINGERPRINT",
    "PRESETS",
    "SHORT_PARSABLE",
    "PrintOptions",
    "parse",
    "parse_configured",
    "print_module",
]
