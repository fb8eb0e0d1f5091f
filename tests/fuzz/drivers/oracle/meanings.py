"""Semantics of each instruction: a table of functions from the cells read to the cells written.

A meaning returns a cell for each element of ``dst``, or None where it leaves one as it is. The
arithmetic is that of ``tests/oracles/scalars.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.fuzz.drivers.oracle.cells import Cell, Mark, StartError, fill, index_of
from tests.fuzz.drivers.oracle.program import Access, Operation
from tests.oracles.scalars import ACTIVATIONS, BINARY, BITS, INTS, bits, f32, rounded

if TYPE_CHECKING:
    from tests.fuzz.drivers.oracle.machine import Machine

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
    return [vector[position // (count // rows)] for position in range(count)]


def _shape(machine: Machine, core: int, access: Access) -> tuple[int, ...]:
    return machine.region(core, access).shape


def _copied(cells: list[Cell], source: str, target: str, *, exact: bool = True) -> Cells:
    """Between equal dtypes bit for bit, between others through float32."""
    if exact and source == target:
        return list(cells)
    return [_stored(f32(cell.value), target, cell.mark) for cell in cells]


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
    cells: list[Cell | None] = []
    for partition in range(_shape(machine, core, dst)[0]):
        values = [options["offset"] + partition * options["channel_multiplier"]]
        for step, count in options["pattern"]:
            values = [value + step * position for value in values for position in range(count)]
        cells += [_stored(float(value), _dtype(machine, dst), Mark.NO) for value in values]
    return cells


def tensor_tensor(machine: Machine, core: int, operation: Operation) -> Cells:
    """In float32; 32-bit integers natively on GpSimd, which is taken when PSUM has no part."""
    operands, name = operation.operands, _named(operation.options["op"])
    dst, left, right = (operands[operand] for operand in ("dst", "data1", "data2"))
    kinds = [_dtype(machine, operand) for operand in (left, right, dst)]
    memories = {machine.tensors[operand.tensor].memory for operand in (dst, left, right)}
    native = (
        kinds[0] == kinds[1] == kinds[2]
        and kinds[0] in ("int32", "uint32")
        and "psum" not in memories
        and operation.options.get("engine") != "nisa.engine.vector"
    )
    pairs = zip(machine.read(core, left), machine.read(core, right), strict=True)
    return [_binary(name, first, second, kinds, native=native) for first, second in pairs]


def _binary(name: str, left: Cell, right: Cell, kinds: list[str], *, native: bool) -> Cell:
    hides = name in COMPARISONS and kinds[2] not in INTS
    mark = _marked(left.mark, right.mark, hides=hides)
    if name in BITS:
        return Cell(bits(name, left.value, right.value, kinds[0]), mark)
    if native and name in _NATIVE:
        low, high = INTS[kinds[0]]
        exact = _NATIVE[name](int(left.value), int(right.value))
        return Cell((exact - low) % (high - low + 1) + low, mark)
    values = (left.value, right.value) if native else (f32(left.value), f32(right.value))
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
        return [Cell(bits(name, cell.value, number, kind), cell.mark) for cell in cells]
    results = [Cell(f32(cell.value), cell.mark) for cell in cells]
    for stage in "01":
        if options.get(f"op{stage}") is None:
            continue
        operand = operation.operands.get(f"operand{stage}", options.get(f"operand{stage}"))
        operand_cells = _per_partition(machine, core, operand, rows, len(cells))
        reverse = options.get(f"reverse{stage}", False)
        results = _stage(results, operand_cells, _named(options[f"op{stage}"]), reverse=reverse)
    return [_stored(cell.value, kind, cell.mark) for cell in results]


def _stage(cells: list[Cell], operands: list[Cell], name: str, *, reverse: bool) -> list[Cell]:
    results = []
    for cell, operand in zip(cells, operands, strict=True):
        values = (f32(cell.value), f32(operand.value))
        result = f32(BINARY[name](*(reversed(values) if reverse else values)))
        results.append(Cell(result, _marked(cell.mark, operand.mark, hides=name in COMPARISONS)))
    return results


def scalar_tensor_tensor(machine: Machine, core: int, operation: Operation) -> Cells:
    """A number or a vector, then another tile."""
    operands, options = operation.operands, operation.options
    cells = machine.read(core, operands["data"])
    rows = _shape(machine, core, operands["data"])[0]
    operand = operands.get("operand0", options.get("operand0"))
    vector = _per_partition(machine, core, operand, rows, len(cells))
    first = _stage(cells, vector, _named(options["op0"]), reverse=options.get("reverse0", False))
    second_operand = machine.read(core, operands["operand1"])
    second = _stage(
        first, second_operand, _named(options["op1"]), reverse=options.get("reverse1", False)
    )
    kind = _dtype(machine, operands["dst"])
    return [_stored(cell.value, kind, cell.mark) for cell in second]


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
    results: Cells = []
    for cell, factor, summand in zip(cells, scale, bias, strict=True):
        value = f32(f32(cell.value) * f32(factor.value))
        value = f32(value + f32(summand.value)) if "bias" in operands | options else value
        mark = _marked(cell.mark, factor.mark, summand.mark)
        results.append(_stored(f32(function(value)), kind, mark))
    return results


def predicated(machine: Machine, core: int, operation: Operation) -> Cells:
    """``tensor_copy_predicated``: where the predicate is not zero."""
    operands, options = operation.operands, operation.options
    predicate = machine.read(core, operands["predicate"])
    kinds = _dtype(machine, operands["src"]), _dtype(machine, operands["dst"])
    copied = _copied(machine.read(core, operands["src"]), *kinds)
    old = machine.raw(core, operands["dst"])
    results: Cells = []
    for test, new, before in zip(predicate, copied, old, strict=True):
        is_taken = (test.value != 0) != options.get("reverse_pred", False)
        if not test.mark:
            results.append(new if is_taken else None)
            continue
        chosen = new if is_taken else before or Cell(fill(kinds[1]))
        results.append(Cell(chosen.value, Mark.MAYBE) if chosen else None)
    return results


def tensor_reduce(machine: Machine, core: int, operation: Operation) -> Cells:
    """Over the last free dimensions, in their order."""
    operands, options = operation.operands, operation.options
    cells = machine.read(core, operands["data"])
    shape = _shape(machine, core, operands["data"])
    size = math.prod(shape[axis] for axis in options["axis"])
    name, kind = _named(options["op"]), _dtype(machine, operands["dst"])
    results: Cells = []
    for start in range(0, len(cells), size):
        group, total = cells[start : start + size], _START[name]
        for cell in group:
            total = f32(BINARY[name](total, f32(cell.value)))
        sign = -1.0 if options.get("negate") else 1.0
        results.append(_stored(sign * total, kind, max(operand.mark for operand in group)))
    return results


def tensor_tensor_scan(machine: Machine, core: int, operation: Operation) -> Cells:
    """``state = op1(op0(state, data0), data1)`` along each partition."""
    operands, options = operation.operands, operation.options
    left, right = (machine.read(core, operands[operand]) for operand in ("data0", "data1"))
    rows = _shape(machine, core, operands["data0"])[0]
    initial = _per_partition(
        machine, core, operands.get("initial", options.get("initial")), rows, rows
    )
    kind, columns = _dtype(machine, operands["dst"]), len(left) // rows
    first, second = _named(options["op0"]), _named(options["op1"])
    results: Cells = []
    for row in range(rows):
        state = initial[row]
        for position in range(row * columns, (row + 1) * columns):
            (state,) = _stage([state], [left[position]], first, reverse=False)
            (state,) = _stage([state], [right[position]], second, reverse=False)
            results.append(_stored(state.value, kind, state.mark))
    return results


def nc_transpose(machine: Machine, core: int, operation: Operation) -> Cells:
    data = operation.operands["data" if operation.op == "nc_transpose" else "src"]
    rows, columns = _shape(machine, core, data)
    cells = machine.read(core, data)
    return [cells[row * columns + column] for column in range(columns) for row in range(rows)]


def nc_matmul(machine: Machine, core: int, operation: Operation) -> Cells:
    """``stationary.T @ moving``; small integers, whose sums are exact in any order."""
    operands = operation.operands
    left, right = (machine.read(core, operands[operand]) for operand in ("stationary", "moving"))
    depth, rows = _shape(machine, core, operands["stationary"])
    columns = _shape(machine, core, operands["moving"])[1]
    old, accumulates = machine.raw(core, operands["dst"]), operation.options.get("accumulate")
    if accumulates and any(cell is None for cell in old):
        raise StartError("it accumulates where nothing was written")
    kind = _dtype(machine, operands["dst"])
    results: Cells = []
    for row in range(rows):
        for column in range(columns):
            pairs = [(left[k * rows + row], right[k * columns + column]) for k in range(depth)]
            total = f32(sum(first.value * second.value for first, second in pairs))
            mark = max(max(first.mark, second.mark) for first, second in pairs)
            before = old[row * columns + column]
            if accumulates is not False and before is not None:
                total, mark = f32(before.value + total), max(mark, before.mark)
            results.append(_stored(total, kind, mark))
    return results


def nc_n_gather(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each partition from its own flattened elements."""
    data, indices = operation.operands["data"], operation.operands["indices"]
    cells, positions = machine.read(core, data), machine.read(core, indices)
    rows = _shape(machine, core, data)[0]
    columns, count = len(cells) // rows, len(positions) // rows
    return [
        cells[index // count * columns + index_of(position)]
        for index, position in enumerate(positions)
    ]


def local_gather(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each 16 partitions by the indices that lie in them, partition first."""
    operands, size = operation.operands, operation.options["num_elem_per_idx"]
    cells, positions = (
        machine.read(core, operands[operand]) for operand in ("src_buffer", "index")
    )
    rows = _shape(machine, core, operands["index"])[0]
    columns, count = len(cells) // rows, len(positions) // rows
    results: Cells = []
    for row in range(rows):
        group = row // 16 * 16
        for column in range(count):
            for lane in range(16):
                start = row * columns + index_of(positions[(group + lane) * count + column])
                results += cells[start : start + size]
    return results


def nc_stream_shuffle(machine: Machine, core: int, operation: Operation) -> Cells:
    """Each 32 partitions by the same mask; 255 leaves a partition as it is."""
    src, mask = operation.operands["src"], operation.options["shuffle_mask"]
    cells, rows = machine.read(core, src), _shape(machine, core, src)[0]
    columns = len(cells) // rows
    results: Cells = []
    for row in range(rows):
        source_row = mask[row % 32]
        start = (row // 32 * 32 + source_row) * columns
        results += [None] * columns if source_row == 255 else cells[start : start + columns]
    return results


def dma_compute(machine: Machine, core: int, operation: Operation) -> Cells:
    """The sum of several sources."""
    sources = [
        machine.read(core, access) for name, access in operation.operands.items() if name != "dst"
    ]
    kind = _dtype(machine, operation.operands["dst"])
    results: Cells = []
    for cells in zip(*sources, strict=True):
        total = f32(cells[0].value)
        for cell in cells[1:]:
            total = f32(total + f32(cell.value))
        results.append(_stored(total, kind, max(source.mark for source in cells)))
    return results


def affine_select(machine: Machine, core: int, operation: Operation) -> Cells:
    """A tile where the affine value compares with zero, a number elsewhere."""
    operands, options = operation.operands, operation.options
    kinds = _dtype(machine, operands["on_true_tile"]), _dtype(machine, operands["dst"])
    cells = _copied(machine.read(core, operands["on_true_tile"]), *kinds)
    name, false_cell = _named(options["cmp_op"]), Cell(rounded(options["on_false_value"], kinds[1]))
    rows = _shape(machine, core, operands["dst"])[0]
    results: Cells = []
    for partition in range(rows):
        values = [options["offset"] + partition * options["channel_multiplier"]]
        for step, count in options["pattern"]:
            values = [value + step * position for value in values for position in range(count)]
        for value in values:
            results.append(cells[len(results)] if BINARY[name](value, 0) else false_cell)
    return results


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
