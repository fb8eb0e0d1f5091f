"""The rest of the instruction table: transposes by DMA, selections, random numbers, block formats."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.kernels.indirect import index_tile
from tests.fuzz.drivers.kernels.maker import FLOATS, INTEGERS, Maker, Tile, declared, operator
from tests.fuzz.drivers.kernels.program import Argument, Statement

__all__ = ["RARE"]

COMPARED = ("equal", "greater", "greater_equal", "less", "less_equal")
ACTIVATED = ("exp", "tanh", "relu", "copy", "square", "sigmoid", "gelu")


def _both(make: Maker, out: Tile, beside: Tile, call: str, *read: Tile) -> None:
    """A statement that writes two tiles."""
    uses = {operand.name for operand in read} | {
        constant for constant in make.constants if constant in call
    }
    make.statements.append(Statement(
        (declared(out), declared(beside), call), (out.name, beside.name), tuple(sorted(uses))
    ))  # fmt: skip
    make.tiles += [out, beside]


def dma_transpose(make: Maker) -> None:
    tile = make.pick(memory="sbuf", views=False)
    if len(tile.shape) != 2:
        return
    hbm = make.name("h")
    out = make.like(tile.shape[::-1], tile.dtype, "sbuf")
    make.emit(out, f"nisa.dma_transpose({out.text}, {hbm})", tile,
              extra=(f"{hbm} = nl.ndarray({tile.shape}, {tile.kind}, nl.hbm)", f"nisa.dma_copy({hbm}, {tile.text})"))  # fmt: skip


def dma_compute(make: Maker) -> None:
    tile = make.pick(dtypes=FLOATS, memory="sbuf", views=False)
    partner = make.partner(tile)
    out = make.like(tile.shape, memory="sbuf")
    make.emit(
        out,
        f"nisa.dma_compute({out.text}, [{tile.text}, {partner.text}, {tile.text}], nl.add)",
        tile,
        partner,
    )


def reciprocal(make: Maker) -> None:
    tile = make.pick()
    out = make.like(tile.shape)
    make.emit(out, f"nisa.reciprocal({out.text}, {tile.text})", tile)


def exponential(make: Maker) -> None:
    tile = make.pick(dtypes=FLOATS)
    out = make.like(tile.shape, make.chance.choice(("float32", "bfloat16", "float16")))
    number, used = make.number(tile.shape)
    if make.chance.random() < 0.5:
        make.emit(out, f"nisa.exponential({out.text}, {tile.text}, {number})", tile, *used)
        return
    beside = make.like((tile.shape[0], 1), "float32", "sbuf")
    command = make.chance.choice(("reset_reduce", "load_reduce"))
    call = f"nisa.exponential({out.text}, {tile.text}, {number}, {beside.text}, nisa.reduce_cmd.{command}, 0.5)"
    _both(make, out, beside, call, tile, *used)


def activate2(make: Maker) -> None:
    tile = make.pick(dtypes=FLOATS)
    out = make.like(tile.shape)
    (scale, used), (bias, more) = make.number(tile.shape), make.number(tile.shape)
    ops = make.chance.choice(("nl.multiply, nl.add", "nl.add, nl.multiply", "nl.subtract, None"))
    name = make.chance.choice(ACTIVATED)
    make.emit(
        out,
        f"nisa.activate2({out.text}, nl.{name}, {tile.text}, {scale}, {bias}, {ops})",
        tile,
        *used,
        *more,
    )


def commanded(make: Maker) -> None:
    """activation with its accumulator."""
    tile = make.pick(dtypes=FLOATS)
    out, beside = make.like(tile.shape), make.like((tile.shape[0], 1), "float32", "sbuf")
    name, command = (
        make.chance.choice(ACTIVATED),
        make.chance.choice(("reset_reduce", "reset_reduce", "reduce")),
    )
    call = (f"nisa.activation({out.text}, nl.{name}, {tile.text}, reduce_op=nl.add, reduce_res={beside.text},"
            f" reduce_cmd=nisa.reduce_cmd.{command})")  # fmt: skip
    _both(make, out, beside, call, tile)


def cumulative(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "bfloat16", "float16", "int16", "uint8"))
    out = make.like(tile.shape, make.chance.choice(("float32", "bfloat16")))
    number, used = make.number(tile.shape)
    second = make.chance.choice(("add", "subtract", "multiply", "maximum", "minimum"))
    command = make.chance.choice((", 0.5, nisa.reduce_cmd.load_reduce", ""))
    call = f"nisa.tensor_scalar_cumulative({out.text}, {tile.text}, {operator(make, tile)}, nl.{second}, {number}{command})"
    make.emit(out, call, tile, *used)


def range_select(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "bfloat16"))
    rows = tile.shape[0]
    low, high = (index_tile(make, (rows, 1), "float32", limit) for limit in (4, 20))
    out, beside = make.like(tile.shape, "float32"), make.like((rows, 1), "float32", "sbuf")
    ops = f"nl.{make.chance.choice(COMPARED)}, nl.{make.chance.choice(COMPARED)}"
    call = (f"nisa.range_select({out.text}, {tile.text}, {ops}, {low.text}, {high.text},"
            f" reduce_res={beside.text}, range_start={make.chance.randrange(3)})")  # fmt: skip
    _both(make, out, beside, call, tile, low, high)


def select_reduce(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "bfloat16", "float16"))
    masks = [
        candidate
        for candidate in make.tiles
        if candidate.shape == tile.shape and candidate.dtype in ("uint8", "int8", "uint16", "int16")
    ]
    if not masks:
        return
    mask = make.chance.choice(masks)
    out, beside = (
        make.like(tile.shape, make.chance.choice(("float32", tile.dtype))),
        make.like((tile.shape[0], 1), "float32", "sbuf"),
    )
    call = f"nisa.select_reduce({out.text}, {mask.text}, {tile.text}, {make.chance.choice(('0.5', '-1.0'))}"
    if make.chance.random() < 0.5:
        make.emit(out, call + f", reverse_pred={make.chance.random() < 0.5})", mask, tile)
    else:
        _both(
            make, out, beside, f"{call}, {beside.text}, nisa.reduce_cmd.reset_reduce)", mask, tile
        )


def statistics(make: Maker) -> None:
    """Means and variances of parts put together."""
    tile = make.pick(dtypes=("float32", "bfloat16"))
    if len(tile.shape) != 2:
        return
    parts, out = (
        make.like((tile.shape[0], 6), "float32", "sbuf"),
        make.like((tile.shape[0], 2), "float32", "sbuf"),
    )
    make.emit(out, f"nisa.bn_aggr({out.text}, {parts.text})", tile,
              extra=(declared(parts), f"nisa.bn_stats({parts.text}, {tile.text})"))  # fmt: skip


def found(make: Maker) -> None:
    """The eight largest, where they are, and others in their place."""
    tile = make.pick(dtypes=("float32", "bfloat16"), views=False)
    if len(tile.shape) != 2 or tile.shape[1] < 8:
        return
    top, location = (
        make.like((tile.shape[0], 8), tile.dtype, "sbuf"),
        make.like((tile.shape[0], 8), "uint32", "sbuf"),
    )
    replaced = make.like(tile.shape, tile.dtype, "sbuf")
    call = make.chance.choice((
        (location, f"nisa.nc_find_index8({location.text}, {tile.text}, {top.text})"),
        (replaced, f"nisa.nc_match_replace8({replaced.text}, {tile.text}, {top.text}, -5.0)"),
    ))  # fmt: skip
    make.emit(call[0], call[1], tile, extra=(declared(top), f"nisa.max8({top.text}, {tile.text})"))


def nonzero(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "int32"), memory="sbuf")
    if len(tile.shape) != 2:
        return
    rows, columns = tile.shape
    out = make.like((rows, columns + 1), "int32", "sbuf")
    make.emit(out, f"nisa.nonzero_with_count({out.text}, {tile.text}, {make.chance.randrange(3)}, -1)", tile,
              extra=(f"nisa.memset({out.text}, -9)",))  # fmt: skip


def topk(make: Maker) -> None:
    tile = make.pick(dtypes=("bfloat16",), memory="sbuf", views=False)
    if tile.dtype != "bfloat16" or len(tile.shape) != 2 or tile.shape[0] != 16:
        return
    n = make.chance.randrange(1, 16 * tile.shape[1] + 1)
    k = min(n, 8)
    out, location = make.like((16, k), "bfloat16", "sbuf"), make.like((16, k), "uint32", "sbuf")
    _both(make, out, location, f"nisa.topk({out.text}, {location.text}, {tile.text}, {n})", tile)


def sequence_bounds(make: Maker) -> None:
    ids = index_tile(
        make, (1, make.chance.randrange(1, 12)), make.chance.choice(("int32", "float32")), 4
    )
    out = make.like((1, 2, ids.shape[1]), ids.dtype, "sbuf")
    make.emit(out, f"nisa.sequence_bounds({out.text}, {ids.text})", ids)


def random_numbers(make: Maker) -> None:
    """Seeded at first; later ones go on from where the generators are."""
    lines: list[str] = []
    uses: tuple[str, ...] = ()
    if "seeded" not in make.features or make.chance.random() < 0.3:
        make.features.add("seeded")
        seed = index_tile(make, (1, 1), "int32", 1000)
        lines, uses = [f"nisa.set_rng_seed({seed.text})"], (seed.name,)
    out = make.like(
        (make.chance.choice((1, 4, 33)), make.chance.randrange(1, 9)),
        make.chance.choice(INTEGERS),
        "sbuf",
    )
    call = f"nisa.rng({out.text})"
    if make.chance.random() < 0.4:
        out = make.like(out.shape, make.chance.choice(("float32", "bfloat16")), "sbuf")
        call = f"nisa.rand2({out.text}, -1.0, 2.0)"
    elif make.chance.random() < 0.5:
        tile = make.pick(dtypes=FLOATS)
        out = make.like(tile.shape, tile.dtype)
        call, uses = (
            f"nisa.dropout({out.text}, {tile.text}, {make.chance.choice(('0.0', '0.4', '1.0'))})",
            (*uses, tile.name),
        )
    make.statements.append(Statement((declared(out), *lines, call), (out.name,), uses))
    make.tiles.append(out)


def random_state(make: Maker) -> None:
    """A state is set, numbers are drawn, and the state after that is read."""
    name = f"x{len(make.arguments)}"
    engine, words = make.chance.choice((("gpsimd", 6), ("vector", 24)))
    make.arguments.append(Argument(name, (4, words), "uint32"))
    drawn, out = make.like((4, 5), "uint32", "sbuf"), make.like((4, words), "uint32", "sbuf")
    on = f"engine=nisa.engine.{engine}"
    seeds = make.name("n")
    lines = (
        f"{seeds} = nl.ndarray((4, {words}), nl.uint32, nl.sbuf)", f"nisa.dma_copy({seeds}, {name})",
        f"nisa.rand_set_state({seeds}, {on})", declared(drawn), f"nisa.rng({drawn.text}, {on})", declared(out),
        f"nisa.rand_get_state({out.text}, {on})",
    )  # fmt: skip
    make.statements.append(Statement(lines, (drawn.name, out.name), (name,)))
    make.tiles += [drawn, out]


def _given(make: Maker, shape: tuple[int, int]) -> Tile:
    """A tile of bfloat16 from an argument of its own."""
    argument = Argument(f"x{len(make.arguments)}", shape, "bfloat16")
    make.arguments.append(argument)
    tile = make.like(shape, "bfloat16", "sbuf")
    make.statements.append(Statement(
        (declared(tile), f"nisa.dma_copy({tile.text}, {argument.name})"), (tile.name,), (argument.name,)
    ))  # fmt: skip
    make.tiles.append(tile)
    return tile


def quantized(make: Maker) -> None:
    """A tile in a block format; its packed elements and scales as integers."""
    tile = make.pick(dtypes=("bfloat16", "float16"), memory="sbuf", views=False)
    if tile.dtype not in ("bfloat16", "float16") or tile.shape[0] % 32 or tile.shape[1] < 4:
        tile = _given(make, (make.chance.choice((32, 64, 128)), 4 * make.chance.randrange(1, 4)))
    if len(tile.shape) != 2:
        return
    rows, columns = tile.shape[0], tile.shape[1] // 4
    kind = make.chance.choice(("float8_e5m2_x4", "float8_e4m3fn_x4"))
    packed, scale = make.name("p"), make.name("e")
    out, scales = (
        make.like((rows, columns), "uint32", "sbuf"),
        make.like((rows, columns), "uint8", "sbuf"),
    )
    lines = (
        f"{packed} = nl.ndarray({(rows, columns)}, nl.{kind}, nl.sbuf)", declared(scales),
        f"nisa.memset({scales.text}, 0)", f"{scale} = {scales.text}",
        f"nisa.quantize_mx({packed}, {tile.text}[:, 0:{4 * columns}], {scale}[0:{rows // 8}])"
        if rows == 32 else f"nisa.quantize_mx({packed}, {tile.text}[:, 0:{4 * columns}], {scale})",
        declared(out), f"nisa.tensor_copy({out.text}, {packed}.view(nl.uint32))",
    )  # fmt: skip
    make.statements.append(Statement(lines, (packed, scale, out.name, scales.name), (tile.name,)))
    make.tiles += [out, scales]
    make.packed.append(Tile(packed, scale, (rows, columns), kind, "sbuf"))


def block_product(make: Maker) -> None:
    """A product of two tiles in a block format."""
    if not make.packed:
        quantized(make)
    if not make.packed:
        return
    left = make.chance.choice(make.packed)
    right = make.chance.choice(
        [candidate for candidate in make.packed if candidate.shape[0] == left.shape[0]]
    )
    out = make.like(
        (left.shape[1], right.shape[1]), make.chance.choice(("float32", "bfloat16")), "psum"
    )
    scale_rows = "[0:4]" if left.shape[0] == 32 else ""
    call = f"nisa.nc_matmul_mx({out.text}, {left.text}, {right.text}, {left.name}{scale_rows}, {right.name}{scale_rows})"
    make.statements.append(Statement(
        (declared(out), call), (out.name,), (left.text, left.name, right.text, right.name)
    ))  # fmt: skip
    make.tiles.append(out)


def printed(make: Maker) -> None:
    tile = make.pick(memory="sbuf")
    make.statements.append(Statement((f'nl.device_print("t", {tile.text})',), (), (tile.name,)))


RARE: tuple[tuple[Callable[[Maker], None], int], ...] = (
    (dma_transpose, 1), (dma_compute, 1), (reciprocal, 1), (exponential, 1), (activate2, 1), (commanded, 1),
    (cumulative, 1), (range_select, 1), (select_reduce, 1), (statistics, 1), (found, 1), (nonzero, 1), (topk, 1),
    (sequence_bounds, 1), (random_numbers, 1), (random_state, 1), (quantized, 2), (block_product, 2),
)  # fmt: skip
"""With weights."""
