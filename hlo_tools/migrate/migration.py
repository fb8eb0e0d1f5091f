"""From a file of an earlier version to one of the current version, with the proof."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
import unittest
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.extract.python_file import check_syntax
from nki_lang.base.errors import NkiError
from nki_lang.beta1.values import Value
from nki_lang.kernel import trace

if TYPE_CHECKING:
    from hlo_tools.migrate.markers import Marker
    from hlo_tools.migrate.proof import Proof
    from hlo_tools.migrate.record import Launch, Recorder

__all__ = ["Migration", "migrate_file", "require_libcst"]


@dataclass(frozen=True, slots=True)
class Migration:
    """A migrated file.

    Attributes:
        text: its source.
        markers: statements that a person must rewrite.
        literals: lines of the original where numbers of the recorded calls stand in the result.
        launches: the calls that were recorded.
    """

    text: str
    markers: tuple[Marker, ...]
    literals: tuple[int, ...]
    launches: tuple[Launch, ...]

    def prove(self, old: Path) -> Proof:
        """Run the recorded calls of both files; the new one is written to a folder of its own."""
        from hlo_tools.migrate.proof import prove

        with tempfile.TemporaryDirectory(prefix="nki-hlo-", dir=old.parent) as folder:
            new = Path(folder) / old.name
            new.write_text(self.text)
            return prove(old, new, self.launches)


def require_libcst() -> None:
    """Refuse to start without libcst.

    Raises:
        HloError: HLO-MIGRATE-LIBCST.
    """
    if importlib.util.find_spec("libcst") is None:
        raise HloError("migrate needs libcst, which is not installed", code="HLO-MIGRATE-LIBCST",
                       remedy="pip install '.[migrate]' in the checkout, or pip install libcst")  # fmt: skip


def migrate_file(
    path: Path, kernel: str = "", arguments: Mapping[str, Value] | None = None,
    grid: tuple[int, ...] = (), version: str = "0.7", words: Sequence[str] = (),
) -> Migration:  # fmt: skip
    """Rewrite a file: of beta 1 with the facts of a run, of NKI 0.2 to 0.6 by the rules of a version.

    Args:
        path: the file.
        kernel: the kernel to call with ``arguments``; "" runs the script, or its tests.
        arguments: by parameter.
        grid: launch grid of that call.
        version: of the result, for files of NKI 0.2 to 0.6.
        words: the script's own arguments.

    Raises:
        HloFileError: HLO-NO-FILE; there is no such file, or it is not Python.
        HloError: HLO-MIGRATE-LIBCST; HLO-MIGRATE-RUN, no kernel ran.
    """
    require_libcst()
    from hlo_tools.migrate.rewrite import rewrite_beta1

    if not path.is_file():
        raise HloFileError("there is no such file", code="HLO-NO-FILE", place=str(path),
                           remedy="pass the path of a Python file")  # fmt: skip
    try:
        source = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise HloFileError("this is not text, so it is no Python file", code="HLO-NO-FILE",
                           place=str(path), remedy="pass the path of a Python file") from error  # fmt: skip
    check_syntax(path)
    with _script_words(path, words):
        if "neuronxcc" not in source:
            return _from_earlier(path, source, kernel, arguments or {}, grid, version)
        recorder = _recorded(path, source, kernel, arguments or {}, grid)
    if not recorder.facts.calls:
        raise HloError("no beta 1 kernel ran", code="HLO-MIGRATE-RUN", place=str(path),
                       remedy="name a kernel and its arguments: --kernel NAME --arg x=float32[128,512]")  # fmt: skip
    result = rewrite_beta1(source, recorder.facts)
    return Migration(result.text, result.markers, result.literals, tuple(recorder.launches))


@contextlib.contextmanager
def _script_words(path: Path, words: Sequence[str]) -> Generator[None]:
    """Let a script see its own arguments, as ``python FILE WORDS`` does."""
    outer, sys.argv = sys.argv, [str(path), *words]
    try:
        yield
    finally:
        sys.argv = outer


def _from_earlier(
    path: Path, source: str, kernel: str, arguments: Mapping[str, Value], grid: tuple[int, ...],
    version: str,
) -> Migration:  # fmt: skip
    """Rewrite a file by the rules of a version; it runs only to record calls for the proof."""
    from hlo_tools.migrate.earlier import rewrite_earlier
    from hlo_tools.migrate.record import Launch

    text, markers = rewrite_earlier(source, version)
    if kernel:
        return Migration(text, markers, (), (Launch(kernel, grid, (), arguments),))
    launches = tuple(_recorded(path, source, "", {}, ()).launches)
    return Migration(text, markers, (), launches)


def _recorded(
    path: Path, source: str, kernel: str, arguments: Mapping[str, Value], grid: tuple[int, ...]
) -> Recorder:
    from hlo_tools.migrate.record import run_recorded

    with (
        tempfile.TemporaryDirectory(prefix="nki-hlo-") as folder,
        contextlib.redirect_stdout(sys.stderr),
    ):
        try:
            recorder, names = run_recorded(path, source, Path(folder), as_script=not kernel)
            if kernel:
                called = names.get(kernel)
                if not callable(called):
                    raise HloError(
                        f"there is no kernel {kernel!r}", code="HLO-NO-KERNEL", place=str(path)
                    )
                recorder.launch(called, kernel, grid, arguments)
            elif not recorder.launches:
                _run_tests(names)
        except (HloError, KeyboardInterrupt):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, NkiError):
                _raise_at_original(path, source, kernel, arguments, grid)
            raise HloError(
                f"the file did not run: {type(error).__name__}: {error}", code="HLO-MIGRATE-RUN",
                place=str(path), remedy="name a kernel and its arguments: --kernel NAME --arg x=float32[128,512]",
            ) from error  # fmt: skip
    return recorder


def _raise_at_original(
    path: Path, source: str, kernel: str, arguments: Mapping[str, Value], grid: tuple[int, ...]
) -> None:
    """Run the file without hooks, so that its error names the line in it."""
    names: dict[str, Value] = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(source, str(path), "exec", dont_inherit=True), names)
    if kernel:
        called = names[kernel]
        trace(called[grid] if grid else called, (), dict(arguments))
    else:
        _run_tests(names)


def _run_tests(names: Mapping[str, Value]) -> None:
    """Run the unit tests of a script that calls no kernel by itself."""
    suite = unittest.TestSuite()
    for value in names.values():
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(value))
    suite.run(unittest.TestResult())
