"""From a graph to a HloModuleProto."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from hlo_tools import schema
from hlo_tools.trace.graph import DType, Graph, Node
from hlo_tools.types.element_types import element_of
from hlo_tools.types.literal import literal_of
from hlo_tools.types.shape import array_shape, tuple_shape
from nki_lang.base.source import shortest_names

__all__ = ["INPUT_NAMES", "OUTPUT_NAMES", "to_proto"]

INPUT_NAMES, OUTPUT_NAMES = "neff_input_names", "neff_output_names"
"""Frontend attributes by which the compiler names a NEFF's tensors; on each parameter, and on the
root with commas between (as nkipy writes them)."""

_MAY_ALIAS = 1


def to_proto(
    graph: Graph, results: Sequence[Node], names: Sequence[str], aliases: dict[int, int]
) -> Any:
    """The module of a traced function.

    Ids are small numbers, unique in the module, as every reader takes them. Source files are
    named without their folder, so that the module does not depend on it.

    Args:
        results: what the function returns.
        names: a name for each result.
        aliases: result number to the number of the parameter whose memory it takes.
    """
    proto = schema.HloModuleProto(name=graph.name, entry_computation_name="main")
    nodes = graph.live(results)
    applied = _Applied(proto)
    for node in nodes:
        apply = node.attributes.get("apply")
        if apply is not None:
            applied.number_of(apply)
    main = proto.computations.add(name="main", id=applied.next_computation)
    proto.entry_computation_id = main.id
    _Writer(main, applied).write(graph, nodes, results, names)
    _sign(main.program_shape, graph, main.instructions[len(nodes)].shape)
    proto.host_program_shape.CopyFrom(main.program_shape)
    for result, parameter in aliases.items():
        index = [result] if len(results) != 1 else []
        proto.input_output_alias.entries.add(
            output_shape_index=index, parameter_number=parameter, kind=_MAY_ALIAS
        )
    return proto


class _Writer:
    """Instructions of the main computation, one after the other."""

    def __init__(self, main: Any, applied: _Applied) -> None:
        self.main = main
        self.applied = applied
        self.next_id = applied.next_instruction
        self.id_of: dict[int, int] = {}
        self.counts: dict[str, int] = {}
        self.taken: set[str] = set(applied.names)
        self.root_name = "result"
        self.files: dict[str, str] = {}

    def write(
        self, graph: Graph, nodes: list[Node], results: Sequence[Node], names: Sequence[str]
    ) -> None:
        for name in graph.parameter_names:
            self.taken.add(name)
        self.taken.add("result")
        self.root_name = "result_1" if "result" in graph.parameter_names else "result"
        self.files = shortest_names(node.source[0] for node in nodes if node.source)
        for node in nodes:
            self._instruction(graph, node)
        self._root(results, names)

    def _instruction(self, graph: Graph, node: Node) -> None:
        opcode, id_of = node.opcode, self.id_of
        number = self.next_id
        self.next_id = number + 1
        id_of[node.number] = number
        fields = node.attributes
        if opcode in _PREPARED:
            fields = _PREPARED[opcode](self, graph, node)
        elif "apply" in fields:
            fields = {
                **fields,
                "called_computation_ids": (self.applied.number_of(fields["apply"]),),
            }
            del fields["apply"]
        proto = self.main.instructions.add(
            name=fields.pop("name") if opcode == "parameter" else self._name(opcode),
            opcode=opcode,
            id=number,
            operand_ids=[id_of[operand.number] for operand in node.operands],
            **fields,
        )
        proto.shape.MergeFromString(_shape_bytes(node.shape, node.dtype))
        source = node.source
        if source is not None:
            metadata = proto.metadata
            metadata.op_type = graph.op_type
            metadata.op_name = opcode
            metadata.source_file, metadata.source_line = self.files[source[0]], source[1]

    def _name(self, opcode: str) -> str:
        while True:
            count = self.counts[opcode] = self.counts.get(opcode, 0) + 1
            name = f"{opcode}.{count}"
            if name not in self.taken:
                return name

    def _root(self, results: Sequence[Node], names: Sequence[str]) -> None:
        """One result is copied, several (or none) become a tuple."""
        single = len(results) == 1
        root = self.main.instructions.add(
            name=self.root_name,
            opcode="copy" if single else "tuple",
            id=self.next_id,
            operand_ids=[self.id_of[node.number] for node in results],
        )
        if single:
            root.shape.MergeFromString(_shape_bytes(results[0].shape, results[0].dtype))
        else:
            shapes = tuple(node.shape for node in results)
            dtypes = tuple(node.dtype for node in results)
            root.shape.MergeFromString(_shape_bytes(shapes, dtypes))
        if names:
            root.frontend_attributes.map[OUTPUT_NAMES] = ",".join(names)
        self.main.root_id = root.id


def _parameter(writer: _Writer, graph: Graph, node: Node) -> dict[str, Any]:
    number: int = node.attributes["parameter_number"]
    name = graph.parameter_names[number]
    return {
        "name": name,
        "parameter_number": number,
        "frontend_attributes": {"map": {INPUT_NAMES: name}},
    }


def _constant(writer: _Writer, graph: Graph, node: Node) -> dict[str, Any]:
    value = node.attributes["value"]
    if value.ndim:
        return {"literal": literal_of(value).proto}
    return {"literal": _scalar_literal(value.dtype, value.tobytes())}


_PREPARED: dict[str, Any] = {"parameter": _parameter, "constant": _constant}


@lru_cache(maxsize=1024)
def _scalar_literal(dtype: DType, data: bytes) -> Any:
    return literal_of(np.frombuffer(data, dtype)[0]).proto


@lru_cache(maxsize=4096)
def _shape_bytes(shape: Any, dtype: Any) -> bytes:
    if isinstance(dtype, tuple):
        dtypes: tuple[DType, ...] = cast("tuple[DType, ...]", dtype)
        parts = [array_shape(element_of(d), s) for s, d in zip(shape, dtypes, strict=True)]
        return tuple_shape(parts).proto.SerializeToString()
    return array_shape(element_of(dtype), shape).proto.SerializeToString()


def _sign(program: Any, graph: Graph, result: Any) -> None:
    for node, name in zip(graph.parameters, graph.parameter_names, strict=True):
        program.parameters.add().MergeFromString(_shape_bytes(node.shape, node.dtype))
        program.parameter_names.append(name)
    program.result.CopyFrom(result)


class _Applied:
    """Computations that reduce, scatter and sort apply to scalars, one for each kind and dtype."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self.numbers: dict[Any, int] = {}
        self.names: list[str] = []
        self.next_instruction = 0
        self.next_computation = 0

    def number_of(self, apply: tuple[Any, ...]) -> int:
        """The id of the computation for ``(opcode, dtype, ...)``, made when first asked for."""
        number = self.numbers.get(apply)
        if number is None:
            number = self.numbers[apply] = self._make(apply)
        return number

    def _make(self, apply: tuple[Any, ...]) -> int:
        """``("add", dtype)``: combine two scalars; ``("LT", dtype, others...)``: order two keys,
        each of the other dtypes being carried along; ``("second", dtype)``: the new value."""
        kind, *dtypes = apply
        name = f"{kind.lower()}_{'_'.join(element_of(dtype).name for dtype in dtypes)}"
        computation = self.proto.computations.add(name=name, id=self.next_computation)
        self.names.append(name)
        self.next_computation += 1
        parameters = [
            self._add(computation, f"{name}.p{2 * i + side}", "parameter", dtype,
                      parameter_number=2 * i + side)
            for i, dtype in enumerate(dtypes) for side in (0, 1)
        ]  # fmt: skip
        root = self._combine(computation, name, kind, dtypes[0], parameters)
        computation.root_id = root.id
        for parameter in parameters:
            computation.program_shape.parameters.add().CopyFrom(parameter.shape)
            computation.program_shape.parameter_names.append(parameter.name)
        computation.program_shape.result.CopyFrom(root.shape)
        return computation.id

    def _combine(
        self, computation: Any, name: str, kind: str, dtype: Any, parameters: list[Any]
    ) -> Any:
        first, second = parameters[:2]
        if kind == "second":
            return second
        if kind in ("LT", "GT"):
            return self._add(
                computation, f"{name}.root", "compare", np.dtype(bool), (first, second),
                comparison_direction=kind,
                comparison_type="TOTALORDER" if element_of(dtype).kind == "float" else "",
            )  # fmt: skip
        return self._add(computation, f"{name}.root", kind, dtype, (first, second))

    def _add(
        self, computation: Any, name: str, opcode: str, dtype: Any,
        operands: tuple[Any, ...] = (), **fields: Any,
    ) -> Any:  # fmt: skip
        proto = computation.instructions.add(
            name=name, opcode=opcode, id=self.next_instruction,
            operand_ids=[operand.id for operand in operands], **fields,
        )  # fmt: skip
        proto.shape.MergeFromString(_shape_bytes((), dtype))
        self.next_instruction += 1
        return proto
