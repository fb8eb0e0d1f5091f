"""What plays a program, with kernels and with operations of torch instead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from children import serve

from gradients.kernels import Unusable, Watch, equivalents, kernels
from gradients.operators import SILENT, checkpoints, functions, operators

__all__ = ["Played", "play", "serve_programs"]

DEVICES = ("cpu", "neuron")
_CODE = re.compile(r"\[((?:NKI|HLO|NEFF)-[A-Z-]+)\]")
_OPERATORS: dict[str, SimpleNamespace] = {}


@dataclass
class Played:
    """What came of a program.

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
        found = _CODE.search(str(self.error))
        return str(getattr(self.error, "code", "")) or (found[1] if found else "")


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
        made = torch.randint(-6, 7, shape, generator=chance, device="cpu").to(torch.float32)
        return (made / 4 + 0.125).to(self._device)

    def leaf(self, *shape: int) -> torch.Tensor:
        """The same, asking for a gradient."""
        made = self.data(*shape).requires_grad_()
        self.leaves[id(made)] = made
        return made

    def total(self, *tensors: torch.Tensor) -> torch.Tensor:
        """A sum of the elements, each with a weight of its own."""
        found = torch.zeros((), device=self._device)
        for tensor in tensors:
            weights = torch.arange(1.0, 1.0 + tensor.numel(), device="cpu").to(self._device)
            found = found + (tensor.reshape(-1) * weights).sum()
        return found

    def tensors(self) -> dict[str, torch.Tensor]:
        """The program's own."""
        return {name: one for name, one in self.names.items() if isinstance(one, torch.Tensor)}


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
        found = operators(equivalents(Watch()), define)
        for name in SILENT:
            setattr(found, name, _refused)
        _OPERATORS["same"] = found
    return _OPERATORS["same"]


class Undeclared(Exception):
    """An operator wrote what it does not declare."""


def _refused(*given: Any) -> None:
    tensors = [one for each in given for one in (each if isinstance(each, list) else [each])]
    if any(one.dim() == 0 or len(one) < 2 or one.shape != tensors[0].shape for one in tensors):
        raise Unusable  # kernels take none of these, nor of their parts
    if len(given) == 2 and len({one.untyped_storage().data_ptr() for one in tensors}) == 1:
        raise Unusable  # the write is one of the declared argument, too
    raise Undeclared


def play(lines: list[str], way: str = "cpu", data: int = 0, *, same: bool = False) -> Played:
    """Run the lines, with operations of torch instead of kernels if ``same``."""
    found = Played()
    world = World(way, data, found.watch if same else None)
    for line in lines:
        try:
            exec(line, world.names)
        except Exception as error:
            found.error = error
        found.states.append({name: _value(one) for name, one in world.tensors().items()})
        if found.error is not None:
            break
    for name, one in world.tensors().items():
        gradient = one.grad if id(one) in world.leaves else None
        if gradient is not None:
            found.gradients[name] = _value(gradient)
    return found


def _value(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy; None of a view that torch does not allow to be used any more."""
    try:
        with torch.no_grad():
            return tensor.detach().cpu().clone()
    except RuntimeError as error:
        if "has been modified inplace" not in str(error):
            raise
        return None


def fault_of(lines: list[str], way: str, data: int) -> tuple[str, str]:
    """What is wrong with a program, and how it went: a code, a kind of error, "equal"."""
    wanted = play(lines, data=data, same=True)
    if isinstance(wanted.error, NameError | SyntaxError | Unusable):
        return "", "no program"
    found = play(lines, way, data)
    at = len(found.states) - 1
    if found.code:
        if not _may_refuse(found, wanted):
            return f"line {at + 1} is refused: {found.error}", found.code
        return _differing(wanted.states[at - 1] if at else {}, found.states[at]), found.code
    if found.error is not None or wanted.error is not None:
        if _may_raise(found.error, wanted.error):
            return "", "raises"
        if "does not require grad" in str(found.error) and not wanted.gradients:
            return "", "raises"  # views without a history ask for one in torch, and get none
        if _kind(found.error) != _kind(wanted.error):
            return f"line {at + 1}: {_told(found.error)} instead of {_told(wanted.error)}", "raises"
        return _differing(wanted.states[at], found.states[at]), "raises"
    told = _differing(wanted.states[-1], found.states[-1])
    return told or _differing(wanted.gradients, found.gradients, "gradient of "), "equal"


def _may_refuse(found: Played, wanted: Played) -> bool:
    if found.code == "NKI-OP-MUTATES":
        return isinstance(wanted.error, Undeclared) and len(found.states) == len(wanted.states)
    if found.code == "NKI-SHARED":
        return wanted.watch.shared or "single memory location" in str(wanted.error)
    return found.code == "HLO-KERNEL-GRADIENT" and wanted.watch.differentiated


def _may_raise(found: Exception | None, wanted: Exception | None) -> bool:
    """Where one of both refuses what PyTorch leaves open, or an earlier part of the same line.

    Tensors of inference mode: "neuron" has ordinary ones of single operations, so that they may be
    written, and CPU lets ``.data`` of one be written, which PyTorch documents as not allowed. An
    undeclared write to one of several views is refused by PyTorch before it is seen.
    """
    if found is None or "nference tensor" in str(found):
        return "nference tensor" in f"{found}{wanted}"
    return isinstance(wanted, Undeclared) and "modified inplace" in str(found)


_KINDS = ("modified by an inplace operation", "leaf Variable", "modified inplace",
          "does not require grad", "single memory location", "nference tensor")  # fmt: skip


def _kind(error: Exception | None) -> str:
    """What an error of torch is about."""
    text = "" if error is None else f"{type(error).__name__}: {error}"
    text = re.sub(r"\b(own|simulated)(::|\.)", r"same\2", text)
    return next((one for one in _KINDS if one in text), text[:60])


def _told(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def _differing(wanted: dict[str, Any], found: dict[str, Any], what: str = "") -> str:
    """The first tensor that differs."""
    for name, want in wanted.items():
        have = found.get(name)
        if (want is None) != (have is None):
            return f"{what}{name} is {'missing' if have is None else 'there'}"
        if want is None:
            continue
        if want.shape != have.shape or not torch.allclose(
            want, have, rtol=1e-4, atol=1e-4, equal_nan=True
        ):
            return f"{what}{name} is {have.tolist()} instead of {want.tolist()}"
    return ""


def serve_programs() -> None:
    """What the child runs: ``("draw", seed)`` or ``("play", lines, device)``."""
    from gradients.drawn import drawn
    from hlo_tools.frameworks import torch_device

    warnings.simplefilter("ignore")
    torch_device.install()

    def answer(request: tuple[Any, ...]) -> dict[str, Any]:
        if request[0] == "draw":
            return {"lines": drawn(request[1])}
        runs: dict[str, int] = {}
        for data in (0, 1):  # the second run has other numbers
            told, how = fault_of(request[1], request[2], data)
            runs[how] = runs.get(how, 0) + 1
            if told:
                return {"fault": told, "runs": runs}
        return {"fault": "", "runs": runs}

    serve(answer)
