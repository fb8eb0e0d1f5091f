"""Instructions as calls of NumPy's functions, without the Python function between them.

The functions of :mod:`nki_lang.semantics` examine types and shapes each time they run. For the
common cases this module examines them once: an instruction becomes one or two calls whose
arguments are fixed, with the same bits as result. Whatever has no entry here, or is not the common
case, runs by its function of ``semantics``.

An operand with a register as index becomes an array with the index as first axis
(:class:`Moving`), so that an iteration of a loop takes its view with one subscript.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiError
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.memory import Memory
from nki_lang.execute.storage import Storage
from nki_lang.ir.types import Access, Engine, Instruction, Operand, Register
from nki_lang.semantics import TRAITS
from nki_lang.semantics.functions import ACTIVATIONS
from nki_lang.semantics.numbers import in_order, is_array
from nki_lang.semantics.operators import Operator, operator_of

__all__ = ["Call", "Direct", "Moving", "direct", "direct_step"]

Function = Callable[..., Array]

_F32 = np.dtype(np.float32)
_NATIVE = frozenset({np.dtype(np.int32), np.dtype(np.uint32)})
_MAX_CONTIGUOUS_COLUMNS = 4
"""Columns up to which ``nc_matmul`` copies an operand with gaps."""


class Call(NamedTuple):
    """One call.

    Attributes:
        function: what is called; None for a plain assignment.
        arguments: its arguments; the only one is assigned when there is no function.
        out: the array that the function writes as its argument ``out``, or None.
        into: the array that receives the result otherwise.
    """

    function: Function | None
    arguments: tuple[Operand, ...]
    out: Array | None = None
    into: Array | None = None


class Moving(NamedTuple):
    """The views of an operand for every value of a register.

    Attributes:
        views: one view for each value from 0.
        register: name of the register.
        first: the view for 0; while it is kept, no other array has its ``id``.
    """

    views: Array
    register: str
    first: Array


class Direct(NamedTuple):
    """The calls of one instruction; ``moving`` are their arguments that depend on registers, by
    the ``id`` of the view for register 0.
    """

    calls: list[Call]
    moving: dict[int, Moving]


def direct(instruction: Instruction, memory: Memory) -> Direct | None:
    """Return the calls that execute the instruction; None when its function must run.

    The values of the registers are 0 to ``len(views) - 1``; for any other value the caller runs the
    instruction's function, which reports it.
    """
    build = _BUILDERS.get(instruction.op)
    if build is None or instruction.operands.get("oob_mode", "error") == "skip":
        return None
    operands = _Operands(memory)
    try:
        calls = build(operands, instruction) if operands.resolve(instruction) else None
    except (NkiError, ValueError, TypeError, LookupError, ArithmeticError):
        return None  # the instruction's function reports it
    return None if calls is None else Direct(calls, operands.moving)


def direct_step(instruction: Instruction, memory: Memory) -> Callable[[], object] | None:
    """Return a closure of the calls of an instruction without registers, else None."""
    prepared = direct(instruction, memory)
    if prepared is None or prepared.moving:
        return None
    steps = [_closure(call) for call in prepared.calls]
    return steps[0] if len(steps) == 1 else functools.partial(_run_all, tuple(steps))


def _closure(call: Call) -> Callable[[], object]:
    function, arguments, out, into = call
    if into is None:
        assert function is not None
        return functools.partial(function, *arguments, out=out)
    if function is None:
        return functools.partial(operator.setitem, into, Ellipsis, *arguments)
    return functools.partial(_assign, into, function, arguments)


def _assign(into: Array, function: Function, arguments: tuple[Operand, ...]) -> None:
    into[...] = function(*arguments)


def _run_all(steps: tuple[Callable[[], object], ...]) -> None:
    for step in steps:
        step()


class _Operands:
    """The operands of one instruction as arrays and numbers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.values: dict[str, Operand] = {}
        self.moving: dict[int, Moving] = {}

    def resolve(self, instruction: Instruction) -> bool:
        """Find the arrays; return False for operands of unusual kinds."""
        writes = TRAITS[instruction.op].writes
        for name, value in instruction.operands.items():
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Access:
                if value.vector_offset is not None:
                    return False
                if name in writes and value.element_type.name == "tfloat32":
                    return False
                view = self._view(value)
                if view is None:
                    return False
                self.values[name] = view
            elif kind is Register or ((kind is tuple or kind is list) and value):
                return False
            else:
                self.values[name] = value
        return True

    def _view(self, access: Access) -> Array | None:
        index = access.scalar_offset
        if index is None:
            return self._memory.view(access)
        if type(index) is not Register:
            return None
        views = _views(access, self._memory)
        if views is None:
            return None
        first = views[0]
        self.moving[id(first)] = Moving(views, index.name, first)
        return first

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array | None:
        """Return a view of the array in another shape, or None where that needs a copy."""
        if array.shape == shape:
            return array
        moving = self.moving.get(id(array))
        if moving is None:
            return _reshaped_view(array, shape)
        views = _reshaped_view(moving.views, (len(moving.views), *shape))
        if views is None:
            return None
        first = views[0]
        self.moving[id(first)] = Moving(views, moving.register, first)
        return first

    def may_share(self, first: Array, second: Array) -> bool:
        """Return True if the arrays may share memory, for some values of their registers."""
        return np.may_share_memory(self._every(first), self._every(second))

    def _every(self, array: Array) -> Array:
        moving = self.moving.get(id(array))
        return array if moving is None else moving.views

    def temporary(self, shape: tuple[int, ...]) -> Array:
        """Return float32 memory for a value within one instruction."""
        return self._memory.temporary(shape)


