"""``nki-hlo profile``: the programs of a script, with the options of ``nki-neff profile``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hlo_tools.cli import main as nki_hlo
from neff.cli import main as nki_neff

SCRIPT = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out

for columns in (512, 256):
    scaled(np.ones((128, columns), np.float32))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "scale.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def profiles(script: Path) -> Path:
    """The folder that a first profile of the script wrote."""
    folder = script.parent / "profiles"
    assert nki_hlo(["profile", str(script), "--platform", "trn2", "-o", str(folder)]) == 0
    return folder


def test_it_has_every_option_of_nki_neff_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert nki_neff(["profile", "--help"]) == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert nki_hlo(["profile", "--help"]) == 0
    assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {"--memory", "--roofline", "--compare", "--what-if", "--advice", "--trips"} <= options


def test_each_program_gets_the_sections(
    script: Path, profiles: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folders = sorted(path.name for path in profiles.iterdir())
    assert folders == ["01-scaled", "02-scaled", "profile.html"]
    words = ["--platform", "trn2", "--memory", "--roofline", "--what-if", "dma=2x", "--source"]
    assert nki_hlo(["profile", str(script), *words]) == 0
    text = capfd.readouterr().out
    for section in ("core 0, SBUF", "with dma=2x: ", "scale.py: self µs"):
        assert text.count(section) == 2, section
    assert nki_hlo(["profile", str(script), *words, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert len(document["programs"]) == 2
    for program in document["programs"]:
        assert {"memory", "roofline", "what_if"} <= set(program["profile"])
        assert program["profile"]["what_if"]["total_us"] < program["profile"]["total_us"]


def test_several_programs_of_one_name_are_not_compared(
    script: Path, profiles: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    older = profiles / "01-scaled" / "program.neff"
    words = ["profile", str(script), "--platform", "trn2", "--compare", str(older)]
    assert nki_hlo(words) == 2
    assert "it holds scaled, and the script ran scaled, scaled" in capfd.readouterr().err


def test_the_only_program_is_compared(
    script: Path, profiles: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    older = profiles / "01-scaled" / "program.neff"
    (tmp_path / "scale.py").write_text(SCRIPT.replace("(512, 256)", "(256,)"))
    words = ["profile", str(tmp_path / "scale.py"), "--platform", "trn2", "--compare", str(older)]
    assert nki_hlo(words) == 0
    text = capfd.readouterr().out
    assert "before path µs" in text
    (total,) = [line for line in text.splitlines() if line.startswith("total ")]
    assert float(total.split()[2]) < float(total.split()[1])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--by", "lines"], "NEFF-GROUPING"),
        (["--what-if", "dma=fast"], "NEFF-WHAT-IF"),
        (["--statistic", "mean"], "NEFF-STATISTIC"),
        (["--set", "wheels=3"], "NEFF-PARAMETER"),
        (["--advice", "yaml"], "'yaml' is not one of"),
        (["--output-format", "parquet"], "parquet needs a folder"),
        (["--trips", "3", "--fill", "zeros"], "NEFF-USAGE"),
    ],
)
def test_wrong_values_are_refused_before_the_script_runs(
    words: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prints.py").write_text("print('the script ran')\n")
    assert nki_hlo(["profile", str(tmp_path / "prints.py"), *words]) == 2
    printed = capfd.readouterr()
    assert text in printed.err
    assert printed.out == ""
