"""Results of value-returning calls: a new tile, or the tile that an assignment names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import libcst as cst

from hlo_tools.migrate.call_tables import (
    BINARY,
    INSTRUCTIONS,
    SAME,
    UNARY_ACTIVATIONS,
    UNARY_COMPOSED,
    Instruction,
)
from hlo_tools.migrate.calls import Call, Destination, dtype_text, issue, same_call
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import TileFact
from hlo_tools.migrate.index_instructions import iota_shape
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import text_of
from hlo_tools.migrate.subscripts import access_extents
from hlo_tools.migrate.writers import Writer, writer_of

__all__ = ["place_result", "tile_call"]

SHAPES: Mapping[str, Callable[[Call, Context], str]] = MappingProxyType({"nisa.iota": iota_shape})
"""Functions whose result has a shape of its own."""


def shape_text(call: Call, row: Instruction | None, context: Context) -> str:
    """Return the code of the result's shape."""
    result = call.result
    like = row.shape if row is not None else ""
    for name in (like, *call.arguments):
        node = call.arguments.get(name)
        if node is None:
            continue
        fact = context.tile(node)
        if fact is not None and fact.shape == result.shape and name == like:
            return _shape_of(node, call, context)
    if row is not None and row.function == "nc_matmul":
        return _product_shape(call, context)
    return _literal_shape(call, context)


def _shape_of(node: cst.BaseExpression, call: Call, context: Context) -> str:
    extents = access_extents(node, context)
    if extents is not None:
        return f"({', '.join(extents)})"
    if call.is_masked and isinstance(node, cst.Call):
        return _literal_shape(call, context)
    return f"{context.text(node)}.shape"


def _product_shape(call: Call, context: Context) -> str:
    facts = [context.tile(call.arguments[name]) for name in ("stationary", "moving")]
    if any(fact is None or len(fact.shape) != 2 for fact in facts):
        return _literal_shape(call, context)
    extents: list[str] = []
    for name in ("stationary", "moving"):
        node = call.arguments[name]
        listed = access_extents(node, context)
        extents.append(listed[1] if listed is not None else f"{context.text(node)}.shape[1]")
    return f"({', '.join(extents)})"


def _literal_shape(call: Call, context: Context) -> str:
    shapes = {fact.result.shape for fact in call.facts if isinstance(fact.result, TileFact)}
    if len(shapes) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "its result has several shapes",
                         "allocate the result by hand: nl.ndarray(shape, dtype, buffer=...)")  # fmt: skip
    context.literals.add(context.source.line(call.node))
    return f"({', '.join(map(str, shapes.pop()))})"


def _result_dtype(call: Call, row: Instruction | None, context: Context) -> str:
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    like = call.arguments.get(row.dtype) if row is not None and row.dtype else None
    names = {fact.result.dtype for fact in call.facts if isinstance(fact.result, TileFact)}
    if like is not None and not isinstance(like, cst.Call):
        fact = context.tile(like)
        if fact is not None and {fact.dtype} == names:
            base = like.value if isinstance(like, cst.Subscript) else like
            if not isinstance(base, cst.Call) and context.tile(base) is not None:
                return f"{context.text(base)}.dtype"
    if len(names) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "its result has several types",
                         "write dtype= into the call")  # fmt: skip
    return dtype_text(names.pop(), context)


def _new_tile(call: Call, row: Instruction | None, stem: str, context: Context) -> Destination:
    result = call.result
    name = context.fresh(stem)
    memory = "" if result.buffer == "sbuf" else f", buffer={context.nl}.{result.buffer}"
    shape_of = SHAPES.get(call.function)
    shape = shape_text(call, row, context) if shape_of is None else shape_of(call, context)
    dtype = _result_dtype(call, row, context)
    context.before.append(f"{name} = {context.nl}.ndarray({shape}, dtype={dtype}{memory})")
    return Destination(None, name, result)


def place_result(call: Call, stem: str, dst: Destination | None, context: Context) -> str:
    """Issue the call's instructions into the destination, or a new tile; return the tile's code.

    Raises:
        Unmigrated: the function has no counterpart, or its arguments none.
    """
    writer = writer_of(call)
    with context.under(()):
        return _placed(call, stem, dst, writer, context)


