"""Instructions whose places run time gives: gathers, scatters, registers, loops of the device."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.kernels.maker import FLOATS, Maker, Tile, declared
from tests.fuzz.drivers.kernels.program import Argument, Statement

__all__ = ["INDIRECT"]


def index_tile(make: Maker, shape: tuple[int, int], dtype: str, limit: int) -> Tile:
    """A tile of indices below a limit, from an argument of its own."""
    name = f"a{len(make.arguments)}"
    make.arguments.append(Argument(name, shape, dtype, (0, limit)))
    tile = Tile(make.name("n"), "", shape, dtype, "sbuf")
    tile = Tile(tile.text, tile.text, shape, dtype, "sbuf")
    make.statements.append(
        Statement((declared(tile), f"nisa.dma_copy({tile.text}, {name})"), (tile.name,), (name,))
    )
    return tile


def register(make: Maker, limit: int) -> tuple[str, tuple[str, ...]]:
    """A register below a limit: a number, a sum, or an element that is loaded; and what it needs."""
    name = make.name("r")
    kind = make.chance.choice(("number", "loaded", "loaded", "sum", "hbm"))
    start = make.chance.randrange(limit)
    uses: tuple[str, ...] = ()
    if kind == "number":
        lines = (f"{name} = nisa.register_alloc({start})",)
    elif kind == "sum":
        lines = (
            f"{name} = nisa.register_alloc()",
            f"nisa.register_move({name}, {start // 2})",
            f"{name} = {name} + {start - start // 2}",
        )
    else:
        tile = index_tile(make, (1, 3), make.chance.choice(("int32", "uint16", "int8")), limit)
        location = make.chance.randrange(3)
        source, uses = tile.text, (tile.name,)
        if kind == "hbm":
            source = make.arguments[-1].name
            uses = (source,)
        lines = (
            f"{name} = nisa.register_alloc()",
            f"nisa.register_load({name}, {source}[0:1, {location}:{location + 1}])",
        )
    make.statements.append(Statement(lines, (name,), uses))
    return name, (name,)


def _flat(make: Maker) -> Tile | None:
    tile = make.pick(memory="sbuf", views=False)
    return tile if len(tile.shape) == 2 and tile.memory == "sbuf" else None


def _to_hbm(make: Maker, tile: Tile) -> str:
    """A tensor in HBM that holds a tile."""
    name = make.name("h")
    space = make.scratch()
    make.statements.append(Statement(
        (f"{name} = nl.ndarray({tile.shape}, {tile.kind}, nl.{space})", f"nisa.dma_copy({name}, {tile.text})"),
        (name,), (tile.name,),
    ))  # fmt: skip
    return name


def dma_gather(make: Maker) -> None:
    """Rows of HBM by a column of indices, read or written."""
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    count = make.chance.randrange(2, rows + 1) if rows > 1 else 2
    index = index_tile(make, (count, 1), make.chance.choice(("int32", "uint32")), rows)
    source = _to_hbm(make, tile)
    out = make.like((count, columns), tile.dtype, "sbuf")
    view = make.chance.choice((
        f"{source}.ap([[{columns}, {count}], [1, {columns}]], vector_offset={index.text})",
        f"{source}.ap([[{columns}, {count}], [1, {columns}]], vector_offset={index.text}, indirect_dim=0)",
        f"{source}.vector_select(0, {index.text})",
    ))  # fmt: skip
    make.statements.append(Statement(
        (declared(out), f"nisa.dma_copy({out.text}, {view})"), (out.name,), (source, index.name)
    ))  # fmt: skip
    make.tiles.append(out)


def dma_scatter(make: Maker) -> None:
    """One row of HBM after another written where the indices say."""
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    index = index_tile(make, (rows, 1), "int32", rows)
    target = _to_hbm(make, tile)
    out = make.like(tile.shape, tile.dtype, "sbuf")
    call = make.chance.choice((
        f"nisa.dma_copy({target}.ap([[{columns}, {rows}], [1, {columns}]], vector_offset={index.text}), {tile.text})",
        f"nisa.dma_copy({target}.vector_select(0, {index.text}), {tile.text}, oob_mode=nisa.oob_mode.skip)",
    ))  # fmt: skip
    make.statements.append(Statement(
        (declared(out), call, f"nisa.dma_copy({out.text}, {target})"), (out.name,), (target, index.name, tile.name)
    ))  # fmt: skip
    make.tiles.append(out)


def at_register(make: Maker) -> None:
    """A row or column where a register says, of HBM or SBUF, read or written."""
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    along = make.chance.random() < 0.5
    location, needs = register(make, columns if along else rows)
    source = _to_hbm(make, tile)
    if along:
        out = make.like((rows, 1), tile.dtype, "sbuf")
        view = make.chance.choice((
            f"{tile.text}.ap([[{columns}, {rows}], [1, 1]], scalar_offset={location}, indirect_dim=1)",
            f"{source}[:, nl.ds({location}, 1)]", f"{tile.text}[:, nl.ds({location}, 1)]", f"{tile.text}.select(1, {location})",
            f"{tile.text}[:, {location}]",
        ))  # fmt: skip
        copy = (
            "nisa.dma_copy"
            if view.startswith(source)
            else make.chance.choice(("nisa.dma_copy", "nisa.tensor_copy"))
        )
    else:
        out = make.like((1, columns), tile.dtype, "sbuf")
        view = make.chance.choice((
            f"{source}.ap([[{columns}, 1], [1, {columns}]], scalar_offset={location})", f"{source}[nl.ds({location}, 1)]",
            f"{source}[nl.ds({location}, 1), :]",
        ))  # fmt: skip
        copy = "nisa.dma_copy"
    make.statements.append(Statement(
        (declared(out), f"{copy}({out.text}, {view})"), (out.name,), (source, tile.name, *needs)
    ))  # fmt: skip
    make.tiles.append(out)


def written_at_register(make: Maker) -> None:
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    location, needs = register(make, columns)
    out = make.like(tile.shape, tile.dtype, "sbuf")
    target = make.chance.choice(
        (
            f"{out.text}[:, nl.ds({location}, 1)]",
            f"{out.text}[:, {location}:{location} + 1]",
            f"{out.text}.ap([[{columns}, {rows}], [1, 1]], scalar_offset={location}, indirect_dim=1)",
        )
    )
    call = make.chance.choice((
        f"nisa.tensor_copy({target}, {tile.text}[:, 0:1])",
        f"nisa.tensor_scalar({target}, {tile.text}[:, 0:1], nl.multiply, 2.0)", f"nisa.memset({target}, 3)",
    ))  # fmt: skip
    lines = (declared(out), f"nisa.tensor_copy({out.text}, {tile.text})", call)
    make.statements.append(Statement(lines, (out.name,), (tile.name, *needs)))
    make.tiles.append(out)


def register_result(make: Maker) -> None:
    """A register's value, perhaps after arithmetic, as a tile."""
    location, needs = register(make, 9)
    out = make.like((1, 1), make.chance.choice(("int32", "int16", "uint8")), "sbuf")
    text = make.chance.choice((location, f"{location} * 3", f"{location} - 2", f"({location} + 5) // 2", f"{location} % 4",
                               f"({location} < 3)", f"{location} << 1"))  # fmt: skip
    make.statements.append(Statement(
        (declared(out), f"nisa.register_store({out.text}, {text})"), (out.name,), needs
    ))  # fmt: skip
    make.tiles.append(out)


