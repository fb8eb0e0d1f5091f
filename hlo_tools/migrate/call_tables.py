"""Functions of beta 1 and what takes their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = [
    "BINARY", "INSTRUCTIONS", "SAME", "UNARY_ACTIVATIONS", "UNARY_COMPOSED",
    "Instruction",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that returned its result and now takes ``dst``.

    Attributes:
        function: name in ``nki.isa``.
        shape: the parameter whose shape the result has, or "".
        dtype: the parameter whose type the result has by default, or "".
        operators: parameters that are operators.
        columns: parameters that hold one value for each partition.
        tiles: parameters whose free dimensions of extent 1 are repeated.
        not_psum: parameters that the instruction cannot read from PSUM, and the parameter that
            must be in PSUM too for this to hold, "" for none.
    """

    function: str
    shape: str = "data"
    dtype: str = "data"
    operators: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    tiles: tuple[str, ...] = ()
    not_psum: Mapping[str, str] = field(default_factory=dict[str, str])


_INSTRUCTION_ROWS = (
    Instruction("activation", operators=("op", "reduce_op"), columns=("bias", "scale", "reduce_res")),
    Instruction("activation_reduce", operators=("op", "reduce_op"),
                columns=("bias", "scale", "reduce_res")),
    Instruction("bn_aggr", ""),
    Instruction("bn_stats", ""),
    Instruction("dropout"),
    Instruction("max8", "", "src"),
    Instruction("nc_find_index8", "vals", ""),
    Instruction("nc_match_replace8"),
    Instruction("nc_matmul", "", "", not_psum={"stationary": "", "moving": ""}),
    Instruction("nc_transpose", ""),
    Instruction("dma_transpose", "", "src"),
    Instruction("range_select", "on_true_tile", "on_true_tile",
                operators=("comp_op0", "comp_op1", "reduce_op")),
    Instruction("reciprocal"),
    Instruction("scalar_tensor_tensor", operators=("op0", "op1"), columns=("operand0",),
                tiles=("operand1",), not_psum={"operand1": "data"}),
    Instruction("sequence_bounds", "", ""),
    Instruction("tensor_copy", "src", "src"),
    Instruction("tensor_partition_reduce", "", operators=("op",)),
    Instruction("tensor_reduce", "", operators=("op",)),
    Instruction("tensor_scalar", operators=("op0", "op1"), columns=("operand0", "operand1")),
    Instruction("tensor_scalar_reduce", operators=("op0", "reduce_op"),
                columns=("operand0", "reduce_res")),
    Instruction("tensor_tensor", "data1", "data1", operators=("op",), tiles=("data2",),
                not_psum={"data1": "data2"}),
    Instruction("tensor_tensor_scan", "data0", "data0", operators=("op0", "op1"),
                columns=("initial",), tiles=("data1",), not_psum={"data0": "data1"}),
)  # fmt: skip

INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType(
    {f"nisa.{row.function}": row for row in _INSTRUCTION_ROWS}
)
"""Instructions by their name in a kernel."""

UNARY_ACTIVATIONS = frozenset(
    {"exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_apprx_sigmoid",
     "gelu_apprx_tanh", "gelu_dx", "silu", "silu_dx", "softplus", "mish", "erf", "erf_dx",
     "square", "abs", "sign"}
)  # fmt: skip
"""Functions of one tile that the scalar engine computes in one instruction."""

UNARY_COMPOSED = frozenset(
    {"sin", "cos", "tan", "arctan", "ceil", "floor", "trunc", "invert", "logical_not",
     "reciprocal", "negative"}
)  # fmt: skip
"""Functions of one tile that take several instructions."""

BINARY = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod", "fmod", "equal",
     "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
     "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
)  # fmt: skip
"""Functions of two operands that broadcast."""

SAME = frozenset(
    {
        "sum",
        "max",
        "min",
        "prod",
        "mean",
        "softmax",
        "rms_norm",
        "where",
        "gather_flattened",
        "rand",
        "dropout",
    }
)
"""Other functions of ``nl`` that exist under the same name and return a tile."""
