"""HLO: load, look at, check, rewrite and write any HLO module.

>>> module = hlo_tools.load("model.hlo_module.pb")      # doctest: +SKIP
>>> [call.name for call in module.find_custom_calls()]  # doctest: +SKIP

Importing the package imports nothing else; a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.aliasing import Alias
    from hlo_tools.computation import Computation
    from hlo_tools.errors import (
        HloError,
        HloFileError,
        HloTextError,
        HloUnsupportedError,
        HloVerifyError,
    )
    from hlo_tools.instruction import Instruction
    from hlo_tools.literal import Literal, literal_of
    from hlo_tools.loading import load
    from hlo_tools.module import Module
    from hlo_tools.outline import load_outline
    from hlo_tools.shape import Shape, array_shape, token_shape, tuple_shape
    from hlo_tools.shape_text import parse_shape
    from hlo_tools.source import SourceFrame

__all__ = [
    "Alias",
    "Computation",
    "HloError",
    "HloFileError",
    "HloTextError",
    "HloUnsupportedError",
    "HloVerifyError",
    "Instruction",
    "Literal",
    "Module",
    "Shape",
    "SourceFrame",
    "array_shape",
    "literal_of",
    "load",
    "load_outline",
    "parse_shape",
    "token_shape",
    "tuple_shape",
]

_HOMES = {
    "Alias": "aliasing",
    "Computation": "computation",
    "HloError": "errors",
    "HloFileError": "errors",
    "HloTextError": "errors",
    "HloUnsupportedError": "errors",
    "HloVerifyError": "errors",
    "Instruction": "instruction",
    "Literal": "literal",
    "Module": "module",
    "Shape": "shape",
    "SourceFrame": "source",
    "array_shape": "shape",
    "literal_of": "literal",
    "load": "loading",
    "load_outline": "outline",
    "parse_shape": "shape_text",
    "token_shape": "shape",
    "tuple_shape": "shape",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
