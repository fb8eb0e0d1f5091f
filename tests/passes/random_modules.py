"""Random modules of what programs are made of, with repetition, constants, calls and dead ends."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from hlo_tools import Module, array_shape, literal_of, schema, tuple_shape
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.types.shape import Shape

__all__ = ["inputs_for", "random_module"]

SHAPES = ((), (3,), (2, 3), (3, 2), (1, 3), (2, 1, 3), (6,), (2, 3, 2))
FLOAT_UNARY = ("negate", "abs", "tanh", "exponential", "floor", "sign", "copy", "cosine")
FLOAT_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
INTEGER_BINARY = ("add", "subtract", "multiply", "and", "or", "xor", "maximum", "minimum")


class Builder:
    """A module while it is made."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.module = Module.new("random")
        self.sum = self._reducer()
        self.callee = self._callee()
        self.entry = self.module.add_computation("main")
        self.module.proto.entry_computation_id = self.entry.id
        self.module.proto.entry_computation_name = "main"
        self.values: list[Instruction] = []

    def _reducer(self) -> Computation:
        computation = self.module.add_computation("sum")
        scalar = array_shape("f32")
        parts = [
            computation.add("parameter", scalar, name=f"s{n}", parameter_number=n) for n in (0, 1)
        ]
        computation.set_root(computation.add("add", scalar, parts))
        return computation

    def _callee(self) -> Computation:
        computation = self.module.add_computation("twice")
        shape = array_shape("f32", (2, 3))
        x = computation.add("parameter", shape, name="tx", parameter_number=0)
        computation.set_root(computation.add("add", shape, [x, x]))
        return computation

    def pick(self, element: str = "f32", shape: tuple[int, ...] | None = None) -> Instruction:
        fitting = [
            view
            for view in self.values
            if view.shape.element.name == element
            and (shape is None or view.shape.dimensions == shape)
        ]
        if fitting and self.chance.random() < 0.9:
            return self.chance.choice(fitting)
        return self.constant(element, shape if shape is not None else self.chance.choice(SHAPES))

    def add(self, opcode: str, shape: Shape, operands: list[Instruction], **more: Any) -> None:
        self.values.append(self.entry.add(opcode, shape, operands, **more))

    def constant(self, element: str, shape: tuple[int, ...]) -> Instruction:
        chosen = {
            "f32": (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.25),
            "s32": (0, 1, -1, 7),
            "pred": (0, 1),
        }
        value = self.chance.choice(chosen[element])
        literal = literal_of(np.array(value, array_shape(element).dtype)).proto
        scalar = self.entry.add("constant", array_shape(element), literal=literal)
        if not shape:
            return scalar
        return self.entry.add("broadcast", array_shape(element, shape), [scalar])

    def step(self) -> None:
        getattr(self, self.chance.choice(STEPS))()

    def unary(self) -> None:
        x = self.pick()
        self.add(self.chance.choice(FLOAT_UNARY), x.shape, [x])

    def binary(self) -> None:
        element = self.chance.choice(("f32", "f32", "s32"))
        x = self.pick(element)
        y = self.pick(element, x.shape.dimensions)
        names = FLOAT_BINARY if element == "f32" else INTEGER_BINARY
        self.add(self.chance.choice(names), x.shape, [x, y])

    def again(self) -> None:
        """The same once more."""
        if not self.values:
            return
        x = self.chance.choice(self.values)
        if x.opcode in FLOAT_UNARY + FLOAT_BINARY:
            self.add(x.opcode, x.shape, list(x.operands))

    def select(self) -> None:
        x = self.pick()
        y, z = self.pick("f32", x.shape.dimensions), self.pick("f32", x.shape.dimensions)
        shape = array_shape("pred", x.shape.dimensions)
        direction = self.chance.choice(("LT", "EQ", "GE"))
        p = self.entry.add("compare", shape, [x, y], comparison_direction=direction)
        self.values.append(p)
        self.add("select", x.shape, [p, y, z])

    def convert(self) -> None:
        source, target = self.chance.choice((("pred", "f32"), ("s32", "f32"), ("pred", "s32")))
        x = self.pick(source)
        self.add("convert", array_shape(target, x.shape.dimensions), [x])

    def reshape(self) -> None:
        x = self.pick()
        same = [shape for shape in SHAPES if np.prod(shape) == x.shape.element_count]
        if same:
            self.add("reshape", array_shape("f32", self.chance.choice(same)), [x])

    def transpose(self) -> None:
        x = self.pick()
        order = list(range(x.shape.rank))
        self.chance.shuffle(order)
        shape = array_shape("f32", [x.shape.dimensions[axis] for axis in order])
        self.add("transpose", shape, [x], dimensions=order)

    def broadcast(self) -> None:
        x = self.pick()
        if x.shape.rank < 3:
            shape = array_shape("f32", (2, *x.shape.dimensions))
            self.add("broadcast", shape, [x], dimensions=range(1, x.shape.rank + 1))

    def slice(self) -> None:
        x = self.pick()
        slice_dimensions = schema.message("HloInstructionProto").SliceDimensions
        bounds = []
        for size in x.shape.dimensions:
            start = self.chance.randrange(size)
            bounds.append((start, self.chance.randrange(start + 1, size + 1)))
        rows = [slice_dimensions(start=start, limit=limit, stride=1) for start, limit in bounds]
        shape = array_shape("f32", [limit - start for start, limit in bounds])
        self.add("slice", shape, [x], slice_dimensions=rows)

    def concatenate(self) -> None:
        x = self.pick()
        if x.shape.rank:
            y = self.pick("f32", x.shape.dimensions)
            sizes = (2 * x.shape.dimensions[0], *x.shape.dimensions[1:])
            self.add("concatenate", array_shape("f32", sizes), [x, y], dimensions=[0])

    def reduce(self) -> None:
        x = self.pick()
        if x.shape.rank:
            axis = self.chance.randrange(x.shape.rank)
            sizes = [n for axis_number, n in enumerate(x.shape.dimensions) if axis_number != axis]
            start = self.constant("f32", ())
            called = [self.sum.id]
            self.add("reduce", array_shape("f32", sizes), [x, start], dimensions=[axis],
                     called_computation_ids=called)  # fmt: skip

    def dot(self) -> None:
        x = self.pick()
        if not x.shape.rank:
            return
        axis = self.chance.randrange(x.shape.rank)
        y = self.pick("f32", (x.shape.dimensions[axis], 2))
        numbers = schema.message("DotDimensionNumbers")(
            lhs_contracting_dimensions=[axis], rhs_contracting_dimensions=[0]
        )
        sizes = [n for axis_number, n in enumerate(x.shape.dimensions) if axis_number != axis]
        shape = array_shape("f32", (*sizes, 2))
        self.add("dot", shape, [x, y], dot_dimension_numbers=numbers)

    def batched_dot(self) -> None:
        x = self.pick("f32", (2, 3, 2))
        y = self.pick("f32", (2, 3, 2))
        numbers = schema.message("DotDimensionNumbers")(
            lhs_batch_dimensions=[2], rhs_batch_dimensions=[0],
            lhs_contracting_dimensions=[1, 0], rhs_contracting_dimensions=[1, 2],
        )  # fmt: skip
        self.add("dot", array_shape("f32", (2,)), [x, y], dot_dimension_numbers=numbers)

    def call(self) -> None:
        x = self.pick("f32", (2, 3))
        self.add("call", x.shape, [x], called_computation_ids=[self.callee.id])

    def tuple(self) -> None:
        parts = [self.pick(), self.pick(self.chance.choice(("f32", "s32")))]
        joined = self.entry.add("tuple", tuple_shape([piece.shape for piece in parts]), parts)
        index = self.chance.randrange(2)
        self.add("get-tuple-element", parts[index].shape, [joined], tuple_index=index)


