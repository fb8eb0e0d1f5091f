"""The textual form of the kernel IR: :func:`to_text` writes it for people and tests,
:func:`nki_lang.ir.text_parser.parse` reads it.

::

    kernel scale target=trn2 grid=(1,) {
      input %a: float32[256, 512] shared_hbm
      output %c: float32[256, 512] shared_hbm
      core {
        tensor %t: float32[128, 512] sbuf
        for $i in 0..2 step 1 @"scale.py":7 in scale {
          dma_copy(dst=%t, src=%a[0; 512*128, 1*512 | scalar=$i, dim=0], ...) @"scale.py":8 in scale
        }
      }
    }

An access is ``%tensor[offset; step*count, ...]``, or ``%tensor`` alone for the whole tensor in
row-major order; ``scalar=``, ``vector=``, ``dim=``, ``dtype=`` and ``step=`` follow the bar.
Registers begin with ``$``. Operators and other strings that are words have no quotes. The text is
complete: ``parse(to_text(kernel)) == kernel``.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array, DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import (
    Access,
    Block,
    Constant,
    Engine,
    ForLoop,
    Instruction,
    KernelIR,
    NoReorder,
    Register,
    Statement,
    Tensor,
    WhileLoop,
)

__all__ = ["RESERVED", "full_pattern", "identity", "statement_to_text", "to_text"]

_WORD_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*\Z")
RESERVED = frozenset({"True", "False", "None", "inf", "nan"})
"""Words that need quotes as strings."""


def full_pattern(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pattern of an access to all elements in row-major order."""
    pairs: list[tuple[int, int]] = []
    step = 1
    for extent in reversed(shape):
        pairs.append((step, extent))
        step *= extent
    return tuple(reversed(pairs))


def _string(value: str) -> str:
    if _WORD_PATTERN.match(value) and value not in RESERVED:
        return value
    return json.dumps(value)


def _name(value: str) -> str:
    return value if _WORD_PATTERN.match(value) else json.dumps(value)


def _register(register: Register) -> str:
    return f"${_name(register.name)}"


def _access(access: Access) -> str:
    tensor, offset, pattern, scalar, vector, dim, dtype, step = access
    head = f"%{_name(tensor.name)}"
    more: list[str] = []
    if scalar is not None:
        more.append(f"scalar={_value(scalar)}")
    if vector is not None:
        more.append(f"vector={_value(vector)}")
    if dim or more:
        more.append(f"dim={dim}")
    if dtype is not None:
        more.append(f"dtype={dtype.name}")
    if step is not None:
        more.append(f"step={step}")
    if not more and offset == 0 and pattern == full_pattern(tensor.shape):
        return head
    pairs = ", ".join(f"{stride}*{count}" for stride, count in pattern)
    tail = f" | {', '.join(more)}" if more else ""
    return f"{head}[{offset};{' ' if pairs else ''}{pairs}{tail}]"


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else repr(value).replace("-nan", "nan")


