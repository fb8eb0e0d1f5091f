"""Folders of modules as inputs: stale entries, ``--latest``, ``--kernels-only``, ``--name``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools.cli import main
from hlo_tools.cli.commands import PROGRAM
from hlo_tools.cli.program import load_command
from hlo_tools.cli.shared.targets import extracted_target
from neff.cli import main as build

SCRIPT = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


double(np.ones((4, COLUMNS), np.float32))
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that a script was extracted to, edited, and extracted to again."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    for columns in (8, 16):
        script.write_text(SCRIPT.replace("COLUMNS", str(columns)))
        assert main(["extract", "script.py", "--platform", "trn1", "-o", "modules"]) == 0
    return tmp_path / "modules"


def shapes(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["show", "-s", "--json", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    modules = document.get("modules", [document])
    return [module["module"]["parameters"][0]["shape"] for module in modules]


def test_what_an_edited_script_left_is_left_out(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shapes(capsys, "modules") == ["f32[4,16]{1,0}"]
    assert sorted(shapes(capsys, "modules", "--stale")) == ["f32[4,16]{1,0}", "f32[4,8]{1,0}"]
    for command in (["verify"], ["lint", "--target", "trn1"], ["kernels"], ["graph"], ["stats"]):
        assert main([*command, "modules"]) == 0, "one module is left for each"
    assert "1 stale module is left out" in capsys.readouterr().err
    old = next(path for path in edited.glob("*/MODULE_*") if "4,8" in shapes(capsys, str(path))[0])
    assert shapes(capsys, str(old)) == ["f32[4,8]{1,0}"], "a folder that is named is taken"


def test_extract_reports_and_prunes(edited: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    words = ["extract", "script.py", "--platform", "trn1", "-o", "modules", "--json"]
    assert main(words) == 0
    document = json.loads(capfd.readouterr().out)
    assert [module["new"] for module in document["modules"]] == [False]
    assert len(document["stale"]) == 1 and not document["pruned"]
    assert main([*words, "--prune"]) == 0
    assert len(json.loads(capfd.readouterr().out)["pruned"]) == 1
    assert len(list(edited.glob("*/MODULE_*"))) == 1


def test_names_and_kernels_choose(
    tmp_path: Path, edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = edited / "plain.hlo"
    plain.write_text("HloModule other\nENTRY e { ROOT p = f32[3]{0} parameter(0) }\n")
    assert len(shapes(capsys, "modules")) == 2
    assert shapes(capsys, "modules", "--kernels-only") == ["f32[4,16]{1,0}"]
    assert shapes(capsys, "modules", "--name", "oth*") == ["f32[3]{0}"]
    assert main(["show", "modules", "--name", "none*"]) == 3
    assert "error[HLO-NO-MODULE] modules: none of the folder's 3 modules" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", [command.name for command in PROGRAM.commands if command.takes_modules]
)
def test_every_command_on_modules_has_the_options(name: str) -> None:
    entry = next(command for command in PROGRAM.commands if command.name == name)
    names = {option for parameter in load_command(entry).params for option in parameter.opts}
    assert {"--latest", "--kernels-only", "--name", "--stale"} <= names


@pytest.fixture(scope="module")
def two_targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one script's module for trn1 and for trn2."""
    folder = tmp_path_factory.mktemp("targets")
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("COLUMNS", "8"))
    for target in ("trn1", "trn2"):
        words = ["extract", str(script), "--platform", target, "-o", str(folder / "modules")]
        assert main(words) == 0
    return folder / "modules"


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_target_selects_the_modules_of_a_folder(
    target: str, two_targets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = str(two_targets)
    assert main(["show", "-s", modules, "--target", target]) == 0
    out = capsys.readouterr().out
    assert out.count("module  ") == 1 and f"\ntarget        {target}\n" in out
    assert f"\nfile          {modules}" in out
    assert main(["lint", modules, "--target", target]) == 0
    assert main(["convert", modules, "--target", target, "-o", str(tmp_path / "m.hlo")]) == 0


def test_target_selects_among_modules_that_a_shell_names(
    two_targets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(folder) for folder in sorted(two_targets.glob("*/MODULE_*"))]
    output = tmp_path / "m.neff"
    assert build(["build", *folders, "--target", "trn1", "-o", str(output), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["target"] == "trn1"
    assert "1 module is left out: extracted for another target than trn1" in printed.err


def test_a_target_that_no_module_was_extracted_for(
    two_targets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that only select refuse it; commands that estimate do so for all modules."""
    assert main(["show", "-s", str(two_targets), "--target", "trn3"]) == 3
    error = capsys.readouterr().err
    assert "error[HLO-NO-MODULE]" in error and "none of the folder's 2 modules" in error
    assert "they are for trn1 and trn2" in error
    assert main(["stats", str(two_targets), "--target", "trn3"]) == 0


@pytest.mark.parametrize("command", [["stats", "-m"], ["convert", "--to", "text"]])
def test_an_unknown_target_is_refused(
    command: list[str], two_targets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, str(two_targets), "--target", "trn9"]) != 0
    assert "trn9" in capsys.readouterr().err


def test_several_targets_are_named_where_one_module_is_needed(
    two_targets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(two_targets), "--to", "text"]) == 3
    assert "they are for trn1 and trn2: choose with --target trn2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("[]", ""),
        ("{}", ""),
        ('["--target"]', ""),
        ('["--target", "trn1"]', "trn1"),
        ('["--lnc=1", "--target=trn2"]', "trn2"),
    ],
)
def test_target_of_stored_flags(tmp_path: Path, text: str, target: str) -> None:
    (tmp_path / "compile_flags.json").write_text(text)
    assert extracted_target(tmp_path) == target
