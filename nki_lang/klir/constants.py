"""Constants of a kernel as ``.npy`` files in a folder next to it, named by a hash of their
content.
"""

from __future__ import annotations

import hashlib
import io
import math
from typing import Any

import numpy as np
from numpy.lib import format as npy

from nki_lang.base.errors import NkiFileError

__all__ = ["FOLDER", "from_npy", "plain_name", "to_npy"]

FOLDER = "shared_constants"
"""leanprover/KLR uses the same folder (KLR/Compile.lean)."""

_UNSIGNED_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}

_FIRST_USER_DTYPE = 256
"""Number of the first user-defined dtype (``NPY_USERDEF``). ``isbuiltin`` is no test: it
is 0 for the dtype of an array that was unpickled, and for packed types, which have metadata."""


def to_npy(value: Any) -> tuple[str, bytes]:
    """Return the file name (relative to the kernel file) and the bytes of a constant.

    Types that ``.npy`` lacks are stored as unsigned integers of their size; the kernel names the
    type.
    """
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    is_user_dtype = array.dtype.kind == "V" or array.dtype.num >= _FIRST_USER_DTYPE
    array = array.view(_UNSIGNED_DTYPES[array.dtype.itemsize] if is_user_dtype else array.dtype.str)
    out = io.BytesIO()
    npy.write_array(out, array, version=(1, 0), allow_pickle=False)
    data = out.getvalue()
    return f"{FOLDER}/{hashlib.sha256(data).hexdigest()}.npy", data


def _damaged(name: str, fault: str) -> NkiFileError:
    return NkiFileError(
        f"the constant {name!r}: {fault}",
        code="NKI-FILE-CONSTANT",
        remedy="copy the kernel file together with the folder shared_constants next to it",
    )


def plain_name(name: str, file: str) -> str:
    """Return ``file`` after checking that it is in the folder of the kernel file.

    Raises:
        NkiFileError: the path leaves the folder.
    """
    components = file.split("/")
    if (
        not file
        or any(component in ("", ".", "..") for component in components)
        or set(file) & set("\\:\0")
    ):
        raise _damaged(name, f"its file {file!r} is not in the folder of the kernel file")
    return file


def from_npy(name: str, data: bytes) -> Any:
    """Return the array in the bytes of a ``.npy`` file.

    Raises:
        NkiFileError: the bytes are damaged, or contain Python objects.
    """
    stream = io.BytesIO(data)
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except Exception as error:  # the parser evaluates a literal: anything can come out of it
        raise _damaged(name, f"its file is no .npy file ({error})") from None
    remaining = len(data) - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != remaining:
        raise _damaged(
            name,
            f"its file contains {remaining} bytes of data, but its header declares {dtype} {shape}",
        )
    array = np.frombuffer(data, dtype, offset=stream.tell())
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
