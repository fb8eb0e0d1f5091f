"""``torch_neuronx.trace``: a PyTorch function or module compiled ahead of time into one NEFF.

The function runs once on torch_xla's lazy tensors, which makes one HLO module of it; parameters
and other tensors that are not inputs travel with the result. The module is compiled for the
current target, written, read back, and run by this project's runtime at each call.

Importing this module imports torch; tracing imports torch_xla.
"""

from __future__ import annotations

import copy
import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, cast

import neff
from hlo_tools import load as load_module
from hlo_tools.frameworks.torch_kernel import tensor_of, view_of
from hlo_tools.kernel_calls import named_kernels
from neff.options import Flags, parse_flags
from neff.runtime import LoadedModel
from neff.runtime import load as load_model
from nki_lang.targets import current_target

__all__ = ["TracedModel", "trace"]

# torch is optional: what is used of it has the same types with and without it.
torch: Any = import_module("torch")
pytree: Any = import_module("torch.utils._pytree")

_HLO_FILE = "model.hlo_module.pb"
_NEFF_FILE = "graph.neff"


class Tensor(Protocol):
    """The part of a ``torch.Tensor`` that is used here."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> object: ...

    def cpu(self) -> Tensor: ...


class TracedModel(torch.nn.Module):
    """A compiled function: called with tensors like the examples, returns the function's results.

    Attributes:
        model: the loaded NEFF.
    """

    def __init__(
        self,
        model: LoadedModel,
        sources: Sequence[int | Tensor],
        examples: Sequence[Tensor],
        structure: Any,
    ) -> None:
        torch.nn.Module.__init__(self)
        self.model = model
        self._sources = tuple(sources)
        self._examples = tuple((example.shape, example.dtype) for example in examples)
        self._structure = structure

    def forward(self, *inputs: Any) -> Any:
        """Run the NEFF.

        Raises:
            ValueError: the tensors differ from the examples in number, shape or dtype.
        """
        tensors = _tensors(inputs)
        given = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if given != self._examples:
            raise ValueError(
                f"the model was traced for {_described(self._examples)}, "
                f"it was called with {_described(given)}; trace it again for other tensors"
            )
        chosen: list[Tensor] = [
            tensors[source] if isinstance(source, int) else source for source in self._sources
        ]
        arrays = [view_of(tensor.cpu()) for tensor in chosen]
        results = self.model.run(dict(zip(self.model.inputs, arrays, strict=True)))
        return pytree.tree_unflatten(
            [tensor_of(results[name]) for name in self.model.outputs], self._structure
        )


def trace(
    func: Callable[..., Any],
    example_inputs: Any,
    *_: Any,
    compiler_workdir: str | os.PathLike[str] | None = None,
    compiler_args: str | Sequence[str] = (),
    **_unused: Any,
) -> TracedModel:
    """Compile a function or module for tensors like the examples.

    Args:
        func: a function, an ``nki.jit`` kernel or a ``torch.nn.Module`` (which is copied).
        example_inputs: a tensor or a tuple of arguments; their values do not matter.
        compiler_workdir: where to leave ``graph.neff`` and ``model.hlo_module.pb``.
        compiler_args: flags of ``neuronx-cc``; ``--target`` overrides
            NEURON_PLATFORM_TARGET_OVERRIDE.

    Raises:
        NeffCompileError: the program is not covered or does not fit the target.
        NkiValidationError: a kernel breaks a rule, at its line.
        ImportError: torch_xla is not installed.
    """
    flags = parse_flags(
        shlex.split(compiler_args) if isinstance(compiler_args, str) else compiler_args
    )
    several = isinstance(example_inputs, tuple)
    arguments = cast("tuple[Any, ...]", example_inputs if several else (example_inputs,))
    examples = _tensors(arguments)
    module, sources, structure = _to_hlo(func, arguments, examples)
    with TemporaryDirectory(prefix="nki-hlo-") as scratch:
        folder = Path(compiler_workdir or scratch)
        model = _build(module, folder, flags)
    return TracedModel(model, sources, examples, structure)


def _build(module: bytes, folder: Path, flags: Flags) -> LoadedModel:
    """The module compiled, written into the folder, and read back."""
    folder.mkdir(parents=True, exist_ok=True)
    target = flags.target or current_target().name
    program = neff.compile(
        load_module(module), target=target, options=flags.options,
        kernels=named_kernels(flags.kernels), check_kernels=flags.check_kernels,
    )  # fmt: skip
    (folder / _HLO_FILE).write_bytes(module)
    neff.write(program, folder / _NEFF_FILE)
    return load_model(folder / _NEFF_FILE, name=program.name)


def _to_hlo(
    func: Callable[..., Any], arguments: tuple[Any, ...], examples: Sequence[Tensor]
) -> tuple[bytes, list[int | Tensor], Any]:
    """The HLO module, what feeds each parameter (an input's number, or a tensor of the
    function's own), and the structure of the results.
    """
    torch_xla: Any = import_module("torch_xla")
    device = torch_xla.device()

    def moved(tensor: Any) -> Any:
        return tensor.detach().to(device)

    lazy_arguments = pytree.tree_map_only(torch.Tensor, moved, arguments)
    runs: Any = func
    if isinstance(func, torch.nn.Module):
        runs = copy.deepcopy(runs).to(device)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch_xla runs on PJRT_DEVICE=CPU")
        results = runs(*lazy_arguments)
    flat, structure = pytree.tree_flatten(results)
    if not flat or not all(isinstance(result, torch.Tensor) for result in flat):
        raise TypeError("a traced function returns tensors and containers of tensors, nothing else")
    lazy = torch_xla._XLAC
    module: bytes = lazy._get_xla_tensors_hlo_proto(flat)
    numbers = {
        lazy._xla_get_tensor_id(tensor): number
        for number, tensor in enumerate(_tensors(lazy_arguments))
    }
    identities, values = lazy._get_tensors_xla_device_data_node(flat)
    sources: list[int | Tensor] = [
        numbers[identity] if identity in numbers else value.cpu()
        for identity, value in zip(identities, values, strict=True)
    ]
    return module, sources, structure


def _tensors(arguments: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def _described(tensors: Sequence[tuple[Sequence[int], object]]) -> str:
    return ", ".join(f"{str(kind).removeprefix('torch.')}{list(shape)}" for shape, kind in tensors)
