"""A random kernel from a seed: tiles of every dtype and memory, views, loops, cores of the language.

A statement is made from the tiles that are there, without asking whether every rule of the
language holds: what the tracer refuses is dropped by the driver, so rules stand in one place.
"""

from __future__ import annotations

import random

from tests.fuzz.drivers.kernels.cores import CORES
from tests.fuzz.drivers.kernels.indirect import INDIRECT
from tests.fuzz.drivers.kernels.maker import NUMBERS, PARTITIONS, Maker, declared, spelled
from tests.fuzz.drivers.kernels.plain import PLAIN_STEPS
from tests.fuzz.drivers.kernels.program import Argument, GeneratedKernel, Statement
from tests.fuzz.drivers.kernels.rare import RARE

__all__ = ["kernel"]

FAMILIES = ((PLAIN_STEPS, 6), (INDIRECT, 2), (RARE, 2))
"""Steps with how often a kernel takes them."""


ZEROS = (0.0, -0.0)
"""Constants that are equal, and not the same."""

RESULTS = ("shared_hbm", "shared_hbm", "hbm", "private_hbm")


def kernel(seed: int) -> GeneratedKernel:
    """The kernel of a seed; the same for the same seed."""
    make = Maker(random.Random(seed), random.Random(seed).choice(("trn1", "trn2", "trn3", "trn3")))
    rows, columns = make.chance.choice(PARTITIONS), make.chance.randrange(1, 24)
    for number in range(make.chance.randrange(1, 4)):
        same = make.chance.random() < 0.6
        shape = (
            (rows, columns)
            if same
            else (make.chance.choice(PARTITIONS), make.chance.randrange(1, 24))
        )
        argument = Argument(f"x{number}", shape, make.dtype())
        make.arguments.append(argument)
        tile = make.like(shape, argument.dtype, "sbuf")
        make.statements.append(Statement(
            (declared(tile), f"nisa.dma_copy({tile.text}, {argument.name})"), (tile.name,), (argument.name,)
        ))  # fmt: skip
        make.tiles.append(tile)
    constants = {}
    if make.chance.random() < 0.5:
        make.constants.append("c0")
        pool = ZEROS if make.chance.random() < 0.15 else NUMBERS
        constants["c0"] = tuple(make.chance.sample(pool, 2))
    families = FAMILIES
    if make.chance.random() < 0.15:
        families = (*FAMILIES, (CORES, 3))
        make.features.add("cores")
        make.target = make.chance.choice(("trn2", "trn3"))
        make.core = "core"
        make.statements.append(Statement(("core = nl.program_id(0)",), ("core",)))
    for _ in range(make.chance.randrange(1, 14)):
        steps, _ = make.chance.choices(families, [often for _, often in families])[0]
        step, _ = make.chance.choices(steps, [weight for _, weight in steps])[0]
        step(make)
    results = _results(make)
    return GeneratedKernel(
        seed, make.target, tuple(make.arguments), tuple(make.statements), results, constants,
        frozenset(make.features),
    )  # fmt: skip


def _results(make: Maker) -> tuple[str, ...]:
    """Some tiles brought to HBM; sometimes an argument is written as well."""
    chosen = make.chance.sample(make.tiles, min(len(make.tiles), make.chance.randrange(1, 4)))
    names = []
    for tile in {candidate.name: candidate for candidate in [*chosen, make.tiles[-1]]}.values():
        out = make.name("o")
        index = ", ".join(f"0:{extent}" for extent in tile.shape)
        shape, core_index = (
            ((2, *tile.shape), f"[core, {index}]") if make.core else (tile.shape, "")
        )
        space = "shared_hbm" if make.core else make.chance.choice(RESULTS)
        dtype = "float32" if tile.dtype == "tfloat32" else tile.dtype
        lines = [f"{out} = nl.ndarray({shape}, {spelled(dtype)}, nl.{space})"]
        source = tile.text
        if tile.memory == "psum":
            source = make.name("s")
            lines += [f"{source} = nl.ndarray({tile.shape}, {tile.kind}, nl.sbuf)",
                      f"nisa.tensor_copy({source}, {tile.text})"]  # fmt: skip
        lines.append(f"nisa.dma_copy({out}{core_index}, {source})")
        make.statements.append(
            Statement(tuple(lines), (out,), (tile.name, *([make.core] if make.core else [])))
        )
        names.append(out)
    for argument in make.arguments:
        fits = [candidate for candidate in make.tiles if candidate.shape == argument.shape
                and candidate.dtype == argument.dtype and candidate.memory == "sbuf"]  # fmt: skip
        if fits and not make.core and make.chance.random() < 0.15:
            make.features.add("writes")
            tile = make.chance.choice(fits)
            make.statements.append(Statement(
                (f"nisa.dma_copy({argument.name}, {tile.text})",), (), (argument.name, tile.name)
            ))  # fmt: skip
    return tuple(names)
