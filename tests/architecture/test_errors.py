"""All errors of the three packages have one root, and survive the way to another process."""

from __future__ import annotations

import pickle
import traceback

import pytest

from hlo_tools.cli.shared.failures import UNUSABLE, report
from hlo_tools.errors import CodedError, HloError, HloFileError
from neff.errors import NeffCompileError, NeffError, NeffFileError
from nki_lang.base import errors
from nki_lang.base.errors import NkiError, NkiTypeError, NkiValidationError
from nki_lang.base.source import SourceLocation

LINE = SourceLocation("kernel.py", 7, "kernel")

ERRORS = [
    NkiTypeError("wrong", code="NKI-DTYPE", location=LINE, remedy="fix it", source="guide 2.1"),
    NkiValidationError("wrong", details={"rows": 129}),
    HloFileError("wrong", code="HLO-READ", place="model.pb", remedy="fix it"),
    NeffCompileError("wrong", place="dot.3", source="guide 2.1", details={"bytes": 3}),
    NeffFileError("wrong"),
]


def test_there_is_one_root() -> None:
    assert CodedError is errors.CodedError
    for root in (NkiError, HloError, NeffError):
        assert issubclass(root, errors.CodedError)


def test_no_root_catches_the_errors_of_another_package() -> None:
    roots = (NkiError, HloError, NeffError)
    for error in ERRORS:
        assert sum(isinstance(error, root) for root in roots) == 1


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_fields_survive_pickling(error: CodedError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error) == error.render()


def test_the_text_of_every_error_has_one_form() -> None:
    assert str(ERRORS[0]) == (
        f"{LINE}: [NKI-DTYPE] wrong\n  help: fix it\n  documented in: guide 2.1"
    )
    assert str(ERRORS[1]) == "[NKI-INVALID] wrong"
    assert str(ERRORS[2]) == "model.pb: [HLO-READ] wrong\n  help: fix it"
    assert str(ERRORS[3]) == "dot.3: [NEFF-COMPILE] wrong\n  documented in: guide 2.1"
    assert str(ERRORS[4]).endswith("help: the file was damaged or changed; build or copy it again")


def test_the_place_of_a_kernel_error_is_its_line() -> None:
    error = ERRORS[0]
    assert isinstance(error, NkiError)
    assert error.location == LINE and error.place == str(LINE)
    assert ERRORS[1].place == ""


def test_commands_show_only_errors_of_these_packages_as_errors_of_the_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class LookAlike(Exception):
        code, message, remedy, render = "NKI-OTHER", "wrong", "", traceback.format_exc

    assert report(ERRORS[0]) == UNUSABLE
    assert f"error[NKI-DTYPE] {LINE}: wrong\n  help: fix it\n" in capsys.readouterr().err
    with pytest.raises(LookAlike):  # the tests run unguarded
        report(LookAlike())
