"""The PyTorch device "neuron" on plain torch, through PyTorch's PrivateUse1.

A tensor of the device is in host memory, and an operator runs on the CPU's kernel over that memory:
results, gradients and views are the CPU's. What eager execution does not model is in
docs/torch-device.md. Importing this package imports nothing; :mod:`~hlo_tools.torch_device.device`
makes the device, :mod:`~hlo_tools.torch_device.autoload` does so for a script that names it.
"""
