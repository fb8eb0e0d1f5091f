"""Parameters and results without tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hlo_tools.errors import HloError
from hlo_tools.ir import editing
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.emitting import get_part, make_tuple
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.patterns import sweep

if TYPE_CHECKING:
    from hlo_tools.schema.messages import OpSharding
    from hlo_tools.types.shape import Shape

__all__ = ["flatten_entry"]

Index = tuple[int, ...]


def flatten_entry(module: Module, *, parameters: bool = True, results: bool = True) -> bool:
    """Make the entry take arrays and return an array or a flat tuple; True when anything changed.

    Parts come in order, depth first. Aliases and donated parameters follow; shardings of tuples
    are divided among the parts.

    Args:
        parameters, results: what is flattened.

    Raises:
        PassError: the entry is called too; the module is then unchanged.
    """
    entry = module.entry
    if module.callers_of(entry):
        raise PassError(f"%{entry.name} is the entry and is called too")
    changed = parameters and _flatten_parameters(entry)
    if results and any(shape.is_tuple for shape in entry.result_shape.tuple_shapes):
        _flatten_result(entry)
        changed = True
    return changed


def _flatten_parameters(entry: Computation) -> bool:
    parameters = entry.parameters
    if not any(parameter.shape.is_tuple for parameter in parameters):
        return False
    positions: dict[tuple[int, Index], int] = {}
    for number, parameter in enumerate(parameters):
        for index, _ in parameter.shape.leaves():
            positions[number, index] = len(positions)
    for number, parameter in enumerate(parameters):
        if parameter.shape.is_tuple:
            _divide(parameter, number, positions)
        else:
            parameter.proto.parameter_number = positions[number, ()]
    _move_aliases(entry.module, positions)
    return True


def _divide(parameter: Instruction, number: int, positions: dict[tuple[int, Index], int]) -> None:
    """Add a parameter per leaf; replace the tuple parameter by a tuple of them."""
    entry = parameter.computation
    shardings = _shardings(parameter)
    replication = list(parameter.proto.parameter_replication.replicated_at_leaf_buffers)
    leaves: dict[Index, Instruction] = {}
    for leaf_number, (index, shape) in enumerate(parameter.shape.leaves()):
        name = "_".join([parameter.name, *map(str, index)])
        leaf = entry.add(
            "parameter",
            shape,
            [],
            name=name,
            like=parameter,
            parameter_number=positions[number, index],
        )
        leaf.proto.ClearField("sharding")
        if shardings is not None:
            leaf.proto.sharding.CopyFrom(shardings[leaf_number])
        if replication:
            leaf.proto.parameter_replication.replicated_at_leaf_buffers.append(
                replication[leaf_number]
            )
        leaves[index] = leaf
    parts = [
        _nested(parameter, shape, (position,), leaves)
        for position, shape in enumerate(parameter.shape.tuple_shapes)
    ]
    rebuilt = make_tuple(parameter, parts)
    parameter.replace_uses(rebuilt)
    editing.remove_parameter(parameter)


def _nested(
    like: Instruction, shape: Shape, index: Index, leaves: dict[Index, Instruction]
) -> Instruction:
    if not shape.is_tuple:
        return leaves[index]
    parts = [
        _nested(like, element_shape, (*index, position), leaves)
        for position, element_shape in enumerate(shape.tuple_shapes)
    ]
    return make_tuple(like, parts)


def _shardings(parameter: Instruction) -> list[OpSharding] | None:
    """The sharding of each part, in order."""
    sharding = parameter.sharding
    if sharding is None:
        return None
    count = sum(1 for _ in parameter.shape.leaves())
    if len(sharding.tuple_shardings) == count:
        return list(sharding.tuple_shardings)
    return [sharding] * count


def _move_aliases(module: Module, positions: dict[tuple[int, Index], int]) -> None:
    proto = module.proto
    for entry in (*proto.input_output_alias.entries, *proto.buffer_donor.entries):
        entry.parameter_number = _place(
            positions, "an alias", entry.parameter_number, entry.parameter_shape_index
        )
        del entry.parameter_shape_index[:]
    for prefetch in proto.cross_program_prefetches:
        prefetch.parameter = _place(positions, "a prefetch", prefetch.parameter, prefetch.index)
        del prefetch.index[:]


def _place(
    positions: dict[tuple[int, Index], int], what: str, number: int, index: Iterable[int]
) -> int:
    """Return the new location of a leaf of a parameter."""
    key = (number, tuple(index))
    if key not in positions:
        raise HloError(
            f"{what} names part {list(key[1])} of parameter {number}, which is not an array of it",
            code="HLO-REFERENCE",
            remedy="nki-hlo verify reports all that is wrong with the module",
        )
    return positions[key]


def _flatten_result(entry: Computation) -> None:
    root = entry.root
    shardings = _shardings(root)
    positions = {index: number for number, (index, _) in enumerate(root.shape.leaves())}
    flat = make_tuple(root, list(_leaves(root)))
    if shardings is not None:
        flat.proto.sharding.CopyFrom(root.proto.sharding)
    entry.set_root(flat)
    for alias in entry.module.raw_proto.input_output_alias.entries:
        index = tuple(alias.output_shape_index)
        if index in positions:
            alias.output_shape_index[:] = [positions[index]]
    sweep(entry, [root])


def _leaves(view: Instruction) -> Iterator[Instruction]:
    if not view.shape.is_tuple:
        yield view
        return
    for number in range(len(view.shape.tuple_shapes)):
        yield from _leaves(get_part(view, number))