def _placed(
    call: Call, stem: str, dst: Destination | None, writer: Writer, context: Context
) -> str:
    if dst is not None and _can_write(call, dst):
        with context.under(call.guards):
            writer(call, dst, context)
        return dst.text
    row = INSTRUCTIONS.get(call.function) or _like_row(call)
    new = _new_tile(call, row, stem, context)
    with context.under(call.guards):
        writer(call, new, context)
    if dst is not None:
        _copy_into(dst, new, context)
    return new.text


def _like_row(call: Call) -> Instruction:
    """Return the row of a function of ``nl`` whose result is like its first tile."""
    short = call.function.partition(".")[2]
    like = next((name for name in ("src", "on_true_tile", "data") if name in call.arguments), "x")
    return Instruction(short, like, like)


def _can_write(call: Call, dst: Destination) -> bool:
    """Return True if beta 1 lets the assignment redirect the call's instructions."""
    if dst.fact.shape != call.result.shape:
        return False
    if call.function in ("nl.matmul", "nisa.nc_matmul"):
        return dst.fact.buffer == "psum"
    if call.function in ("nl.load", "nl.load_transpose2d"):
        return dst.fact.buffer == "sbuf"
    return dst.fact.on_chip


def _copy_into(dst: Destination, tile: Destination, context: Context) -> None:
    if dst.accumulates:
        issue(f"{context.nisa}.tensor_tensor(dst={dst.text}, data1={dst.text}, data2={tile.text},"
              f" op={context.nl}.add)", context)  # fmt: skip
    elif dst.fact.on_chip:
        issue(f"{context.nisa}.tensor_copy(dst={dst.text}, src={tile.text})", context)
    else:
        issue(f"{context.nisa}.dma_copy(dst={dst.text}, src={tile.text})", context)


def tile_call(call: Call, stem: str, context: Context) -> str:
    """Return the code of a call whose value is used: of today's function of the same name, or the
    name of a new tile that instructions before the statement fill."""  # fmt: skip
    short = call.function.partition(".")[2]
    if (
        call.function in ("nl.load", "nl.load_transpose2d")
        and not call.is_masked
        and not call.has("mode")
    ):
        fact = context.tile(call.arguments["src"])
        dtype = context.text(call.arguments["dtype"]) if call.has("dtype") else ""
        if not dtype and fact is not None and fact.dtype != call.result.dtype:
            dtype = dtype_text(call.result.dtype, context)  # beta 1 holds bool as uint8 on chip
        if fact is not None and len(fact.shape) > 1:
            return same_call(call, dtype, context)
    is_language = call.function.startswith("nl.") and not call.is_masked
    if is_language and short in BINARY and _is_plain_binary(call, context):
        return same_call(call, _written_dtype(call, context), context)
    if is_language and (short in UNARY_ACTIVATIONS or short in UNARY_COMPOSED or short in SAME):
        return same_call(call, _same_dtype(call, context), context)
    return place_result(call, stem, None, context)


def _is_plain_binary(call: Call, context: Context) -> bool:
    """Return True if today's function takes the operands as they are."""
    facts = [context.tile(call.arguments[name]) for name in ("x", "y")]
    shape = call.result.shape
    column = (shape[0], *(1,) * (len(shape) - 1))
    return all(fact is None or fact.shape in (shape, column) for fact in facts) and any(
        fact is not None and fact.shape == shape for fact in facts
    )


def _written_dtype(call: Call, context: Context) -> str:
    """Return dtype= where the promoted type is not that of the tile which today's function takes."""
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    shape = call.result.shape
    for name in ("x", "y"):
        fact = context.tile(call.arguments[name])
        if fact is not None and fact.shape == shape:
            names = {
                entry.result.dtype for entry in call.facts if isinstance(entry.result, TileFact)
            }
            same = {fact.dtype} == names
            return "" if same else _result_dtype(call, None, context)
    return _result_dtype(call, None, context)


def _same_dtype(call: Call, context: Context) -> str:
    if call.has("dtype"):
        return context.text(call.arguments["dtype"])
    name = next(iter(call.arguments))
    fact = context.tile(call.arguments[name])
    return (
        ""
        if fact is not None and fact.dtype == call.result.dtype
        else _result_dtype(call, None, context)
    )
