"""State of a traced module: its parameters, buffers, and what else it keeps in attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import cast

from neff.torch_graph.pytorch import Tensor, Tree, pytree, torch
from neff.torch_trace.placement import identity_of, is_written, placed

__all__ = ["FunctionState", "ModuleState", "attribute_signature", "holds_tensors", "random_states"]


_REGISTRIES = ("_parameters", "_buffers")
_RECURRENT_COPIES = ("_flat_weights", "_flat_weight_refs")
"""Lists of an RNN's parameters, which its call renews when they are others."""
MAX_SIGNATURE_DEPTH = 3
"""Objects nested deeper in attributes of plain objects are not compared."""
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


class ModuleState:
    """The tensors of a module's copy, moved to the device, and its other attributes.

    Args:
        module: the copy, which is changed.

    Attributes:
        identities: of each tensor's data before the function runs.
    """

    def __init__(self, module: Tree) -> None:
        self._module = module
        self._move()
        self._tensors = dict(self._slots())
        self._attributes = self._signature()
        self.identities = {key: identity_of(tensor) for key, tensor in self._tensors.items()}

    def _move(self) -> None:
        tensors = {id(tensor): tensor for _, tensor in self._slots()}
        moved = dict(zip(tensors, placed(list(tensors.values())), strict=True))

        def at_device(tensor: Tensor) -> Tree:
            copy = moved[id(tensor)]
            if not isinstance(tensor, torch.nn.Parameter):
                return copy
            return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)

        replacements = {key: at_device(tensor) for key, tensor in tensors.items()}

        def replacement(tensor: Tensor) -> Tree:
            return replacements[id(tensor)]

        for submodule in self._module.modules():
            for attributes in _attribute_tables(submodule):
                for name, value in attributes.items():
                    if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
                        attributes[name] = pytree.tree_map_only(torch.Tensor, replacement, value)

    def _slots(self) -> Iterator[tuple[tuple[str, str, int], Tree]]:
        """(submodule, attribute, position in it) -> tensor."""
        for path, submodule in self._module.named_modules():
            for attributes in _attribute_tables(submodule):
                for name, value in attributes.items():
                    for position, leaf in enumerate(pytree.tree_leaves(value)):
                        if isinstance(leaf, torch.Tensor):
                            yield (path, name, position), leaf

    def _signature(self) -> dict[tuple[str, str], object]:
        """Every attribute: its structure with simple values, and the classes of others."""
        return attribute_signature(self._module)

    def changed_attributes(self) -> list[str]:
        """Names of attributes that the function set to other values; tensors alone do not count."""
        return [f"{path}.{name}".lstrip(".") for path, name in self._changed()]

    def copy_changes(self, module: Tree) -> None:
        """Set the attributes that the function changed in another copy of the module."""
        submodules = dict(module.named_modules())
        for path, submodule in self._module.named_modules():
            for attributes in _attribute_tables(submodule):
                for name in attributes.keys() & {
                    name for key, name in self._changed() if key == path
                }:
                    setattr(submodules[path], name, attributes[name])

    def _changed(self) -> list[tuple[str, str]]:
        now = self._signature()
        keys = self._attributes.keys() | now.keys()
        return sorted(key for key in keys if self._attributes.get(key) != now.get(key))

    def written(self) -> dict[int, Tensor]:
        """Identity of a tensor's data before -> the tensor that the function left in its place."""
        now = dict(self._slots())
        return {
            self.identities[key]: now[key]
            for key in self._tensors
            if key in now and is_written(now[key], self.identities[key])
        }


def attribute_signature(
    module: Tree, *, by_identity: bool = False
) -> dict[tuple[str, str], object]:
    """Every attribute of a module: its structure with simple values, and the classes of others.

    Args:
        module: the module, whose submodules count too.
        by_identity: tensors in attributes are compared too; parameters and buffers are left out.
    """
    return {
        (path, name): _signature_of(value, int(by_identity))
        for path, submodule in module.named_modules()
        for attributes in list(_attribute_tables(submodule))[-1 if by_identity else 0 :]
        for name, value in attributes.items()
        if not (isinstance(submodule, torch.nn.RNNBase) and name in _RECURRENT_COPIES)
    }


