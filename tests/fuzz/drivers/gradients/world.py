"""The player of a program, with kernels or with equivalent operations of torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from tests.fuzz.drivers.children import serve
from tests.fuzz.drivers.gradients.kernels import Unusable, Watch, equivalents, kernels
from tests.fuzz.drivers.gradients.operators import SILENT, checkpoints, functions, operators

__all__ = ["Played", "play", "serve_programs"]

DEVICES = ("cpu", "neuron")
_CODE = re.compile(r"\[((?:NKI|HLO|NEFF)-[A-Z-]+)\]")
_OPERATORS: dict[str, SimpleNamespace] = {}


@dataclass
class Played:
    """The outcome of a program.

    Attributes:
        states: after each line, the value of each tensor by name.
        gradients: of the tensors that ask for one, by name.
        error: what the last line raised.
        watch: what the calls were like.
    """

    states: list[dict[str, torch.Tensor | None]] = field(default_factory=list)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    error: Exception | None = None
    watch: Watch = field(default_factory=Watch)

    @property
    def code(self) -> str:
        """The code of the error, when it has one."""
        match = _CODE.search(str(self.error))
        return str(getattr(self.error, "code", "")) or (match[1] if match else "")


class World:
    """The names of a program: tensors of a way's device, kernels and what calls them."""

    def __init__(self, way: str, data: int, watch: Watch | None) -> None:
        self._device, self._data, self._drawn = way.split()[-1], data, 0
        self.leaves: dict[int, torch.Tensor] = {}
        simulated = way.startswith("simulate")
        K = kernels(simulated=simulated) if watch is None else equivalents(watch)
        F = functions(K)
        self.names: dict[str, Any] = {
            "torch": torch, "K": K, "F": F, "R": checkpoints(F), "leaf": self.leaf,
            "data": self.data, "total": self.total,
            "P": _own_operators(K, "simulated" if simulated else "own") if watch is None else _same_operators(watch),
        }  # fmt: skip

    def data(self, *shape: int) -> torch.Tensor:
        """Small numbers, others for each call and ``data``."""
        self._drawn += 1
        chance = torch.Generator().manual_seed(1000 * self._data + self._drawn)
        values = torch.randint(-6, 7, shape, generator=chance, device="cpu").to(torch.float32)
        return (values / 4 + 0.125).to(self._device)

    def leaf(self, *shape: int) -> torch.Tensor:
        """The same, asking for a gradient."""
        tensor = self.data(*shape).requires_grad_()
        self.leaves[id(tensor)] = tensor
        return tensor

    def total(self, *tensors: torch.Tensor) -> torch.Tensor:
        """A sum of the elements, each with a weight of its own."""
        weighted = torch.zeros((), device=self._device)
        for tensor in tensors:
            weights = torch.arange(1.0, 1.0 + tensor.numel(), device="cpu").to(self._device)
            weighted = weighted + (tensor.reshape(-1) * weights).sum()
        return weighted

    def tensors(self) -> dict[str, torch.Tensor]:
        """The program's own."""
        return {
            name: tensor for name, tensor in self.names.items() if isinstance(tensor, torch.Tensor)
        }


def _own_operators(K: SimpleNamespace, group: str) -> SimpleNamespace:
    from torch_neuronx import nki_op

    if group not in _OPERATORS:
        _OPERATORS[group] = operators(
            K, lambda name, **options: nki_op(f"{group}::{name}", **options)
        )
    return _OPERATORS[group]


def _same_operators(watch: Watch) -> SimpleNamespace:
    """Operators of torch's operations; those that write what they do not declare raise."""

    def define(name: str, *, mutates_args: tuple[str, ...]) -> Callable[..., Any]:
        return torch.library.custom_op(f"same::{name}", mutates_args=mutates_args)

    if "same" not in _OPERATORS:
        defined = operators(equivalents(Watch()), define)
        for name in SILENT:
            setattr(defined, name, _refused)
        _OPERATORS["same"] = defined
    return _OPERATORS["same"]


class Undeclared(Exception):
    """An operator wrote what it does not declare."""


def _refused(*arguments: Any) -> None:
    tensors = [
        tensor
        for argument in arguments
        for tensor in (argument if isinstance(argument, list) else [argument])
    ]
    if any(
        tensor.dim() == 0 or len(tensor) < 2 or tensor.shape != tensors[0].shape
        for tensor in tensors
    ):
        raise Unusable  # kernels take none of these, nor of their parts
    if (
        len(arguments) == 2
        and len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
    ):
        raise Unusable  # the write is one of the declared argument, too
    raise Undeclared