def _reshaped_view(array: Array, shape: tuple[int, ...]) -> Array | None:
    if array.size != np.prod(shape, dtype=np.int64):
        return None
    result = array.reshape(shape)
    return result if array.size == 0 or np.may_share_memory(result, array) else None


def _views(access: Access, memory: Memory) -> Array | None:
    """Return the views of an access for each value of its register, or None if value 0 is not in
    bounds or the views are not equally far apart.
    """
    storage = memory.storage(access.tensor)
    span = memory.index_spans.get(id(access))
    if span is None:
        span = memory.index_spans[id(access)] = (access, *_span(access, storage))
    _, count, stride = span
    if not count or storage.pending:
        return None
    first = storage.layout(access)
    shape, strides = (count, *first.shape), (stride, *first.strides)
    return np.ndarray(shape, first.dtype, storage.data, first.offset, strides)


def _span(access: Access, storage: Storage) -> tuple[int, int]:
    """Return how many values of the index from 0 on are in bounds, and the bytes between their
    views; no values when the views are not equally far apart.
    """
    step = access.index_step

    def exists(value: int) -> bool:
        try:
            storage.layout(access, value * step)
        except NkiError:
            return False
        return True

    if step <= 0 or 0 in access.shape or not exists(0):
        return 0, 0
    # Offsets grow with the index, so the values in bounds are 0 to some last one.
    low, high = 0, storage.tensor.nbytes // step + 1
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if exists(middle) else (low, middle)
    offsets = [storage.layout(access, value * step).offset for value in {0, min(1, low), low}]
    stride = (max(offsets) - min(offsets)) // max(1, low)
    is_even = sorted(offsets) == [
        offsets[0] + value * stride for value in sorted({0, min(1, low), low})
    ]
    return (low + 1, stride) if is_even else (0, 0)


# -- instructions -----------------------------------------------------------------------------


def _assigned(operands: _Operands, dst: Array, src: Array) -> list[Call] | None:
    """``semantics.numbers.store`` between types where NumPy's own conversion is the engines'."""
    view = operands.reshaped(src, dst.shape)
    if view is None:
        return None
    if view.dtype != dst.dtype:
        if view.dtype.kind not in "iufV" or view.dtype.itemsize > 4:
            return None
        if dst.dtype != _F32 and (view.dtype != _F32 or dst.dtype.kind in "iub"):
            return None
    return [Call(None, (view,), into=dst)]


