"""Moves large constants to separate files next to the module, and back.

:func:`externalize` writes each large constant as ``<module>.constants/<sha256>.npy`` (so equal
constants share a file) and leaves in the instruction its shape and where the elements are;
:func:`inline` puts them back. Between the two the module is valid and small, and every reader
shows its constants as elided.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloFileError
from hlo_tools.files.plain import check_path, read_plain, shown
from hlo_tools.files.writing import write_bytes
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import Array, ElementType
from hlo_tools.types.literal import literal_of

if TYPE_CHECKING:
    from hlo_tools.types.shape import Shape

__all__ = ["ATTRIBUTE", "externalize", "inline"]

ATTRIBUTE = "nki_hlo_external_constant"
"""Frontend attribute of a constant whose elements are in a file: its path from the folder."""
_ALONE = f"{ATTRIBUTE}_alone"
"""Frontend attribute that says that the instruction had no message of frontend attributes."""


_UNFIT = re.compile(r"[^\w.+-]+")
"""Characters that a folder's name must not copy from a module's name, which is untrusted."""

_HEADER_BYTES = 1 << 16
"""The largest header of an ``.npy`` file."""


def externalize(module: Module, folder: str | Path, *, threshold: int = 1 << 16) -> int:
    """Move constants of more than ``threshold`` bytes into files under ``folder``.

    Returns:
        how many constants were moved.

    Raises:
        HloFileError: a file cannot be written (HLO-WRITE).
    """
    module.require_known_fields()
    root = Path(folder)
    names = f"{_UNFIT.sub('_', module.name) or 'module'}.constants"
    moved = 0
    for view in list(module.instructions):
        literal = view.literal
        if literal is None or not literal.shape.is_array or literal.is_elided:
            continue
        if literal.shape.byte_size <= threshold:
            continue
        data = _npy(literal.numpy())
        relative = f"{names}/{hashlib.sha256(data).hexdigest()}.npy"
        _make_folder(root / names)
        if not (root / relative).exists():
            write_bytes(data, root / relative)
        _leave_only_shape(view, relative)
        moved += 1
    if moved:
        module.mark_changed()
    return moved


def inline(module: Module, folder: str | Path) -> int:
    """Read back the constants that :func:`externalize` moved out.

    Returns:
        the number of constants that were read.

    Raises:
        HloFileError: a file is missing, damaged, of another content, or outside of ``folder``
            (HLO-EXTERNAL).
    """
    module.require_known_fields()
    root = Path(folder)
    count = 0
    for view in list(module.instructions):
        relative = view.frontend_attributes.get(ATTRIBUTE)
        if relative is None:
            continue
        shape = view.shape
        array = _read(root, relative, shape, view)
        literal = literal_of(array, layout=shape.layout, element=shape.element.name).proto
        literal.shape.CopyFrom(view.proto.literal.shape)
        view.proto.literal.CopyFrom(literal)
        del view.proto.frontend_attributes.map[ATTRIBUTE]
        if view.proto.frontend_attributes.map.pop(_ALONE, None):
            view.proto.ClearField("frontend_attributes")
        count += 1
    if count:
        module.mark_changed()
    return count


def _make_folder(path: Path) -> None:
    try:
        check_path(path)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HloFileError(
            f"the folder cannot be made: {error.strerror or error}",
            code="HLO-WRITE",
            place=shown(path),
            remedy="check that the folder above it is writable and has room",
        ) from error


def _leave_only_shape(view: Instruction, relative: str) -> None:
    literal = view.proto.literal
    shape = type(literal.shape)()
    shape.CopyFrom(literal.shape if literal.HasField("shape") else view.proto.shape)
    literal.Clear()
    literal.shape.CopyFrom(shape)
    if not view.proto.HasField("frontend_attributes"):
        view.proto.frontend_attributes.map[_ALONE] = "true"
    view.proto.frontend_attributes.map[ATTRIBUTE] = relative
    view.module.drop_constant(view.computation.id, view.local_id)


def _npy(array: Array) -> bytes:
    """The array as an .npy file; types that NumPy does not name are stored as their bits."""
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if plain.dtype.kind == "V" or plain.dtype.num > 255:
        plain = plain.view(f"u{plain.dtype.itemsize}")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, plain, version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def _read(root: Path, relative: str, shape: Shape, view: Instruction) -> Array:
    path = root / relative
    location = f"{view.module.path or view.module.name}:%{view.name}"
    if Path(relative).is_absolute() or ".." in Path(relative).parts:
        raise _unusable(location, f"its constant is outside of the module's folder: {relative}")
    try:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise _unusable(location, f"{path} is a link out of the module's folder")
        data = read_plain(path, 8 * shape.byte_size + _HEADER_BYTES)  # small types take a byte
    except (OSError, ValueError) as error:
        raise _unusable(
            location, f"{path} cannot be read: {getattr(error, 'strerror', error)}"
        ) from None
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise _unusable(location, f"{path} has changed since it was written")
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # the parser evaluates a literal: anything can come out of it
        raise _unusable(location, f"{path} is no .npy file: {error}") from None
    return _checked(array, shape.element, shape.dimensions, path, location)


def _checked(
    array: Array, element: ElementType, dimensions: tuple[int, ...],
    path: Path, location: str,
) -> Array:  # fmt: skip
    if array.shape != dimensions or array.dtype.itemsize != element.itemsize:
        raise _unusable(
            location,
            f"{path} holds {array.dtype}{list(array.shape)}, not {element}{list(dimensions)}",
        )
    return array if array.dtype == element.dtype else array.view(element.dtype or array.dtype)


def _unusable(location: str, message: str) -> HloFileError:
    return HloFileError(
        message,
        code="HLO-EXTERNAL",
        place=location,
        remedy="copy the folder of constants together with the module",
    )
