"""``neuronxcc.nki.kernels`` of NKI beta 1 is not here: importing it says where its kernels are."""

from hlo_tools.frameworks.old_namespace import refuse

refuse("neuronxcc.nki.kernels", "kernels")
