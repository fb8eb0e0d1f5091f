"""``torch_neuronx.xla_impl``: where kernels of NKI beta 1 import ``nki_jit`` from."""
