"""Small modules, made by hand, for tests that need no framework."""

from __future__ import annotations

from typing import Any

from hlo_tools import array_shape, literal_of, schema

F32 = array_shape("f32", (2, 3))


def example(ids: str = "wide") -> Any:
    """HloModuleProto: main(x, y) = reduce(x * y + 1), with a reducer computation."""
    proto = schema.HloModuleProto(name="example", entry_computation_name="main")
    reducer = proto.computations.add(name="region_0", id=1)
    scalar, row = array_shape("f32"), array_shape("f32", (2,))
    fill(
        reducer, ids,
        [("lhs", "parameter", scalar, (), {}), ("rhs", "parameter", scalar, (), {"parameter_number": 1}),
         ("sum", "add", scalar, (0, 1), {})],
        first=1,
    )  # fmt: skip
    main = proto.computations.add(name="main", id=2)
    fill(
        main, ids,
        [("x", "parameter", F32, (), {}), ("y", "parameter", F32, (), {"parameter_number": 1}),
         ("one", "constant", scalar, (), {"literal": literal_of(1.0, element="f32").proto}),
         ("ones", "broadcast", F32, (2,), {}), ("product", "multiply", F32, (0, 1), {}),
         ("total", "add", F32, (4, 3), {}),
         ("out", "reduce", row, (5, 2), {"dimensions": [1], "called_computation_ids": [1]})],
        first=4,
    )  # fmt: skip
    proto.entry_computation_id = 2
    proto.host_program_shape.CopyFrom(main.program_shape)
    return proto


def fill(computation: Any, ids: str, rows: list[Any], first: int) -> None:
    """Add instructions; operands are row numbers; legacy ids count on from ``first``."""

    def number(row: int) -> int:
        return (computation.id << 32 | row) if ids == "wide" else first + row

    for row, (name, opcode, shape, operands, more) in enumerate(rows):
        instruction = computation.instructions.add(name=name, opcode=opcode, id=number(row), **more)
        instruction.shape.CopyFrom(shape.proto)
        instruction.operand_ids.extend(number(operand) for operand in operands)
    computation.root_id = number(len(rows) - 1)
    for instruction in computation.instructions:
        if instruction.opcode == "parameter":
            computation.program_shape.parameters.add().CopyFrom(instruction.shape)
            computation.program_shape.parameter_names.append(instruction.name)
    computation.program_shape.result.CopyFrom(computation.instructions[-1].shape)
