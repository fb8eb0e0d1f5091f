"""The name under which torch_xla looks for a Neuron device: here, the simulated one.

torch_xla takes any installed ``libneuronxla`` for a sign that the machine is a Neuron machine.
So the import fails, as if nothing were installed, unless the environment asks for the device.
"""

import os

from neff.device.activation import torch_is_asked

__all__ = ["configure_environment"]

if not torch_is_asked():
    raise ImportError(
        "the simulated neuron device was not asked for (set PJRT_DEVICE=NEURON or NKI_HLO_DEVICE=1)"
    )


def configure_environment() -> None:
    """Called by torch_xla when it is imported: there is no other machine to ask for."""
    os.environ.setdefault("PJRT_DEVICE", "NEURON")
    os.environ.setdefault("NEURON_RT_ROOT_COMM_ID", "localhost:62182")
