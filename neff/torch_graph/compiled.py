"""Lowered graphs compiled to NEFFs, and run with tensors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import neff
from hlo_tools import load as load_module
from hlo_tools.frameworks.torch_kernel import tensor_of, view_of
from hlo_tools.kernel_calls import named_kernels
from hlo_tools.torch_device.tensors import NAME, device_view, host_view
from neff.options import Flags
from neff.runtime import LoadedModel
from neff.runtime import load as load_model
from neff.torch_graph.lowering import LoweredGraph, ResultNumber
from neff.torch_graph.pytorch import Tensor, Tree, torch
from nki_lang.base.targets import current_target

__all__ = ["HLO_FILE", "NEFF_FILE", "CompiledGraph", "built", "debug_folder"]

HLO_FILE = "model.hlo_module.pb"
NEFF_FILE = "graph.neff"
GRAPH_FILE = "graph.py"

DEBUG_VARIABLE = "TORCH_NEURONX_DEBUG_DIR"
PRESERVE_VARIABLE = "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS"
DEFAULT_DEBUG_FOLDER = "/tmp/neuron_backend"
"""Where TorchNeuron leaves artifacts when only asked to preserve them."""

OVERLAPS = 1
"""PyTorch's answer when several elements of a tensor share memory (c10's MemOverlap::Yes)."""


class CompiledGraph:
    """A graph as a loaded NEFF.

    Attributes:
        model: the loaded NEFF.
        lowered: the graph that it was built from.
    """

    def __init__(self, lowered: LoweredGraph, model: LoadedModel) -> None:
        self.lowered = lowered
        self.model = model

    def run(self, arguments: Sequence[Tree]) -> list[Tree]:
        """The graph's results, with PyTorch's strides and devices.

        Args:
            arguments: tensors for the module's parameters, in order; other arguments are ignored.
        """
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        arrays = [view_of(_on_host(tensor).resolve_conj().resolve_neg()) for tensor in tensors]
        run = self.model.run(dict(zip(self.model.inputs, arrays, strict=True)))
        values = [run[name] for name in self.model.outputs]
        results = [
            _on_device(_strided(tensor_of(value).to(dtype).reshape(shape), strides), device)
            for value, (shape, strides, dtype, device) in zip(
                values, self.lowered.kinds, strict=True
            )
        ]
        return [
            results[value.index] if isinstance(value, ResultNumber) else value
            for value in self.lowered.results
        ]


def _on_host(tensor: Tensor) -> Tensor:
    """The tensor in host memory; that of the device "neuron" is not copied."""
    return host_view(tensor.detach()).cpu()


def _on_device(tensor: Tensor, device: Tree) -> Tensor:
    """The tensor on the device that the graph has it on, which is the CPU unless "neuron"."""
    return device_view(tensor, device.index or 0) if device.type == NAME else tensor


def _strided(tensor: Tensor, strides: tuple[int, ...]) -> Tensor:
    """The tensor in memory of the given strides; as it is if elements share memory.

    Elements along a dimension of stride 0 are one element, as PyTorch's ``expand`` has it.
    """
    if tensor.stride() == strides:
        return tensor
    shape, first = tensor.shape, tensor
    for axis, stride in enumerate(strides):
        if not stride:
            first = first.narrow(axis, 0, min(1, shape[axis]))
    copy: Tensor = torch.empty_strided(first.shape, strides, dtype=tensor.dtype)
    if torch._debug_has_internal_overlap(copy) == OVERLAPS:
        return tensor
    return copy.copy_(first).as_strided(shape, strides)


def built(module: bytes, folder: Path, flags: Flags) -> LoadedModel:
    """A module compiled, written into a folder, and read back."""
    folder.mkdir(parents=True, exist_ok=True)
    target = flags.target or current_target().name
    program = neff.compile(
        load_module(module), target=target, options=flags.options,
        kernels=named_kernels(flags.kernels), check_kernels=flags.check_kernels,
    )  # fmt: skip
    (folder / HLO_FILE).write_bytes(module)
    neff.write(program, folder / NEFF_FILE)
    return load_model(folder / NEFF_FILE, name=program.name)


def compiled(lowered: LoweredGraph, flags: Flags, text: str) -> CompiledGraph:
    """Compile a graph; artifacts stay in the folder of TORCH_NEURONX_DEBUG_DIR, if that is set.

    Args:
        lowered: the graph as a module.
        flags: the compiler's.
        text: the graph in Python, for the artifacts.
    """
    folder = debug_folder(lowered.module)
    if folder is None:
        with TemporaryDirectory(prefix="nki-hlo-") as scratch:
            return CompiledGraph(lowered, built(lowered.module, Path(scratch), flags))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GRAPH_FILE).write_text(text)
    return CompiledGraph(lowered, built(lowered.module, folder, flags))


def debug_folder(module: bytes) -> Path | None:
    """Where a module's artifacts are left; None if nobody asked for them."""
    parent = os.environ.get(DEBUG_VARIABLE, "")
    if not parent and os.environ.get(PRESERVE_VARIABLE, "0") != "1":
        return None
    return Path(parent or DEFAULT_DEBUG_FOLDER) / f"graph_{sha256(module).hexdigest()[:16]}"
