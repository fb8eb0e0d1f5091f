"""One kernel call as an HLO computation of its own, for frameworks that take such things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hlo_tools import schema
from hlo_tools.frameworks.plan import CallPlan, TensorSpec
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.types.element_types import element_of
from nki_lang.base.dtypes import DType

__all__ = ["OP_TYPE", "build_call_module"]

OP_TYPE: Final = "xla___op_NkiKernelCallImpl"
"""Neuron's PyTorch integration writes this as op_type and op_name (FrameworkKernel page)."""


def build_call_module(
    plan: CallPlan, name: str = "CallImpl", *, carriers: Mapping[DType, DType] | None = None
) -> bytes:
    """A serialised ``HloModuleProto`` whose entry makes the call and returns a tuple.

    Parameters are the plan's operands; its constants are HLO constants. Names end in the
    instruction's number, as XLA's importer expects.

    Args:
        plan: the call.
        name: of the computation.
        carriers: dtypes that the framework keeps in a wider one: parameters and results have
            that one, and are converted around the call.
    """
    module = schema.HloModuleProto()
    builder = _Builder(module.computations.add(), name, carriers or {})
    operands = [builder.parameter(spec) for spec in plan.inputs]
    operands += [builder.constant(value) for value in plan.constants]
    builder.call(plan, operands)
    computation = builder.finish(plan.inputs)
    module.name = module.entry_computation_name = computation.name
    module.id = module.entry_computation_id = computation.id
    module.host_program_shape.CopyFrom(computation.program_shape)
    return module.SerializeToString(deterministic=True)


class _Builder:
    """Instructions 1, 2, ... of one computation; the computation takes the next number."""

    def __init__(self, computation: Any, name: str, carriers: Mapping[DType, DType]) -> None:
        self._computation = computation
        self._name = name
        self._carriers = carriers
        self._parameters = 0
        self._last: Any = None

    def _add(self, opcode: str) -> Any:
        instruction = self._computation.instructions.add()
        instruction.id = len(self._computation.instructions)
        instruction.opcode = opcode
        instruction.name = f"{opcode}.{instruction.id}"
        self._last = instruction
        return instruction

    def parameter(self, spec: TensorSpec) -> int:
        instruction = self._add("parameter")
        instruction.parameter_number = self._parameters
        self._parameters += 1
        _set_array(instruction.shape, spec.shape, self._carried(spec).dtype.dtype)
        if spec.dtype in self._carriers:
            return self._convert(instruction.id, spec)
        return instruction.id

    def _carried(self, spec: TensorSpec) -> TensorSpec:
        return replace(spec, dtype=self._carriers.get(spec.dtype, spec.dtype))

    def _convert(self, operand: int, spec: TensorSpec) -> int:
        instruction = self._add("convert")
        instruction.operand_ids.append(operand)
        _set_array(instruction.shape, spec.shape, spec.dtype.dtype)
        return instruction.id

    def constant(self, value: np.ndarray[Any, Any]) -> int:
        instruction = self._add("constant")
        _set_array(instruction.shape, value.shape, value.dtype)
        _set_literal(instruction.literal, value)
        return instruction.id

    def call(self, plan: CallPlan, operands: list[int]) -> None:
        """The custom call, and a tuple around a single result."""
        instruction = self._add("custom-call")
        instruction.custom_call_target = KERNEL_TARGET
        instruction.custom_call_api_version = 2
        instruction.backend_config = plan.backend_config.encode()
        instruction.operand_ids.extend(operands)
        instruction.metadata.op_type = instruction.metadata.op_name = OP_TYPE
        single = len(plan.results) == 1
        for operand, result in plan.aliases:
            alias = instruction.output_operand_aliasing.add()
            alias.operand_index = operand
            alias.output_shape_index.extend([] if single else [result])
        if single:
            _set_array(instruction.shape, plan.results[0].shape, plan.results[0].dtype.dtype)
            self._tuple([instruction.id], plan)
            return
        _set_tuple(instruction.shape, plan.results)
        if any(spec.dtype in self._carriers for spec in plan.results):
            called = instruction.id
            self._tuple([self._element(called, n, s) for n, s in enumerate(plan.results)], plan)

    def _element(self, operand: int, index: int, spec: TensorSpec) -> int:
        instruction = self._add("get-tuple-element")
        instruction.operand_ids.append(operand)
        instruction.tuple_index = index
        _set_array(instruction.shape, spec.shape, spec.dtype.dtype)
        return instruction.id

    def _tuple(self, results: list[int], plan: CallPlan) -> None:
        """The root, whose elements have the dtypes that the framework keeps."""
        carried = tuple(map(self._carried, plan.results))
        operands = [
            self._convert(result, wide) if spec.dtype in self._carriers else result
            for result, spec, wide in zip(results, plan.results, carried, strict=True)
        ]
        root = self._add("tuple")
        root.operand_ids.extend(operands)
        _set_tuple(root.shape, carried)

    def finish(self, inputs: tuple[TensorSpec, ...]) -> Any:
        """Number and name the computation and state its signature; the last one is the root."""
        computation = self._computation
        computation.id = len(computation.instructions) + 1
        computation.name = f"{self._name}.{computation.id}"
        computation.root_id = self._last.id
        signature = computation.program_shape
        for number, spec in enumerate(inputs):
            _set_array(signature.parameters.add(), spec.shape, self._carried(spec).dtype.dtype)
            signature.parameter_names.append(f"p{number}")
        signature.result.CopyFrom(self._last.shape)
        return computation


def _set_array(shape: Any, extents: tuple[int, ...], dtype: Any) -> None:
    """A dense row-major array."""
    shape.element_type = element_of(dtype).number
    shape.dimensions.extend(extents)
    shape.is_dynamic_dimension.extend([False] * len(extents))
    shape.layout.minor_to_major.extend(reversed(range(len(extents))))


def _set_tuple(shape: Any, specs: tuple[TensorSpec, ...]) -> None:
    shape.element_type = schema.enum("PrimitiveType").Value("TUPLE")
    for spec in specs:
        _set_array(shape.tuple_shapes.add(), spec.shape, spec.dtype.dtype)


def _set_literal(literal: Any, value: np.ndarray[Any, Any]) -> None:
    element = element_of(value.dtype)
    _set_array(literal.shape, value.shape, value.dtype)
    field = literal.DESCRIPTOR.fields_by_name[element.field]
    if field.type == field.TYPE_BYTES:
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        setattr(literal, element.field, np.ascontiguousarray(little).tobytes())
    else:
        getattr(literal, element.field).extend(value.reshape(-1).tolist())
