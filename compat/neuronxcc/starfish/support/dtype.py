"""``neuronxcc.starfish.support.dtype``: conversions on the host."""

from nki_lang.base.dtypes import BY_NAME, finfo, is_float_type, sizeinbytes, static_cast

globals().update(BY_NAME)

__all__ = ["finfo", "is_float_type", "sizeinbytes", "static_cast", *BY_NAME]
