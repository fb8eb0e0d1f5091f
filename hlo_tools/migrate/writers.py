"""Functions of beta 1 as instructions that write into a tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hlo_tools.migrate.call_tables import (
    BINARY,
    INSTRUCTIONS,
    SAME,
    UNARY_ACTIVATIONS,
    UNARY_COMPOSED,
)
from hlo_tools.migrate.calls import (
    WITHOUT_EFFECT,
    Call,
    Destination,
    column_text,
    copy_in_sbuf,
    dtype_text,
    issue,
    like_text,
    operand_text,
    operator_text,
    same_call,
    tile_operand,
    written_text,
)
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import PlainFact
from hlo_tools.migrate.index_instructions import affine_select, iota
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import text_of

__all__ = ["Writer", "writer_of"]

Writer = Callable[[Call, Destination, Context], None]
"""Issues a call's instructions into a destination."""


def writer_of(call: Call) -> Writer:
    """Return the function that writes a call's instructions.

    Raises:
        Unmigrated: NKI-M002; the function has no counterpart.
    """
    short = call.function.partition(".")[2]
    if call.function in WRITERS:
        return WRITERS[call.function]
    if call.function in INSTRUCTIONS:
        return _instruction
    if call.function.startswith("nl.") and short in UNARY_ACTIVATIONS:
        return _activation
    if call.function.startswith("nl.") and short in BINARY:
        return _binary
    if call.function.startswith("nl.") and (short in SAME or short in UNARY_COMPOSED):
        return _copied
    raise Unmigrated("NKI-M002", call.function, "it has no counterpart",
                     "compose it of instructions, nisa.*")  # fmt: skip


def _instruction(call: Call, dst: Destination, context: Context) -> None:
    row = INSTRUCTIONS[call.function]
    bitwise = any(
        isinstance(fact, PlainFact) and fact.name.startswith(("bitwise", "left_", "right_"))
        for name in row.operators if name in call.arguments
        for fact in context.all_facts(call.arguments[name])
    )  # fmt: skip
    result = call.result.shape
    like = row.shape if row.shape in call.arguments else ""
    parts = [f"dst={written_text(dst, call, context)}"]
    for name in call.arguments:
        if name in WITHOUT_EFFECT or (not call.has(name) and name != "bias"):
            continue
        if name == "perf_mode":
            text = f"{context.nisa}.matmul_perf_mode.double_row"
        elif name in row.operators:
            text = operator_text(call, name, context)
        elif name in row.columns:
            text = column_text(call, name, bitwise, context)
        elif name in row.tiles:
            text = tile_operand(call, name, result, like_text(call, like, context), context)
        else:
            text = operand_text(call, name, context)
        parts.append(f"{name}={_off_psum(call, name, text, context)}")
    if row.function == "nc_matmul":
        fact = dst.fact
        parts.append(f"accumulate={fact.is_filled or None if dst.accumulates else False}")
    if row.function == "range_select" and not call.has("reduce_cmd"):
        parts.append(f"reduce_cmd={context.nisa}.reduce_cmd.idle")  # the default was another
    issue(f"{context.nisa}.{row.function}({', '.join(parts)})", context)


def _off_psum(call: Call, name: str, text: str, context: Context) -> str:
    """Copy an operand out of PSUM where the instruction cannot read it there."""
    row = INSTRUCTIONS[call.function]
    fact = context.tile(call.arguments[name])
    if fact is None or fact.buffer != "psum" or name not in row.not_psum:
        return text
    partner = row.not_psum[name]
    if partner:
        second = context.tile(call.arguments[partner])
        if second is None or second.buffer != "psum":
            return text
    return copy_in_sbuf(text, context)


def _activation(call: Call, dst: Destination, context: Context) -> None:
    short = call.function.partition(".")[2]
    written = written_text(dst, call, context)
    issue(f"{context.nisa}.activation(dst={written}, op={context.nl}.{short},"
          f" data={operand_text(call, 'x', context)})", context)  # fmt: skip


def _binary(call: Call, dst: Destination, context: Context) -> None:
    short = call.function.partition(".")[2]
    operator = f"{context.nl}.{short}"
    written = written_text(dst, call, context)
    shape = call.result.shape
    facts = {name: context.tile(call.arguments[name]) for name in ("x", "y")}
    for name, partner in (("y", "x"), ("x", "y")):
        fact, data = facts[name], facts[partner]
        is_column = (
            fact is not None and fact.dtype == "float32" and data is not None and data.shape == shape
            and fact.shape == (shape[0], *(1,) * (len(shape) - 1)) and data.shape != fact.shape
        )  # fmt: skip
        if data is not None and (fact is None or is_column):
            reverse = ", reverse0=True" if name == "x" else ""
            operand = operand_text(call, name, context)
            if fact is not None and len(fact.shape) > 2:
                operand = f"{operand}.reshape(({fact.shape[0]}, 1))"
            issue(f"{context.nisa}.tensor_scalar(dst={written}, data={operand_text(call, partner, context)},"
                  f" op0={operator}, operand0={operand}{reverse})", context)  # fmt: skip
            return
    like = next((like_text(call, name, context) for name in ("x", "y")
                 if (fact := facts[name]) is not None and fact.shape == shape), "")  # fmt: skip
    left, right = (tile_operand(call, name, shape, like, context) for name in ("x", "y"))
    if all(fact is not None and fact.buffer == "psum" for fact in facts.values()):
        left = copy_in_sbuf(left, context)
    issue(
        f"{context.nisa}.tensor_tensor(dst={written}, data1={left}, data2={right}, op={operator})",
        context,
    )


