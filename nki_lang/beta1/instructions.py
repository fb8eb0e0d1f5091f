"""Instructions of the compute engines: element-wise, activations, scans and copies."""

from __future__ import annotations

import numpy as np

from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.mask import Box, mask_boxes
from nki_lang.beta1.operands import (
    cut,
    is_numpy_number,
    off_psum,
    operator_of,
    promote,
    read,
    require_tile,
    tile_kind,
)
from nki_lang.beta1.results import new_tile, produce, run_masked
from nki_lang.beta1.session import require_session
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import (
    ElementLike,
    EngineLike,
    MaskLike,
    OperatorLike,
    ShapeLike,
    Value,
)
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa import activations, elementwise, movement
from nki_lang.isa.enums import reduce_cmd as reduce_cmds
from nki_lang.isa.reductions import tensor_partition_reduce as partition_reduce
from nki_lang.isa.reductions import tensor_scalar_reduce as scalar_reduce

__all__ = [
    "activation", "copy_predicated", "filled", "partition_reduced", "scalar_tensor_tensor", "scan",
    "tensor_scalar", "tensor_scalar_reduce", "tensor_tensor",
]  # fmt: skip

_INTEGER_OPERATORS = frozenset(
    {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"}
)


def engine_options(engine: EngineLike) -> dict[str, Value]:
    """Return the engine as a keyword, if the kernel chose it."""
    if engine is None or engine is Engine.unknown or engine == 0:
        return {}
    return {"engine": engine if isinstance(engine, Engine) else Engine(int(engine))}


def scalar_operand(value: Value, operator: Value, function: str, wide: bool = True) -> Value:
    """Return a number, or a tile of one value for each partition in the type that engines take.

    Arithmetic operators take float32 columns; bitwise ones take integers.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if is_numpy_number(value):
        return value.item()
    tile = require_tile(value, function)
    is_bitwise = operator is not None and operator.name in _INTEGER_OPERATORS
    if not wide or is_bitwise or tile.dtype.name == "float32":
        return tile
    column = new_tile(tile.shape, "float32")
    movement.tensor_copy(column.base, tile.region())
    return column


def column(value: Value, box: Box) -> Value:
    """Return the rows of a per-partition operand that belong to a box."""
    if not isinstance(value, Tile):
        return value
    rows = box[0][1] - box[0][0]
    span = box[0] if value.shape[0] > 1 else (0, 1)
    shape = (span, *((0, extent) for extent in value.shape[1:]))
    rows_view = read(value, shape)
    return rows_view if len(rows_view.shape) == 2 else rows_view.reshape((rows, 1))


def tensor_tensor(
    data1: Value,
    data2: Value,
    op: OperatorLike,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """``data1 <op> data2`` of two tiles of one shape."""
    x = require_tile(data1, "nisa.tensor_tensor")
    y = require_tile(data2, "nisa.tensor_tensor")
    operator: Value = operator_of(op)
    if x.buffer is MemoryRegion.psum and (y.buffer is x.buffer or operator.name == "power"):
        x = off_psum(x)
    if operator.name == "power":
        y = off_psum(y)
    options = engine_options(engine)

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            left, right = cut(x, x.shape, box), cut(y, x.shape, box)
            elementwise.tensor_tensor(dst, left, right, operator, **options)

        run_masked(target, mask, keep, issue)

    return produce(x.shape, dtype or promote(x, y), write)


def tensor_scalar(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    reverse0: bool = False,
    op1: OperatorLike = None,
    operand1: Value = None,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1`` with numbers or one value for each partition."""
    tile = require_tile(data, "nisa.tensor_scalar")
    first: Value = operator_of(op0)
    second = operator_of(op1)
    operands = [
        scalar_operand(value, operator, "nisa.tensor_scalar")
        for value, operator in ((operand0, first), (operand1, second))
    ]
    options = engine_options(engine)

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            elementwise.tensor_scalar(
                dst, read(tile, box), first, column(operands[0], box), bool(reverse0),
                second, column(operands[1], box), bool(reverse1), **options,
            )  # fmt: skip

        run_masked(target, mask, keep, issue)

    return produce(tile.shape, dtype or tile_kind(tile), write)


def scalar_tensor_tensor(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    op1: OperatorLike,
    operand1: Value,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1`` with a tile as ``operand1``."""
    tile = require_tile(data, "nisa.scalar_tensor_tensor")
    addend = require_tile(operand1, "nisa.scalar_tensor_tensor")
    if tile.buffer is MemoryRegion.psum and addend.buffer is MemoryRegion.psum:
        addend = off_psum(addend)
    first: Value = operator_of(op0)
    second: Value = operator_of(op1)
    operand = scalar_operand(operand0, first, "nisa.scalar_tensor_tensor")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            elementwise.scalar_tensor_tensor(
                dst, read(tile, box), first, column(operand, box), second,
                cut(addend, tile.shape, box), bool(reverse0), bool(reverse1),
            )  # fmt: skip

        run_masked(target, mask, keep, issue)

    return produce(tile.shape, dtype or tile_kind(tile), write)


def tensor_scalar_reduce(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    reduce_op: OperatorLike,
    reduce_res: Value,
    reverse0: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``data <op0> operand0``, and its reduction along the free axes into ``reduce_res``."""
    tile = require_tile(data, "nisa.tensor_scalar_reduce")
    result = require_tile(reduce_res, "nisa.tensor_scalar_reduce")
    first: Value = operator_of(op0)
    reduction: Value = operator_of(reduce_op)
    operand = scalar_operand(operand0, first, "nisa.tensor_scalar_reduce")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            scalar_reduce(dst, read(tile, box), first, column(operand, box), reduction,
                          column(result, box), bool(reverse0))  # fmt: skip

        run_masked(target, mask, keep, issue)

    return _with_second_result(produce(tile.shape, dtype or tile_kind(tile), write), result)


def _with_second_result(tile: Tile, result: Value) -> Tile:
    """Note that the instructions wrote a second tile too.

    The interpreter has executed them, so that an assignment copies the first result: to issue them
    again would accumulate twice.
    """
    if result is not None:
        session = require_session()
        session.filled.add(result.base.storage.name)
        if session.builder.eager:
            session.newest = None
    return tile


def activation(
    op: OperatorLike,
    data: Value,
    bias: Value = None,
    scale: Value = 1.0,
    reduce_op: OperatorLike = None,
    reduce_res: Value = None,
    reduce_cmd: Value = None,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """``op(data * scale + bias)`` on the scalar engine, and its running reduction."""
    tile = require_tile(data, "nisa.activation")
    operator: Value = operator_of(op)
    factor = scalar_operand(scale, None, "nisa.activation")
    summand = _bias(bias)
    command = reduce_cmds.idle if reduce_cmd is None else reduce_cmds[_member(reduce_cmd)]
    reduction = (
        None if command is reduce_cmds.idle and reduce_res is None else operator_of(reduce_op)
    )

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            result = None if reduce_res is None else column(reduce_res, box)
            activations.activation(
                dst, operator, read(tile, box), column(summand, box), column(factor, box),
                reduction, result, command,
            )  # fmt: skip

        run_masked(target, mask, keep, issue)

    return _with_second_result(produce(tile.shape, dtype or tile_kind(tile), write), reduce_res)


def _bias(bias: Value) -> Value:
    """Return the bias as a column; numbers are refused by the instruction's own rule."""
    if bias is None or not isinstance(bias, Tile):
        return bias
    return scalar_operand(bias, None, "nisa.activation", wide=bias.dtype.is_integer)


def _member(value: Value) -> str:
    """Return the name of a member of an enumeration given as such, or as its number."""
    name = getattr(value, "name", None)
    return name if name is not None else reduce_cmds(int(value)).name


def scan(
    data0: Value,
    data1: Value,
    initial: Value,
    op0: OperatorLike,
    op1: OperatorLike,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``result[i] = (result[i - 1] <op0> data0[i]) <op1> data1[i]`` along the free axes."""
    x = require_tile(data0, "nisa.tensor_tensor_scan")
    y = require_tile(data1, "nisa.tensor_tensor_scan")
    if x.buffer is MemoryRegion.psum and y.buffer is MemoryRegion.psum:
        x = off_psum(x)
    first: Value = operator_of(op0)
    second: Value = operator_of(op1)
    start = scalar_operand(initial, None, "nisa.tensor_tensor_scan")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            elementwise.tensor_tensor_scan(
                dst, read(x, box), cut(y, x.shape, box), column(start, box), first, second,
                bool(reverse0), bool(reverse1),
            )  # fmt: skip

        run_masked(target, mask, keep, issue)

    return produce(x.shape, dtype or promote(x, y), write)


def partition_reduced(
    op: OperatorLike, data: Value, dtype: ElementLike = None, mask: MaskLike = None
) -> Tile:
    """The reduction over partitions, on one partition."""
    tile = require_tile(data, "nisa.tensor_partition_reduce")
    operator: Value = operator_of(op)
    shape = (1, *tile.shape[1:])

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            partition_reduce(target.region(((0, 1), *box[1:])), operator, read(tile, box))

    return produce(shape, dtype or tile_kind(tile), write)


def filled(
    shape: ShapeLike,
    value: Value,
    dtype: ElementLike,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """A new tile with one number where the mask holds; the other elements are undefined."""
    number = np.asarray(value).item()
    options = engine_options(engine)

    def write(target: Tile, keep: bool) -> None:
        run_masked(target, mask, keep, lambda dst, box: movement.memset(dst, number, **options))

    return produce(tuple(map(int, shape)), dtype, write)


def copy_predicated(
    src: Value, dst: Value, predicate: Value, reverse_pred: bool = False, mask: MaskLike = None
) -> None:
    """Copy ``src`` to ``dst`` where the predicate is not zero."""
    target = require_tile(dst, "nisa.tensor_copy_predicated")
    bits = require_tile(predicate, "nisa.tensor_copy_predicated")
    source = src.item() if is_numpy_number(src) else src
    if isinstance(source, Tile) and source.dtype != target.dtype:
        cast = new_tile(source.shape, target.dtype)
        movement.tensor_copy(cast.base, source.region())
        source = cast

    def issue(view: NkiTensor, box: Box) -> None:
        data = cut(source, target.shape, box) if isinstance(source, Tile) else source
        movement.tensor_copy_predicated(
            view, data, cut(bits, target.shape, box), bool(reverse_pred)
        )

    require_session().newest = None
    run_masked(target, mask, False, issue)
    require_session().filled.add(target.base.storage.name)
