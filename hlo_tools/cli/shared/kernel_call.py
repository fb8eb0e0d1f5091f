"""A kernel of a file and the arguments that a command line describes."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import typer

from hlo_tools.errors import HloError
from hlo_tools.extract.python_file import import_file
from nki_lang.base.dtypes import dtype_of
from nki_lang.kernel import Kernel

__all__ = ["load_kernel", "parse_arguments"]

_TENSOR = re.compile(r"([a-z]\w*)\[([\d,\s]*)\]")
_SEED = 0

_DTYPE_ALIASES = {
    "bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32",
    "f8e4m3": "float8_e4m3", "f8e5m2": "float8_e5m2",
    **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("s", "int"), ("i", "int"), ("u", "uint"))
       for bits in (8, 16, 32)},
}  # fmt: skip
"""HLO's names of data types, and others that are common."""


def load_kernel(path: str, name: str) -> Kernel:
    """Import a file, as a module and not as a script, and find the kernel in it.

    Raises:
        HloError: the file is missing or cannot be imported; HLO-NO-KERNEL: it has no such kernel.
    """
    module = import_file(path)
    kernel = getattr(module, name, None)
    if not callable(kernel):
        kernel_names = ", ".join(
            n for n, value in vars(module).items() if isinstance(value, Kernel)
        )
        raise HloError(
            f"there is no kernel {name!r}", code="HLO-NO-KERNEL", place=path,
            remedy=f"its kernels are {kernel_names}" if kernel_names else "it has no function that nki.jit decorates",
        )  # fmt: skip
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def parse_arguments(words: list[str], *, seed: int = _SEED) -> dict[str, Any]:
    """Arguments by name: ``x=float32[128,512]`` or ``x=f32[128,512]`` is a tensor, anything else a
    Python literal.

    Tensors hold normally distributed numbers, integers from 0 to 7; each run with one ``seed`` the same.

    Raises:
        typer.BadParameter: a word is not NAME=VALUE, or the dtype does not exist.
    """
    generator = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE, such as x=float32[128,512]")
        values[name] = _value(text, generator)
    return values


def _value(text: str, generator: np.random.Generator) -> Any:
    tensor = _TENSOR.fullmatch(text)
    if tensor is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
    shape = tuple(int(extent) for extent in tensor[2].split(",") if extent.strip())
    try:
        dtype = dtype_of(_DTYPE_ALIASES.get(tensor[1], tensor[1]))
    except TypeError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from error
    if dtype.kind == "float":
        return generator.standard_normal(shape).astype(dtype.dtype)
    return generator.integers(0, 8, shape).astype(dtype.dtype)