def _copied(call: Call, dst: Destination, context: Context) -> None:
    """Compute a new tile by the function of the same name, and copy it."""
    dtype = f"{dst.text}.dtype" if dst.text.isidentifier() else dtype_text(dst.fact.dtype, context)
    text = same_call(call, dtype, context)
    issue(
        f"{context.nisa}.tensor_copy(dst={written_text(dst, call, context)}, src={text})", context
    )


def _load(call: Call, dst: Destination, context: Context) -> None:
    mode = f", oob_mode={context.text(call.arguments['mode'])}" if call.has("mode") else ""
    issue(f"{context.nisa}.dma_copy(dst={written_text(dst, call, context)},"
          f" src={operand_text(call, 'src', context)}{mode})", context)  # fmt: skip


def _load_transposed(call: Call, dst: Destination, context: Context) -> None:
    if call.narrowing:
        raise Unmigrated("NKI-M004", text_of(call.node), "the mask counts the axes of the transpose",
                         "shorten the slices of the source")  # fmt: skip
    issue(
        f"{context.nisa}.dma_transpose(dst={dst.text}, src={operand_text(call, 'src', context)})",
        context,
    )


def _tensor_copy(call: Call, dst: Destination, context: Context) -> None:
    engine = f", engine={context.text(call.arguments['engine'])}" if call.has("engine") else ""
    name = "src" if "src" in call.arguments else "x"
    issue(f"{context.nisa}.tensor_copy(dst={written_text(dst, call, context)},"
          f" src={operand_text(call, name, context)}{engine})", context)  # fmt: skip


def _reciprocal(call: Call, dst: Destination, context: Context) -> None:
    issue(f"{context.nisa}.reciprocal(dst={written_text(dst, call, context)},"
          f" data={operand_text(call, 'x', context)})", context)  # fmt: skip


def _negative(call: Call, dst: Destination, context: Context) -> None:
    issue(f"{context.nisa}.tensor_scalar(dst={written_text(dst, call, context)},"
          f" data={operand_text(call, 'x', context)}, op0={context.nl}.multiply, operand0=-1.0)", context)  # fmt: skip


def _matmul(call: Call, dst: Destination, context: Context) -> None:
    transposed = call.arguments.get("transpose_x")
    if transposed is not None and text_of(transposed) not in ("True", "False"):
        raise Unmigrated("NKI-M008", text_of(call.node), "transpose_x is no literal",
                         "write nisa.nc_matmul")  # fmt: skip
    x, x_dtype = _factor(call, "x", context)
    y, y_dtype = _factor(call, "y", context)
    if transposed is None or text_of(transposed) == "False":
        x = copy_in_sbuf(f"{context.nl}.transpose({x})", context)
    wide = f"{context.nl}.float32"  # the tensor engine does not mix float32 with other types
    if x_dtype != y_dtype and y_dtype == "float32":
        x = copy_in_sbuf(x, context, wide)
    if x_dtype != y_dtype and x_dtype == "float32":
        y = copy_in_sbuf(y, context, wide)
    accumulate = dst.fact.is_filled or None if dst.accumulates else False
    issue(f"{context.nisa}.nc_matmul(dst={written_text(dst, call, context)}, stationary={x},"
          f" moving={y}, accumulate={accumulate})", context)  # fmt: skip


def _factor(call: Call, name: str, context: Context) -> tuple[str, str]:
    """Return an operand of a product in SBUF, and its type."""
    text = operand_text(call, name, context)
    fact = context.tile(call.arguments[name])
    if fact is None:
        raise Unmigrated("NKI-M008", text_of(call.node), f"{name} is no tile", "pass a tile")
    return (copy_in_sbuf(text, context) if fact.buffer == "psum" else text), fact.dtype


def _memset(call: Call, dst: Destination, context: Context) -> None:
    issue(
        f"{context.nisa}.memset(dst={dst.text}, value={context.text(call.arguments['value'])})",
        context,
    )


def _transposed(call: Call, dst: Destination, context: Context) -> None:
    if call.narrowing:
        raise Unmigrated("NKI-M004", text_of(call.node), "the mask counts the axes of the transpose",
                         "shorten the slices of the source")  # fmt: skip
    x = operand_text(call, "x", context)
    issue(f"{context.nisa}.tensor_copy(dst={dst.text}, src={context.nl}.transpose({x}))", context)


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "nisa.affine_select": affine_select,
        "nisa.iota": iota,
        "nl.load": _load,
        "nl.load_transpose2d": _load_transposed,
        "nl.copy": _tensor_copy,
        "nl.reciprocal": _reciprocal,
        "nl.negative": _negative,
        "nl.matmul": _matmul,
        "nl.transpose": _transposed,
        "nisa.memset": _memset,
    }
)
"""Functions with a writer of their own."""
