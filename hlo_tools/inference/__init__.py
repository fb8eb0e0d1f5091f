"""Shape inference: the shape that an instruction must have, from its operands and attributes."""

from hlo_tools.inference.infer import INFERRED, infer, infer_shape
from hlo_tools.inference.types import Array, InferenceError, TupleType, Type, of, to_proto

__all__ = [
    "INFERRED",
    "Array",
    "InferenceError",
    "TupleType",
    "Type",
    "infer",
    "infer_shape",
    "of",
    "to_proto",
]
