"""The modules that editing is tested on."""

from tests.ir.conftest import module

__all__ = ["module"]
