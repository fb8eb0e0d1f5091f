"""The scripts that go through whole corpora and through mutations, on a small sample."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[2]


def corpus(folder: Path, names: list[str]) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": SAMPLES[n]}) + "\n" for n in names))
    return path


def test_mutations_give_only_coded_errors(
    tmp_path: Path, python_environment: dict[str, str]
) -> None:
    path = corpus(tmp_path, list(SAMPLES))
    words = ["-m", "tests.fuzz.drivers.fuzz_load", "--count", "25", "--seed", "3", str(path)]
    done = subprocess.run(
        [sys.executable, *words, "--json", "found.json"],
        capture_output=True, text=True, cwd=tmp_path, env=python_environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "found.json").read_text())
    assert report["cases"] == 25 and report["failures"] == [] and report["seeds"] == len(SAMPLES)


@pytest.mark.jax
def test_a_corpus_agrees_with_jaxlib(tmp_path: Path, python_environment: dict[str, str]) -> None:
    path = corpus(tmp_path, ["reduce", "control"])
    with path.open("a") as stream:
        stream.write(json.dumps({"id": "wrong", "text": "HloModule m\nENTRY e { $1 }"}) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "tests.suites.corpus.check_modules", str(path), "--json", "found.jsonl"],
        capture_output=True, text=True, cwd=tmp_path, env=python_environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(row) for row in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [row["load"].split(":")[0] for row in rows] == ["ok", "ok", "REFUSED"]
    for row in rows[:2]:
        wrong = {name: text for name, text in row.items() if str(text).startswith("WRONG")}
        assert not wrong and row["jaxlib proto"] == row["text"] == row["looks verify"] == "ok"