def play(lines: list[str], mode: str = "cpu", data: int = 0, *, same: bool = False) -> Played:
    """Run the lines, with operations of torch instead of kernels if ``same``."""
    played = Played()
    world = World(mode, data, played.watch if same else None)
    for line in lines:
        try:
            exec(line, world.names)
        except Exception as error:
            played.error = error
        played.states.append({name: _value(tensor) for name, tensor in world.tensors().items()})
        if played.error is not None:
            break
    for name, value in world.tensors().items():
        gradient = value.grad if id(value) in world.leaves else None
        if gradient is not None:
            played.gradients[name] = _value(gradient)
    return played


def _value(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy; None of a view that torch does not allow to be used any more."""
    try:
        with torch.no_grad():
            return tensor.detach().cpu().clone()
    except RuntimeError as error:
        if "has been modified inplace" not in str(error):
            raise
        return None


def fault_of(lines: list[str], mode: str, data: int) -> tuple[str, str]:
    """Return the fault of a program, and its outcome: a code, a kind of error, or "equal"."""
    reference = play(lines, data=data, same=True)
    if isinstance(reference.error, NameError | SyntaxError | Unusable):
        return "", "no program"
    played = play(lines, mode, data)
    last = len(played.states) - 1
    if played.code:
        if not _may_refuse(played, reference):
            return f"line {last + 1} is refused: {played.error}", played.code
        return _differing(
            reference.states[last - 1] if last else {}, played.states[last]
        ), played.code
    if played.error is not None or reference.error is not None:
        if _may_raise(played.error, reference.error):
            return "", "raises"
        if "does not require grad" in str(played.error) and not reference.gradients:
            return "", "raises"  # views without a history ask for one in torch, and get none
        if _kind(played.error) != _kind(reference.error):
            return (
                f"line {last + 1}: {_told(played.error)} instead of {_told(reference.error)}",
                "raises",
            )
        return _differing(reference.states[last], played.states[last]), "raises"
    message = _differing(reference.states[-1], played.states[-1])
    return message or _differing(reference.gradients, played.gradients, "gradient of "), "equal"


def _may_refuse(played: Played, reference: Played) -> bool:
    if played.code == "NKI-OP-MUTATES":
        return isinstance(reference.error, Undeclared) and len(played.states) == len(
            reference.states
        )
    if played.code == "NKI-SHARED":
        return reference.watch.shared or "single memory location" in str(reference.error)
    return played.code == "HLO-KERNEL-GRADIENT" and reference.watch.differentiated


def _may_raise(error: Exception | None, expected_error: Exception | None) -> bool:
    """Where one of both refuses what PyTorch leaves open, or an earlier part of the same line.

    Tensors of inference mode: "neuron" has ordinary ones of single operations, so that they may be
    written, and CPU lets ``.data`` of one be written, which PyTorch documents as not allowed. An
    undeclared write to one of several views is refused by PyTorch before it is seen; one through
    NumPy's array of a tensor of the device cannot happen, since there is no such array.
    """
    if error is None or "nference tensor" in str(error):
        return "nference tensor" in f"{error}{expected_error}"
    refusals = ("modified inplace", "can't convert neuron")
    return isinstance(expected_error, Undeclared) and any(text in str(error) for text in refusals)


_KINDS = ("modified by an inplace operation", "leaf Variable", "modified inplace",
          "does not require grad", "single memory location", "nference tensor")  # fmt: skip


def _kind(error: Exception | None) -> str:
    """Return the subject of an error of torch."""
    text = "" if error is None else f"{type(error).__name__}: {error}"
    text = re.sub(r"\b(own|simulated)(::|\.)", r"same\2", text)
    return next((kind for kind in _KINDS if kind in text), text[:60])


def _told(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def _differing(expected: dict[str, Any], actual: dict[str, Any], what: str = "") -> str:
    """The first tensor that differs."""
    for name, wanted_value in expected.items():
        have = actual.get(name)
        if (wanted_value is None) != (have is None):
            return f"{what}{name} is {'missing' if have is None else 'there'}"
        if wanted_value is None:
            continue
        if wanted_value.shape != have.shape or not torch.allclose(
            wanted_value, have, rtol=1e-4, atol=1e-4, equal_nan=True
        ):
            return f"{what}{name} is {have.tolist()} instead of {wanted_value.tolist()}"
    return ""


def serve_programs() -> None:
    """Answer ``("draw", seed)`` or ``("play", lines, device)`` in the child process."""
    from hlo_tools.torch_device import device as torch_device
    from tests.fuzz.drivers.gradients.drawn import drawn

    warnings.simplefilter("ignore")
    torch_device.install()

    def answer(request: tuple[Any, ...]) -> dict[str, Any]:
        if request[0] == "draw":
            return {"lines": drawn(request[1])}
        runs: dict[str, int] = {}
        for data in (0, 1):  # the second run has other numbers
            message, how = fault_of(request[1], request[2], data)
            runs[how] = runs.get(how, 0) + 1
            if message:
                return {"fault": message, "runs": runs}
        return {"fault": "", "runs": runs}

    serve(answer)
