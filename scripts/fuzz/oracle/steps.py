"""How arithmetic is drawn, and the tables of all operations; no operands, no operation."""

from __future__ import annotations

from collections.abc import Callable

from oracle.maker import Maker
from oracle.moves import (
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
from oracle.places import Region
from oracle.program import Access
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
    return all(make.tensors[one.tensor].memory == "psum" for one in operands)


def _number(make: Maker, rows: int) -> object:
    """A number, or a vector with one element a partition."""
    if make.chance.random() < 0.3:
        found = make.source(dtypes=("float32",), memories=("sbuf",), shape=(rows, 1))
        if found is not None:
            return found[0]
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
    found = make.source()
    if found is None:
        return
    left, region = found
    kind = make.dtype_of(left)
    exact = kind in ("int32", "uint32") or (kind in INTS and make.chance.random() < 0.3)
    other = make.like(region, kind if exact else "") or found
    right, _ = other
    if exact != (make.dtype_of(right) in ("int32", "uint32")) and not exact:
        return
    if _both_psum(make, left, right):
        return
    op = make.chance.choice((*BITS,) if exact and kind not in ("int32", "uint32") else _OPERATORS)
    if kind in ("int32", "uint32"):
        op = make.chance.choice(
            ("add", "subtract", "multiply", "maximum", "minimum", "less", *BITS)
        )
    if "shift" in op and any(not 0 <= one < 32 for one in make.cells(right)):
        op = "bitwise_xor"
    dst = _dst(make, region, left, right, dtype=kind if exact else "")
    make.emit("tensor_tensor", {"dst": dst, "data1": left, "data2": right}, op=f"nl.{op}")


def tensor_scalar(make: Maker) -> None:
    found = make.source()
    if found is None:
        return
    data, region = found
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
    reads = tuple(one for name, one in operands.items() if name != "data")
    dst = _dst(make, region, data, *reads)
    if any(one.tensor == dst.tensor for one in reads):
        return
    make.emit("tensor_scalar", {"dst": dst, **operands}, **options)


def scalar_tensor_tensor(make: Maker) -> None:
    found = make.source(dtypes=tuple(FLOATS))
    if found is None:
        return
    data, region = found
    other = make.like(region) or found
    if _both_psum(make, data, other[0]):
        return
    operands: dict[str, Access] = {"data": data, "operand1": other[0]}
    options = _given(operands, operand0=_number(make, region.shape[0]))
    dst = _dst(make, region, data, other[0])
    if "operand0" in operands and operands["operand0"].tensor == dst.tensor:
        return
    ops = {f"op{stage}": f"nl.{make.chance.choice(_OPERATORS)}" for stage in "01"}
    make.emit("scalar_tensor_tensor", {"dst": dst, **operands}, **ops, **options)


def activation(make: Maker) -> None:
    found = make.source()
    if found is None:
        return
    data, region = found
    operands: dict[str, Access] = {"data": data}
    numbers: dict[str, object] = {}
    if make.chance.random() < 0.5:
        numbers["scale"] = _number(make, region.shape[0])
    if make.chance.random() < 0.3 and make.target != "trn1":
        numbers["bias"] = _number(make, region.shape[0]) or 1.0  # of -0.0 + 0.0 nobody speaks
    options = _given(operands, **numbers)
    dst = _dst(make, region, data)
    if any(one.tensor == dst.tensor for name, one in operands.items() if name != "data"):
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
    found = make.source()
    if found is None or len(found[1].shape) < 2:
        return
    data, region = found
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
    found = make.source(dtypes=tuple(FLOATS), rank=2)
    if found is None:
        return
    other = make.like(found[1]) or found
    if _both_psum(make, found[0], other[0]):
        return
    operands: dict[str, Access] = {"data0": found[0], "data1": other[0]}
    options = _given(operands, initial=_number(make, found[1].shape[0]))
    dst = make.target_of(
        found[1].shape, make.dtype(), reads=tuple(operands.values()), aligned=False
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
    written = {one.operands["dst"].tensor for one in make.pending}
    if not (make.small(left[0]) and make.small(right[0])) or names & written:
        return
    kinds = [make.dtype_of(one) == "float32" for one, _ in (left, right)]
    if kinds[0] != kinds[1]:
        right = left
    if columns > 128 or right[1].shape[1] > 512:
        return
    make.kept |= names
    dst = make.target_of((columns, right[1].shape[1]), "float32", memory="psum")
    if not make.small(dst, 2**15):
        return
    wanted = make.chance.choice((None, None, True, False))
    if wanted and not make.whole(dst) and make.chance.random() < 0.9:
        wanted = None
    operands = {"dst": dst, "stationary": left[0], "moving": right[0]}
    make.emit("nc_matmul", operands, accumulate=wanted)


def affine_select(make: Maker) -> None:
    found = make.source(memories=("sbuf",), rank=2)
    if found is None:
        return
    data, region = found
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
"""What loops are made of, with weights."""

STEPS: Table = (
    *LOOPED, (tensor_copy, 4), (dma_copy, 4), (iota, 1), (tensor_reduce, 2), (scan, 2),
    (transpose, 2), (matmul, 2), (gather, 2), (rows_of_hbm, 3), (affine_select, 1), (predicated, 2),
    (gather_of_groups, 2), (shuffle, 3), (dma_compute, 1), (dma_transpose, 1),
)  # fmt: skip
"""What one core does."""

CORES: Table = ((sent, 16), (exchanged, 5))
"""What two cores do together."""
