"""A random program from a seed, executed while it is made so that operands are what it needs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from tests.fuzz.drivers.oracle.cells import AddressError, StartError
from tests.fuzz.drivers.oracle.maker import Maker
from tests.fuzz.drivers.oracle.program import Access, ByCore, Loop, Program, Step
from tests.fuzz.drivers.oracle.steps import CORES, LOOPED, STEPS

__all__ = ["program"]

_LOOPS = ("dynamic_range", "register", "affine_range", "sequential_range", "static_range")


def program(seed: int) -> Program:
    """The program of a seed; the same for the same seed."""
    chance = random.Random(seed)
    cores = 2 if chance.random() < 0.3 else 1
    target = chance.choice(("trn2", "trn3") if cores == 2 else ("trn1", "trn2", "trn3", "trn3"))
    make = Maker(seed, chance, target, cores)
    for _ in range(chance.randint(1, 3)):
        _loaded(make)
    for _ in range(chance.randint(1, 9)):
        if chance.random() < 0.2:
            _loop(make)
            continue
        table = (*STEPS, *CORES) if cores == 2 else STEPS
        _take(make, table)
    if chance.random() < 0.06:
        _leave(make)
    results = tuple(_result(make) for _ in range(chance.randint(1, 3)))
    return Program(seed, target, cores, make.tensors, tuple(make.body), results)


def _take(make: Maker, table: tuple[tuple[Callable[[Maker], None], int], ...]) -> None:
    step, _ = make.chance.choices(table, [weight for _, weight in table])[0]
    step(make)


def _loaded(make: Maker) -> None:
    """An argument and a tile that it fills, or a part of one."""
    shape, dtype = make.shape(), make.dtype()
    kind = "float32" if dtype == "tfloat32" else dtype
    argument = make.tensor(shape, kind, "argument")
    dst = make.target_of(shape, dtype, memory="sbuf", engine=False, new=True)
    make.emit("dma_copy", {"dst": dst, "src": Access(argument)})


def _loop(make: Maker) -> None:
    """A loop of a few operations, some of which use its counter."""
    make.views.counter = f"i{len(make.body)}"
    make.views.turns = make.chance.randint(1, 4)
    for _ in range(make.chance.randint(1, 3)):
        _take(make, LOOPED)
    counter, iterations = make.views.counter, make.views.turns
    kind = make.chance.choice(_LOOPS)
    loop = Loop(counter, kind, iterations, tuple(make.pending))
    make.pending, make.protected = [], set()
    make.views.counter, make.views.turns = "", 1
    if loop.body:
        make.body.append(loop)
        with contextlib.suppress(StartError, AddressError):
            make.machine.run((loop,))
        make.machine.counters = {}


def _leave(make: Maker) -> None:
    """An access that leaves its partition."""
    names = [tensor.name for tensor in make.tensors.values() if tensor.memory == "sbuf"]
    access = make.views.leaving(make.chance.choice(names))
    if access is None:
        return
    pattern = access.steps[0].arguments[0]
    shape = tuple(count for _, count in pattern)
    dtype = make.tensors[access.tensor].dtype
    dst = Access(make.tensor(shape, dtype, "sbuf"))
    if make.chance.random() < 0.3:
        make.emit_unchecked("memset", {"dst": access}, value=1)
        return
    make.emit_unchecked("tensor_copy", {"dst": dst, "src": access})


def _result(make: Maker) -> str:
    """Some elements brought to HBM, mostly written ones."""
    source = make.source(memories=("sbuf", "sbuf", "psum", "hbm"), engine=False)
    assert source is not None, "every program has tiles"
    access, region = source
    if make.tensors[access.tensor].memory == "psum":
        access, region = Access(access.tensor), make.views.regions(Access(access.tensor))[0]
        copy = Access(make.tensor(region.shape, make.tensors[access.tensor].dtype, "sbuf"))
        make.emit("tensor_copy", {"dst": copy, "src": access})
        access = copy
    dtype = make.tensors[access.tensor].dtype
    kind = "float32" if dtype == "tfloat32" else dtype
    if make.cores == 1:
        name = make.tensor(region.shape, kind, "shared")
        make.emit("dma_copy", {"dst": Access(name), "src": access})
        return name
    name = make.tensor((2, *region.shape), kind, "shared")
    entries = (("at", ByCore((0, 1))), *(("slice", 0, extent) for extent in region.shape))
    make.emit("dma_copy", {"dst": Access(name, (Step("index", entries),)), "src": access})
    return name
