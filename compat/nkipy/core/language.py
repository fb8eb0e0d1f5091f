"""``nkipy.core.language``: dtypes that NumPy has not."""

from nki_lang.language import bfloat16, float8_e4m3, float8_e5m2

__all__ = ["bfloat16", "float8_e4m3", "float8_e5m2"]
