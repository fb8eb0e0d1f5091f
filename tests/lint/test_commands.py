"""``nki-hlo lint``, ``explain`` of rules, ``config`` and the formats of findings."""

from __future__ import annotations

import importlib.metadata
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.lint import RULES
from hlo_tools.verify import RULES as VERIFIER
from tests.lint.cases import broken, module

COMPLEX = broken("NCC_EVRF004")[1]
LOCATED = module(
    '  x = f32[4] parameter(0)\n  ROOT y = f32[4] power(x, x), metadata={source_file="a,b.py" '
    "source_line=7}"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SELECT", "IGNORE", "TARGET", "BASELINE"):
        monkeypatch.delenv(f"NKI_HLO_{name}", raising=False)
    (tmp_path / "bad.hlo").write_text(COMPLEX)
    (tmp_path / "located.hlo").write_text(LOCATED)
    return tmp_path


def lint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["lint", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = lint(capsys, "bad.hlo", "--target", "trn2")
    assert code == 1
    assert out.startswith("bad.hlo: error[NCC_EVRF004] %main/%x: ") and "\n  help: " in out
    assert err == "1 module, 1 finding\n"
    assert lint(capsys, "bad.hlo", "--exit-zero")[0] == 0


def test_equal_notes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    xor = "  x = s32[4] parameter(0)\n  y = s32[4] xor(x, x)\n  z = s32[4] xor(y, x)\n"
    for name in ("a.hlo", "b.hlo"):
        (tmp_path / name).write_text(module(f"{xor}  ROOT n = s32[4] not(z)"))
    _, out, err = lint(capsys, "a.hlo", "b.hlo")
    assert out.count("xor is not") == 1 and "  and 1 equal note (--verbose" in out
    assert err.endswith(f"{out.count('note[') + out.count('and 1 equal')} findings\n")
    assert main(["-v", "lint", "a.hlo", "b.hlo"]) == 0
    assert capsys.readouterr().out.count("xor is not") == 2


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = lint(capsys, "bad.hlo", "-t", "trn1", "--json")
    document = json.loads(out)
    assert code == 1 and document["schema"] == "nki-hlo/1" and document["target"] == "trn1"
    assert document["findings"][0]["code"] == "NCC_EVRF004"
    assert document["findings"][0]["severity"] == "error"


def test_github(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, "located.hlo", "--format", "github")
    assert out.startswith("::warning file=a%2Cb.py,line=7,title=NCC_EUOC002::%25main/%25y: its")
    assert "%0A" in out and out.count("\n") == 1


def test_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, "bad.hlo", "located.hlo", "--format", "sarif")
    (run,) = json.loads(out)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["NCC_EUOC002", "NCC_EVRF004"]
    first, second = run["results"]
    assert (first["ruleId"], rules[first["ruleIndex"]]) == ("NCC_EVRF004", "NCC_EVRF004")
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.hlo"
    assert second["level"] == "warning"
    assert second["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}


def test_sarif_has_version_and_help_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = lint(capsys, "bad.hlo", "--format", "sarif")
    driver = json.loads(out)["runs"][0]["tool"]["driver"]
    assert driver["version"] == importlib.metadata.version("nki-hlo")
    assert driver["informationUri"].startswith("https://")
    root = Path(hlo_tools.__file__).parents[1]
    for rule in driver["rules"]:
        address, _, page = rule["helpUri"].partition("/blob/main/")
        assert address == driver["informationUri"] and (root / page).is_file()


def fingerprints(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    results = json.loads(lint(capsys, *words, "--format", "sarif")[1])["runs"][0]["results"]
    return [row["partialFingerprints"]["primaryLocationLineHash"] for row in results]


def test_sarif_fingerprints(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    files = ("bad.hlo", "located.hlo")
    before = fingerprints(capsys, *files)
    assert len(set(before)) == len(before) == 2
    assert fingerprints(capsys, *(str(folder / name) for name in files)) == before
    moved = LOCATED.replace("source_line=7", "source_line=9").replace("f32[4]", "f32[8]")
    (folder / "located.hlo").write_text(moved)
    assert fingerprints(capsys, *files) == before
    (folder / "located.hlo").write_text(LOCATED.replace("ROOT y", "ROOT z"))
    first, second = fingerprints(capsys, *files)
    assert first == before[0] and second != before[1]


def test_sarif_fingerprints_tell_equal_findings_apart(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "copy.hlo").write_text(LOCATED)
    assert len(set(fingerprints(capsys, "located.hlo", "copy.hlo"))) == 2


def test_verify_has_the_same_formats(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "wrong.hlo").write_text(broken("NCC_EVRF064")[1])
    assert main(["verify", "wrong.hlo", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=wrong.hlo,title=HLO-V018::")


@pytest.mark.parametrize(
    "words",
    [("--format", "xml"), ("--target", "trn9"), ("--select", "ABC"), ("--write-baseline",)],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert lint(capsys, "bad.hlo", *words)[0] == 2


def test_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, "no.hlo")[0] == 3


# -- baseline -----------------------------------------------------------------------------------


def test_baseline_hides_what_is_known(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    baseline_words = ("bad.hlo", "--baseline", "known.json")
    assert lint(capsys, *baseline_words, "--write-baseline")[0] == 0
    text = (folder / "known.json").read_text()
    assert str(folder) not in text and "bad.hlo" in text
    assert lint(capsys, *baseline_words)[:2] == (0, "")
    more = COMPLEX.replace("ROOT x", "x").replace("\n}", "\n  ROOT y = f32[4] power(f, f)\n}")
    (folder / "bad.hlo").write_text(more.replace("c64[4] parameter(0)",
                                    "c64[4] parameter(0)\n  f = f32[4] parameter(1)"))  # fmt: skip
    code, out, _ = lint(capsys, *baseline_words)
    assert code == 1 and "NCC_EUOC002" in out and "NCC_EVRF004" not in out


def test_a_note_tells_what_is_known_and_gone(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    baseline_words = ("--target", "trn2", "--baseline", "known.json")
    (folder / "other.hlo").write_text(COMPLEX)
    assert lint(capsys, "bad.hlo", "other.hlo", *baseline_words, "--write-baseline")[0] == 0
    assert (
        "no longer" not in lint(capsys, "bad.hlo", *baseline_words)[2]
    )  # other.hlo is not looked at
    (folder / "bad.hlo").write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n")
    code, out, err = lint(capsys, "bad.hlo", *baseline_words)
    assert (code, out) == (0, "")
    assert "no longer occur" in err and "  bad.hlo: NCC_EVRF004 %main/%x" in err
    assert "no longer" not in lint(capsys, "bad.hlo", *baseline_words, "--ignore", "NCC_EVRF004")[2]
    (folder / "other.hlo").unlink()
    assert "  other.hlo: NCC_EVRF004 %" in lint(capsys, "bad.hlo", *baseline_words)[2]


def test_keys_of_cache_entries_are_not_compared(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """An edit of a kernel gives its module another key; accepted findings stay accepted."""
    old, new = (folder / "cache" / "nkihlo" / f"MODULE_{key}+ab" for key in (1, 2))
    old.mkdir(parents=True)
    (old / "m.hlo").write_text((folder / "bad.hlo").read_text())
    words = ("cache", "--baseline", "known.json")
    assert lint(capsys, *words, "--write-baseline")[0] == 0
    assert '"cache/nkihlo/MODULE_*/m.hlo"' in (folder / "known.json").read_text()
    old.rename(new)
    code, out, err = lint(capsys, *words)
    assert (code, out) == (0, "") and "no longer" not in err


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "other"}', None])
def test_unusable_baseline(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str | None
) -> None:
    if content is not None:
        (folder / "known.json").write_text(content)
    code, _, err = lint(capsys, "bad.hlo", "--baseline", "known.json")
    assert code == 3 and "HLO-BASELINE" in err


# -- configuration --------------------------------------------------------------------------------


def settings(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[object, str]]:
    assert main(["config", "--json"]) == 0
    origins = json.loads(capsys.readouterr().out)["settings"]
    return {name: (setting["value"], setting["origin"]) for name, setting in origins.items()}


def test_flag_before_variable_before_file(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings(capsys)["target"] == ("trn3", "default")
    (folder / "pyproject.toml").write_text('[tool.nki-hlo]\ntarget = "trn1"\nignore = ["NCC"]\n')
    assert settings(capsys)["target"] == ("trn1", "pyproject.toml")
    assert lint(capsys, "bad.hlo")[0] == 0
    (folder / "nki-hlo.toml").write_text('target = "trn2"\n')
    assert settings(capsys)["target"] == ("trn2", "nki-hlo.toml")
    monkeypatch.setenv("NKI_HLO_TARGET", "trn3")
    monkeypatch.setenv("NKI_HLO_IGNORE", "NCC_EVRF001, HLO-L")
    origins = settings(capsys)
    assert origins["target"] == ("trn3", "NKI_HLO_TARGET")
    assert origins["ignore"] == (["NCC_EVRF001", "HLO-L"], "NKI_HLO_IGNORE")
    _, out, _ = lint(capsys, "bad.hlo", "--target", "trn1", "--json")
    assert json.loads(out)["target"] == "trn1"


def test_baseline_of_a_file_above_is_relative_to_that(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "nki-hlo.toml").write_text('baseline = "known.json"\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert lint(capsys, "../bad.hlo", "--write-baseline")[0] == 0
    assert (folder / "known.json").is_file()
    assert lint(capsys, "../bad.hlo")[0] == 0


@pytest.mark.parametrize(
    "content", ["target = 5", "target = 'trn9'", "select = 'NCC'", "colour = 'red'", "target = ["]
)
def test_unusable_configuration(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str
) -> None:
    (folder / "nki-hlo.toml").write_text(content)
    code, _, err = lint(capsys, "bad.hlo")
    assert code == 2 and "HLO-CONFIGURATION" in err and "nki-hlo.toml" in err


def test_config_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    assert "baseline" in shown
    assert main(["config", "show"]) == 0 and capsys.readouterr().out == shown
    assert main(["config", "set"]) == 2


# -- explain --------------------------------------------------------------------------------------


def test_explain_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ncc_evrf051"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("NCC_EVRF051: ") and "Targets: trn1, trn2." in out
    assert main(["explain", "HLO-V018"]) == 0
    assert "Found by: nki-hlo verify." in capsys.readouterr().out
    assert main(["explain", "NCC_EOOM001"]) == 0
    assert "nothing; it cannot be seen in the graph" in capsys.readouterr().out
    assert main(["explain", "NCC_EVRF05"]) == 2
    err = capsys.readouterr().err
    assert "there is no code 'NCC_EVRF05'" in err and "did you mean" not in err


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json"]) == 0
    listed = [rule["code"] for rule in json.loads(capsys.readouterr().out)["codes"]]
    assert set(listed) > {*RULES, *VERIFIER}
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(listed)


# -- junit ----------------------------------------------------------------------------------------


def junit(capsys: pytest.CaptureFixture[str], *words: str) -> ElementTree.Element:
    _, out, _ = lint(capsys, *words, "--format", "junit")
    return ElementTree.fromstring(out.encode())


def test_junit(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "good.hlo").write_text(module("  ROOT x = f32[4] parameter(0)"))
    (folder / "note.hlo").write_text(module("  x = f32[4] parameter(0)\n  ROOT y = f32[4] cbrt(x)"))
    root = junit(capsys, "bad.hlo", "good.hlo", "note.hlo", "--target", "trn2")
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    bad, good, note = root
    assert [suite.get("name") for suite in root] == ["bad.hlo", "good.hlo", "note.hlo"]
    assert bad[0].get("name") == "NCC_EVRF004 %main/%x" and bad[0][0].tag == "failure"
    assert "c64" in (bad[0][0].get("message") or "")
    assert len(good) == 1 and len(good[0]) == 0
    assert note[0][0].tag == "system-out" and note.get("failures") == "0"


def test_junit_of_standard_input_and_of_characters_that_xml_has_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = hlo_tools.load(COMPLEX.encode())
    damaged.entry.proto.instructions[0].name = "a\x01<b>&\ud7ff"
    damaged.touch()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(damaged.to_bytes())))
    root = junit(capsys, "-", "--target", "trn2")
    (suite,) = root
    assert suite.get("name") == "<stdin>" and suite.get("failures") == "1"
    assert suite[0].get("name") == "NCC_EVRF004 %main/%a\ufffd<b>&\ud7ff"


def test_sarif_names_files_as_uris(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "a b#.hlo").write_text(COMPLEX)
    _, out, _ = lint(capsys, "a b#.hlo", "--format", "sarif")
    (result,) = json.loads(out)["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "a%20b%23.hlo"
