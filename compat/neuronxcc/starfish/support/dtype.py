"""``neuronxcc.starfish.support.dtype``: conversions on the host."""

from nki_lang.casts import finfo, is_float_type, sizeinbytes, static_cast
from nki_lang.dtypes import BY_NAME

globals().update(BY_NAME)

__all__ = ["finfo", "is_float_type", "sizeinbytes", "static_cast", *BY_NAME]
