"""Draws programs: lines that operations of torch are able to run."""

from __future__ import annotations

import random

import torch

from tests.fuzz.drivers.gradients.kernels import Unusable, Watch
from tests.fuzz.drivers.gradients.operators import SILENT
from tests.fuzz.drivers.gradients.world import World

__all__ = ["drawn"]

_SHAPES = ((4, 6), (6, 4), (2, 2, 6), (24,), (2, 6))
_VIEWS = (
    "{x}.view(-1)", "{x}.reshape(2, -1)", "{x}.transpose(0, -1)", "{x}[1:]", "{x}[..., ::2]",
    "{x}.detach()", "{x}.data", "{x}.chunk(2, -1)[1]", "{x}.unsqueeze(0)", "{x}[0]", "{x}.flatten()",
    "{x}.narrow(0, 0, 2)", "{x}.unbind(0)[1]", "{x}[:1].expand({x}.shape)", "{x}.view_as({x})",
    "{x}.swapaxes(0, -1).reshape(-1)", "{x}[torch.tensor([1, 0, 1])]",
)  # fmt: skip
_MADE = (
    "{x} * 2.0", "{x} + {y}", "{x} * {y}", "torch.sin({x})", "{x}.clone()", "{x} - 1.0",
    "torch.cat([{x}, {y}])", "{x}.contiguous()", "torch.empty_like({x}).copy_({y})",
    "torch.zeros_like({x})",
)  # fmt: skip
_IN_PLACE = (
    "{x}.mul_(2.0)", "{x}.add_({y})", "{x}.copy_({y})", "{x}[0] = 0.5", "{x}.zero_()", "{x} += {y}",
    "{x}.requires_grad_()",
)  # fmt: skip
_KERNELS = (
    "{v} = K.scaled({x})", "{v} = K.multiplied({x}, {y})", "{v} = K.triple_({x})", "K.triple_({x})",
    "K.negate_({x})", "{v} = K.raise_({x})", "K.sum_to({x}, {y}, {z})", "K.sum_to({x}, {x}, {y})",
    "{v}, {w} = K.accumulate_({x}, {y})", "K.accumulate_({x}, {y})", "{v}, {w} = K.swap_({x}, {y})",
)  # fmt: skip
_WRAPPED = (
    "{v} = F.scaled({x})", "{v} = F.multiplied({x}, {y})", "{v} = F.triple_({x})", "F.triple_({x})",
    "{v} = F.sum_to({x}, {y}, {z})", "{v} = R.scaled({x})", "{v} = R.triple_({x})",
    "{v} = R.multiplied({x}, {y})",
)  # fmt: skip
_OPERATORS = (
    "{v} = P.scaled({x})", "{v} = P.own({x})", "P.triple_({x})", "P.part_({x})",
    "{v} = P.detached_({x})", "P.accumulate_({x}, {y})", "P.sum_to({x}, {y}, {z})",
    "P.accumulate_(*{x}.chunk(2, -1))", "P.sum_to(*{x}.chunk(3, -1))",
)  # fmt: skip
_REFUSED = tuple(
    f"P.{name}({{x}}, {{y}})" if name == "silent_second"
    else f"P.{name}([{{y}}, {{x}}])" if name == "silent_list" else f"P.{name}({{x}})"
    for name in SILENT
)  # fmt: skip
_KINDS = ((_VIEWS, 5), (_MADE, 5), (_IN_PLACE, 3), (_KERNELS, 5), (_WRAPPED, 4), (_OPERATORS, 3),
          (_REFUSED, 0.4))  # fmt: skip
_MODES = ("torch.no_grad()", "torch.no_grad()", "torch.inference_mode()", "torch.enable_grad()")


def drawn(seed: int) -> list[str]:
    """The lines of a program; the last differentiates, unless one before it raises."""
    chance = random.Random(seed)
    watch = Watch()
    world = World("cpu", 0, watch)
    lines: list[str] = []
    shape = chance.choice(_SHAPES)
    for number in range(chance.randint(2, 4)):
        constructor = "leaf" if number == 0 or chance.random() < 0.4 else "data"
        drawn_shape = shape if chance.random() < 0.8 else chance.choice(_SHAPES)
        _try(world, f"{'abcd'[number]} = {constructor}{drawn_shape}", lines)
    for number in range(chance.randint(3, 12)):
        line = _line(chance, world, number)
        if not _try(world, line, lines, keep=chance.random() < 0.15):
            return lines
    return [*lines, _last(chance, world)]


def _line(chance: random.Random, world: World, number: int) -> str:
    kinds, weights = zip(*_KINDS, strict=True)
    form = chance.choice(chance.choices(kinds, weights)[0])
    tensors = world.tensors()
    x = chance.choice(list(tensors)[-6:] if chance.random() < 0.6 else list(tensors))
    alike = [name for name, tensor in tensors.items() if tensor.shape == tensors[x].shape]
    operands = {"y": chance.choice(alike), "z": chance.choice(alike)}
    line = form.format(x=x, v=f"v{number}", w=f"w{number}", **operands)
    if form in _VIEWS + _MADE:
        line = f"v{number} = {line}"
    asks = form in _KERNELS and any(_asks(tensors[name]) for name in (x, *operands.values()))
    if chance.random() < (0.7 if asks else 0.15):  # else most programs end with a refusal
        line = f"with {'torch.no_grad()' if asks else chance.choice(_MODES)}: {line}"
    return line


def _try(world: World, line: str, lines: list[str], *, keep: bool = False) -> bool:
    """Run a line. One that raises is left out, or ends the program if ``keep``."""
    try:
        exec(line, world.names)
    except Unusable:
        return True
    except Exception as error:
        if not keep and type(error).__name__ != "Undeclared":
            return True
        lines.append(line)
        return False
    lines.append(line)
    return True


def _asks(tensor: torch.Tensor) -> bool:
    """It requires a gradient; a view that torch does not allow to be used any more does not."""
    try:
        return tensor.requires_grad
    except RuntimeError:
        return False


def _last(chance: random.Random, world: World) -> str:
    tensors = [
        name
        for name, tensor in world.tensors().items()
        if tensor.numel() > 0 and not tensor.is_inference()
    ]
    sample = chance.sample(tensors, min(len(tensors), chance.randint(1, 4)))
    asking = [name for name in tensors if _asks(world.tensors()[name])]
    if asking:
        sample.append(chance.choice(asking))
    return f"total({', '.join(dict.fromkeys(sample))}).backward()"