STEPS = (
    "unary", "unary", "binary", "binary", "binary", "again", "select", "convert", "reshape",
    "transpose", "broadcast", "slice", "concatenate", "reduce", "dot", "batched_dot", "call",
    "tuple",
)  # fmt: skip


def random_module(chance: random.Random, size: int = 14) -> Module:
    """A valid module with three parameters and two results."""
    builder = Builder(chance)
    for number, (element, shape) in enumerate((("f32", (2, 3)), ("f32", (3,)), ("s32", (2, 3)))):
        builder.add("parameter", array_shape(element, shape), [], parameter_number=number)
    for _ in range(size):
        builder.step()
    results = [builder.values[-1], chance.choice(builder.values)]
    root = builder.entry.add("tuple", tuple_shape([view.shape for view in results]), results)
    builder.entry.set_root(root)
    for computation in builder.module.computations:
        computation._changed = True
    return Module(type(builder.module.proto).FromString(builder.module.to_bytes()))


def inputs_for(module: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Inputs for the entry's parameters; floats are halves, so that sums are exact."""
    generator = np.random.default_rng(seed)
    return [
        (generator.integers(-6, 7, parameter.shape.dimensions) / divisor).astype(
            parameter.shape.dtype
        )
        for parameter in module.entry.parameters
        for divisor in [2 if parameter.shape.element.kind == "float" else 1]
    ]