def _copy(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    dst, src = operands.values["dst"], operands.values["src"]
    is_rounded = instruction.op == "tensor_copy" and instruction.engine is Engine.scalar
    if is_rounded and src.dtype.kind in "iu" and src.dtype.itemsize >= 4:
        return None
    return _assigned(operands, dst, src)


def _transpose(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    dst, data = operands.values["dst"], operands.values["data"]
    if id(data) in operands.moving or operands.may_share(dst, data):
        return None
    flat = _reshaped_view(data, (data.shape[0], data.size // max(1, data.shape[0])))
    return None if flat is None else _assigned(operands, dst, flat.T)


def _memset(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    dst, value = operands.values["dst"], operands.values["value"]
    if dst.dtype != _F32 or is_array(value):
        return None
    return [Call(None, (np.asarray(value, _F32),), into=dst)]


def _ufunc(arithmetic: Operator) -> np.ufunc | None:
    """Return the binary NumPy function of an arithmetic operator or of a comparison."""
    if arithmetic.unary or arithmetic.bits:
        return None
    if isinstance(arithmetic.function, np.ufunc):
        return arithmetic.function
    return _COMPARISONS.get(arithmetic.name)


_COMPARISONS: dict[str, np.ufunc] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
"""Operators whose truth NumPy writes as 1 and 0 into any type."""

_INTEGER_OPERATORS = frozenset({"add", "subtract", "multiply", "maximum", "minimum", *_COMPARISONS})
"""Operators that are equal on 32-bit integers in NumPy and on GpSimd."""

_BIT_OPERATORS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})


def _tensor_tensor(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, name = values["dst"], values["op"]
    left, right = (operands.reshaped(values[key], dst.shape) for key in ("data1", "data2"))
    if left is None or right is None or left.dtype != right.dtype:
        return None
    if name in _BIT_OPERATORS:
        same = left.dtype == dst.dtype and dst.dtype.kind in "iu"
        return [Call(operator_of(name).function, (left, right), dst)] if same else None
    function = _ufunc(operator_of(name))
    if function is None:
        return None
    if left.dtype == dst.dtype == _F32:
        return [Call(function, (left, right), dst)]
    if left.dtype == _F32 and name in _COMPARISONS:
        return [Call(function, (left, right), dst)] if dst.dtype.kind in "iu" else None
    if left.dtype != dst.dtype or dst.dtype not in _NATIVE or name not in _INTEGER_OPERATORS:
        return None
    if instruction.engine is Engine.vector or _uses_psum(instruction):
        return None
    return [Call(function, (left, right), dst)]


def _uses_psum(instruction: Instruction) -> bool:
    return any(
        type(access) is Access and access.tensor.buffer is MemoryRegion.psum
        for access in instruction.operands.values()
    )


def _scalar(operands: _Operands, value: Operand, like: Array) -> Operand:
    """``semantics.numbers.per_partition`` as a view or a number; None where it needs a copy."""
    if not is_array(value):
        return np.float32(0.0 if value is None else value)
    if value.dtype != _F32:
        return None
    if value.ndim == 0 or value.size == 1:
        return operands.reshaped(value, (1,) * like.ndim)
    if value.size == value.shape[0]:
        return operands.reshaped(value, (value.shape[0], *(1,) * (like.ndim - 1)))
    return operands.reshaped(value, like.shape)


def _scaled(
    operands: _Operands, data: Array, name: str, operand: Operand, reverse: bool, out: Array
) -> Call | None:
    """``semantics.elementwise.scaled`` as one call; None where it is none."""
    arithmetic = operator_of(name)
    if arithmetic.bits:
        return None
    if arithmetic.unary:
        return Call(arithmetic.function, (data,), out)
    function, scalar = _ufunc(arithmetic), _scalar(operands, operand, data)
    if function is None or scalar is None:
        return None
    return Call(function, (scalar, data) if reverse else (data, scalar), out)


def _tensor_scalar(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, data, op0, op1 = (values.get(key) for key in ("dst", "data", "op0", "op1"))
    assert is_array(dst) and is_array(data) and type(op0) is str
    if data.shape != dst.shape:
        return None
    operand0, reverse0 = values.get("operand0"), bool(values.get("reverse0"))
    if op1 is None and op0 in _BIT_OPERATORS:
        return _bit_scalar(dst, data, op0, operand0)
    comparing = op1 is None and op0 in _COMPARISONS and dst.dtype.kind in "iu"
    if data.dtype != _F32 or (dst.dtype != _F32 and not comparing):
        return None
    first = _scaled(operands, data, op0, operand0, reverse0, dst)
    if first is None or op1 is None:
        return None if first is None else [first]
    operand1 = values.get("operand1")
    if is_array(operand1) and operands.may_share(operand1, dst):
        return None
    second = _scaled(operands, dst, op1, operand1, bool(values.get("reverse1")), dst)
    return None if second is None else [first, second]


def _bit_scalar(dst: Array, data: Array, name: str, operand: Operand) -> list[Call] | None:
    if is_array(operand) or dst.dtype != data.dtype or dst.dtype.kind not in "iu":
        return None
    size = dst.dtype.itemsize
    mask = np.asarray(int(operand) & ((1 << (8 * size)) - 1), f"u{size}").view(dst.dtype)
    return [Call(operator_of(name).function, (data, mask), dst)]


def _scalar_tensor_tensor(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, data, operand1 = values["dst"], values["data"], values["operand1"]
    if not is_array(operand1) or not data.dtype == dst.dtype == operand1.dtype == _F32:
        return None
    second, function = operands.reshaped(operand1, data.shape), _ufunc(operator_of(values["op1"]))
    if second is None or function is None or data.shape != dst.shape:
        return None
    value = operands.temporary(data.shape)
    reverse0, reverse1 = bool(values.get("reverse0")), bool(values.get("reverse1"))
    first = _scaled(operands, data, values["op0"], values.get("operand0"), reverse0, value)
    if first is None:
        return None
    return [first, Call(function, (second, value) if reverse1 else (value, second), dst)]


def _reciprocal(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    dst, data = operands.values["dst"], operands.values["data"]
    if not data.dtype == dst.dtype == _F32 or data.shape != dst.shape:
        return None
    return [Call(np.divide, (np.float32(1), data), dst)]


def _activation(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, data, bias = values["dst"], values["data"], values.get("bias")
    scale, function = values.get("scale", 1.0), ACTIVATIONS.get(values["op"])
    if values.get("reduce_res") is not None or values.get("reduce_cmd", "idle") != "idle":
        return None
    if function is None or not data.dtype == dst.dtype == _F32 or data.shape != dst.shape:
        return None
    calls: list[Call] = []
    source: Array = data
    for name, operand, neutral in (("multiply", scale, 1.0), ("add", bias, 0.0)):
        if operand is None or (not is_array(operand) and operand == neutral):
            continue
        if is_array(operand) and operands.may_share(operand, dst):
            return None
        call = _scaled(operands, source, name, operand, False, dst)
        if call is None:
            return None
        calls.append(call)
        source = dst
    if isinstance(function, np.ufunc):
        return [*calls, Call(function, (source,), dst)]
    return [*calls, Call(function, (source,), into=dst)]


def _reduce(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, data, axis = values["dst"], values["data"], values["axis"]
    reduction = operator_of(values["op"])
    if not data.dtype == dst.dtype == _F32 or values.get("negate") or data.size == 0:
        return None
    if reduction.name not in ("add", "multiply", "maximum", "minimum") or reduction.ufunc is None:
        return None
    if id(data) in operands.moving or in_order(data) is not data:
        return None
    axes = tuple(entry % data.ndim for entry in ((axis,) if isinstance(axis, int) else axis))
    if not axes:
        return None
    shape = tuple(extent for index, extent in enumerate(data.shape) if index not in axes)
    result = operands.reshaped(dst, shape)
    return None if result is None else [Call(reduction.ufunc.reduce, (data, axes), into=result)]


def _matmul(operands: _Operands, instruction: Instruction) -> list[Call] | None:
    values = operands.values
    dst, left, right = (values[key] for key in ("dst", "stationary", "moving"))
    if values.get("is_transpose") or values.get("perf_mode", "none") != "none":
        return None
    if not left.dtype == right.dtype == dst.dtype == _F32 or not left.ndim == right.ndim == 2:
        return None
    narrow = any(
        tile.shape[1] <= _MAX_CONTIGUOUS_COLUMNS and not tile.flags.c_contiguous
        for tile in (left, right)
    )
    if narrow or (left.shape == right.shape and operands.may_share(left, right)):
        return None
    if id(left) in operands.moving or dst.shape != (left.shape[1], right.shape[1]):
        return None
    if not values.get("accumulate"):
        return [Call(np.matmul, (left.T, right), dst)]
    value = operands.temporary(dst.shape)
    return [Call(np.matmul, (left.T, right), value), Call(np.add, (dst, value), dst)]


_BUILDERS: dict[str, Callable[[_Operands, Instruction], list[Call] | None]] = {
    "activation": _activation,
    "dma_copy": _copy,
    "memset": _memset,
    "nc_matmul": _matmul,
    "nc_transpose": _transpose,
    "reciprocal": _reciprocal,
    "scalar_tensor_tensor": _scalar_tensor_tensor,
    "tensor_copy": _copy,
    "tensor_reduce": _reduce,
    "tensor_scalar": _tensor_scalar,
    "tensor_tensor": _tensor_tensor,
}
