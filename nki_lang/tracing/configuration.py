"""The configurations of NKI 0.7 that ``nki.jit`` takes: checked, and without effect on numbers.

Source: nki.compiler (nki/api, NKI 0.7.0). The defaults of the switches that are None are not in the
visible part of the documents.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.base.source import caller_location

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig", "require_configurations"]

_SOURCE = "nki.compiler (nki/api, NKI 0.7.0)"


class AddressRotation(enum.Enum):
    """Whose memory the vendor's backend may move: none with a fixed address (AUTO), all, or none."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileConfig:
    """Choices of the vendor's compiler for one kernel; None is its default.

    Attributes:
        address_rotation: which memory the backend may move.
        barrier_check: check the barriers between cores.
        dead_code_elim: leave unused memory of the kernel to the backend.
        nki_alloc_fallback: let the backend allocate when NKI's own allocation fails.
        non_ssa_legalization: run that pass on the kernel's memory.
        prefetch_auto: manage a ring of prefetched tiles in SBUF.
    """

    address_rotation: AddressRotation = AddressRotation.AUTO
    barrier_check: bool | None = None
    dead_code_elim: bool | None = None
    nki_alloc_fallback: bool = True
    non_ssa_legalization: bool | None = None
    prefetch_auto: bool = False

    def __post_init__(self) -> None:
        _require_switches(self, {"address_rotation": AddressRotation})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecializationConfig:
    """Choices of the specialization of one kernel.

    Attributes:
        allow_nested_config_override: inline a nested kernel under the configuration of the outer
            one when theirs differ.
    """

    allow_nested_config_override: bool = False

    def __post_init__(self) -> None:
        _require_switches(self, {})


def _require_switches(
    config: CompileConfig | SpecializationConfig, types: dict[str, type[enum.Enum]]
) -> None:
    for entry in fields(config):
        value = getattr(config, entry.name)
        if not isinstance(value, types.get(entry.name, bool)) and not (
            value is None and entry.default is None
        ):
            kind = types.get(entry.name, bool).__name__
            raise NkiTypeError(
                f"{type(config).__name__}({entry.name}={value!r})",
                code="NKI-JIT",
                location=caller_location(4),  # above the __init__ that @dataclass made
                remedy=f"{entry.name} is a {kind}",
                source=_SOURCE,
            )


def require_configurations(compile_config: object, specialization_config: object) -> None:
    """Check the types of the configurations.

    Raises:
        NkiTypeError: code ``NKI-JIT``; one of them is something else.
    """
    for name, value, kind in (
        ("compile_config", compile_config, CompileConfig),
        ("specialization_config", specialization_config, SpecializationConfig),
    ):
        if value is not None and not isinstance(value, kind):
            fail(f"nki.jit({name}={value!r})", "NKI-JIT",
                 f"pass an nki.compiler.{kind.__name__}", _SOURCE, NkiTypeError)  # fmt: skip
