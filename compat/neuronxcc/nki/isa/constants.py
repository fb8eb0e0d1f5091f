"""``neuronxcc.nki.isa.constants``: the enumerations, where kernels of NKI beta 1 import them."""

from nki_lang.beta1.isa import dge_mode, engine, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