def device_loop(make: Maker) -> None:
    """A loop with a bound of run time, that reads and writes where its counter says."""
    tile = _flat(make)
    if tile is None:
        return
    columns = tile.shape[1]
    bound, needs = register(make, min(columns, 5))
    index = make.name("k")
    out = make.like(tile.shape, tile.dtype, "sbuf")
    column, first = f"[:, nl.ds({index}, 1)]", f"{tile.text}[:, 0:1]"
    body = [
        f"nisa.tensor_copy({out.text}{column}, {first})", f"nisa.tensor_scalar({out.text}, {out.text}, nl.add, 1.0)",
        f"nisa.tensor_tensor({out.text}{column}, {out.text}{column}, {first}, nl.add)",
        f"nisa.tensor_tensor({out.text}, {out.text}, {tile.text}, nl.maximum)",
        f"nisa.tensor_scalar({out.text}{column}, {tile.text}{column}, nl.multiply, 0.5)",
    ]  # fmt: skip
    header = make.chance.choice((
        f"for {index} in nl.dynamic_range({bound}):", f"for {index} in nl.dynamic_range({min(columns, 3)}):",
        f"for {index} in nl.dynamic_range(0, {bound}, 2):", f"for {index} in nl.dynamic_range(1, {bound}):",
    ))  # fmt: skip
    inner = tuple(
        Statement((line,), (), (out.name, tile.name))
        for line in make.chance.sample(body, make.chance.randrange(1, 4))
    )
    make.statements.append(Statement(
        (declared(out), f"nisa.tensor_copy({out.text}, {tile.text})"), (out.name,), (tile.name,)
    ))  # fmt: skip
    make.statements.append(Statement((header,), (), (out.name, *needs), inner))
    make.tiles.append(out)


