"""NEFFs for several devices on the command line: built, described and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neff.cli import main

MEAN = """HloModule mean
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[4] parameter(0)
  ROOT s = f32[4] all-reduce(p), replica_groups=GROUPS, to_apply=add }"""


def command(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def built(folder: Path, capsys: Any, groups: str, *flags: str) -> tuple[int, str, Path]:
    (folder / "mean.hlo").write_text(MEAN.replace("GROUPS", groups))
    file = folder / "mean.neff"
    code, _, err = command(
        capsys, "build", folder / "mean.hlo", "--target", "trn2", "-o", file, *flags
    )
    return code, err, file


def test_a_model_for_several_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, err, file = built(tmp_path, capsys, "{}", "--replicas", "3")
    assert code == 0, err
    assert json.loads(command(capsys, "info", file, "--json")[1])["devices"] == 3
    assert "devices:          3" in command(capsys, "info", file)[1]
    for iteration in range(2):
        values = np.random.default_rng(iteration).integers(-9, 9, (3, 4)).astype(np.float32)
        for rank, value in enumerate(values):
            np.save(tmp_path / f"part{rank}.npy", value)
        input_word = f"input0={tmp_path}/part{{rank}}.npy"
        words = ["run", file, "-i", input_word, "-o", tmp_path / "out"]
        code, out, err = command(capsys, *words, *["--ranks", 3] * iteration)
        assert code == 0 and f"{tmp_path}/out/rank_2/output0.npy  float32[4]" in out, err
        for rank in range(3):
            actual = np.load(tmp_path / "out" / f"rank_{rank}" / "output0.npy")
            np.testing.assert_array_equal(actual, values.sum(0))
    rows = json.loads(command(capsys, *words, "--json")[1])["outputs"]
    assert [row["rank"] for row in rows] == [0, 1, 2]


def test_wrong_numbers_of_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, err, _ = built(tmp_path, capsys, "{}")
    assert code == 3 and "NEFF-COLLECTIVE" in err and "--replicas" in err
    code, err, _ = built(tmp_path, capsys, "{{0,1}}", "--replicas", "x")
    assert code == 2 and "whole numbers from 1" in err
    code, err, file = built(tmp_path, capsys, "{{0,1}}")
    assert code == 0, err
    run = ["run", file, "--fill", "zeros", "-o", tmp_path]
    code, _, err = command(capsys, *run, "--ranks", 3)
    assert code == 3 and "NEFF-RANKS" in err and "2 devices" in err
    code, _, err = command(capsys, *run, "--check")
    assert code in (2, 3) and "NEFF-USAGE" in err
