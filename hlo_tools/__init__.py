"""HLO: load, look at, check, rewrite and write any HLO module.

>>> module = hlo_tools.load("model.hlo_module.pb")      # doctest: +SKIP
>>> [call.name for call in module.find_custom_calls()]  # doctest: +SKIP

Importing the package imports nothing else, not even ``typing``: the commands start with it, and
they catch an interrupt from their first import on. A name is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hlo_tools.errors import (
        HloError,
        HloFileError,
        HloTextError,
        HloUnsupportedError,
        HloVerifyError,
    )
    from hlo_tools.ir.computation import Computation
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.ir.loading import load, load_outline
    from hlo_tools.ir.module import Module
    from hlo_tools.types.aliases import Alias
    from hlo_tools.types.literal import Literal, literal_of
    from hlo_tools.types.shape import Shape, array_shape, parse_shape, token_shape, tuple_shape
    from hlo_tools.types.source_frames import SourceFrame

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
    "Alias": "types.aliases",
    "Computation": "ir.computation",
    "HloError": "errors",
    "HloFileError": "errors",
    "HloTextError": "errors",
    "HloUnsupportedError": "errors",
    "HloVerifyError": "errors",
    "Instruction": "ir.instruction",
    "Literal": "types.literal",
    "Module": "ir.module",
    "Shape": "types.shape",
    "SourceFrame": "types.source_frames",
    "array_shape": "types.shape",
    "literal_of": "types.literal",
    "load": "ir.loading",
    "load_outline": "ir.loading",
    "parse_shape": "types.shape",
    "token_shape": "types.shape",
    "tuple_shape": "types.shape",
}


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