def nested_loops(make: Maker) -> None:
    """Two loops, one of them perhaps static, around PSUM that accumulates."""
    left = make.pick(dtypes=("float32", "bfloat16", "float16"), memory="sbuf", views=False)
    if len(left.shape) != 2 or left.dtype not in FLOATS or left.memory != "sbuf":
        return
    bound, needs = register(make, 4)
    out = make.like((left.shape[1], left.shape[1]), "float32", "psum")
    outer, inner = make.name("k"), make.name("k")
    loops = make.chance.choice((
        (f"for {outer} in range(2):", f"for {inner} in nl.dynamic_range({bound}):"),
        (f"for {outer} in nl.dynamic_range({bound}):", f"for {inner} in nl.affine_range(2):"),
        (f"for {outer} in nl.dynamic_range(2):", f"for {inner} in nl.dynamic_range({bound}):"),
    ))  # fmt: skip
    manner = make.chance.choice(("", ", accumulate=True", ", accumulate=False"))
    call = f"nisa.nc_matmul({out.text}, {left.text}, {left.text}{manner})"
    lines = (
        declared(out),
        f"nisa.memset({out.text}, 0.0)",
        loops[0],
        "    " + loops[1],
        "        " + call,
    )
    make.statements.append(Statement(lines, (out.name,), (left.name, *needs)))
    make.tiles.append(out)


def while_register(make: Maker) -> None:
    """A loop as long as a register, which a tile counts down, is not zero."""
    tile = make.pick(dtypes=FLOATS, memory="sbuf", views=False)
    if tile.memory != "sbuf":
        return
    left = index_tile(make, (1, 1), "int32", 5)
    count = make.name("r")
    out = make.like(tile.shape, tile.dtype, "sbuf")
    iteration = (
        f"nisa.tensor_scalar({out.text}, {out.text}, nl.multiply, 0.5)",
        f"nisa.tensor_scalar({left.text}, {left.text}, nl.subtract, 1)",
        f"nisa.register_load({count}, {left.text})",
    )
    lines = (
        declared(out), f"nisa.tensor_copy({out.text}, {tile.text})", f"{count} = nisa.register_alloc()",
        f"nisa.register_load({count}, {left.text})", f"while {count}:", *("    " + line for line in iteration),
    )  # fmt: skip
    make.statements.append(Statement(lines, (out.name,), (tile.name, left.name)))
    make.tiles.append(out)


def gathers(make: Maker) -> None:
    """local_gather and nc_n_gather."""
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    if rows % 16 == 0 and make.chance.random() < 0.5:
        width = make.chance.choice([size for size in (1, 2, 4) if columns >= size])
        index = index_tile(
            make, (rows, make.chance.randrange(1, 3)), "uint16", max(columns // width, 1)
        )
        out = make.like((rows, 16 * index.shape[1] * width), tile.dtype, "sbuf")
        call = f"nisa.local_gather({out.text}, {tile.text}, {index.text}, {width})"
    else:
        index = index_tile(make, (rows, make.chance.randrange(1, 8)), "uint32", columns)
        out = make.like(index.shape, tile.dtype, "sbuf")
        call = f"nisa.nc_n_gather({out.text}, {tile.text}, {index.text})"
    make.emit(out, call, tile, index)


def indirect_view(make: Maker) -> None:
    """`.indirect`, of trn3."""
    tile = _flat(make)
    if tile is None:
        return
    rows, columns = tile.shape
    width = make.chance.randrange(1, columns + 1)
    index = index_tile(make, (rows, 1), "uint16", columns - width + 1)
    out = make.like((rows, width), tile.dtype, "sbuf")
    make.emit(
        out,
        f"nisa.tensor_copy({out.text}, {tile.text}.indirect({index.text}, {width}))",
        tile,
        index,
    )


INDIRECT: tuple[tuple[Callable[[Maker], None], int], ...] = (
    (dma_gather, 2), (dma_scatter, 2), (at_register, 3), (written_at_register, 2), (register_result, 1),
    (device_loop, 3), (nested_loops, 1), (while_register, 1), (gathers, 2), (indirect_view, 1),
)  # fmt: skip
"""With weights."""
