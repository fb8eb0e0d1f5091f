"""The compiler's options, and the flags of ``neuronx-cc`` for them.

Source of the flags: the vendor's "Neuron Compiler CLI Reference Guide"; those marked unlisted
are passed by public frameworks but not documented. A flag that cannot mean anything here (no
such hardware detail is modelled) is accepted and reported as without effect. As in the vendor's
parser a long flag may be abbreviated, and some take several values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from neff.errors import NeffError

__all__ = ["FLAGS", "CompileOptions", "Flag", "Flags", "parse_flags"]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of ``neff.compile``.

    Attributes:
        optlevel: 1 to 3: few rewrites; all; a search by the timing model.
        auto_cast: which float32 operations may be cast: ``none``, ``matmult`` or ``all``.
        auto_cast_type: what to: ``bf16``, ``fp16``, ``tf32`` or ``fp8_e4m3``.
        lnc: physical cores of a logical core; 0 is the target's default.
        downcast_f64: compute float64 in float32; inputs and outputs stay float64.
        replicas, partitions: how many devices run the module together, ``replicas * partitions``;
            0 lets the groups of its collectives say it.
        names: of inputs that the module does not name: ``positions`` (``input0``) or ``framework``
            (the names of the framework's arguments).
    """

    optlevel: int = 2
    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    lnc: int = 0
    downcast_f64: bool = False
    replicas: int = 0
    partitions: int = 0
    names: str = "positions"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        names: its spellings, the usual one first.
        values: allowed values, ``("*",)`` for any, ``()`` for a switch without one.
        field: where the value goes: a field of :class:`CompileOptions`, ``target``, ``output``,
            ``fast_loading``; "" for a flag without effect here.
        many: whether it takes any number of values.
        repeats: whether every occurrence counts, and not the last one alone.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] = ()
    field: str = ""
    takes_many: bool = False
    repeats: bool = False


_ANY = ("*",)

FLAGS: tuple[Flag, ...] = (
    Flag(("--framework",), ("XLA",)),
    Flag(("--target",), ("inf2", "trn1", "trn1n", "trn2", "trn2n", "trn3", "gen2", "gen3", "gen4"), "target"),
    Flag(("--optlevel", "-O"), ("1", "2", "3"), "optlevel"),
    Flag(("--auto-cast",), ("none", "matmult", "all"), "auto_cast"),
    Flag(("--auto-cast-type",), ("bf16", "fp16", "tf32", "fp8_e4m3"), "auto_cast_type"),
    Flag(("--logical-nc-config", "--lnc", "-lnc"), ("1", "2"), "lnc"),
    Flag(("--downcast-f64",), (), "downcast_f64"),
    Flag(("--replicas",), _ANY, "replicas"),
    Flag(("--partitions",), _ANY, "partitions"),
    Flag(("--names",), ("positions", "framework"), "names"),
    Flag(("--kernels",), _ANY, "kernels", repeats=True),
    Flag(("--check-kernels",), (), "check_kernels"),
    Flag(("--enable-fast-loading-neuron-binaries",), (), "fast_loading"),
    Flag(("--output", "-o"), _ANY, "output"),
    Flag(("--model-type",), ("generic", "transformer", "unet-inference", "cnn-training")),
    Flag(("--native-int64",), ("default", "enabled", "disabled")),
    Flag(("--implicit-integer-downcast",), _ANY),
    Flag(("--distribution-strategy",), _ANY),
    Flag(("--enable-mixed-precision-accumulation",)),
    Flag(("--disable-mixed-precision-accumulation",)),
    Flag(("--enable-saturate-infinity",)),
    Flag(("--enable-fast-context-switch",)),
    Flag(("--logfile",), _ANY, "logfile"),
    Flag(("--verbose",), _ANY, "verbose"),
    # Unlisted: seen in public frameworks and logs.
    Flag(("--logfile-verbose",), _ANY),
    Flag(("--enable-experimental-O1",)),
    Flag(("--pipeline",), _ANY, takes_many=True),
    Flag(("--workdir",), _ANY),
    Flag(("--execute-repetition",), _ANY),
    Flag(("--hbm-scratchpad-page-size",), _ANY),
    Flag(("--tensorizer-options",), _ANY),
    Flag(("--enable-internal-neff-wrapper",)),
    Flag(("--enable-dge",)),
    Flag(("--disable-dge",)),
    Flag(("--disable-internal-io-dge",)),
    Flag(("--layer-unroll-factor",), _ANY),
    Flag(("--disable-hlo-operand-type-check",)),
    Flag(("--experimental-unsafe-fp8e4m3fn-as-fp8e4m3",)),
    Flag(("--cache_dir",), _ANY),
    Flag(("--no_cache",)),
    Flag(("--log_level",), _ANY),
    Flag(("--retry_failed_compilation",)),
)  # fmt: skip

