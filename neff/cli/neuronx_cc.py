"""``neuronx-cc``: the vendor's command line over our compiler.

Commands, flags and defaults are those of the vendor's "Neuron Compiler CLI Reference Guide"; its
exit status is 0 or not 0, of which 70 is what frameworks report of a failed compilation. The NEFF
is ours: see docs/neff-format.md.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hlo_tools.errors import CodedError
from neff.errors import NeffError
from neff.options import FLAGS, Flags, parse_flags
from neff.version import __version__

__all__ = ["main"]

FINE: Final = 0
USAGE: Final = 2
FAILED: Final = 70
INTERRUPTED: Final = 130

LOG_FILE: Final = "log-neuron-cc.txt"
OUTPUT: Final = "file.neff"
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_DASHES: Final = re.compile("(?=[^=]*[\u2013\u2014])[-\u2013\u2014]+(?=[A-Za-z])")
"""Hyphens with a dash among them: the vendor's pages print dashes in front of some flags."""
_USAGE: Final = """\
usage: neuronx-cc <command> [parameters]

Commands:
  compile         compile an HLO module to a NEFF
  list-operators  the operators that can be compiled

  --help          this text, or that of a command
  --version       the version

This is the open toolchain's compiler behind the vendor's command line; nki-neff build has more.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run ``neuronx-cc`` with ``words`` (the process's arguments when not given).

    Returns:
        The exit code: 0 fine, 2 usage, 70 the compilation failed, 130 interrupted.
    """
    arguments = [
        _DASHES.sub("--", word, count=1) if _DASHES.match(word) else word
        for word in (sys.argv[1:] if words is None else words)
    ]
    command, options = _command_of(arguments)
    try:
        if command in ("--version", "-V"):
            print(f"NeuronX Compiler version {__version__}+nkihlo (nki-hlo; not the vendor's)")
            return FINE
        if command in ("--help", "-h", "help"):
            print(_USAGE, end="")
            return FINE if arguments else USAGE
        if command == "compile":
            return _compile(options)
        if command == "list-operators":
            return _list_operators(options)
        return _misused(f"{command!r} is not a command; commands are {', '.join(_COMMANDS)}")
    except NeffError as error:
        return _misused(error.message)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE


_COMMANDS: Final = ("compile", "list-operators")


