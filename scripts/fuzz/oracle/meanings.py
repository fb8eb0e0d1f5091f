"""What each instruction writes, from what it reads: a table of functions on lists of cells.

A meaning returns a cell for each element of ``dst``, or None where it leaves one as it is. The
arithmetic is that of ``tests/oracles/scalars.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from oracle.cells import Cell, Mark, StartError, fill, index_of
from oracle.program import Access, Operation
from tests.oracles.scalars import ACTIVATIONS, BINARY, BITS, INTS, bits, f32, rounded

if TYPE_CHECKING:
    from oracle.machine import Machine

__all__ = ["COMPARISONS", "MEANINGS"]

Cells = list[Cell | None]
Meaning = Callable[["Machine", int, Operation], Cells]

COMPARISONS = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
     "logical_or", "logical_xor"}
)  # fmt: skip
"""Operators of which NaN makes a number."""

_NATIVE = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}
_START = {"add": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}


def _dtype(machine: Machine, access: Access) -> str:
    return machine.tensors[access.tensor].dtype


def _named(option: object) -> str:
    return str(option).removeprefix("nl.")


def _marked(*marks: Mark, hides: bool = False) -> Mark:
    """The mark of a result; an operator that ``hides`` NaN leaves it open."""
    highest = max(marks)
    return min(highest, Mark.MAYBE) if hides else highest


def _stored(value: float, dtype: str, mark: Mark) -> Cell:
    return Cell(rounded(value, dtype), mark)


def _per_partition(
    machine: Machine, core: int, operand: object, rows: int, count: int
) -> list[Cell]:
    """A number, or a vector with one element a partition, for each element of a tile."""
    if not isinstance(operand, Access):
        return [Cell(operand)] * count  # type: ignore[arg-type]
    vector = machine.read(core, operand)
    return [vector[place // (count // rows)] for place in range(count)]


def _shape(machine: Machine, core: int, access: Access) -> tuple[int, ...]:
    return machine.region(core, access).shape


def _copied(cells: list[Cell], source: str, target: str, *, exact: bool = True) -> Cells:
    """Between equal dtypes bit for bit, between others through float32."""
    if exact and source == target:
        return list(cells)
    return [_stored(f32(one.value), target, one.mark) for one in cells]


def copy(machine: Machine, core: int, operation: Operation) -> Cells:
    """``dma_copy``, ``tensor_copy``; the Scalar Engine takes integers through float32."""
    dst, src = operation.operands["dst"], operation.operands["src"]
    scalar = operation.options.get("engine") == "nisa.engine.scalar"
    kinds = _dtype(machine, src), _dtype(machine, dst)
    return _copied(machine.read(core, src), *kinds, exact=not (scalar and kinds[0] in INTS))


def moved(machine: Machine, core: int, operation: Operation) -> Cells:
    """``sendrecv``: what this core sends."""
    return list(machine.read(core, operation.operands["src"]))


def memset(machine: Machine, core: int, operation: Operation) -> Cells:
    dst = operation.operands["dst"]
    value = f32(operation.options["value"])
    count = len(machine.region(core, dst).places)
    return [_stored(value, _dtype(machine, dst), Mark.NO)] * count


def iota(machine: Machine, core: int, operation: Operation) -> Cells:
    dst, options = operation.operands["dst"], operation.options
    found: list[Cell | None] = []
    for partition in range(_shape(machine, core, dst)[0]):
        values = [options["offset"] + partition * options["channel_multiplier"]]
        for step, count in options["pattern"]:
            values = [value + step * place for value in values for place in range(count)]
        found += [_stored(float(one), _dtype(machine, dst), Mark.NO) for one in values]
    return found


def tensor_tensor(machine: Machine, core: int, operation: Operation) -> Cells:
    """In float32; 32-bit integers natively on GpSimd, which is taken when PSUM has no part."""
    operands, name = operation.operands, _named(operation.options["op"])
    dst, left, right = (operands[one] for one in ("dst", "data1", "data2"))
    kinds = [_dtype(machine, one) for one in (left, right, dst)]
    memories = {machine.tensors[one.tensor].memory for one in (dst, left, right)}
    native = (
        kinds[0] == kinds[1] == kinds[2]
        and kinds[0] in ("int32", "uint32")
        and "psum" not in memories
        and operation.options.get("engine") != "nisa.engine.vector"
    )
    pairs = zip(machine.read(core, left), machine.read(core, right), strict=True)
    return [_binary(name, one, other, kinds, native=native) for one, other in pairs]


def _binary(name: str, one: Cell, other: Cell, kinds: list[str], *, native: bool) -> Cell:
    hides = name in COMPARISONS and kinds[2] not in INTS
    mark = _marked(one.mark, other.mark, hides=hides)
    if name in BITS:
        return Cell(bits(name, one.value, other.value, kinds[0]), mark)
    if native and name in _NATIVE:
        low, high = INTS[kinds[0]]
        exact = _NATIVE[name](int(one.value), int(other.value))
        return Cell((exact - low) % (high - low + 1) + low, mark)
    values = (one.value, other.value) if native else (f32(one.value), f32(other.value))
    result = BINARY[name](*values)
    return Cell(int(result), mark) if native else _stored(f32(result), kinds[2], mark)


def tensor_scalar(machine: Machine, core: int, operation: Operation) -> Cells:
    """One operator with a number or a vector, and perhaps another one after it."""
    options, dst, data = operation.options, operation.operands["dst"], operation.operands["data"]
    cells = machine.read(core, data)
    rows = _shape(machine, core, data)[0]
    kind = _dtype(machine, dst)
    if _named(options["op0"]) in BITS:
        name, number = _named(options["op0"]), options["operand0"]
        return [Cell(bits(name, one.value, number, kind), one.mark) for one in cells]
    found = [Cell(f32(one.value), one.mark) for one in cells]
    for stage in "01":
        if options.get(f"op{stage}") is None:
            continue
        operand = operation.operands.get(f"operand{stage}", options.get(f"operand{stage}"))
        others = _per_partition(machine, core, operand, rows, len(cells))
        reverse = options.get(f"reverse{stage}", False)
        found = _stage(found, others, _named(options[f"op{stage}"]), reverse=reverse)
    return [_stored(one.value, kind, one.mark) for one in found]


def _stage(cells: list[Cell], others: list[Cell], name: str, *, reverse: bool) -> list[Cell]:
    found = []
    for one, other in zip(cells, others, strict=True):
        values = (f32(one.value), f32(other.value))
        result = f32(BINARY[name](*(reversed(values) if reverse else values)))
        found.append(Cell(result, _marked(one.mark, other.mark, hides=name in COMPARISONS)))
    return found


def scalar_tensor_tensor(machine: Machine, core: int, operation: Operation) -> Cells:
    """A number or a vector, then another tile."""
    operands, options = operation.operands, operation.options
    cells = machine.read(core, operands["data"])
    rows = _shape(machine, core, operands["data"])[0]
    operand = operands.get("operand0", options.get("operand0"))
    vector = _per_partition(machine, core, operand, rows, len(cells))
    first = _stage(cells, vector, _named(options["op0"]), reverse=options.get("reverse0", False))
    other = machine.read(core, operands["operand1"])
    second = _stage(first, other, _named(options["op1"]), reverse=options.get("reverse1", False))
    kind = _dtype(machine, operands["dst"])
    return [_stored(one.value, kind, one.mark) for one in second]


def activation(machine: Machine, core: int, operation: Operation) -> Cells:
    """A function that is exact in float32, of ``data * scale + bias``."""
    operands, options = operation.operands, operation.options
    cells = machine.read(core, operands["data"])
    rows = _shape(machine, core, operands["data"])[0]
    scale = _per_partition(
        machine, core, operands.get("scale", options.get("scale", 1.0)), rows, len(cells)
    )
    bias = _per_partition(
        machine, core, operands.get("bias", options.get("bias", 0.0)), rows, len(cells)
    )
    function = ACTIVATIONS[_named(options["op"])]
    kind = _dtype(machine, operands["dst"])
    found: Cells = []
    for one, factor, summand in zip(cells, scale, bias, strict=True):
        value = f32(f32(one.value) * f32(factor.value))
        value = f32(value + f32(summand.value)) if "bias" in operands | options else value
        mark = _marked(one.mark, factor.mark, summand.mark)
        found.append(_stored(f32(function(value)), kind, mark))
    return found


def predicated(machine: Machine, core: int, operation: Operation) -> Cells:
    """``tensor_copy_predicated``: where the predicate is not zero."""
    operands, options = operation.operands, operation.options
    predicate = machine.read(core, operands["predicate"])
    kinds = _dtype(machine, operands["src"]), _dtype(machine, operands["dst"])
    copied = _copied(machine.read(core, operands["src"]), *kinds)
    old = machine.raw(core, operands["dst"])
    found: Cells = []
    for test, new, before in zip(predicate, copied, old, strict=True):
        taken = (test.value != 0) != options.get("reverse_pred", False)
        if not test.mark:
            found.append(new if taken else None)
            continue
        chosen = new if taken else before or Cell(fill(kinds[1]))
        found.append(Cell(chosen.value, Mark.MAYBE) if chosen else None)
    return found


def tensor_reduce(machine: Machine, core: int, operation: Operation) -> Cells:
    """Over the last free dimensions, in their order."""
    operands, options = operation.operands, operation.options
    cells = machine.read(core, operands["data"])
    shape = _shape(machine, core, operands["data"])
    size = math.prod(shape[axis] for axis in options["axis"])
    name, kind = _named(options["op"]), _dtype(machine, operands["dst"])
    found: Cells = []
    for start in range(0, len(cells), size):
        group, total = cells[start : start + size], _START[name]
        for one in group:
            total = f32(BINARY[name](total, f32(one.value)))
        sign = -1.0 if options.get("negate") else 1.0
        found.append(_stored(sign * total, kind, max(one.mark for one in group)))
    return found


def tensor_tensor_scan(machine: Machine, core: int, operation: Operation) -> Cells:
    """``state = op1(op0(state, data0), data1)`` along each partition."""
    operands, options = operation.operands, operation.options
    left, right = (machine.read(core, operands[one]) for one in ("data0", "data1"))
    rows = _shape(machine, core, operands["data0"])[0]
    initial = _per_partition(
        machine, core, operands.get("initial", options.get("initial")), rows, rows
    )
    kind, columns = _dtype(machine, operands["dst"]), len(left) // rows
    first, second = _named(options["op0"]), _named(options["op1"])
    found: Cells = []
    for row in range(rows):
        state = initial[row]
        for place in range(row * columns, (row + 1) * columns):
            (state,) = _stage([state], [left[place]], first, reverse=False)
            (state,) = _stage([state], [right[place]], second, reverse=False)
            found.append(_stored(state.value, kind, state.mark))
    return found


def nc_transpose(machine: Machine, core: int, operation: Operation) -> Cells:
    data = operation.operands["data" if operation.op == "nc_transpose" else "src"]
    rows, columns = _shape(machine, core, data)
    cells = machine.read(core, data)
    return [cells[row * columns + column] for column in range(columns) for row in range(rows)]


def nc_matmul(machine: Machine, core: int, operation: Operation) -> Cells:
    """``stationary.T @ moving``; small integers, whose sums are exact in any order."""
    operands = operation.operands
    left, right = (machine.read(core, operands[one]) for one in ("stationary", "moving"))
    depth, rows = _shape(machine, core, operands["stationary"])
    columns = _shape(machine, core, operands["moving"])[1]
    old, wanted = machine.raw(core, operands["dst"]), operation.options.get("accumulate")
    if wanted and any(one is None for one in old):
        raise StartError("it accumulates where nothing was written")
    kind = _dtype(machine, operands["dst"])
    found: Cells = []
    for row in range(rows):
        for column in range(columns):
            pairs = [(left[k * rows + row], right[k * columns + column]) for k in range(depth)]
            total = f32(sum(one.value * other.value for one, other in pairs))
            mark = max(max(one.mark, other.mark) for one, other in pairs)
            before = old[row * columns + column]
            if wanted is not False and before is not None:
                total, mark = f32(before.value + total), max(mark, before.mark)
            found.append(_stored(total, kind, mark))
    return found


def nc_n_gather(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each partition from its own flattened elements."""
    data, indices = operation.operands["data"], operation.operands["indices"]
    cells, places = machine.read(core, data), machine.read(core, indices)
    rows = _shape(machine, core, data)[0]
    columns, count = len(cells) // rows, len(places) // rows
    return [cells[at // count * columns + index_of(one)] for at, one in enumerate(places)]


def local_gather(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each 16 partitions by the indices that lie in them, partition first."""
    operands, size = operation.operands, operation.options["num_elem_per_idx"]
    cells, places = (machine.read(core, operands[one]) for one in ("src_buffer", "index"))
    rows = _shape(machine, core, operands["index"])[0]
    columns, count = len(cells) // rows, len(places) // rows
    found: Cells = []
    for row in range(rows):
        group = row // 16 * 16
        for column in range(count):
            for lane in range(16):
                start = row * columns + index_of(places[(group + lane) * count + column])
                found += cells[start : start + size]
    return found


def nc_stream_shuffle(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each 32 partitions by the same mask; 255 leaves a partition as it is."""
    src, mask = operation.operands["src"], operation.options["shuffle_mask"]
    cells, rows = machine.read(core, src), _shape(machine, core, src)[0]
    columns = len(cells) // rows
    found: Cells = []
    for row in range(rows):
        wanted = mask[row % 32]
        start = (row // 32 * 32 + wanted) * columns
        found += [None] * columns if wanted == 255 else cells[start : start + columns]
    return found


def dma_compute(machine: Machine, core: int, operation: Operation) -> Cells:
    """The sum of several sources."""
    sources = [machine.read(core, one) for name, one in operation.operands.items() if name != "dst"]
    kind = _dtype(machine, operation.operands["dst"])
    found: Cells = []
    for cells in zip(*sources, strict=True):
        total = f32(cells[0].value)
        for one in cells[1:]:
            total = f32(total + f32(one.value))
        found.append(_stored(total, kind, max(one.mark for one in cells)))
    return found


def affine_select(machine: Machine, core: int, operation: Operation) -> Cells:
    """A tile where the affine value compares with zero, a number elsewhere."""
    operands, options = operation.operands, operation.options
    kinds = _dtype(machine, operands["on_true_tile"]), _dtype(machine, operands["dst"])
    cells = _copied(machine.read(core, operands["on_true_tile"]), *kinds)
    name, other = _named(options["cmp_op"]), Cell(rounded(options["on_false_value"], kinds[1]))
    rows = _shape(machine, core, operands["dst"])[0]
    found: Cells = []
    for partition in range(rows):
        values = [options["offset"] + partition * options["channel_multiplier"]]
        for step, count in options["pattern"]:
            values = [value + step * place for value in values for place in range(count)]
        for value in values:
            found.append(cells[len(found)] if BINARY[name](value, 0) else other)
    return found


MEANINGS: dict[str, Meaning] = {
    "activation": activation, "affine_select": affine_select, "dma_compute": dma_compute,
    "dma_copy": copy, "dma_transpose": nc_transpose, "iota": iota, "local_gather": local_gather,
    "nc_stream_shuffle": nc_stream_shuffle, "memset": memset, "nc_matmul": nc_matmul, "nc_n_gather": nc_n_gather,
    "nc_transpose": nc_transpose, "scalar_tensor_tensor": scalar_tensor_tensor,
    "sendrecv": moved, "tensor_copy": copy, "tensor_copy_predicated": predicated,
    "tensor_reduce": tensor_reduce, "tensor_scalar": tensor_scalar,
    "tensor_tensor": tensor_tensor, "tensor_tensor_scan": tensor_tensor_scan,
}  # fmt: skip
"""By instruction."""
