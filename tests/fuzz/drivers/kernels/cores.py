"""Two cores of a logical core: each with data of its own, that meet."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.kernels.maker import Maker, declared
from tests.fuzz.drivers.kernels.program import Statement

__all__ = ["CORES"]


def own_number(make: Maker) -> None:
    """Statements that differ between the cores."""
    tile = make.pick(memory="sbuf")
    out = make.like(tile.shape)
    call = make.chance.choice((
        f"nisa.tensor_scalar({out.text}, {tile.text}, nl.add, 1.0 + {make.core})",
        f"nisa.tensor_scalar({out.text}, {tile.text}, nl.multiply, 0.5 if {make.core} else 2.0)",
    ))  # fmt: skip
    make.emit(out, call, tile)


def swapped(make: Maker) -> None:
    """A tile sent to the other core, or back to itself."""
    tile = make.pick(memory="sbuf")
    out = make.like(tile.shape, tile.dtype, "sbuf")
    engine = make.chance.choice(("", ", dma_engine=nisa.dma_engine.gpsimd_dma"))
    make.emit(
        out,
        f"nisa.sendrecv({tile.text}, {out.text}, 1 - {make.core}, 1 - {make.core}, 0{engine})",
        tile,
    )


def exchanged(make: Maker) -> None:
    """By shared memory, with a barrier between writing and reading."""
    tile = make.pick(memory="sbuf", views=False)
    shared, out = make.name("h"), make.like(tile.shape, tile.dtype, "sbuf")
    index = ", ".join(["0:" + str(extent) for extent in tile.shape])
    lines = (
        f"{shared} = nl.ndarray({(2, *tile.shape)}, {tile.kind}, nl.shared_hbm)",
        f"nisa.dma_copy({shared}[{make.core}, {index}], {tile.text})", f"nisa.core_barrier({shared}, (0, 1))",
        declared(out), f"nisa.dma_copy({out.text}, {shared}[1 - {make.core}, {index}])",
    )  # fmt: skip
    make.statements.append(Statement(lines, (out.name,), (tile.name,)))
    make.tiles.append(out)


CORES: tuple[tuple[Callable[[Maker], None], int], ...] = (
    (own_number, 4),
    (swapped, 3),
    (exchanged, 3),
)
"""With weights."""
