"""The compiler's options, and the flags of ``neuronx-cc`` for them.

Source of the flags: the vendor's "Neuron Compiler CLI Reference Guide"; those marked unlisted
are passed by public frameworks but not documented. A flag that cannot mean anything here (no
such hardware detail is modelled) is accepted and reported as without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from neff.errors import NeffError

__all__ = ["FLAGS", "CompileOptions", "Flag", "Flags", "parse_flags"]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of ``neff.compile``.

    Attributes:
        optlevel: 1 to 3.
        auto_cast: which float32 operations may be cast: ``none``, ``matmult`` or ``all``.
        auto_cast_type: what to: ``bf16``, ``fp16``, ``tf32`` or ``fp8_e4m3``.
        lnc: physical cores of a logical core; 0 is the target's default.
        downcast_f64: compute float64 in float32; inputs and outputs stay float64.
    """

    optlevel: int = 2
    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    lnc: int = 0
    downcast_f64: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        names: its spellings, the usual one first.
        values: allowed values, ``("*",)`` for any, ``()`` for a switch without one.
        field: where the value goes: a field of :class:`CompileOptions`, ``target``, ``output``,
            ``fast_loading``; "" for a flag without effect here.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] = ()
    field: str = ""


_ANY = ("*",)

FLAGS: tuple[Flag, ...] = (
    Flag(("--framework",), ("XLA",)),
    Flag(("--target",), ("inf2", "trn1", "trn1n", "trn2", "trn2n", "trn3", "gen2", "gen3", "gen4"), "target"),
    Flag(("--optlevel", "-O"), ("1", "2", "3"), "optlevel"),
    Flag(("--auto-cast",), ("none", "matmult", "all"), "auto_cast"),
    Flag(("--auto-cast-type",), ("bf16", "fp16", "tf32", "fp8_e4m3"), "auto_cast_type"),
    Flag(("--logical-nc-config", "--lnc", "-lnc"), ("1", "2"), "lnc"),
    Flag(("--downcast-f64",), (), "downcast_f64"),
    Flag(("--enable-fast-loading-neuron-binaries",), (), "fast_loading"),
    Flag(("--output", "-o"), _ANY, "output"),
    Flag(("--model-type",), ("generic", "transformer", "unet-inference")),
    Flag(("--native-int64",), ("default", "enabled", "disabled")),
    Flag(("--implicit-integer-downcast",), _ANY),
    Flag(("--distribution-strategy",), _ANY),
    Flag(("--enable-mixed-precision-accumulation",)),
    Flag(("--disable-mixed-precision-accumulation",)),
    Flag(("--enable-saturate-infinity",)),
    Flag(("--enable-fast-context-switch",)),
    Flag(("--logfile",), _ANY),
    Flag(("--verbose", "--logfile-verbose"), _ANY),
    # Unlisted: seen in public frameworks and logs.
    Flag(("--pipeline",), _ANY),
    Flag(("--workdir",), _ANY),
    Flag(("--execute-repetition",), _ANY),
    Flag(("--hbm-scratchpad-page-size",), _ANY),
    Flag(("--tensorizer-options",), _ANY),
    Flag(("--internal-hlo2tensorizer-options",), _ANY),
    Flag(("--internal-backend-options",), _ANY),
    Flag(("--enable-internal-neff-wrapper",)),
    Flag(("--enable-dge",)),
    Flag(("--disable-dge",)),
    Flag(("--disable-hlo-operand-type-check",)),
    Flag(("--experimental-unsafe-fp8e4m3fn-as-fp8e4m3",)),
    Flag(("--cache_dir",), _ANY),
    Flag(("--no_cache",)),
    Flag(("--log_level",), _ANY),
    Flag(("--retry_failed_compilation",)),
)  # fmt: skip

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
_WHOLE_NUMBERS = ("optlevel", "lnc")


@dataclass(frozen=True, slots=True)
class Flags:
    """A parsed list of flags.

    Attributes:
        options: what the compiler is to do.
        target: the family named, or "".
        output: the file named, or "".
        fast_loading: write the payload uncompressed.
        ignored: flags without effect here, as given.
        rest: arguments that are no flags (files).
    """

    options: CompileOptions = CompileOptions()
    target: str = ""
    output: str = ""
    fast_loading: bool = False
    ignored: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def parse_flags(flags: Sequence[str]) -> Flags:
    """Understand a list of ``neuronx-cc`` flags; ``--flag=value``, ``--flag value`` and ``-O2``.

    Raises:
        NeffError: ``NEFF-FLAG``; unknown, without its value, or with one that is not allowed.
    """
    given = list(flags)
    options, parsed = CompileOptions(), Flags()
    ignored: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(given):
        text = given[at]
        at += 1
        if not text.startswith("-") or text == "-":
            rest.append(text)
            continue
        flag, value = _split(text)
        if flag.values and value is None:
            if at == len(given):
                raise _wrong(text, f"needs a value: {_allowed(flag)}")
            value = given[at]
            at += 1
        _check(flag, text, value)
        if not flag.field:
            ignored.append(text)
        elif flag.field in CompileOptions.__slots__:
            options = replace(options, **{flag.field: _meant(flag, value)})
        else:
            parsed = replace(parsed, **{flag.field: True if value is None else value})
    return replace(parsed, options=options, ignored=tuple(ignored), rest=tuple(rest))


def _meant(flag: Flag, value: str | None) -> str | int | bool:
    """The value of an option; a flag without values is a switch."""
    if not flag.values:
        return True
    return int(value or 0) if flag.field in _WHOLE_NUMBERS else value or ""


def _split(text: str) -> tuple[Flag, str | None]:
    name, equals, value = text.partition("=")
    if not equals and name.startswith("-O") and len(name) > 2:
        name, value, equals = "-O", name[2:], "="
    flag = _BY_NAME.get(name)
    if flag is None:
        known = ", ".join(each.names[0] for each in FLAGS if each.field)
        raise _wrong(name, f"is not a flag of the compiler; those with an effect are {known}")
    return flag, value if equals else None


def _check(flag: Flag, text: str, value: str | None) -> None:
    if not flag.values and value is not None:
        raise _wrong(text, "takes no value")
    if flag.values and flag.values != ("*",) and value not in flag.values:
        raise _wrong(text, f"cannot be {value!r}; allowed are {_allowed(flag)}")


def _allowed(flag: Flag) -> str:
    return "anything" if flag.values == ("*",) else ", ".join(flag.values)


def _wrong(flag: str, message: str) -> NeffError:
    return NeffError(
        f"{flag} {message}",
        code="NEFF-FLAG",
        remedy="nki-neff build --help lists the flags; without one, its default holds",
    )
