"""Many builds at once: any executor, what is unchanged, what fails, workers that die."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from xml.etree import ElementTree

import pytest

from neff.builds import Outcome, Work, build_many, output_names, sources_of
from neff.cli import main
from neff.runtime import load

SIZES = (3, 5, 8)


def text(size: int, opcode: str = "add") -> str:
    return (
        f"HloModule sized{size}\nENTRY e {{ p = f32[{size}]{{0}} parameter(0) "
        f"ROOT r = f32[{size}]{{0}} {opcode}(p, p) }}\n"
    )


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    folder.mkdir()
    for size in SIZES:
        (folder / f"m{size}.hlo").write_text(text(size))
    return folder


def works(modules: Path, output: Path) -> list[Work]:
    output.mkdir(exist_ok=True)
    sources = sources_of(modules)
    named = zip(sources, output_names(sources), strict=True)
    return [Work(source, ("--target=trn2",), output / name) for source, name in named]


def statuses(outcomes: list[Outcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


EXECUTORS = {
    "here": None,
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
}


@pytest.mark.parametrize("kind", EXECUTORS)
def test_every_executor_makes_the_same_bytes(kind: str, modules: Path, tmp_path: Path) -> None:
    build_many(works(modules, tmp_path / "serial"))
    outcomes = build_many(works(modules, tmp_path / kind), executor=EXECUTORS[kind])
    assert statuses(outcomes) == ["built"] * 3
    for size in SIZES:
        built = (tmp_path / kind / f"sized{size}.neff").read_bytes()
        assert built == (tmp_path / "serial" / f"sized{size}.neff").read_bytes()
        assert list(load(tmp_path / kind / f"sized{size}.neff").inputs["input0"].shape) == [size]


def test_what_is_unchanged_is_left(modules: Path, tmp_path: Path) -> None:
    output = tmp_path / "neffs"
    assert statuses(build_many(works(modules, output))) == ["built"] * 3
    assert statuses(build_many(works(modules, output))) == ["unchanged"] * 3
    (modules / "m5.hlo").write_text(text(5, "multiply"))
    assert statuses(build_many(works(modules, output))) == ["unchanged", "built", "unchanged"]
    (output / "sized3.neff").write_bytes(b"something else")
    assert statuses(build_many(works(modules, output))) == ["built", "unchanged", "unchanged"]
    changed_works = [
        Work(work.source, ("--target=trn1",), work.output) for work in works(modules, output)
    ]
    assert statuses(build_many(changed_works)) == ["built"] * 3
    (output / ".nki-neff-builds.json").write_bytes(b"{")
    assert statuses(build_many(changed_works)) == ["built"] * 3, "a damaged record"


def test_a_failure_ends_the_builds_unless_asked(modules: Path, tmp_path: Path) -> None:
    (modules / "m5.hlo").write_text(text(5).replace("f32", "f64"))
    stopped = build_many(works(modules, tmp_path / "one"))
    assert statuses(stopped) == ["built", "failed", "skipped"]
    failure = stopped[1].failure
    assert failure is not None and failure.code.startswith("NEFF-") and failure.remedy
    went_on = build_many(works(modules, tmp_path / "two"), keep_going=True)
    assert statuses(went_on) == ["built", "failed", "built"]


class _Dying(ProcessPoolExecutor):
    """Its first worker is killed as soon as it has something to do."""

    def submit(self, *arguments, **named):  # type: ignore[no-untyped-def]
        future = super().submit(*arguments, **named)
        for process in list(self._processes or {}):
            os.kill(process, signal.SIGKILL)
        return future


def test_builds_whose_worker_died_are_done_again(modules: Path, tmp_path: Path) -> None:
    executors: list[Executor] = []

    def pool() -> Executor:
        kind = _Dying if not executors else ProcessPoolExecutor
        executors.append(kind(1, mp_context=get_context("spawn")))
        return executors[-1]

    outcomes = build_many(works(modules, tmp_path / "neffs"), executor=pool)
    assert statuses(outcomes) == ["built"] * 3 and len(executors) == 2


def test_a_worker_that_always_dies_is_reported(modules: Path, tmp_path: Path) -> None:
    outcomes = build_many(
        works(modules, tmp_path / "neffs")[:1],
        executor=lambda: _Dying(1, mp_context=get_context("spawn")),
    )
    assert statuses(outcomes) == ["failed"]
    assert outcomes[0].failure is not None and outcomes[0].failure.code == "NEFF-WORKER"


def test_the_command_reports_all(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (modules / "m5.hlo").write_text(text(5).replace("f32", "f64"))
    report = tmp_path / "builds.xml"
    words = ["build", str(modules), "--target", "trn2", "-o", str(tmp_path / "neffs"), "-j", "1"]
    assert main([*words, "-k", "--junit", str(report), "--json"]) == 3
    done = capsys.readouterr()
    rows = json.loads(done.out)["builds"]
    assert [row["status"] for row in rows] == ["built", "failed", "built"]
    assert f"error[{rows[1]['error']['code']}]" in done.err and "2 built, 1 failed" in done.err
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    assert [len(case.findall("failure")) for case in cases] == [0, 1, 0]


def test_one_module_is_built_into_the_file_that_is_named_with_any_number_of_jobs(
    modules: Path, tmp_path: Path
) -> None:
    output = tmp_path / "one.neff"
    module = sorted(modules.glob("*.hlo"))[0]
    assert main(["build", str(module), "-O3", "-j", "2", "-t", "trn2", "-o", str(output)]) == 0
    assert output.is_file()


def test_modules_of_one_name_get_their_own_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.hlo").write_text(text(3))
    names = output_names(sources_of(tmp_path))
    assert len(set(names)) == 2 and all(name.startswith("sized3-") for name in names)


@pytest.mark.parametrize(("name", "what"), [("x.neff", "a NEFF"), ("x.npy", "an array")])
def test_files_of_other_kinds_are_named(
    name: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"")
    assert main(["build", str(tmp_path / name)]) == 3
    assert f"error[NEFF-KIND] {tmp_path / name}: this is {what}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--names=wrong"], ["-O7"], ["--cc-flags=stray"]])
def test_a_wrong_flag_is_refused_once(
    words: list[str], modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(modules), *words, "-o", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("error[NEFF-FLAG]") == 1 and not captured.out
    assert not (tmp_path / "out").exists()


def test_a_path_where_nothing_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "neffs"
    assert main(["build", str(tmp_path / "none"), "-o", f"{folder}/"]) == 3
    assert f"error[HLO-READ] {tmp_path / 'none'}: cannot be read" in capsys.readouterr().err
    assert not folder.exists()


def test_several_modules_do_not_go_into_one_file(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(modules), "--target", "trn2", "-o", "all.neff"]) == 3
    assert "error[NEFF-MODULES]" in capsys.readouterr().err
    assert not Path("all.neff").exists()
