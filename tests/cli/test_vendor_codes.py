"""``explain`` and codes of the vendor's compiler: reported ones, unknown ones, lines of logs."""

from __future__ import annotations

import json
import re

import pytest

from hlo_tools.cli import main
from hlo_tools.cli.shared.codes import codes, find, near
from hlo_tools.cli.shared.vendor_codes import vendor_codes
from hlo_tools.lint import RULES


def test_reported_codes_are_explained_and_are_none_of_lints() -> None:
    assert len(vendor_codes()) >= 40
    assert not vendor_codes().keys() & (RULES.keys() | codes().keys())
    for name, entry in vendor_codes().items():
        assert find(name) == entry
        assert entry.title and entry.why.endswith(".") and not entry.remedy.endswith("."), name


def test_remedies_name_codes_and_commands_that_exist() -> None:
    known_codes = {**codes(), **vendor_codes()}
    for entry in vendor_codes().values():
        for name in re.findall(r"NKI-[A-Z-]+|NCC_[A-Z]+\d+", entry.why + entry.remedy):
            assert name in known_codes, (entry.code, name)
        for tool, command in re.findall(r"(nki-hlo|nki-neff) (\w+)", entry.remedy):
            assert tool == "nki-neff" or command in (
                "check",
                "kernel",
                "lint",
                "reduce",
                "show",
                "slice",
            )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[INTERNAL_ERROR] [NCC_ITIN902] TensorInitialization error: idx", "NCC_ITIN902"),
        ("[F137] neuronx-cc was forcibly killed", "F137"),
        ("[TEN404] Internal tensorizer error", "NCC_ITEN404"),
        ("ncc_inla001", "NCC_INLA001"),
        ("NCC_EVRF035", "NCC_EVRF035"),
        ("[NLA001]  Unhandled exception with message: tensor size", "NCC_INLA001"),
    ],
)
def test_codes_in_lines_of_logs(text: str, code: str) -> None:
    entry = find(text)
    assert entry is not None and entry.code == code
    assert "not described" not in entry.title


@pytest.mark.parametrize(
    "code", ["NCC_IXYZ123", "NCC_EVRF099", "F141", "NCC_QQQ777", "NCC_IBIR999"]
)
def test_an_unknown_code_leads_to_no_other(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", code]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{code}: an error of the vendor's compiler that is not described here")
    assert set(re.findall(r"NCC_[A-Z]+\d+", text)) <= {code}
    assert "nki-hlo reduce" in text


@pytest.mark.parametrize("text", ["NCC_Q", "ncc_zzz", "F9"])
def test_a_beginning_without_codes_has_no_suggestion(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not near(text)
    assert main(["explain", text]) == 2
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "suggestions"),
    [
        ("NKI-NONSENSE", []),
        ("NKI-SHAEP", ["NKI-SHAPE"]),
        ("NEFF-SHAEP", ["NEFF-SHAPE"]),
        ("HLO-V0011", ["HLO-V001"]),
        ("XYZ-SHAPE", []),
    ],
)
def test_suggestions_are_of_the_same_family(text: str, suggestions: list[str]) -> None:
    family = text.partition("-")[0]
    assert all(code.startswith(f"{family}-") for code in near(text))
    assert set(suggestions) <= set(near(text))
    assert bool(near(text)) == bool(suggestions)


def test_words_that_only_look_like_codes() -> None:
    for text in ("SHA256", "the file ABC123 of run XY1234", "utf-8"):
        assert find(text) is None


def test_a_family_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "NCC_IGCA", "--json"]) == 0
    listed = [row["code"] for row in json.loads(capsys.readouterr().out)["codes"]]
    assert listed == sorted(code for code in vendor_codes() if code.startswith("NCC_IGCA"))