_INTERNAL = Flag(("--internal-",), _ANY, takes_many=True)
"""Any of the vendor's internal flags; they are not documented, so their values are unknown."""
_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
_MODULE_SUFFIXES = frozenset({".pb", ".hlo", ".txt", ".hlo_module"})
"""Suffixes of a word that is the module, not a further value of the flag before it."""
_FIELDS_WITHOUT_EFFECT = ("", "logfile", "verbose")
"""Fields without effect on what is compiled; the command ``neuronx-cc`` knows the last two."""
_COUNT_FIELDS = ("replicas", "partitions")
_INTEGER_FIELDS = ("optlevel", "lnc", *_COUNT_FIELDS)


@dataclass(frozen=True, slots=True)
class Flags:
    """A parsed list of flags.

    Attributes:
        options: what the compiler is to do.
        target: the family named, or "".
        output: the file named, or "".
        fast_loading: write the payload uncompressed.
        kernels: registered kernels, as :func:`hlo_tools.kernel_calls.named_kernels` takes them.
        check_kernels: compare each with what it takes the place of.
        logfile: the file named, or "".
        verbose: the level named, or "".
        ignored: flags without effect here, as given.
        positional: arguments that are no flags (files).
    """

    options: CompileOptions = CompileOptions()
    target: str = ""
    output: str = ""
    fast_loading: bool = False
    kernels: tuple[str, ...] = ()
    check_kernels: bool = False
    logfile: str = ""
    verbose: str = ""
    ignored: tuple[str, ...] = ()
    positional: tuple[str, ...] = ()


def parse_flags(flags: Sequence[str]) -> Flags:
    """Understand a list of ``neuronx-cc`` flags; ``--flag=value``, ``--flag value`` and ``-O2``.

    Raises:
        NeffError: ``NEFF-FLAG``; unknown, without its value, or with one that is not allowed.
    """
    remaining = list(flags)
    options, parsed = CompileOptions(), Flags()
    ignored: list[str] = []
    positional: list[str] = []
    while remaining:
        text = remaining.pop(0)
        if not text.startswith("-") or text == "-":
            positional.append(text)
            continue
        flag, value = _split(text)
        if flag.values and value is None:
            value = _following(flag, text, remaining)
        _check(flag, text, value)
        if flag.field in _FIELDS_WITHOUT_EFFECT:
            ignored.append(text)
        if flag.field in CompileOptions.__slots__:
            options = replace(options, **{flag.field: _option_value(flag, value)})
        elif flag.repeats:
            parsed = replace(parsed, **{flag.field: (*getattr(parsed, flag.field), value)})
        elif flag.field:
            parsed = replace(parsed, **{flag.field: True if value is None else value})
    return replace(parsed, options=options, ignored=tuple(ignored), positional=tuple(positional))


def _following(flag: Flag, text: str, remaining: list[str]) -> str:
    """Remove the value, or all values, of a flag from ``remaining`` and return it."""
    if not flag.takes_many:
        if not remaining:
            raise _wrong(text, f"needs a value: {_allowed(flag)}")
        return remaining.pop(0)
    values: list[str] = []
    while (
        remaining
        and not remaining[0].startswith("-")
        and PurePath(remaining[0]).suffix not in _MODULE_SUFFIXES
    ):
        values.append(remaining.pop(0))
    if not values and flag is not _INTERNAL:
        raise _wrong(text, "needs one or more values")
    return " ".join(values)


def _option_value(flag: Flag, value: str | None) -> str | int | bool:
    """The value of an option; a flag without values is a switch."""
    if not flag.values:
        return True
    return int(value or 0) if flag.field in _INTEGER_FIELDS else value or ""


def _split(text: str) -> tuple[Flag, str | None]:
    name, equals, value = text.partition("=")
    if not equals and name.startswith("-O") and len(name) > 2:
        name, value, equals = "-O", name[2:], "="
    return _flag(name), value if equals else None


def _flag(name: str) -> Flag:
    """The flag of a name or of an abbreviation that only one flag has."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.startswith(_INTERNAL.names[0]):
        return _INTERNAL
    longer = sorted(full for full in _BY_NAME if full.startswith(name) and name.startswith("--"))
    if len(candidates := {_BY_NAME[full].names: _BY_NAME[full] for full in longer}) == 1:
        return next(iter(candidates.values()))
    if longer:
        raise _wrong(name, f"is short for {', '.join(longer)}: write it out")
    effective = ", ".join(flag.names[0] for flag in FLAGS if flag.field)
    raise _wrong(name, f"is not a flag of the compiler; those with an effect are {effective}")


def _check(flag: Flag, text: str, value: str | None) -> None:
    if not flag.values and value is not None:
        raise _wrong(text, "takes no value")
    if flag.field in _COUNT_FIELDS and not re.fullmatch("[1-9][0-9]{0,3}", value or ""):
        raise _wrong(text, f"cannot be {value!r}; allowed are whole numbers from 1 to 9999")
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
