"""``torch_neuronx.xla_impl.ops``: the decorator of kernels with output arguments."""

from neff.runtime.beta1_versions import nki_jit

__all__ = ["nki_jit"]
