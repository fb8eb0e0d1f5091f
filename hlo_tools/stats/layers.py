"""The layers of a model: scopes as a tree, with forward, backward and recomputed work joined.

JAX names an operation of the backward pass of ``layer3`` ``transpose(jvp(layer3))``, and what
``jax.checkpoint`` computes again is in the scope ``rematted_computation`` (``jax/_src/ad_checkpoint.py``).
Both count for ``layer3`` here, in columns of their own. Scopes that only a loop, a branch, a call or
a transformation makes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from hlo_tools.ir.module import Module
from hlo_tools.stats.call_contexts import CallContexts, divided
from hlo_tools.stats.memory import Memory, memory
from hlo_tools.stats.roofline import Roofline, roofline
from hlo_tools.types.scopes import scope_names

__all__ = ["PASSES", "Layer", "PassCost", "layer_path", "layers", "pass_of"]

PASSES = ("forward", "backward", "recomputed")
"""The passes of a training step, in order."""

_RECOMPUTED = "rematted_computation"
_EMPTY_TRANSFORMATION = re.compile(r"(\w+\()+\)+\Z")
_TRANSFORMED = re.compile(r"(transpose|jvp|vmap|remat\w*)\(")
_STRUCTURE = re.compile(
    rf"(closed_call|core_call|checkpoint|remat2?|{_RECOMPUTED}|custom_[jv]+p_call\w*|shard_map)\Z"
)
"""Scopes that JAX adds for calls and transformations."""
_CONTROL = {"while": re.compile(r"(body|cond)\Z"), "cond": re.compile(r"branch_\d+_fun\Z")}
"""Scopes of loops and branches, and the scopes inside of them."""
_MAX_CACHED_SCOPES = 1 << 14


@dataclass(slots=True)
class PassCost:
    """The work of one pass.

    Attributes:
        flops, bytes: of all runs, as ``stats --roofline`` counts them.
        time: seconds at least on one core.
    """

    flops: int = 0
    bytes: int = 0
    time: float = 0.0

    def add(self, addend: PassCost) -> None:
        """Add a cost to this one."""
        self.flops += addend.flops
        self.bytes += addend.bytes
        self.time += addend.time


@dataclass(slots=True)
class Layer:
    """A scope with everything inside of it.

    Attributes:
        name: the last part of its path; "" for the module.
        path: the names of the scopes from outside in, with slashes: ``--scope`` takes it where
            no loop or call is in between.
        passes: the work of each pass of :data:`PASSES`.
        peak_bytes: bytes of its buffers among those that are alive at the module's memory peak.
        layers: the scopes directly inside, in the order of the module's instructions by time.
    """

    name: str
    path: str
    passes: dict[str, PassCost] = field(
        default_factory=lambda: {name: PassCost() for name in PASSES}
    )
    peak_bytes: int = 0
    layers: dict[str, Layer] = field(default_factory=lambda: dict[str, Layer]())

    @property
    def total(self) -> PassCost:
        """The work of all passes."""
        total = PassCost()
        for cost in self.passes.values():
            total.add(cost)
        return total

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Layer]]:
        """This scope and those inside of it with their depths, the most time first."""
        yield depth, self
        for layer in sorted(
            self.layers.values(), key=lambda layer: (-layer.total.time, layer.name)
        ):
            yield from layer.walk(depth + 1)


def layers(module: Module, target: str, *, depth: int = 3) -> Layer:
    """The tree of a module's scopes; its root is the whole module.

    Args:
        module: the module.
        target: whose rates the times have: ``trn1``, ``trn2`` or ``trn3``.
        depth: deeper scopes count for the one at this depth.

    Raises:
        HloFileError: the module refers to what it does not have (HLO-REFERENCE), or instructions
            depend on each other in a circle (HLO-CYCLE).
    """
    return _tree(module, roofline(module, target), memory(module), depth)


def _tree(module: Module, work_list: Roofline, needed: Memory, depth: int) -> Layer:
    contexts = CallContexts(module)
    root = Layer("", "")
    for work in work_list.work:
        shares = contexts.scopes(work.computation, work.scope)
        for scope, flops, moved in zip(
            shares, divided(work.flops, shares), divided(work.bytes, shares), strict=True
        ):
            cost = PassCost(flops, moved, work.time * shares[scope] / sum(shares.values()))
            for layer in _branch(root, layer_path(scope)[:depth]):
                layer.passes[pass_of(scope)].add(cost)
    for owner in needed.owners:
        paths = [layer_path(scope) for scope in contexts.scopes(owner.computation, owner.scope)]
        for layer in _branch(root, _common_path(paths)[:depth]):
            layer.peak_bytes += owner.size
    return root


def _common_path(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The names with which all paths start: of a buffer's several callers, none is at the peak alone."""
    first, *more_paths = paths
    length = 0
    while length < len(first) and all(
        path[: length + 1] == first[: length + 1] for path in more_paths
    ):
        length += 1
    return first[:length]


def _branch(root: Layer, path: Iterable[str]) -> Iterator[Layer]:
    """The layers from the root to a path; missing ones are made."""
    layer = root
    yield layer
    for name in path:
        inner = layer.layers.get(name)
        if inner is None:
            inner = Layer(name, f"{layer.path}/{name}".lstrip("/"))
            layer.layers[name] = inner
        layer = inner
        yield layer


@lru_cache(maxsize=_MAX_CACHED_SCOPES)
def layer_path(scope: str) -> tuple[str, ...]:
    """The layers that a scope lies in, from outside in.

    ``jit(f)/transpose(jvp(layer3))/jvp(layer3)/checkpoint/mlp`` is in ``f``, ``layer3``, ``mlp``.
    """
    path: list[str] = []
    before, was_transformed = "", False
    for names in scope_names(f"{scope}/operation"):
        written, name = names[0], names[-1]
        is_transformed = _TRANSFORMED.match(written) is not None
        inside = _CONTROL.get(before)
        before = name
        if not name or _EMPTY_TRANSFORMATION.match(name) or _STRUCTURE.match(name):
            continue
        if name in _CONTROL or (inside is not None and inside.match(name)):
            continue
        if is_transformed and was_transformed and path and path[-1] == name:
            continue  # the transposition of a checkpoint repeats the scope around it
        path.append(name)
        was_transformed = is_transformed
    return tuple(path)


@lru_cache(maxsize=_MAX_CACHED_SCOPES)
def pass_of(scope: str) -> str:
    """The pass of :data:`PASSES` that an operation in a scope belongs to."""
    scopes = scope_names(f"{scope}/operation")
    if any(names[-1] == _RECOMPUTED for names in scopes):
        return "recomputed"
    is_transposed = any(name.startswith("transpose(") for names in scopes for name in names)
    return "backward" if is_transposed else "forward"
