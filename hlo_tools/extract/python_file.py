"""Python files that a command line names, and objects of them: ``FILE.py:NAME``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from hlo_tools._messages import did_you_mean
from hlo_tools.errors import CodedError, HloError, HloFileError
from hlo_tools.extract.launcher import roots

__all__ = ["check_syntax", "import_file", "load_named", "names_python"]


def names_python(text: str) -> bool:
    """Return True if a text is ``FILE.py:NAME``."""
    file, colon, name = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and name.isidentifier()


def check_syntax(path: Path) -> None:
    """Refuse a file that this Python cannot parse; nothing of it runs.

    Raises:
        HloFileError: HLO-SYNTAX, at the line and column that Python reports.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run shows them
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _unparsable(path, error) from None
    except ValueError as error:  # a NUL byte, before Python 3.12
        raise _unparsable(path, SyntaxError(str(error))) from None
    except (RecursionError, MemoryError):
        return  # the run says what it needs


def _unparsable(path: Path, error: SyntaxError) -> HloFileError:
    location, text = str(path), ""
    if error.lineno:
        location += f":{error.lineno}:{error.offset or 1}"
    if error.text:
        line = error.text.rstrip()
        indent = len(line) - len(line.lstrip())
        text = f"\n    {line.lstrip()}\n    {' ' * max(0, (error.offset or 1) - 1 - indent)}^"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return HloFileError(
        f"Python {version} cannot parse the file: {error.msg}{text}",
        code="HLO-SYNTAX",
        place=location,
        remedy="correct the line",
    )


def import_file(path: str) -> ModuleType:
    """Import a file, as a module and not as a script; its folder comes first on the path.

    Raises:
        HloFileError: there is no such file (HLO-NO-FILE), or Python cannot parse it (HLO-SYNTAX).
        HloError: the import fails (HLO-IMPORT); errors of these tools come through as they are.
    """
    file = Path(path)
    if not file.is_file():
        raise HloFileError(
            "there is no such file", code="HLO-NO-FILE", place=path,
            remedy="pass the path of a Python file",
        )  # fmt: skip
    check_syntax(file)
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.path.extend(root for root in roots() if root not in sys.path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise HloFileError("this is not a Python file", code="HLO-NO-FILE", place=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if isinstance(error, CodedError):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise HloError(
            f"{type(error).__name__}: {error}", code="HLO-IMPORT",
            place=f"{last.filename}:{last.lineno}", remedy="make the file importable",
        ) from error  # fmt: skip
    return module


def load_named(text: str) -> Any:
    """The object that ``FILE.py:NAME`` names.

    Raises:
        HloError: as :func:`import_file`, or the file has no such name (HLO-NO-NAME).
    """
    path, _, name = text.rpartition(":")
    module = import_file(path)
    try:
        return getattr(module, name)
    except AttributeError as error:
        names = [global_name for global_name in vars(module) if not global_name.startswith("_")]
        raise HloError(
            f"the file defines no {name!r}", code="HLO-NO-NAME", place=path,
            remedy=f"{did_you_mean(name, names)}name one of its functions or values",
        ) from error  # fmt: skip
