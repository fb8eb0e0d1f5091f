"""Why a file is not a usable ``.npy`` or ``.npz``, in words for the person who named it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hlo_tools.files.content import check_readable
from hlo_tools.files.detection import kind_name

__all__ = ["UnusableArray", "unusable_array"]

_HEAD_BYTES = 1 << 20
_ARRAYS = frozenset({"a NumPy array (.npy)", "an archive of NumPy arrays (.npz)"})


class UnusableArray(NamedTuple):
    """A reason why a file gives no array, and what to do."""

    reason: str
    remedy: str


def unusable_array(path: str, error: Exception) -> UnusableArray:
    """Explain an error of ``numpy.load``; its own text is about NumPy's options.

    Args:
        path: the file that could not be loaded.
        error: the exception that loading it raised.
    """
    try:
        check_readable(path)
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except (OSError, ValueError) as unreadable:
        reason = getattr(unreadable, "strerror", None) or unreadable
        return UnusableArray(f"cannot be read: {reason}", "pass the path of a .npy file")
    name = kind_name(head)
    if name and name not in _ARRAYS:
        return UnusableArray(f"this is {name}, not an array", "write the array with numpy.save")
    if "Python objects" in str(error) or "Object arrays" in str(error):
        return UnusableArray(
            "it holds Python objects, which could run code",
            "give the array a numeric dtype with .astype, and write it with numpy.save",
        )
    if name:
        return UnusableArray(f"it is damaged: {error}", "write it again with numpy.save")
    return UnusableArray("this is not an array", "write the array with numpy.save")