def _value(value: Any) -> str:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        return _access(value)
    if kind is Register:
        return _register(value)
    if kind is str:
        return _string(value)
    if kind is float:
        return _float(value)
    if value is None or kind in (bool, int):
        return str(value)
    if kind is tuple:
        inner = ", ".join(map(_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is list:
        return f"[{', '.join(map(_value, value))}]"
    if kind is dict:
        return (
            "{" + ", ".join(f"{_value(key)}: {_value(entry)}" for key, entry in value.items()) + "}"
        )
    if kind is DType:
        return f"<dtype {value.name}>"
    if isinstance(value, MemoryRegion):
        return f"<buffer {value.value}>"
    if isinstance(value, Engine):
        return f"<engine {value.name}>"
    raise TypeError(f"{value!r} has no form in the text of a kernel")


def _location(location: SourceLocation | None) -> str:
    if location is None:
        return ""
    column = f":{location.column}" if location.column != -1 else ""
    function = f" in {_name(location.function)}" if location.function else ""
    outer = f" from{_location(location.caller)}" if location.caller else ""
    return f" @{json.dumps(location.file)}:{location.line}{column}{function}{outer}"


def _tensor(kind: str, tensor: Tensor) -> str:
    shape = ", ".join(map(str, tensor.shape))
    address = ""
    if tensor.address is not None:
        address = f" at ({tensor.address[0]}, {tensor.address[1]})"
    fixed = " fixed" if tensor.fixed else ""
    return f"{kind} %{_name(tensor.name)}: {tensor.dtype.name}[{shape}] {tensor.buffer.value}{address}{fixed}"


def _instruction(instruction: Instruction) -> str:
    operands = ", ".join(
        f"{_name(name)}={_value(value)}" for name, value in instruction.operands.items()
    )
    text = f"{_name(instruction.op)}({operands})"
    if instruction.engine is not Engine.unknown:
        text += f" engine={instruction.engine.name}"
    if instruction.name:
        text += f" name={_name(instruction.name)}"
    if instruction.depends_on:
        text += f" after=({', '.join(map(_name, instruction.depends_on))})"
    return text + _location(instruction.location)


def _bound(value: int | Register) -> str:
    return _register(value) if type(value) is Register else str(value)


def _region(statement: ForLoop | WhileLoop | NoReorder) -> str:
    if type(statement) is ForLoop:
        bounds = (
            f"{_bound(statement.start)}..{_bound(statement.stop)} step {_bound(statement.step)}"
        )
        head = f"for {_register(statement.register)} in {bounds}"
    elif type(statement) is WhileLoop:
        head = f"while {_register(statement.condition)}"
    else:
        head = "no_reorder"
    return f"{head}{_location(statement.location)} {{"


def _block(statements: Block, indent: str) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, Instruction):
            yield indent + _instruction(statement)
            continue
        yield indent + _region(statement)
        yield from _block(statement.body, indent + "  ")
        yield indent + "}"


def statement_to_text(statement: Statement) -> str:
    """Return the text of one statement, with the statements inside it."""
    return "\n".join(_block([statement], ""))


_CONTAINER_TYPES = frozenset({tuple, list, dict})


def _tensors_of(value: object) -> Iterator[Tensor]:
    if type(value) is Access:
        yield value.tensor
        yield from _tensors_of(value.scalar_offset)
        yield from _tensors_of(value.vector_offset)
    elif type(value) in _CONTAINER_TYPES:
        for entry in _entries(value):
            yield from _tensors_of(entry)


def _entries(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        value = value.values()  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _used(statements: Block) -> Iterator[Tensor]:
    for statement in statements:
        if isinstance(statement, Instruction):
            for value in statement.operands.values():
                yield from _tensors_of(value)
        else:
            yield from _used(statement.body)


def _constant(constant: Constant) -> str:
    value = constant.value
    shape = ", ".join(map(str, value.shape))
    data = "identity"
    if value.ndim != 2 or value.tobytes() != identity(value.shape, value.dtype).tobytes():
        data = json.dumps(base64.b64encode(value.tobytes()).decode())
    return f"{_tensor('constant', constant.tensor)} = {value.dtype.name}[{shape}] {data}"


def identity(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the matrix that the text calls ``identity``."""
    return np.eye(shape[0], shape[1]).astype(dtype)


def _header(kernel_ir: KernelIR) -> str:
    parts = [f"kernel {_name(kernel_ir.name)} target={_name(kernel_ir.target)}"]
    if kernel_ir.lnc != len(kernel_ir.bodies):
        parts.append(f"lnc={kernel_ir.lnc}")
    if kernel_ir.grid:
        parts.append(f"grid={_value(kernel_ir.grid)}")
    if kernel_ir.returns_tuple:
        parts.append("returns_tuple")
    if kernel_ir.has_collectives:
        parts.append("has_collectives")
    if kernel_ir.metadata:
        parts.append(f"metadata={_value(kernel_ir.metadata)}")
    return " ".join(parts) + " {"


def to_text(kernel_ir: KernelIR) -> str:
    """Return a kernel as text, ending with a newline.

    Raises:
        TypeError: the operands or the metadata contain a value that is no operand.
    """
    lines = [_header(kernel_ir)]
    lines += [f"  {_tensor('input', tensor)}" for tensor in kernel_ir.inputs]
    lines += [f"  {_tensor('output', tensor)}" for tensor in kernel_ir.outputs]
    lines += [f"  {_constant(constant)}" for constant in kernel_ir.constants]
    shared = {tensor.name: tensor for tensor in (*kernel_ir.inputs, *kernel_ir.outputs)}
    shared |= {constant.tensor.name: constant.tensor for constant in kernel_ir.constants}
    for body in kernel_ir.bodies:
        lines.append("  core {")
        local = dict(shared)
        for tensor in _used(body):
            if local.get(tensor.name) != tensor:
                local[tensor.name] = tensor
                lines.append(f"    {_tensor('tensor', tensor)}")
        lines += _block(body, "    ")
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines) + "\n"
