"""``neuronxcc.nki.language.constants``: sizes of data types."""

from nki_lang.base.dtypes import sizeinbytes

__all__ = ["sizeinbytes"]
