"""``nki-neff build --provenance`` and what ``verify`` makes of it; ``--metaneff``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from neff.builds.metaneff import metaneff
from neff.cli import main
from tests.neff.programs import addition

MODULE = """HloModule scaled
ENTRY e {
  x = f32[4,8] parameter(0)
  s = pred[3] parameter(1)
  n = f32[4,8] negate(x)
  t = pred[3] not(s)
  ROOT r = (f32[4,8], pred[3]) tuple(n, t)
}
"""


@pytest.fixture
def neff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("scaled.hlo").write_text(MODULE)
    words = ["build", "scaled.hlo", "--target", "trn2", "-o", "scaled.neff"]
    assert main([*words, "--provenance", "--metaneff"]) == 0
    return Path("scaled.neff")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_statement(neff: Path, tmp_path: Path) -> None:
    text = Path("scaled.neff.provenance.json").read_text()
    statement = json.loads(text)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "scaled.neff", "digest": {"sha256": sha256(neff)}}]
    definition = statement["predicate"]["buildDefinition"]
    inputs = {
        dependency["name"]: dependency["digest"]["sha256"]
        for dependency in definition["resolvedDependencies"]
    }
    assert inputs == {"module": sha256(Path("scaled.hlo"))}
    assert definition["externalParameters"]["target"] == "trn2"
    assert str(tmp_path) not in text
    assert main(["verify", "scaled.neff", "--source", "scaled.hlo"]) == 0
    # The NEFF itself knows nothing of it, and the same build says the same.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "scaled.hlo").write_text(MODULE)
    words = [
        "build",
        str(elsewhere / "scaled.hlo"),
        "-t",
        "trn2",
        "-o",
        str(elsewhere / "scaled.neff"),
    ]
    assert main(words) == 0 and not (elsewhere / "scaled.neff.provenance.json").exists()
    assert (elsewhere / "scaled.neff").read_bytes() == neff.read_bytes()
    assert main([*words, "--provenance"]) == 0
    assert (elsewhere / "scaled.neff.provenance.json").read_text() == text


def test_what_does_not_agree(neff: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def findings(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(["verify", "scaled.neff", "--json", *words]) == 1
        rows = json.loads(capsys.readouterr().out)["findings"]
        assert {row["code"] for row in rows} == {"NEFF-PROVENANCE"}
        return [row["message"] for row in rows]

    Path("scaled.hlo").write_text(MODULE.replace("negate", "abs"))
    (changed,) = findings("--source", "scaled.hlo")
    assert changed == "module is not what the NEFF was made from"
    Path("compile_flags.json").write_text("[]")
    assert len(findings("--source", "scaled.hlo")) == 2
    assert main(["verify", "scaled.neff"]) == 0
    words = ["build", "scaled.hlo", "-o", "scaled.neff", "--target"]
    assert main([*words, "trn2"]) == 0  # without --provenance the old statement stays
    (finding,) = findings()
    assert "another file" in finding
    assert main([*words, "trn1"]) == 0
    assert any("it is for trn1" in message for message in findings())


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"_type": "x"}', "[" * 100_000])
def test_an_unusable_statement(
    text: str | None, neff: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("scaled.neff.provenance.json")
    path.write_text(text) if text is not None else path.unlink()
    assert main(["verify", "scaled.neff", "--source", "scaled.hlo"]) == 3
    assert "error[NEFF-PROVENANCE]" in capsys.readouterr().err


def test_a_statement_that_lacks_something(neff: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("scaled.neff.provenance.json")
    statement = json.loads(path.read_text())
    for key in ("subject", "predicate"):
        path.write_text(json.dumps({**statement, key: None}))
        assert main(["verify", "scaled.neff"]) == 3
        assert "error[NEFF-PROVENANCE]" in capsys.readouterr().err


def test_folders(neff: Path) -> None:
    """Unchanged NEFFs get a statement too."""
    words = ["build", "scaled.hlo", "--target", "trn2", "-o", "out/"]
    assert main(words) == 0
    assert main([*words, "--provenance"]) == 0
    assert main(["verify", "out/scaled.neff", "--source", "scaled.hlo"]) == 0
    assert Path("out/scaled.neff.provenance.json").exists()


def test_metaneff(neff: Path) -> None:
    document = json.loads(Path("scaled.neff.metaneff.json").read_text())
    unknown = {"checkpoint_key": None, "user_input_key": None}
    assert document == {
        "input_tensors": [
            {"name": "input0", "shape": [4, 8], "data_type": "FLOAT", "type": "USER_INPUT"}
            | unknown,
            {"name": "input1", "shape": [3], "data_type": "UINT8", "type": "USER_INPUT"} | unknown,
        ],
        "output_tensors": [
            {"name": "output0", "shape": [4, 8], "data_type": "FLOAT"},
            {"name": "output1", "shape": [3], "data_type": "UINT8"},
        ],
        "output_aliases_to": {},
    }


def test_metaneff_of_a_kernel_that_writes_its_argument() -> None:
    program = addition(8)
    program.variables["c"] = replace(program.variables["c"], alias="b")
    document = metaneff(program)
    assert document["output_aliases_to"] == {"0": 1}
    assert [row["type"] for row in document["input_tensors"]] == ["USER_INPUT", "INPUT_STATE"]
