"""The records of extractions in a cache: current, latest and stale entries, and pruning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools.cli.shared.selection import chosen
from hlo_tools.errors import HloFileError
from hlo_tools.extract.record import (
    failed_extractions,
    latest_entries,
    prune,
    read_records,
    record_extraction,
    stale_entries,
)
from nki_lang.base.unknown_fields import ALLOW_VARIABLE

FOLDER = "neuronxcc-0.1.0+nkihlo"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for number in range(4):
        (tmp_path / FOLDER / f"MODULE_{number}+e30acd3a").mkdir(parents=True)
    return tmp_path


def named(*numbers: int) -> list[str]:
    return [f"{FOLDER}/MODULE_{number}+e30acd3a" for number in numbers]


def record(
    cache: Path, *numbers: int, script: str = "a.py", platform: str = "trn1", exit_code: int = 0
) -> None:
    entries = [cache / name for name in named(*numbers)]
    record_extraction(cache, cache / script, (), platform, entries, exit_code=exit_code)


def test_what_a_script_no_longer_compiles_is_stale(cache: Path) -> None:
    record(cache, 0, 1)
    assert not stale_entries(cache)
    record(cache, 1, 2)
    assert stale_entries(cache) == set(named(0))
    record(cache, 3)
    assert stale_entries(cache) == set(named(0, 1, 2))
    record(cache, 0, 3)
    assert stale_entries(cache) == set(named(1, 2))


def test_another_script_keeps_an_entry(cache: Path) -> None:
    record(cache, 0, 1)
    record(cache, 0, script="b.py")
    record(cache, 1)
    assert not stale_entries(cache)
    record(cache, 2, script="b.py")
    assert stale_entries(cache) == set(named(0))


def test_another_platform_is_another_extraction(cache: Path) -> None:
    record(cache, 0)
    record(cache, 1, platform="trn2")
    assert not stale_entries(cache)
    assert latest_entries(cache) == set(named(1))


def test_a_script_that_failed_makes_nothing_stale(cache: Path) -> None:
    record(cache, 0, 1)
    record(cache, 2, exit_code=1)
    assert not stale_entries(cache)
    record(cache, 2)
    assert stale_entries(cache) == set(named(0, 1))


def test_a_failed_extraction_names_the_entries_of_the_run_before(cache: Path) -> None:
    record(cache, 0, 1)
    record(cache, 1, 2, exit_code=3)
    (failed,) = failed_extractions(cache)
    assert failed.exit_code == 3 and failed.earlier == tuple(named(0))
    record(cache, 3, exit_code=4)
    (failed,) = failed_extractions(cache)
    assert failed.earlier == tuple(named(0, 1, 2))
    record(cache, 0)
    assert not failed_extractions(cache)


def test_a_record_of_an_earlier_version_is_read(cache: Path) -> None:
    record(cache, 0, 1)
    (path,) = (cache / ".extractions").iterdir()
    document = json.loads(path.read_text())
    del document["exit_code"], document["earlier"]
    path.write_text(json.dumps(document))
    (loaded,) = read_records(cache)
    assert loaded.exit_code == 0 and loaded.earlier == () and loaded.entries == tuple(named(0, 1))


def test_commands_say_that_modules_are_from_an_earlier_run(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(cache / name / "model.hlo_module.pb") for name in named(0, 1)]
    record(cache, 0, 1)
    assert chosen("modules", files) == files and not capsys.readouterr().err
    record(cache, 1, exit_code=2)
    assert chosen("modules", files) == files
    assert capsys.readouterr().err == (
        "modules: 1 module is from an earlier run: the last extraction of a.py ended with exit code 2\n"
    )


def test_the_latest_is_of_the_last_extraction(cache: Path) -> None:
    record(cache, 0, 1)
    record(cache, 2, 3, script="b.py")
    assert latest_entries(cache) == set(named(2, 3))
    record(cache, 0)
    assert latest_entries(cache) == set(named(0))


def test_without_a_record_the_latest_is_the_newest_entry(cache: Path) -> None:
    newest = cache / named(2)[0]
    later = newest.stat().st_mtime_ns + 10**9
    import os

    os.utime(newest, ns=(later, later))
    assert latest_entries(cache) == set(named(2))
    assert not latest_entries(cache / "empty")


def test_prune_removes_the_stale_only(cache: Path) -> None:
    record(cache, 0, 1)
    record(cache, 1)
    assert prune(cache) == named(0)
    files = {path.name for path in (cache / FOLDER).iterdir()}
    assert files == {Path(name).name for name in named(1, 2, 3)}, "2 and 3 have no record"
    assert not stale_entries(cache) and prune(cache) == []


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b'{"script": 1}', b"\xff\xfe", b"[" * 100_000,
        json.dumps({"script": "a", "arguments": [], "platform": "", "when": 1, "entries": [],
                    "replaced": ["../MODULE_outside"]}).encode(),
        json.dumps({"script": "a", "arguments": [], "platform": "", "when": 1, "entries": [],
                    "replaced": "MODULE_0"}).encode(),
    ],
    ids=["empty", "cut", "list", "fields", "utf-16", "deep", "outside", "text"],
)  # fmt: skip
def test_a_damaged_record_is_left_out(cache: Path, damage: bytes) -> None:
    record(cache, 0)
    (path,) = (cache / ".extractions").iterdir()
    path.write_bytes(damage)
    assert read_records(cache) == [] and not stale_entries(cache)
    assert prune(cache) == []
    record(cache, 1)
    assert latest_entries(cache) == set(named(1))


def test_a_record_of_a_newer_version_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pruning without it could remove entries that it needs."""
    record(cache, 0)
    (path,) = (cache / ".extractions").iterdir()
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"x_newer": 1}))
    for operation in (read_records, stale_entries, prune):
        with pytest.raises(HloFileError, match="x_newer") as refused:
            operation(cache)
        assert refused.value.code == "HLO-UNKNOWN-FIELD" and refused.value.place == str(path)
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    assert len(read_records(cache)) == 1
