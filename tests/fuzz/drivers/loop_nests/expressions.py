"""Statements without bodies: each family proposes one of the names in scope."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.loop_nests.maker import NUMERIC, Maker
from tests.fuzz.drivers.loop_nests.nodes import Number, Operand, Variable
from tests.fuzz.drivers.loop_nests.operators import KERNELS, ROW_FORMS

__all__ = ["consumed", "draw_expression", "draw_update"]

MAX_ROWS_OF_KERNEL = 128
MAX_SORTED = 16
PAIRS = ("add", "add", "add", "subtract", "multiply", "maximum", "minimum")
INTEGER_PAIRS = (*PAIRS, "bitwise_and", "bitwise_or", "bitwise_xor")


def _numeric(variable: Variable) -> bool:
    return variable.dtype in NUMERIC


def _matrix(variable: Variable) -> bool:
    return _numeric(variable) and len(variable.shape) == 2


def _broadcasts(operand: Variable, shape: tuple[int, ...]) -> bool:
    return operand.shape in ((), shape, shape[1:])


def draw_pair(make: Maker) -> Variable | None:
    left = make.pick(_numeric)
    if left is None:
        return None
    names = INTEGER_PAIRS if left.dtype == "int32" else PAIRS
    operands: list[Operand] = [left, Number(make.chance.choice((-2, -1, 1, 2, 3)))]
    if make.chance.random() < 0.75:
        right = make.pick(
            lambda candidate: candidate.dtype == left.dtype and _broadcasts(candidate, left.shape)
        )
        operands = [left, right] if right is not None else operands
    if make.chance.random() < 0.4:
        operands.reverse()
    return make.compute(make.chance.choice(names), operands, left.shape, left.dtype)


def draw_unary(make: Maker) -> Variable | None:
    value = make.pick(_numeric)
    if value is None:
        return None
    name = make.chance.choice(("negative", "abs", "square", "sign"))
    return make.compute(name, [value], value.shape, value.dtype)


def draw_remainder(make: Maker) -> Variable | None:
    value = make.pick(lambda candidate: candidate.dtype in ("int32", "float32"))
    if value is None:
        return None
    names = ("remainder", "remainder", "floor_divide") if value.dtype == "int32" else ("remainder",)
    divisor = Number(make.chance.choice((2, 3, 5, 7)))
    return make.compute(make.chance.choice(names), [value, divisor], value.shape, value.dtype)


def draw_cast(make: Maker) -> Variable | None:
    value = make.pick(lambda candidate: True)
    if value is None:
        return None
    dtype = make.chance.choice([dtype for dtype in NUMERIC if dtype != value.dtype])
    return make.compute("cast", [value], value.shape, dtype)


def draw_comparison(make: Maker) -> Variable | None:
    left = make.pick(_numeric)
    if left is None:
        return None
    if left.dtype == "int32" and make.chance.random() < 0.3:
        return make.compute("is_even", [left], left.shape, "bool")
    right: Operand = make.pick_type(left.type) or left
    if make.chance.random() < 0.4:
        right = Number(make.chance.randrange(-3, 4))
    name = make.chance.choice(("less", "less_equal", "greater", "equal"))
    return make.compute(name, [left, right], left.shape, "bool")


def draw_logical(make: Maker) -> Variable | None:
    left = make.pick(lambda candidate: candidate.dtype == "bool")
    if left is None:
        return None
    right = make.pick_type(left.type)
    if right is None or make.chance.random() < 0.3:
        return make.compute("logical_not", [left], left.shape, "bool")
    name = make.chance.choice(("logical_and", "logical_or", "logical_xor"))
    return make.compute(name, [left, right], left.shape, "bool")


def draw_select(make: Maker) -> Variable | None:
    test = make.pick(lambda candidate: candidate.dtype == "bool")
    if test is None:
        return None
    left = make.pick(lambda candidate: _numeric(candidate) and test.shape in ((), candidate.shape))
    if left is None:
        return None
    right = make.pick_type(left.type) or left
    return make.compute("where", [test, left, right], left.shape, left.dtype)


def draw_reduction(make: Maker) -> Variable | None:
    value = make.pick(lambda candidate: bool(candidate.shape))
    if value is None:
        return None
    if value.dtype == "bool":
        return make.compute(make.chance.choice(("any", "all")), [value], (), "bool")
    if make.chance.random() < 0.5:
        name = make.chance.choice(("sum_all", "sum_all", "max_all", "min_all", "argmax"))
        return make.compute(name, [value], (), "int32" if name == "argmax" else value.dtype)
    axis = make.chance.randrange(len(value.shape))
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return make.compute(make.chance.choice(("sum", "max")), [value], shape, value.dtype, axis)


def draw_cumulative(make: Maker) -> Variable | None:
    value = make.pick(
        lambda candidate: candidate.dtype in ("float32", "int32") and bool(candidate.shape)
    )
    if value is None:
        return None
    axis = make.chance.randrange(len(value.shape))
    return make.compute("cumsum", [value], value.shape, value.dtype, axis)


def draw_product(make: Maker) -> Variable | None:
    left = make.pick(lambda candidate: candidate.dtype == "float32" and len(candidate.shape) == 2)
    if left is None:
        return None
    inner = left.shape[1]
    right = make.pick(
        lambda candidate: (
            candidate.dtype == "float32"
            and candidate.shape in ((inner,), (inner, make.columns), (inner, make.rows))
        )
    )
    if right is None or make.chance.random() < 0.3:
        right = make.compute("transpose", [left], left.shape[::-1], left.dtype)
    shape = (left.shape[0], *right.shape[1:])
    return make.compute("dot", [left, right], shape, "float32")


def draw_move(make: Maker) -> Variable | None:
    value = make.pick(lambda candidate: _numeric(candidate) and bool(candidate.shape))
    if value is None:
        return None
    axis = make.chance.randrange(len(value.shape))
    name = make.chance.choice(("flip", "roll", "sort", "transpose", "concatenate"))
    if name == "sort" and value.shape[axis] > MAX_SORTED:
        name = "flip"
    if name == "roll":
        count = make.chance.randrange(-2, 3)
        return make.compute("roll", [value], value.shape, value.dtype, axis, count)
    if name == "concatenate":
        partner = make.pick_type(value.type) or value
        count = make.chance.randrange(value.shape[0] + 1)
        return make.compute(name, [value, partner], value.shape, value.dtype, count)
    if name == "transpose":
        return make.compute(name, [value], value.shape[::-1], value.dtype)
    return make.compute(name, [value], value.shape, value.dtype, axis)


def draw_broadcast(make: Maker) -> Variable | None:
    shape = (make.rows, make.columns)
    vector = make.pick(lambda candidate: _numeric(candidate) and len(candidate.shape) == 1)
    if vector is None:
        return make.compute("arange", [], (make.rows,), "int32")
    if vector.shape == (make.columns,) and make.chance.random() < 0.6:
        return make.compute("broadcast", [vector], shape, vector.dtype)
    if vector.shape == (make.rows,):
        return make.compute("column_broadcast", [vector], shape, vector.dtype)
    return None


def draw_gather(make: Maker) -> Variable | None:
    source = make.pick(lambda candidate: _numeric(candidate) and bool(candidate.shape))
    if source is None:
        return None
    name = make.chance.choice(("index", "index", "index_column", "index_static", "take", "window"))
    rows = make.pick(lambda candidate: candidate.dtype == "int32" and len(candidate.shape) == 1)
    if name == "index_column" and len(source.shape) == 2:
        return make.compute(name, [source, make.index()], source.shape[:1], source.dtype)
    if name == "take" and rows is not None:
        shape = (*rows.shape, *source.shape[1:])
        return make.compute(name, [source, rows], shape, source.dtype)
    if name == "window":
        axis = make.chance.randrange(len(source.shape))
        count = make.chance.randrange(1, source.shape[axis] + 1)
        shape = (*source.shape[:axis], count, *source.shape[axis + 1 :])
        return make.compute(name, [source, make.index()], shape, source.dtype, axis, count)
    if name == "index_static":
        row = make.chance.randrange(source.shape[0])
        return make.compute(name, [source], source.shape[1:], source.dtype, row)
    return make.compute("index", [source, make.index()], source.shape[1:], source.dtype)


def draw_update(make: Maker, destination: Variable | None = None) -> Variable | None:
    """A changed copy of an array, which a compiler may make in place."""
    if destination is None:
        destination = make.pick(lambda candidate: _numeric(candidate) and bool(candidate.shape))
    if destination is None:
        return None
    shape, dtype = destination.shape, destination.dtype
    family = make.chance.choice(
        ("row", "row", "row", "column", "element", "window", "block", "scatter")
    )
    form = make.chance.choice(("set", "set", "add", *ROW_FORMS))
    if family == "column" and len(shape) == 2:
        name, value = f"column_{form}", make.value((shape[:1], dtype))
        return make.compute(name, [destination, make.index(), value], shape, dtype)
    if family == "element" and len(shape) == 2:
        operands = [destination, make.index(), make.index(), make.value(((), dtype))]
        return make.compute("element_set", operands, shape, dtype)
    if family == "window":
        source = make.pick(lambda candidate: candidate.dtype == dtype and candidate.shape[1:] == shape[1:] and bool(candidate.shape) and candidate.shape[0] <= shape[0])  # fmt: skip
        if source is not None:
            operands = [destination, source, make.index()]
            return make.compute("window_update", operands, shape, dtype, 0)
    if family == "block" and len(shape) == 2:
        source = make.pick(lambda candidate: candidate.dtype == dtype and len(candidate.shape) == 2 and candidate.shape[0] <= shape[0] and candidate.shape[1] <= shape[1])  # fmt: skip
        if source is not None:
            operands = [destination, source, make.index(), make.index()]
            return make.compute("block_update", _positions(make, operands), shape, dtype)
    if family == "scatter":
        rows = make.pick(lambda candidate: candidate.dtype == "int32" and len(candidate.shape) == 1)
        if rows is not None and rows.shape[0] <= MAX_SORTED:
            value = make.value(((*rows.shape, *shape[1:]), dtype))
            name = make.chance.choice(("scatter_add", "scatter_max"))
            return make.compute(name, [destination, rows, value], shape, dtype)
    operands = [destination, make.index(), make.value((shape[1:], dtype))]
    return make.compute(f"row_{form}", operands, shape, dtype)


def _positions(make: Maker, operands: list[Operand]) -> list[Operand]:
    """Both positions as literals or both as variables: JAX wants one dtype."""
    first, second = operands[2:]
    if isinstance(first, Number) != isinstance(second, Number):
        second = first
    return [*operands[:2], first, second]


def draw_kernel(make: Maker) -> Variable | None:
    value = make.pick(
        lambda candidate: (
            len(candidate.shape) == 2
            and candidate.dtype == "float32"
            and candidate.shape[0] <= MAX_ROWS_OF_KERNEL
        )
    )
    if value is None:
        return None
    name = make.chance.choice(tuple(KERNELS))
    operands = [value]
    if name == "blend":
        operands.append(make.pick_type(value.type) or value)
    return make.compute(name, operands, value.shape, value.dtype)


EXPRESSIONS: tuple[tuple[Callable[[Maker], Variable | None], int], ...] = (
    (draw_pair, 16), (draw_unary, 3), (draw_remainder, 4), (draw_cast, 4), (draw_comparison, 3),
    (draw_logical, 1), (draw_select, 4), (draw_reduction, 4), (draw_cumulative, 1), (draw_product, 2),
    (draw_move, 4), (draw_broadcast, 3), (draw_gather, 8), (draw_update, 12), (draw_kernel, 2),
)  # fmt: skip
"""Families with their weights."""


def draw_expression(make: Maker) -> Variable | None:
    """Add a statement; None when its family finds no operands."""
    families, weights = zip(*EXPRESSIONS, strict=True)
    return make.chance.choices(families, weights)[0](make)


def consumed(make: Maker, value: Variable) -> Variable:
    """A value that also depends on most of what this body computed and nothing read."""
    for unread in make.unread():
        if unread == value or make.chance.random() < 0.25:
            continue
        joined = _joined(make, value, unread)
        value = joined if joined is not None else value
    return value


def _joined(make: Maker, value: Variable, unread: Variable) -> Variable | None:
    """A value that depends on both."""
    shape, dtype = value.type
    if unread.dtype == "bool":
        if dtype == "bool" and unread.shape in ((), shape):
            return make.compute("logical_xor", [value, unread], shape, dtype)
        if unread.shape not in ((), shape) or dtype == "bool":
            return None
        partner = make.pick_type(value.type) or value
        return make.compute("where", [unread, value, partner], shape, dtype)
    if dtype == "bool":
        return None
    if unread.shape not in ((), shape, shape[1:]):
        fits = unread.shape[1:] == shape[1:] and unread.shape[0] <= shape[0] if shape else False
        if fits and unread.dtype == dtype:
            return make.compute("window_update", [value, unread, make.index()], shape, dtype, 0)
        name = make.chance.choice(("sum_all", "max_all"))
        unread = make.compute(name, [unread], (), unread.dtype)
    if unread.dtype != dtype:
        unread = make.compute("cast", [unread], unread.shape, dtype)
    if shape and unread.shape == shape[1:] and make.chance.random() < 0.5:
        return make.compute("row_set", [value, make.index(), unread], shape, dtype)
    operands = [value, unread]
    if make.chance.random() < 0.3 and unread.shape == shape:
        operands.reverse()
    return make.compute(make.chance.choice(PAIRS), operands, shape, dtype)
