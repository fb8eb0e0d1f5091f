"""The instructions that most kernels are made of."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.kernels.maker import (
    FLOATS,
    NUMBERS,
    PARTITIONS,
    Maker,
    Tile,
    declared,
    operator,
)
from tests.fuzz.drivers.kernels.program import Statement

__all__ = ["PLAIN_STEPS"]

ACTIVATIONS = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_apprx_tanh", "silu",
    "softplus", "erf", "square", "abs", "sign", "sin", "arctan", "reciprocal", "copy", "mish",
)  # fmt: skip


def tensor_tensor(make: Maker) -> None:
    left = make.pick()
    right = make.partner(left)
    out = make.like(left.shape)
    make.emit(
        out,
        f"nisa.tensor_tensor({out.text}, {left.text}, {right.text}, {operator(make, left)})",
        left,
        right,
    )


def tensor_scalar(make: Maker) -> None:
    tile = make.pick()
    out = make.like(tile.shape)
    first, used = make.number(tile.shape)
    call = f"nisa.tensor_scalar({out.text}, {tile.text}, {operator(make, tile)}, {first}"
    if make.chance.random() < 0.3:
        call += ", reverse0=True"
    if make.chance.random() < 0.4:
        second, more = make.number(tile.shape)
        used += more
        call += f", op1={operator(make, tile)}, operand1={second}"
    make.emit(out, call + ")", tile, *used)


def scalar_tensor_tensor(make: Maker) -> None:
    tile = make.pick(dtypes=FLOATS)
    partner = make.partner(tile)
    out = make.like(tile.shape)
    number, used = make.number(tile.shape)
    ops = f"{operator(make, tile)}, {number}, {operator(make, tile)}"
    make.emit(
        out,
        f"nisa.scalar_tensor_tensor({out.text}, {tile.text}, {ops}, {partner.text})",
        tile,
        partner,
        *used,
    )


def activation(make: Maker) -> None:
    tile = make.pick()
    out = make.like(tile.shape)
    call = f"nisa.activation({out.text}, nl.{make.chance.choice(ACTIVATIONS)}, {tile.text}"
    used: list[Tile] = []
    if make.chance.random() < 0.5:
        scale, used = make.number(tile.shape)
        call += f", scale={scale}"
    if make.chance.random() < 0.3:
        bias, more = make.number(tile.shape)
        used = used + more
        call += f", bias={bias}"
    make.emit(out, call + ")", tile, *used)


def tensor_copy(make: Maker) -> None:
    tile = make.pick()
    out = make.like(tile.shape)
    engine = make.chance.choice(
        ("", "", ", engine=nisa.engine.scalar", ", engine=nisa.engine.gpsimd")
    )
    make.emit(out, f"nisa.tensor_copy({out.text}, {tile.text}{engine})", tile)


def rounded_view(make: Maker) -> None:
    """Through a view of another dtype of the same size."""
    pairs = {"float32": ("tfloat32", "int32", "uint32"), "int32": ("float32", "uint32"),
             "bfloat16": ("uint16", "float16"), "uint16": ("bfloat16", "int16"),
             "uint8": ("int8", "float8_e4m3")}  # fmt: skip
    tile = make.pick(dtypes=tuple(pairs), views=False)
    if tile.dtype not in pairs:
        return
    if tile.dtype == "float32" and make.chance.random() < 0.4:  # into a tile that rounds
        out = make.like(tile.shape, "tfloat32", "sbuf")
        source = make.chance.choice((f"{tile.text}.view(nl.tfloat32)", tile.text))
        make.emit(out, f"nisa.tensor_copy({out.text}, {source})", tile)
        return
    kind = make.chance.choice(pairs[tile.dtype])
    out = make.like(tile.shape, tile.dtype if make.chance.random() < 0.5 else "")
    target, source = out.text, f"{tile.text}.view(nl.{kind})"
    if out.dtype == tile.dtype and make.chance.random() < 0.6:  # written through it
        target, source = f"{out.text}.view(nl.{kind})", make.chance.choice((tile.text, source))
    make.emit(out, f"nisa.tensor_copy({target}, {source})", tile)


def partly(make: Maker) -> None:
    """A part of a tile is written again, after all of it."""
    tile = make.pick(views=False)
    view = make.view(tile)
    if ".ap(" in view.text or "reshape" in view.text:
        return
    partner = make.partner(view)
    copy = make.like(tile.shape, tile.dtype)
    target = view.text.replace(tile.name, copy.name, 1)
    make.emit(
        copy, f"nisa.tensor_copy({target}, {partner.text})", tile, partner,
        extra=(f"nisa.tensor_copy({copy.text}, {tile.text})",),
    )  # fmt: skip


def rewritten(make: Maker) -> None:
    """An argument is written, and another one, perhaps the same array, read after that."""
    kinds = [
        (argument.shape, argument.dtype) for argument in make.arguments if argument.limits is None
    ]
    twice = [
        argument for argument in make.arguments if kinds.count((argument.shape, argument.dtype)) > 1
    ]
    if len(twice) < 2 or make.core:
        return
    first, second = make.chance.sample(twice, 2)
    fits = [
        t
        for t in make.tiles
        if t.shape == first.shape and t.dtype == first.dtype and t.memory == "sbuf"
    ]
    if not fits or second.shape != first.shape or second.dtype != first.dtype:
        return
    tile, out = make.chance.choice(fits), make.like(first.shape, first.dtype, "sbuf")
    lines = (
        f"nisa.dma_copy({first.name}, {tile.text})",
        declared(out),
        f"nisa.dma_copy({out.text}, {second.name})",
    )
    make.statements.append(Statement(lines, (out.name,), (first.name, second.name, tile.name)))
    make.tiles.append(out)


def half_written(make: Maker) -> None:
    """Some columns are written; the others read as NaN, integers as a pattern, in every way."""
    columns = make.chance.randrange(2, 12)
    out = make.like((make.chance.choice(PARTITIONS), columns))
    width = make.chance.randrange(1, columns)
    make.emit(out, f"nisa.memset({out.text}[:, 0:{width}], 1)")


def memset(make: Maker) -> None:
    shape = (make.chance.choice(PARTITIONS), make.chance.randrange(1, 20))
    out = make.like(shape)
    number = make.chance.choice(NUMBERS) if out.dtype in FLOATS else make.chance.randrange(100)
    make.emit(out, f"nisa.memset({out.text}, {number})")


def iota(make: Maker) -> None:
    columns = make.chance.randrange(1, 20)
    out = make.like((make.chance.choice(PARTITIONS), columns), "int32", "sbuf")
    step = make.chance.randrange(-3, 4)
    make.emit(out, f"nisa.iota({out.text}, [[{step}, {columns}]], offset={make.chance.randrange(9)},"
                   f" channel_multiplier={make.chance.randrange(3)})")  # fmt: skip


def affine_select(make: Maker) -> None:
    tile = make.pick(memory="sbuf")
    if len(tile.shape) != 2:
        return
    out = make.like(tile.shape, tile.dtype, "sbuf")
    compare = make.chance.choice(("equal", "greater_equal", "less", "not_equal", "greater"))
    make.emit(
        out, f"nisa.affine_select({out.text}, [[{make.chance.randrange(-2, 3)}, {tile.shape[1]}]],"
        f" {make.chance.randrange(-2, 3)}, {tile.text}, {make.chance.choice((0.0, -1.0, 7.0))},"
        f" cmp_op=nl.{compare}, offset={make.chance.randrange(-4, 5)})", tile,
    )  # fmt: skip


def predicated(make: Maker) -> None:
    masks = [mask for mask in make.tiles if mask.dtype in ("uint8", "uint16", "uint32")]
    if not masks:
        return
    mask = make.chance.choice(masks)
    tile = make.partner(mask)
    out = make.like(mask.shape, tile.dtype)
    partner = make.partner(tile)
    same = make.like(mask.shape, tile.dtype, "sbuf")
    extra = (
        f"nisa.tensor_copy({out.text}, {tile.text})", declared(same),
        f"nisa.tensor_copy({same.text}, {partner.text})",
    )  # fmt: skip
    make.emit(
        out,
        f"nisa.tensor_copy_predicated({out.text}, {same.text}, {mask.text})",
        mask,
        tile,
        partner,
        extra=extra,
    )


def tensor_reduce(make: Maker) -> None:
    tile = make.pick()
    op = make.chance.choice(("add", "maximum", "minimum", "multiply", "subtract"))
    out = make.like((*tile.shape[:-1], 1))
    axis = len(tile.shape) - 1
    negate = ", negate=True" if make.chance.random() < 0.2 else ""
    make.emit(
        out,
        f"nisa.tensor_reduce({out.text}, nl.{op}, {tile.text}, axis={axis}, keepdims=True{negate})",
        tile,
    )


def partition_reduce(make: Maker) -> None:
    tile = make.pick(memory="sbuf")
    op = make.chance.choice(("add", "maximum"))
    out = make.like((1, *tile.shape[1:]), memory="sbuf")
    make.emit(out, f"nisa.tensor_partition_reduce({out.text}, nl.{op}, {tile.text})", tile)


def scan(make: Maker) -> None:
    left = make.pick(dtypes=FLOATS)
    right = make.partner(left)
    out = make.like(left.shape)
    number, used = make.number(left.shape)
    ops = make.chance.choice(("nl.multiply, nl.add", "nl.add, nl.maximum", "nl.add, nl.subtract"))
    make.emit(
        out,
        f"nisa.tensor_tensor_scan({out.text}, {left.text}, {right.text}, {number}, {ops})",
        left,
        right,
        *used,
    )


def reduced_beside(make: Maker) -> None:
    tile = make.pick(dtypes=FLOATS)
    out, beside = make.like(tile.shape), make.like((tile.shape[0], 1), "float32")
    number, used = make.number(tile.shape)
    call = make.chance.choice((
        f"nisa.tensor_scalar_reduce({out.text}, {tile.text}, nl.add, {number}, nl.add, {beside.text})",
        f"nisa.activation_reduce({out.text}, nl.exp, {tile.text}, nl.add, {beside.text}, scale={number})",
    ))  # fmt: skip
    make.statements.append(Statement(
        (declared(out), declared(beside), call), (out.name, beside.name),
        tuple({tile.name, *(operand.name for operand in used), *(constant for constant in make.constants if constant in call)}),
    ))  # fmt: skip
    make.tiles += [out, beside]


def matmul(make: Maker) -> None:
    """Products into PSUM, some of several calls, in a loop or not, accumulating in every manner."""
    kinds = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")
    left = make.pick(dtypes=kinds, memory="sbuf")
    pairs = [candidate for candidate in make.tiles if candidate.shape[0] == left.shape[0] and len(candidate.shape) == 2
             and candidate.memory == "sbuf" and candidate.dtype in kinds]  # fmt: skip
    if not pairs or len(left.shape) != 2 or left.dtype not in kinds:
        return
    right = make.chance.choice(pairs)
    out = make.like((left.shape[1], right.shape[1]), "float32", "psum")
    manner = make.chance.choice(("", "", ", accumulate=True", ", accumulate=False"))
    call = f"nisa.nc_matmul({out.text}, {left.text}, {right.text}{manner})"
    iterations = make.chance.randrange(1, 4)
    loop = make.chance.choice((
        None, f"for i{make.count} in range({iterations}):", f"for i{make.count} in nl.affine_range({iterations}):",
        f"for i{make.count} in nl.dynamic_range(nisa.register_alloc({iterations})):",
    ))  # fmt: skip
    first = (
        (f"nisa.memset({out.text}, 0.0)",) if "True" in manner or make.chance.random() < 0.3 else ()
    )
    inner = make.chance.random() < 0.4  # a loop of its own within the loop
    if loop is not None and make.chance.random() < 0.4:  # named in the loop only
        copied = make.like(out.shape, "float32", "sbuf")
        lines = (declared(out), declared(copied), f"nisa.memset({copied.text}, 0.0)", loop,
                 *_within(call, make, nested=inner), f"    nisa.tensor_copy({copied.text}, {out.text})")  # fmt: skip
        make.statements.append(Statement(lines, (copied.name,), tuple({left.name, right.name})))
        make.tiles.append(copied)
        return
    lines = (call,) if loop is None else (loop, "    " + call)
    make.statements.append(Statement(
        (declared(out), *first, *lines), (out.name,), tuple({left.name, right.name})
    ))  # fmt: skip
    make.tiles.append(out)


def _within(call: str, make: Maker, *, nested: bool) -> tuple[str, ...]:
    """A call in a loop, or in a loop within it."""
    if not nested:
        return (f"    {call}",)
    iterations = make.chance.randrange(1, 4)
    count = make.chance.choice((f"nisa.register_alloc({iterations})", str(iterations)))
    return (f"    for j{make.count} in nl.dynamic_range({count}):", f"        {call}")


def transpose(make: Maker) -> None:
    tile = make.pick(memory="sbuf")
    if len(tile.shape) != 2:
        return
    rows, columns = tile.shape
    small = rows <= 32 and columns <= 32
    memory = make.chance.choice(("sbuf", "psum")) if small else "psum"
    out = make.like((columns, rows), tile.dtype, memory)
    engine = ", engine=nisa.engine.vector" if small and make.chance.random() < 0.6 else ""
    make.emit(out, f"nisa.nc_transpose({out.text}, {tile.text}{engine})", tile)


def eight(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "bfloat16"))
    if len(tile.shape) != 2 or tile.shape[1] < 8:
        return
    out = make.like((tile.shape[0], 8), "float32", "sbuf")
    make.emit(out, f"nisa.max8({out.text}, {tile.text})", tile)


def shuffle(make: Maker) -> None:
    tile = make.pick(memory="sbuf", views=False)
    if tile.shape[0] % 32:
        return
    out = make.like(tile.shape, tile.dtype, "sbuf")
    mask = [make.chance.randrange(32) for _ in range(32)]
    make.emit(out, f"nisa.nc_stream_shuffle({out.text}, {tile.text}, {mask})", tile)


def statistics(make: Maker) -> None:
    tile = make.pick(dtypes=("float32", "bfloat16"))
    if len(tile.shape) != 2:
        return
    out = make.like((tile.shape[0], 6), "float32", "sbuf")
    make.emit(out, f"nisa.bn_stats({out.text}, {tile.text})", tile)


def through_hbm(make: Maker) -> None:
    """To a tensor in HBM and back, whole or by columns."""
    tile = make.pick(memory="sbuf")
    step, out = make.name("h"), make.like(tile.shape, tile.dtype, "sbuf")
    space = make.scratch()
    make.emit(
        out, f"nisa.dma_copy({out.text}, {step})", tile,
        extra=(f"{step} = nl.ndarray({tile.shape}, {tile.kind}, nl.{space})",
               f"nisa.dma_copy({step}, {tile.text})"),
    )  # fmt: skip


def looped(make: Maker) -> None:
    """A loop, static or on the device, that changes a tile in place or writes it column by column."""
    tile = make.pick(dtypes=("float32", "bfloat16", "int32"), memory="sbuf", views=False)
    if len(tile.shape) != 2:
        return
    out = make.like(tile.shape, tile.dtype, "sbuf")
    index, iterations = f"i{make.count}", min(tile.shape[1], make.chance.randrange(1, 5))
    header = make.chance.choice((
        f"for {index} in range({iterations}):", f"for {index} in nl.affine_range({iterations}):",
        f"for {index} in nl.sequential_range({iterations}):",
        f"for {index} in nl.dynamic_range({iterations}):",
        f"for {index} in nl.dynamic_range(nisa.register_alloc({iterations})):",
    ))  # fmt: skip
    number, used = make.number(tile.shape)
    body = [
        f"nisa.tensor_scalar({out.text}, {out.text}, nl.add, {number})",
        f"nisa.tensor_tensor({out.text}, {out.text}, {tile.text}, nl.maximum)",
        f"nisa.activation({out.text}, nl.tanh, {out.text})",
    ]
    if "dynamic" not in header:
        body += [
            f"nisa.tensor_copy({out.text}[:, {index}:{index} + 1], {tile.text}[:, 0:1])",
            f"nisa.tensor_scalar({out.text}[:, {index}:{index} + 1], {tile.text}[:, 0:1], nl.multiply, 2.0)",
        ]
    chosen = make.chance.sample(body, make.chance.randrange(1, 4))
    inner = tuple(
        Statement((line,), (), tuple({out.name, *(operand.name for operand in (tile, *used) if operand.name in line),
                                     *(constant for constant in make.constants if constant in line)}))
        for line in chosen
    )  # fmt: skip
    make.statements.append(
        Statement(
            (declared(out), f"nisa.tensor_copy({out.text}, {tile.text})"), (out.name,), (tile.name,)
        )
    )
    make.statements.append(Statement((header,), (), (), inner))
    make.tiles.append(out)


def scratch_in_loop(make: Maker) -> None:
    """Through a tensor in HBM that each turn of a loop makes, by a row that the turn selects."""
    tile = make.pick(memory="sbuf", views=False)
    if len(tile.shape) != 2:
        return
    rows, columns = tile.shape
    iterations = min(rows, make.chance.randrange(1, 5))
    step, index, out = (
        make.name("h"),
        f"i{make.count}",
        make.like((iterations, columns), tile.dtype, "sbuf"),
    )
    scratch, line = make.name("h"), make.name("s")
    space = make.scratch()
    header = make.chance.choice((
        f"for {index} in nl.dynamic_range({iterations}):",
        f"for {index} in nl.dynamic_range(nisa.register_alloc({iterations})):",
        f"for {index} in nl.affine_range({iterations}):",
    ))  # fmt: skip

    def row_of(name: str) -> str:
        if "dynamic" not in header:
            return f"{name}[{index}:{index} + 1]"
        return f"{name}.ap([[{columns}, 1], [1, {columns}]], scalar_offset={index})"

    reads_all = make.chance.random() < 0.5  # of what the turn wrote, or the row that it selects
    written = f"nisa.dma_copy({step}, {tile.text})" if reads_all else (
        f"nisa.dma_copy({row_of(step)}, {tile.text}[0:1])")  # fmt: skip
    lines = (
        f"{scratch} = nl.ndarray({(iterations, columns)}, {tile.kind}, nl.hbm)", header,
        f"    {step} = nl.ndarray({tile.shape}, {tile.kind}, nl.{space})",
        f"    {line} = nl.ndarray({(1, columns)}, {tile.kind}, nl.sbuf)",
        f"    {written}", f"    nisa.dma_copy({line}, {row_of(step)})",
        f"    nisa.dma_copy({row_of(scratch)}, {line})",
        declared(out), f"nisa.dma_copy({out.text}, {scratch})",
    )  # fmt: skip
    make.statements.append(Statement(lines, (out.name,), (tile.name,)))
    make.tiles.append(out)


PLAIN_STEPS: tuple[tuple[Callable[[Maker], None], int], ...] = (
    (tensor_tensor, 5), (tensor_scalar, 5), (scalar_tensor_tensor, 2), (activation, 4),
    (tensor_copy, 3), (rounded_view, 2), (partly, 3), (memset, 1), (half_written, 1), (rewritten, 1), (iota, 1), (affine_select, 1),
    (predicated, 1), (tensor_reduce, 3), (partition_reduce, 1), (scan, 1), (reduced_beside, 1),
    (matmul, 4), (transpose, 2), (eight, 1), (shuffle, 1), (statistics, 1), (through_hbm, 2),
    (looped, 4), (scratch_in_loop, 2),
)  # fmt: skip
"""The statements of a kernel, with their weights."""
