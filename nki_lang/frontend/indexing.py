"""Views by indices: subscripts, slices, runtime indices, reinterpretation."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as to_int
from typing import Any, NoReturn, TypeGuard, TypeVar, cast

from nki_lang.base.dtypes import DType
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend import strides as stride_rules
from nki_lang.frontend.builder import current
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.slices import DynamicSlice, Index
from nki_lang.frontend.view import View, refuse
from nki_lang.ir import Access, Register

__all__ = [
    "index_view",
    "indirect_view",
    "rearrange_view",
    "reinterpret_view",
    "select_view",
    "slice_view",
    "vector_select_view",
]

ACCESS_PATTERNS = "nki/deep-dives/nki-aps.rst"
ONE_INDEX = "take one runtime index for each view; is_indirect() returns whether there is one"
V = TypeVar("V", bound=View)

_INDEX_TYPES = frozenset({"int32", "uint32", "int16", "uint16", "int8", "uint8"})


def index_view(tensor: V, key: object) -> V:
    """Return ``tensor[key]``.

    On chip an integer keeps the partition dimension at extent 1, and the result has at least two
    dimensions; in HBM it drops the dimension and the result has at least one.
    """
    keys = _keys(key)
    rank = len(tensor.shape)
    if len(keys) == rank and tensor.runtime_index is None:
        view = _static_slices(tensor, keys)
        if view is not None:
            return view
    if Ellipsis in keys or None in keys or len(keys) < rank:
        keys = _expand(tensor, keys, rank)
    elif len(keys) > rank:
        refuse(
            tensor,
            f"{len(keys)} indices for {rank} dimensions",
            "NKI-INDEX",
            "pass at most one index for each dimension",
        )
    on_chip = tensor.on_chip
    shape: list[int] = []
    strides: list[int] = []
    offset = tensor.offset
    dynamic: list[tuple[Any, int, int]] = []
    dropped = -1
    axis = 0
    for item in keys:
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        start, count, step = _key_range(tensor, axis, item)
        stride = tensor.strides[axis]
        if dynamic_start(start):
            dynamic.append((start, stride, axis))
        else:
            offset += start * stride
        if count is not None or (axis == 0 and on_chip):
            shape.append(1 if count is None else count)
            strides.append(stride * step)
        else:
            dropped = axis
        axis += 1
    if len(shape) < (2 if on_chip else 1):
        shape.append(1)
        strides.append(tensor.strides[dropped])
    view = tensor.derive(tuple(shape), tuple(strides), offset)
    if tensor.runtime_index is not None:
        _guard_indirect(tensor, keys)
    return _with_dynamic(view, tensor, dynamic) if dynamic else view


def _keys(key: object) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", key) if type(key) is tuple else (key,)


def _key_range(tensor: View, axis: int, item: object) -> tuple[Any, int | None, int]:
    """Return (start, count, step) that one key selects; a single position has no count.

    The start may be a register or a tile. A view without elements is allowed, as in the front end
    of KLR (``KLR/Trace/Term.lean``, ``toIndex'``); no instruction accepts one.
    """
    if type(item) is slice:
        return _bounds(tensor, axis, item)
    if type(item) is not DynamicSlice:
        return item if dynamic_start(item) else _position(tensor, axis, item), None, 1
    start, count = item[0], to_int(item[1])
    extent = tensor.shape[axis]
    if dynamic_start(start):
        if not 0 < count <= extent:
            refuse(
                tensor,
                f"nl.ds of {count} elements in a dimension of {extent}",
                "NKI-INDEX",
                "take at most the extent of the dimension",
            )
        return start, count, 1
    start = to_int(start)
    if start < 0 or count < 0 or start + count > extent:
        _outside(tensor, axis, f"nl.ds({start}, {count})")
    return start, count, 1


def _static_slices(tensor: V, keys: tuple[object, ...]) -> V | None:
    """Return the view when every key is a forward slice with integer bounds: the common, fast
    case.
    """
    offset = tensor.offset
    shape: list[int] = []
    for item, extent, stride in zip(keys, tensor.shape, tensor.strides, strict=True):
        if type(item) is not slice or item.step is not None:
            return None
        start, stop = item.start, item.stop
        if start is None:
            start = 0
        elif type(start) is not int:
            return None
        if stop is None:
            stop = extent
        elif type(stop) is not int:
            return None
        if not 0 <= start < stop <= extent:
            return None
        offset += start * stride
        shape.append(stop - start)
    return tensor.derive(tuple(shape), tensor.strides, offset)


def _expand(tensor: View, keys: tuple[object, ...], rank: int) -> tuple[Any, ...]:
    """Replace ``...`` and missing dimensions by full slices."""
    count = sum(1 for item in keys if item is not None and item is not Ellipsis)
    if count > rank:
        refuse(
            tensor,
            f"{count} indices for {rank} dimensions",
            "NKI-INDEX",
            "pass at most one index for each dimension",
        )
    ellipses = [position for position, item in enumerate(keys) if item is Ellipsis]
    if len(ellipses) > 1:
        refuse(
            tensor,
            "more than one ellipsis in an index",
            "NKI-INDEX",
            "write the other dimensions as full slices",
        )
    filler = (slice(None),) * (rank - count)
    if not ellipses:
        return keys + filler
    return keys[: ellipses[0]] + filler + keys[ellipses[0] + 1 :]


def dynamic_start(value: object) -> bool:
    """Return True when an index is known only while the kernel runs."""
    return isinstance(value, VirtualRegister) or is_tile(value)


def is_tile(value: object) -> TypeGuard[View]:
    """Return True for a tensor, by its base class: the tensors' module is in a higher layer."""
    return isinstance(value, View)


def _bounds(tensor: View, axis: int, item: slice[Any, Any, Any]) -> tuple[int, int, int]:
    """Return (start, count, step) of a slice, checked against the extent."""
    extent = tensor.shape[axis]
    start, stop, step = item.start, item.stop, item.step
    if dynamic_start(start) or dynamic_start(stop) or dynamic_start(step):
        refuse(
            tensor,
            "a slice needs bounds that are known while tracing",
            "NKI-REGISTER-VALUE",
            "use nl.ds(register, size)",
        )
    step = 1 if step is None else to_int(step)
    if step < 1:
        refuse(tensor, f"a slice with step {step} in dimension {axis}", "NKI-INDEX",
                       "steps are 1 or more")  # fmt: skip
    first = 0 if start is None else to_int(start)
    last = extent if stop is None else to_int(stop)
    if first < 0:
        first += extent
    if last < 0:
        last += extent
    if first < 0 or last > extent or first > last:
        _outside(tensor, axis, f"{'' if start is None else start}:{'' if stop is None else stop}")
    return first, (last - first + step - 1) // step, step


def _position(tensor: View, axis: int, item: Any) -> int:
    try:
        position = to_int(item)
    except TypeError:
        refuse(
            tensor,
            f"{item!r} ({type(item).__name__}) is not an index",
            "NKI-INDEX",
            "index with integers, slices, ..., nl.ds, registers or (1, 1) tiles",
            "nki/get-started/nki-language-guide.rst, Tensor Indexing",
        )
    extent = tensor.shape[axis]
    if not -extent <= position < extent:
        _outside(tensor, axis, str(position))
    return position % extent


def _outside(tensor: View, axis: int, index: str) -> NoReturn:
    refuse(
        tensor,
        f"index {index} is outside dimension {axis} of extent {tensor.shape[axis]}",
        "NKI-INDEX",
        "shorten the last tile with min(), or guard it",
        "NkiTensor.slice: 0 <= start, end <= extent",
    )


def _guard_indirect(tensor: View, keys: Sequence[object]) -> None:
    """Refuse a second slice of the dimension of a gather."""
    index = tensor.runtime_index
    assert index is not None
    if index.vector is None:
        return
    item = keys[index.dim] if index.dim < len(keys) else slice(None)
    full = type(item) is slice and item == slice(None)
    covers_dimension = type(item) is slice and item.indices(tensor.shape[index.dim])[:2] == (
        0,
        tensor.shape[index.dim],
    )
    if not (full or covers_dimension):
        refuse(
            tensor,
            f"dimension {index.dim} is indexed at run time and cannot be sliced again",
            "NKI-INDIRECT",
            "slice the index tensor instead",
            "NkiTensor.is_indirect",
        )


def _with_dynamic(view: V, base: View, dynamic: list[tuple[object, int, int]]) -> V:
    """Attach runtime indices: (index, stride, dimension of ``base``) each."""
    if base.runtime_index is not None:
        refuse(
            base, "the view has a runtime index already", "NKI-INDIRECT", ONE_INDEX, ACCESS_PATTERNS
        )
    for _, _, axis in dynamic:
        if axis == 0 and base.on_chip:
            refuse(
                base,
                "the partition dimension cannot be indexed at run time",
                "NKI-PARTITION-DIM",
                "index a free dimension, or copy the rows with nisa.dma_copy from HBM",
                "NkiTensor.select: dynamic on-chip, dim must not be 0",
            )
    if len(dynamic) == 1:
        value, stride, _ = dynamic[0]
        scalar = scalar_index(value)
    else:
        total = _register_of(dynamic[0][0]) * dynamic[0][1]
        for value, stride, _ in dynamic[1:]:
            total = total + _register_of(value) * stride
        scalar, stride = total.register, 1
    view.runtime_index = Index(scalar, None, stride, 0, storage_dimension(base, stride))
    return view


def scalar_index(value: Any) -> Register | Access:
    if isinstance(value, VirtualRegister):
        return value.register
    if value.size != 1 or value.buffer is not MemoryRegion.sbuf:
        refuse(
            value,
            "a scalar index is a register or a (1, 1) tile in SBUF",
            "NKI-SCALAR-OFFSET",
            source=ACCESS_PATTERNS,
            remedy="load the index into a (1, 1) tile in SBUF",
        )
    if value.dtype.name not in _INDEX_TYPES:
        refuse(value, f"a scalar index must be an integer, not {value.dtype}",
                      "NKI-SCALAR-OFFSET", source=ACCESS_PATTERNS, remedy="make the tile nl.int32 or nl.uint32")  # fmt: skip
    return value.access


def _register_of(value: object) -> Any:
    """Return a runtime index as a register, on which arithmetic is an instruction."""
    if isinstance(value, VirtualRegister):
        return value
    builder = current()
    register = builder.new_register()
    builder.emit("register_load", {"dst": register, "src": scalar_index(value)})
    return VirtualRegister(register)


def storage_dimension(tensor: View, step: int, preferred: int = -1, extent: int = 1) -> int:
    """Return the dimension of the storage whose own step is ``step``, or -1.

    A dimension that is shorter than ``extent`` does not match: the view was reshaped.
    """
    shape = tensor.storage.shape
    scale, item = tensor.storage.dtype.itemsize, tensor.dtype.itemsize
    storage_steps = stride_rules.row_major(shape)
    if 0 <= preferred < len(storage_steps) and storage_steps[preferred] * scale == step * item:
        return preferred
    for axis in range(len(storage_steps) - 1, -1, -1):
        if storage_steps[axis] * scale == step * item and shape[axis] >= extent:
            return axis
    return -1


def slice_view(tensor: V, axis: int, start: int, end: int, step: int) -> V:
    """Return ``tensor[:, start:end:step, :]`` with the slice in dimension ``axis``."""
    keys: list[Any] = [slice(None)] * len(tensor.shape)
    keys[axis] = slice(start, end, step)
    view = index_view(tensor, tuple(keys))
    if not view.shape[axis]:
        refuse(tensor, f"slice {start}:{end} of dimension {axis} has no elements", "NKI-INDEX",
            "guard it with a Python if on the size",
            "NkiTensor.slice: 0 <= start < end <= extent",
        )  # fmt: skip
    return view


def select_view(tensor: V, axis: int, index: object) -> V:
    """Return ``tensor[:, index, :]`` with the index in dimension ``axis``."""
    keys: list[Any] = [slice(None)] * len(tensor.shape)
    keys[axis] = index
    return index_view(tensor, tuple(keys))


def vector_select_view(tensor: V, dim: int, vector: View) -> V:
    """Return rows of an HBM tensor, one for each index in ``vector`` of shape (rows, 1)."""
    if dim != 0:
        refuse(
            tensor,
            f"vector_select works on dimension 0, not {dim}",
            "NKI-VECTOR-OFFSET",
            "permute the tensor so that the rows come first",
        )
    if tensor.runtime_index is not None:
        refuse(
            tensor,
            "the view has a runtime index already",
            "NKI-INDIRECT",
            ONE_INDEX,
            ACCESS_PATTERNS,
        )
    step = tensor.strides[0]
    index = Index(
        None,
        vector_index(tensor, vector),
        step,
        0,
        storage_dimension(tensor, step, 0, tensor.shape[0]),
    )
    shape = (vector.shape[0], *tensor.shape[1:])
    return tensor.derive(shape, tensor.strides, tensor.offset, index=index)


def vector_index(tensor: View, vector: object) -> Access:
    if tensor.on_chip:
        refuse(
            tensor,
            "a vector of indices addresses rows of an HBM tensor",
            "NKI-VECTOR-OFFSET",
            "use nisa.nc_n_gather or nisa.local_gather on chip",
            ACCESS_PATTERNS,
        )
    if not is_tile(vector) or vector.buffer is not MemoryRegion.sbuf:
        refuse(
            tensor,
            "vector_offset is a tile in SBUF",
            "NKI-VECTOR-OFFSET",
            "load the indices with nisa.dma_copy first",
            ACCESS_PATTERNS,
        )
    if vector.dtype.name not in _INDEX_TYPES:
        refuse(
            vector,
            f"indices must be integers, not {vector.dtype}",
            "NKI-VECTOR-OFFSET",
            "make the tile nl.int32 or nl.uint32",
        )
    return vector.access


def indirect_view(tensor: V, index: View, count: int | None, generation: int) -> V:
    """Return columns ``index[...]`` of each partition, in the snake order of the engine that
    reads.
    """
    source = "NkiTensor.indirect (nki/api/nki/language)"
    if generation < 4:
        refuse(
            tensor,
            "tensor indirection exists on trn3 and later",
            "NKI-TARGET",
            "use nisa.nc_n_gather or nisa.local_gather",
            source,
        )
    if not tensor.on_chip or tensor.runtime_index is not None:
        refuse(
            tensor,
            "indirect() takes a plain tile on chip",
            "NKI-INDIRECT",
            "call it on the tile itself, not on a view with a runtime index",
            source,
        )
    if index.buffer is not MemoryRegion.sbuf or index.shape[0] != tensor.shape[0]:
        refuse(
            index,
            f"the index tile is in SBUF and has {tensor.shape[0]} partitions like the data",
            "NKI-INDIRECT",
            source=source,
            remedy="give each group of partitions its own row of indices",
        )
    if index.dtype.name not in _INDEX_TYPES:
        refuse(
            index,
            f"indices must be integers, not {index.dtype}",
            "NKI-INDIRECT",
            "make the tile nl.uint16 or nl.uint32",
            source,
        )
    columns = index.size if count is None else to_int(count)
    if not 1 <= columns <= index.size:
        refuse(
            index,
            f"num_elem is 1 to {index.size}, not {columns}",
            "NKI-INDIRECT",
            "leave it out to use every index",
            source,
        )
    flat = tensor if len(tensor.shape) == 2 else tensor.flatten_dims(1, len(tensor.shape) - 1)
    view = flat.derive((flat.shape[0], columns), flat.strides, flat.offset)
    view.runtime_index = Index(None, index.access, flat.strides[1], 1, -1)
    return view


def reinterpret_view(tensor: V, dtype: DType) -> V:
    """``tensor.view(dtype)``."""
    if tensor.runtime_index is not None:
        refuse(
            tensor,
            "a view with a runtime index keeps its dtype",
            "NKI-VIEW",
            "call .view(dtype) first and index its result",
        )
    old, new = tensor.dtype.itemsize, dtype.itemsize
    if old == new:
        return tensor.derive(tensor.shape, tensor.strides, tensor.offset, dtype)
    if tensor.shape[-1] != 1 and tensor.strides[-1] != 1:
        refuse(
            tensor,
            f"the last dimension has stride {tensor.strides[-1]}; it must be contiguous to be"
            f" read as {dtype}",
            "NKI-VIEW",
            "copy to a dense tile first",
        )
    last = tensor.shape[-1] * old
    steps = [*tensor.strides[:-1], tensor.offset]
    if last % new or any(step * old % new for step in steps):
        refuse(
            tensor,
            f"{tensor.shape[-1]} elements of {old} bytes do not form whole elements of {dtype}"
            f" ({new} bytes)",
            "NKI-VIEW",
            remedy="slice whole elements of the wider dtype",
        )
    scaled = [step * old // new for step in steps]
    return tensor.derive((*tensor.shape[:-1], last // new), (*scaled[:-1], 1), scaled[-1], dtype)


def rearrange_view(tensor: V, source: object, target: object, sizes: dict[str, int]) -> V:
    """``tensor.rearrange(('b', ('h', 'w')), ('b', 'w', 'h'), {'h': 4})``."""
    groups, target_groups = stride_rules.parse_pattern(source), stride_rules.parse_pattern(target)
    names = [name for group in groups for name in group]
    asked = [name for group in target_groups for name in group]
    if (
        len(groups) != len(tensor.shape)
        or sorted(names) != sorted(asked)
        or len(set(names)) != len(names)
    ):
        refuse(
            tensor,
            f"the patterns {source} and {target} do not name the dimensions once each",
            "NKI-REARRANGE",
            remedy="write each name once on both sides, one group for each dimension on the left",
        )
    split = tensor
    axis = 0
    for group in groups:
        if len(group) > 1:
            split = split.reshape_dim(axis, [sizes.get(name, -1) for name in group])
        axis += len(group)
    view = split.permute([names.index(name) for name in asked])
    for axis, group in enumerate(target_groups):
        if len(group) > 1:
            view = view.flatten_dims(axis, axis + len(group) - 1)
    return view
