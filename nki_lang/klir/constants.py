"""Constants of a kernel as ``.npy`` files beside it, named by what is in them."""

from __future__ import annotations

import hashlib
import io
import math
from typing import Any

import numpy as np
from numpy.lib import format as npy

from nki_lang.errors import NkiFileError

__all__ = ["FOLDER", "from_npy", "plain_name", "to_npy"]

FOLDER = "shared_constants"
"""leanprover/KLR keeps them there, too (KLR/Compile.lean)."""

_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32}

_OTHERS = 256
"""Number of the first dtype that is not NumPy's own (``NPY_USERDEF``). ``isbuiltin`` is no test: it
is 0 for the dtype of an array that was unpickled, and for packed types, which have metadata."""


def to_npy(value: Any) -> tuple[str, bytes]:
    """File name (relative to the kernel file) and bytes of a constant.

    Types that ``.npy`` does not know are stored as unsigned integers of their size; the type
    itself is in the kernel.
    """
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    is_other = array.dtype.kind == "V" or array.dtype.num >= _OTHERS
    array = array.view(_RAW[array.dtype.itemsize] if is_other else array.dtype.str)
    out = io.BytesIO()
    npy.write_array(out, array, version=(1, 0), allow_pickle=False)
    data = out.getvalue()
    return f"{FOLDER}/{hashlib.sha256(data).hexdigest()}.npy", data


def _damaged(name: str, what: str) -> NkiFileError:
    return NkiFileError(
        f"the constant {name!r}: {what}",
        code="NKI-FILE-CONSTANT",
        remedy="copy the kernel file together with the folder shared_constants beside it",
    )


def plain_name(name: str, file: str) -> str:
    """``file``, after making sure that it lies beside the kernel file.

    Raises:
        NkiFileError: it names a place outside.
    """
    parts = file.split("/")
    if not file or any(part in ("", ".", "..") for part in parts) or set(file) & set("\\:\0"):
        raise _damaged(name, f"its file {file!r} is not beside the kernel file")
    return file


def from_npy(name: str, data: bytes) -> Any:
    """The array in the bytes of a ``.npy`` file.

    Raises:
        NkiFileError: they are damaged, or hold Python objects.
    """
    stream = io.BytesIO(data)
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except Exception as error:  # the parser evaluates a literal: anything can come out of it
        raise _damaged(name, f"its file is no .npy file ({error})") from None
    left = len(data) - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise _damaged(name, f"its file holds {left} bytes where {dtype} {shape} is announced")
    array = np.frombuffer(data, dtype, offset=stream.tell())
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
