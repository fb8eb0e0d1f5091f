"""How many devices a module is for, and what it is given on them."""

from __future__ import annotations

import re
from typing import Any

import hlo_tools
from hlo_tools import Module, schema
from hlo_tools.evaluate.arguments import random_inputs

__all__ = ["devices_of", "inputs_on", "manually_sharded"]

MAX_DEVICES = 8


def devices_of(text: str | None) -> list[tuple[int, int]]:
    """Numbers of (replicas, partitions) that may be meant: what the text says, then any up to eight."""
    header = (text or "").partition("\n\n")[0]
    words = (re.search(rf"{word}=(\d+)", header) for word in ("replica_count", "num_partitions"))
    replicas, partitions = (int(match[1]) if match else 1 for match in words)
    pairs = [
        (r, p)
        for r in range(1, MAX_DEVICES + 1)
        for p in range(1, MAX_DEVICES // r + 1)
        if r * p > 1
    ]
    return [pair for pair in [(replicas, partitions)] if pair in pairs] + pairs


def inputs_on(module: Module, count: int, seed: int) -> list[list[Any]]:
    """Random inputs for each device."""
    return [random_inputs(module, seed + number) for number in range(count)]


def manually_sharded(module: Module) -> Module:
    """A copy of which XLA partitions nothing."""
    copy = hlo_tools.load(module.module_bytes())
    for body in copy.proto.computations:
        for row in body.instructions:
            row.ClearField("sharding")
            row.sharding.type = schema.OpSharding.MANUAL
    return copy