def _command_of(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command and its options, which may stand before it.

    Without a command, the first word stands for it.
    """
    for number, word in enumerate(arguments):
        if word in _COMMANDS and not _takes_value(arguments[:number]):
            return word, [*arguments[:number], *arguments[number + 1 :]]
    return (arguments[0], arguments[1:]) if arguments else ("--help", [])


def _takes_value(words: list[str]) -> bool:
    """Return True if the word after these is the value of a flag, or a further word."""
    try:
        return bool(parse_flags(words).positional)
    except NeffError:
        return True


def _misused(message: str) -> int:
    print(f"error[NCC_EARG002] {message}\n  help: neuronx-cc compile --help", file=sys.stderr)
    return USAGE


# ------------------------------------------------------------------------------------- compile


def _compile(words: list[str]) -> int:
    if {"--help", "-h"} & set(words):
        print(_compile_help(), end="")
        return FINE
    flags = parse_flags(words)
    missing = [flag for flag in ("--framework", "--target") if not _is_given(flag, words)]
    if missing:
        return _misused(f"required: {', '.join(missing)}")
    if len(flags.positional) != 1:
        files = " and ".join(flags.positional) or "none"
        return _misused(f"one HLO module is compiled at a time; given: {files}")
    with _logging(flags) as log:
        log.debug("neuronx-cc compile %s", " ".join(words))
        _name_ignored(flags, log)
        started = time.perf_counter()
        try:
            output = _build(flags, log)
            if _TEMPS in words:
                log.info("wrote %s", _save_temps(Path(flags.positional[0]), output))
        except CodedError as error:
            _failed(error, flags, log)
            return USAGE if error.code == "NEFF-FLAG" else FAILED
        except (OSError, MemoryError) as error:
            log.error("error[NEFF-IO] %s", str(error) or "out of memory")
            return FAILED
        except Exception as error:
            log.debug("traceback", exc_info=error)
            log.critical(
                "error[NEFF-INTERNAL] %s: %s\n  help: this is a bug of nki-hlo; --verbose debug "
                "shows where", type(error).__name__, error,
            )  # fmt: skip
            return FAILED
        log.info("wrote %s in %.1f s", output, time.perf_counter() - started)
        if log.level <= logging.ERROR:
            print("\nCompiler status PASS")
    return FINE


def _is_given(flag: str, words: Sequence[str]) -> bool:
    names = (word.partition("=")[0] for word in words)
    return any(name.startswith("--") and len(name) > 3 and flag.startswith(name) for name in names)


def _build(flags: Flags, log: logging.Logger) -> Path:
    from neff.builds import build_one, sources_of

    sources = sources_of(Path(flags.positional[0]))
    if len(sources) != 1:
        raise NeffError(
            f"the folder holds {len(sources)} modules",
            code="NEFF-FLAG",
            place=flags.positional[0],
            remedy="name one of them; nki-neff build compiles all of a folder",
        )
    output = Path(flags.output or OUTPUT)
    built = build_one(sources[0], flags, output, report=log.info)
    for warning in built.warnings:
        log.warning("%s", warning)
    return output


_TEMPS: Final = "SaveTemps"
"""The value of ``--pipeline`` that keeps what lies between module and NEFF."""


def _save_temps(module: Path, output: Path) -> Path:
    """Leave the module's text and the NEFF's members in a folder where the command runs.

    The vendor's names are not public; ours is ``STEM.SaveTemps``.
    """
    from hlo_tools.cli.shared.inputs import open_module
    from neff.builds import sources_of
    from neff.container import open_package

    folder = Path(f"{output.stem}.{_TEMPS}")
    files = {name: bytes(data) for name, data in open_package(output).members.items()}
    (source,) = sources_of(module)
    if not source.is_kernel:
        files["module.hlo"] = open_module(str(source.file)).to_text().encode()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _name_ignored(flags: Flags, log: logging.Logger) -> None:
    """Name the flags without effect, once each."""
    expected = ("--framework", "--logfile", "--verbose", "--pipeline")
    names = dict.fromkeys(flag for flag in flags.ignored if not flag.startswith(expected))
    if names:
        log.warning("without effect here: %s", ", ".join(names))


# -------------------------------------------------------------------------------------- errors

_CODES: Final = {
    "NEFF-FLAG": "NCC_EARG002",
    "NEFF-LNC": "NCC_EARG001",
    "NEFF-OP": "NCC_EVRF001",
    "NEFF-LOWERING": "NCC_EVRF001",
    "NEFF-LOOP": "NCC_EVRF001",
    "NEFF-COLLECTIVE": "NCC_EVRF001",
    "NEFF-COMPLEX": "NCC_EVRF004",
    "NEFF-DTYPE": "NCC_ESPP004",
    "NEFF-F64": "NCC_ESPP004",
    "NEFF-INT64": "NCC_EVRF062",
    "NEFF-RNG": "NCC_EVRF006",
    "NEFF-SIZE": "NCC_EVRF007",
    "NEFF-HBM": "NCC_EVRF009",
    "NEFF-DYNAMIC": "NCC_EMOD025",
    "NEFF-CUSTOM-CALL": "NCC_EVRF015",
    "NEFF-MODULE": "NCC_EVRF064",
    "HLO-KERNEL-MISSING": "NCC_EVRF059",
}
"""Our codes -> the vendor's for the same cause; ``nki-hlo explain`` lists them."""


def _failed(error: CodedError, flags: Flags, log: logging.Logger) -> None:
    location = error.place
    verified = "NCC_EVRF064" if error.code.startswith("HLO-V") else ""
    code = verified or _linted(location, flags) or _CODES.get(error.code) or error.code
    where = f" {location}:" if location else ""
    vendor_code = "" if code == error.code else f" ({error.code})"
    text = f"error[{code}]{where} {error.message}{vendor_code}"
    log.error("%s", f"{text}\n  help: {error.remedy}" if error.remedy else text)


def _linted(location: str, flags: Flags) -> str:
    """The vendor's code of what the linter reports about the very instruction that failed."""
    from hlo_tools.cli.shared.inputs import open_module
    from hlo_tools.lint import lint
    from hlo_tools.verify import Severity

    try:
        module = open_module(flags.positional[0]) if location else None
        findings = lint(module, target=flags.target) if module is not None else []
    except (CodedError, OSError, ValueError):
        return ""
    return next(
        (
            finding.code
            for finding in findings
            if finding.severity is Severity.error
            and location in (finding.instruction, finding.source)
        ),
        "",
    )


# ------------------------------------------------------------------------------------- logging


@contextmanager
def _logging(flags: Flags) -> Generator[logging.Logger]:
    """A logger to the terminal, by level, and to the log file, in full.

    Raises:
        NeffError: ``NEFF-FLAG``: the log file that was asked for cannot be written, or there is
            no such level.
    """
    log = logging.Logger("neuronx-cc", _level(flags.verbose))
    terminal = _Terminal()
    log.addHandler(terminal)
    path = flags.logfile or LOG_FILE
    try:
        file = logging.FileHandler(path, mode="w", encoding="utf-8")
    except OSError as error:
        if flags.logfile:
            raise NeffError(
                f"--logfile {path} cannot be written: {error.strerror or error}",
                code="NEFF-FLAG",
                remedy="name a file in a folder that exists",
            ) from None
        file = logging.NullHandler()
    form = logging.Formatter("%(asctime)sZ %(levelname)s %(process)d [neuronx-cc]: %(message)s")
    form.converter, form.default_msec_format = time.gmtime, ""
    form.default_time_format = "%Y-%m-%dT%H:%M:%S"
    file.setFormatter(form)
    terminal.setLevel(log.level)
    log.setLevel(min(log.level, logging.INFO))
    log.addHandler(file)
    try:
        yield log
    finally:
        file.close()


class _Terminal(logging.Handler):
    """Progress to stdout, diagnostics to stderr, as the vendor's guide says."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stdout if record.levelno < logging.WARNING else sys.stderr
        stream.write(self.format(record) + "\n")


def _level(text: str) -> int:
    if not text:
        return logging.WARNING
    if text.isdecimal():
        return int(text)
    if text.lower() not in _LEVELS:
        raise NeffError(
            f"--verbose cannot be {text!r}; allowed are {', '.join(_LEVELS)} and numbers",
            code="NEFF-FLAG",
            remedy="leave it out for warnings and errors",
        )
    return _LEVELS[text.lower()]


# ------------------------------------------------------------------------------------ the help


def _compile_help() -> str:
    rows = [
        f"  {', '.join(flag.names):42} {'|'.join(flag.values).replace('*', '<value>')}".rstrip()
        for flag in FLAGS
    ]
    effective = [row for row, flag in zip(rows, FLAGS, strict=True) if flag.field]
    ignored_rows = [row for row, flag in zip(rows, FLAGS, strict=True) if not flag.field]
    return "\n".join(
        [
            "usage: neuronx-cc compile <module> --framework XLA --target <target> [flags]",
            "",
            f"Compiles an HLO module to a NEFF ({OUTPUT} unless --output names another file).",
            "",
            "Flags:",
            *effective,
            "",
            "Accepted, without effect here:",
            *[row for row in ignored_rows if "--framework" not in row],
            "  --internal-...                             any values",
            "",
        ]
    )


# ------------------------------------------------------------------------------ list-operators


def _list_operators(words: list[str]) -> int:
    if {"--help", "-h"} & set(words):
        print("usage: neuronx-cc list-operators --framework XLA")
        return FINE
    flags = parse_flags(words)
    if not _is_given("--framework", words) or flags.positional:
        return _misused("list-operators takes --framework XLA")
    from neff.compiler.coverage import builder_names

    print("\n".join(builder_names()))
    return FINE