def _attribute_tables(submodule: Tree) -> Iterator[dict[str, Tree]]:
    for registry in _REGISTRIES:
        yield submodule.__dict__[registry]
    attributes = submodule.__dict__
    yield _OwnAttributes(attributes)


class _OwnAttributes(dict[str, Tree]):
    """A module's attributes without torch's own; setting one sets it in the module."""

    def __init__(self, attributes: dict[str, Tree]) -> None:
        torch_attributes = _torch_attributes()
        super().__init__(
            (name, value) for name, value in attributes.items() if name not in torch_attributes
        )
        self._attributes = attributes

    def __setitem__(self, name: str, value: Tree) -> None:
        super().__setitem__(name, value)
        self._attributes[name] = value


def _torch_attributes() -> frozenset[str]:
    module: Tree = torch.nn.Module()
    return frozenset(cast("dict[str, object]", vars(module)))


def _signature_of(value: object, depth: int = 0) -> object:
    """Structure and simple values; of a plain object its attributes with the very tensors."""
    flat: tuple[list[object], object] = pytree.tree_flatten(value)
    leaves, structure = flat
    contents = [_content_of(leaf, depth) for leaf in leaves]
    return str(structure), [type(leaf) for leaf in leaves], contents


def _content_of(leaf: object, depth: int) -> object:
    if isinstance(leaf, _SIMPLE):
        return leaf
    if isinstance(leaf, torch.Tensor):
        return _Identical(leaf) if depth else None
    opaque = isinstance(leaf, (type, ModuleType, FunctionType, torch.nn.Module))
    if opaque or depth >= MAX_SIGNATURE_DEPTH or not hasattr(leaf, "__dict__"):
        return None
    attributes = cast("dict[str, object]", vars(leaf))
    return {name: _signature_of(value, depth + 1) for name, value in attributes.items()}


def holds_tensors(signature: object) -> bool:
    """Return True if a value's signature by identity has a tensor in it."""
    if isinstance(signature, _Identical):
        return True
    if isinstance(signature, dict):
        return any(map(holds_tensors, cast("dict[object, object]", signature).values()))
    if isinstance(signature, (list, tuple)):
        return any(map(holds_tensors, cast("list[object]", signature)))
    return False


class _Identical:
    """Equal only for the same tensor, which it keeps alive, with no write in between."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._version = tensor._version

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, _Identical):
            return False
        return self._tensor is value._tensor and self._version == value._version

    def __hash__(self) -> int:
        return id(self._tensor)


class FunctionState:
    """The values in the closure, the globals and the object of a function that is no module."""

    def __init__(self, func: object) -> None:
        self._func = func
        self._values = self._signature()

    def changed(self) -> list[str]:
        """Names whose values are no longer those of the construction."""
        now = self._signature()
        keys = self._values.keys() | now.keys()
        return sorted(key for key in keys if self._values.get(key) != now.get(key))

    def _signature(self) -> dict[str, object]:
        func: Tree = self._func
        values: dict[str, object] = {}
        if isinstance(func, MethodType):
            values["self"] = func.__self__
            func = func.__func__
        if not isinstance(func, FunctionType):
            return {"self": _signature_of(func)}
        for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty cell
                values[name] = cell.cell_contents
        for name in func.__code__.co_names:
            if name in func.__globals__:
                values[name] = func.__globals__[name]
        return {name: _signature_of(value, 1) for name, value in values.items()}


def random_states() -> list[object]:
    """States of the generators of Python, NumPy and PyTorch."""
    kind, keys, *state = import_module("numpy").random.get_state()
    generator = torch.default_generator.get_state()
    return [
        import_module("random").getstate(),
        (kind, keys.tobytes(), *state),
        generator.numpy().tobytes(),
    ]
