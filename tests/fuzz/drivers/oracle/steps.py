"""How arithmetic is drawn, and the tables of all operations; no operands, no operation."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.drivers.oracle.maker import Maker
from tests.fuzz.drivers.oracle.moves import (
    dma_compute,
    dma_copy,
    dma_transpose,
    exchanged,
    gather,
    gather_of_groups,
    rows_of_hbm,
    sent,
    shuffle,
    tensor_copy,
    transpose,
)
from tests.fuzz.drivers.oracle.places import Region
from tests.fuzz.drivers.oracle.program import Access
from tests.oracles.scalars import BITS, FLOATS, INTS

__all__ = ["CORES", "LOOPED", "STEPS"]

_OPERATORS = (
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less",
    "greater_equal", "logical_and", "logical_or", "divide",
)  # fmt: skip
_NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 100.0)
_PRODUCTS = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2")


def _dst(
    make: Maker, region: Region, *reads: Access, dtype: str = "", aligned: bool = True
) -> Access:
    return make.target_of(region.shape, dtype or make.dtype(), reads=reads, aligned=aligned)


def _both_psum(make: Maker, *operands: Access) -> bool:
    """The engines read one tile of PSUM at a time."""
    return all(make.tensors[operand.tensor].memory == "psum" for operand in operands)


def _number(make: Maker, rows: int) -> object:
    """A number, or a vector with one element a partition."""
    if make.chance.random() < 0.3:
        source = make.source(dtypes=("float32",), memories=("sbuf",), shape=(rows, 1))
        if source is not None:
            return source[0]
    return make.chance.choice(_NUMBERS)


def _given(operands: dict[str, Access], **numbers: object) -> dict[str, object]:
    """Numbers as options; accesses become operands."""
    for name, value in numbers.items():
        if isinstance(value, Access):
            operands[name] = value
    return {name: value for name, value in numbers.items() if not isinstance(value, Access)}


def memset(make: Maker) -> None:
    dtype = make.dtype()
    dst = make.target_of(make.shape(), dtype)
    value = make.chance.randint(0, 9) if dtype in INTS else make.chance.choice(_NUMBERS)
    make.emit("memset", {"dst": dst}, value=value)


def iota(make: Maker) -> None:
    count = make.chance.randint(1, 12)
    rows = make.chance.choice((1, 4, 33))
    dst = make.target_of((rows, count), "int32", memory="sbuf")
    make.emit("iota", {"dst": dst}, pattern=[[make.chance.randint(-3, 3), count]],
              offset=make.chance.randint(0, 9), channel_multiplier=make.chance.randint(0, 2))  # fmt: skip


def tensor_tensor(make: Maker) -> None:
    source = make.source()
    if source is None:
        return
    left, region = source
    kind = make.dtype_of(left)
    exact = kind in ("int32", "uint32") or (kind in INTS and make.chance.random() < 0.3)
    partner = make.like(region, kind if exact else "") or source
    right, _ = partner
    if exact != (make.dtype_of(right) in ("int32", "uint32")) and not exact:
        return
    if _both_psum(make, left, right):
        return
    op = make.chance.choice((*BITS,) if exact and kind not in ("int32", "uint32") else _OPERATORS)
    if kind in ("int32", "uint32"):
        op = make.chance.choice(
            ("add", "subtract", "multiply", "maximum", "minimum", "less", *BITS)
        )
    if "shift" in op and any(not 0 <= value < 32 for value in make.cells(right)):
        op = "bitwise_xor"
    dst = _dst(make, region, left, right, dtype=kind if exact else "")
    make.emit("tensor_tensor", {"dst": dst, "data1": left, "data2": right}, op=f"nl.{op}")


def tensor_scalar(make: Maker) -> None:
    source = make.source()
    if source is None:
        return
    data, region = source
    kind = make.dtype_of(data)
    if kind in INTS and make.chance.random() < 0.3:
        op = make.chance.choice(tuple(BITS))
        dst = _dst(make, region, data, dtype=kind)
        operands = {"dst": dst, "data": data}
        make.emit("tensor_scalar", operands, op0=f"nl.{op}", operand0=make.chance.randint(0, 7))
        return
    operands: dict[str, Access] = {"data": data}
    first = _number(make, region.shape[0])
    numbers: dict[str, object] = {"operand0": first}
    options: dict[str, object] = {"op0": f"nl.{make.chance.choice(_OPERATORS)}"}
    if make.chance.random() < 0.3:
        options["reverse0"] = True
    if make.chance.random() < 0.4:
        options["op1"] = f"nl.{make.chance.choice(_OPERATORS)}"
        numbers["operand1"] = _number(make, region.shape[0])
    options |= _given(operands, **numbers)
    reads = tuple(operand for name, operand in operands.items() if name != "data")
    dst = _dst(make, region, data, *reads)
    if any(operand.tensor == dst.tensor for operand in reads):
        return
    make.emit("tensor_scalar", {"dst": dst, **operands}, **options)


def scalar_tensor_tensor(make: Maker) -> None:
    source = make.source(dtypes=tuple(FLOATS))
    if source is None:
        return
    data, region = source
    partner = make.like(region) or source
    if _both_psum(make, data, partner[0]):
        return
    operands: dict[str, Access] = {"data": data, "operand1": partner[0]}
    options = _given(operands, operand0=_number(make, region.shape[0]))
    dst = _dst(make, region, data, partner[0])
    if "operand0" in operands and operands["operand0"].tensor == dst.tensor:
        return
    ops = {f"op{stage}": f"nl.{make.chance.choice(_OPERATORS)}" for stage in "01"}
    make.emit("scalar_tensor_tensor", {"dst": dst, **operands}, **ops, **options)


def activation(make: Maker) -> None:
    source = make.source()
    if source is None:
        return
    data, region = source
    operands: dict[str, Access] = {"data": data}
    numbers: dict[str, object] = {}
    if make.chance.random() < 0.5:
        numbers["scale"] = _number(make, region.shape[0])
    if make.chance.random() < 0.3 and make.target != "trn1":
        numbers["bias"] = _number(make, region.shape[0]) or 1.0  # of -0.0 + 0.0 nobody speaks
    options = _given(operands, **numbers)
    dst = _dst(make, region, data)
    if any(operand.tensor == dst.tensor for name, operand in operands.items() if name != "data"):
        return
    op = make.chance.choice(("copy", "square", "relu", "abs"))
    make.emit("activation", {"dst": dst, **operands}, op=f"nl.{op}", **options)


def predicated(make: Maker) -> None:
    mask = make.source(dtypes=("uint8", "uint16", "uint32"))
    if mask is None:
        return
    src = make.like(mask[1])
    if src is None:
        return
    dst = _dst(make, mask[1], src[0], mask[0], dtype=make.dtype_of(src[0]))
    if mask[0].tensor == dst.tensor:
        return
    reverse = True if make.chance.random() < 0.3 else None
    make.emit("tensor_copy_predicated", {"dst": dst, "src": src[0], "predicate": mask[0]},
              reverse_pred=reverse)  # fmt: skip


def tensor_reduce(make: Maker) -> None:
    source = make.source()
    if source is None or len(source[1].shape) < 2:
        return
    data, region = source
    free = len(region.shape) - 1
    last = make.chance.randint(1, free)
    axes = tuple(range(free + 1 - last, free + 1))
    sums = make.small(data, 100) and not make.looping
    op = make.chance.choice(("add", "maximum", "minimum") if sums else ("maximum", "minimum"))
    shape = region.shape[: free + 1 - last] or region.shape[:1]
    shape = shape if len(shape) > 1 else (*shape, 1)
    dst = make.target_of(shape, make.dtype(), reads=(data,), aligned=False)
    negate = True if make.chance.random() < 0.2 else None
    make.emit("tensor_reduce", {"dst": dst, "data": data}, op=f"nl.{op}", axis=axes, negate=negate)


def scan(make: Maker) -> None:
    source = make.source(dtypes=tuple(FLOATS), rank=2)
    if source is None:
        return
    partner = make.like(source[1]) or source
    if _both_psum(make, source[0], partner[0]):
        return
    operands: dict[str, Access] = {"data0": source[0], "data1": partner[0]}
    options = _given(operands, initial=_number(make, source[1].shape[0]))
    dst = make.target_of(
        source[1].shape, make.dtype(), reads=tuple(operands.values()), aligned=False
    )
    ops = make.chance.choice((("multiply", "add"), ("add", "maximum"), ("add", "subtract")))
    make.emit("tensor_tensor_scan", {"dst": dst, **operands}, **options,
              op0=f"nl.{ops[0]}", op1=f"nl.{ops[1]}")  # fmt: skip


def matmul(make: Maker) -> None:
    """Products of small integers, accumulated in every manner."""
    left = make.source(dtypes=_PRODUCTS, memories=("sbuf",), rank=2)
    if left is None:
        return
    rows, columns = left[1].shape
    right = make.source(dtypes=_PRODUCTS, memories=("sbuf",), rank=2) or left
    if right[1].shape[0] != rows:
        right = left
    names = {left[0].tensor, right[0].tensor}
    written = {operation.operands["dst"].tensor for operation in make.pending}
    if not (make.small(left[0]) and make.small(right[0])) or names & written:
        return
    kinds = [make.dtype_of(operand) == "float32" for operand, _ in (left, right)]
    if kinds[0] != kinds[1]:
        right = left
    if columns > 128 or right[1].shape[1] > 512:
        return
    make.protected |= names
    dst = make.target_of((columns, right[1].shape[1]), "float32", memory="psum")
    if not make.small(dst, 2**15):
        return
    accumulate = make.chance.choice((None, None, True, False))
    if accumulate and not make.whole(dst) and make.chance.random() < 0.9:
        accumulate = None
    operands = {"dst": dst, "stationary": left[0], "moving": right[0]}
    make.emit("nc_matmul", operands, accumulate=accumulate)


def affine_select(make: Maker) -> None:
    source = make.source(memories=("sbuf",), rank=2)
    if source is None:
        return
    data, region = source
    dst = make.target_of(region.shape, make.dtype_of(data), memory="sbuf", reads=(data,))
    compare = make.chance.choice(("equal", "greater_equal", "less", "not_equal", "greater"))
    make.emit(
        "affine_select", {"dst": dst, "on_true_tile": data},
        pattern=[[make.chance.randint(-2, 2), region.shape[1]]],
        channel_multiplier=make.chance.randint(-2, 2), on_false_value=make.chance.choice((0.0, 7.0)),
        cmp_op=f"nl.{compare}", offset=make.chance.randint(-4, 4),
    )  # fmt: skip


Table = tuple[tuple[Callable[[Maker], None], int], ...]

LOOPED: Table = (
    (tensor_copy, 4), (dma_copy, 3), (memset, 1), (tensor_tensor, 3), (tensor_scalar, 3),
    (scalar_tensor_tensor, 1), (activation, 2), (predicated, 1), (tensor_reduce, 1), (matmul, 5),
    (affine_select, 1),
)  # fmt: skip
"""The operations of loops, with their weights."""

STEPS: Table = (
    *LOOPED, (tensor_copy, 4), (dma_copy, 4), (iota, 1), (tensor_reduce, 2), (scan, 2),
    (transpose, 2), (matmul, 2), (gather, 2), (rows_of_hbm, 3), (affine_select, 1), (predicated, 2),
    (gather_of_groups, 2), (shuffle, 3), (dma_compute, 1), (dma_transpose, 1),
)  # fmt: skip
"""Operations of one core."""

CORES: Table = ((sent, 16), (exchanged, 5))
"""Operations of two cores together."""
