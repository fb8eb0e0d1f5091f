"""``nki-neff``: what it prints, its exit codes, and that it leaves nothing half-written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from hlo_tools.extract import write_bundle
from neff import write
from neff.program import Step
from nki_lang.base.dtypes import BY_NAME
from nki_lang.ir import Engine
from tests.neff.programs import addition, copying, sbuf, whole

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "add.neff"
    write(addition(8), path)
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    by_name = {name: random.random((128, 8), np.float32) for name in "ab"}
    for name, array in by_name.items():
        np.save(tmp_path / f"{name}.npy", array)
    return by_name


def inputs(folder: Path, *names: str) -> list[str]:
    return [word for name in names for word in ("-i", f"{name}={folder / name}.npy")]


def test_run(neff: Run, file: Path, arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    code, out, err = neff("run", file, *inputs(tmp_path, "a", "b"), "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path}/out/c.npy  float32[128, 8]\n"
    np.testing.assert_array_equal(np.load(tmp_path / "out/c.npy"), arrays["a"] + arrays["b"])


def test_run_json_and_zeros(neff: Run, file: Path, arrays: Any, tmp_path: Path) -> None:
    words = ["run", file, *inputs(tmp_path, "a"), "-o", tmp_path, "--fill", "zeros", "--json"]
    code, out, _ = neff(*words)
    document = json.loads(out)
    assert (code, document["schema"], document["outputs"][0]["name"]) == (0, "nki-hlo/1", "c")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), arrays["a"])


def test_run_on_random_inputs(neff: Run, file: Path, tmp_path: Path) -> None:
    results = []
    for seed in (1, 1, 2):
        assert neff("run", file, "-o", tmp_path, "--fill", "random", "--seed", seed)[0] == 0
        results.append(np.load(tmp_path / "c.npy"))
    np.testing.assert_array_equal(results[0], results[1])
    assert np.ptp(results[0]) > 1 and not np.array_equal(results[0], results[2])
    code, _, err = neff("run", file, "-o", tmp_path, "--fill", "ones")
    assert code == 2 and "zeros, random" in err


def test_types_that_numpy_lacks(neff: Run, tmp_path: Path) -> None:
    write(copying(BY_NAME["bfloat16"]), tmp_path / "x.neff")
    array = np.arange(128 * 16).reshape(128, 16).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", array)
    words = ["run", tmp_path / "x.neff", "-i", f"a={tmp_path}/a.npy", "-o", tmp_path]
    assert neff(*words)[0] == 0
    bits = np.load(tmp_path / "c.npy")
    np.testing.assert_array_equal(bits.view(ml_dtypes.bfloat16), array)
    assert neff(*words, "--float32")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), array.astype(np.float32))


def test_run_refusals(neff: Run, file: Path, arrays: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.zeros((128, 7), np.float32))
    np.save(tmp_path / "half.npy", np.zeros((128, 8), np.float16))
    (tmp_path / "text.npy").write_text("hello")
    out = tmp_path / "out"
    good = inputs(tmp_path, "a")
    for words, error in (
        (good, "NEFF-INPUT"),
        ([*good, "-i", "b"], "NEFF-INPUT"),
        ([*good, *good], "NEFF-INPUT"),
        ([*good, "-i", f"z={tmp_path}/b.npy"], "NEFF-INPUT"),
        ([*good, "-i", f"b={tmp_path}/none.npy"], "NEFF-NPY"),
        ([*good, "-i", f"b={tmp_path}/text.npy"], "NEFF-NPY"),
        ([*good, "-i", f"b={tmp_path}/bad.npy"], "NEFF-SHAPE"),
        ([*good, "-i", f"b={tmp_path}/half.npy"], "NEFF-DTYPE"),
    ):
        code, printed, message = neff("run", file, *words, "-o", out)
        assert (code, printed) == (2 if error == "NEFF-INPUT" else 3, "")
        assert message.startswith(f"error[{error}]")
    assert not out.exists()
    code, _, message = neff("run", file, *inputs(tmp_path, "a", "b"), "-o", file / "x")
    assert code == 3 and "error[NEFF-WRITE]" in message


def test_a_flipped_file(neff: Run, file: Path, tmp_path: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-30] ^= 4
    file.write_bytes(data)
    code, _, err = neff("run", file)
    assert code == 3 and err.startswith("error[NEFF-HASH]") and "\n  help: " in err
    for command in (["verify"], ["verify", "--json"], ["info"], ["time"]):
        code, out, err = neff(*command, file)
        assert (code, out) == (3, "") and "\n  help: " in err
    assert neff("diff", file, file)[0] == 3
    assert neff("unpack", file, "-o", tmp_path / "x")[0] == 3
    assert not (tmp_path / "x").exists()


def test_a_wrong_hash_is_looked_past_on_request(neff: Run, file: Path, tmp_path: Path) -> None:
    data = bytearray(file.read_bytes())
    complete = tmp_path / "whole.neff"
    complete.write_bytes(data)
    data[172] ^= 1  # a byte of the hash
    file.write_bytes(data)
    assert neff("diff", file, complete)[0] == 3
    assert neff("diff", file, complete, "--ignore-hash")[0] == 0
    assert neff("unpack", file, "--ignore-hash", "-o", tmp_path / "x")[0] == 0
    assert neff("unpack", complete, "-o", tmp_path / "y")[0] == 0
    members = list((tmp_path / "y").rglob("*.json"))
    assert members
    for path in members:
        unpacked = tmp_path / "x" / path.relative_to(tmp_path / "y")
        assert unpacked.read_bytes() == path.read_bytes()


def test_info(neff: Run, file: Path) -> None:
    code, out, _ = neff("info", file)
    assert code == 0
    for text in ("made by:          nki-hlo", "1 tensor_tensor", "[128, 8]", "(matches)", "4.0 KB"):
        assert text in out
    code, out, _ = neff("info", file, "--json")
    document = json.loads(out)
    assert (document["command"], document["target"]) == ("info", "trn1")
    assert document["memory"][0]["inputs"] == 2 * 128 * 8 * 4


def test_info_of_a_changed_file(neff: Run, tmp_path: Path) -> None:
    path = tmp_path / "plain.neff"
    write(addition(8), path, compressed=False)
    data = bytearray(path.read_bytes())
    data[172] ^= 1
    path.write_bytes(data)
    code, out, err = neff("info", path)
    assert code == 1 and "DOES NOT MATCH" in out
    assert "does not match the header's hash" in err
    code, _, err = neff("verify", path)
    assert code == 3 and err.startswith("error[NEFF-HASH]")


def test_verify(neff: Run, file: Path, tmp_path: Path) -> None:
    assert neff("verify", file) == (0, "", "nothing found\n")
    program = addition(8)
    del program.subgraphs[0].engines[Engine.sync][2]
    write(program, tmp_path / "half.neff")
    code, out, _ = neff("verify", tmp_path / "half.neff")
    assert code == 1 and "[NEFF-UNWRITTEN]" in out
    program = addition(8)
    del program.subgraphs[0].engines[Engine.sync][0]
    write(program, tmp_path / "dead.neff")
    code, out, _ = neff("verify", tmp_path / "dead.neff")
    assert code == 1 and "[NEFF-DEADLOCK]" in out and "add.py:9" in out


def test_verify_looks_for_races_and_shared_bytes(neff: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.neff"
    program = addition(8)
    sync = program.subgraphs[0].engines[Engine.sync]
    sync[2] = Step(sync[2].instruction)
    write(program, path)
    code, out, _ = neff("verify", path)
    assert code == 1 and "[NEFF-RACE]" in out
    program = addition(8)
    load = program.subgraphs[0].engines[Engine.sync][1]
    load.instruction.operands["dst"] = whole(sbuf("y", (128, 8), 0))
    program.subgraphs[0].engines[Engine.sync][1] = Step(load.instruction, ((2, 1),), (0,))
    first = program.subgraphs[0].engines[Engine.sync][0].instruction
    program.subgraphs[0].engines[Engine.sync][0] = Step(first, (), (0, 2))
    program.subgraphs[0].semaphores = 3
    vector = program.subgraphs[0].engines[Engine.vector][0].instruction
    vector.operands["data2"] = whole(sbuf("y", (128, 8), 0))
    write(program, path)
    code, out, _ = neff("verify", path)
    assert code == 1 and "[NEFF-PLACEMENT]" in out


def test_unpack(neff: Run, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    assert neff("unpack", file, "-o", folder)[0] == 0
    assert json.loads((folder / "sg00/def.json").read_text())["name"] == "definition"
    code, _, err = neff("unpack", file, "-o", folder)
    assert code == 3 and "error[NEFF-WRITE]" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["add.neff", "unpacked"]


def test_build_refusals(neff: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, flags in (("flags", "{}"), ("cut", '["--tar'), ("flipped", '["--targut=trn1"]')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.hlo_module.pb").write_bytes(b"x")
        (tmp_path / name / "compile_flags.json").write_text(flags)
    (tmp_path / "junk.pb").write_bytes(b"\xff" * 64)
    out = tmp_path / "out.neff"
    for expected, words, text in (
        (3, [tmp_path / "empty"], "error[HLO-NO-MODULE]"),
        (3, [tmp_path / "flags"], f"error[NEFF-FLAGS-FILE] {tmp_path / 'flags'}"),
        (3, [tmp_path / "cut"], f"error[NEFF-FLAGS-FILE] {tmp_path / 'cut'}"),
        (3, [tmp_path / "flipped"], f"error[NEFF-FLAGS-FILE] {tmp_path / 'flipped'}"),
        (3, [tmp_path / "none.pb"], "error[HLO-"),
        (3, [tmp_path / "junk.pb"], "error[HLO-"),
        (2, [tmp_path / "junk.pb", "--target", "h100"], "error[NEFF-FLAG]"),
        (2, [tmp_path / "junk.pb", "-O", "7"], "error[NEFF-FLAG]"),
        (2, [tmp_path / "junk.pb", "--framework", "TF"], "error[NEFF-FLAG]"),
        (2, [tmp_path / "junk.pb", "--cc-flags", "--whatever"], "error[NEFF-FLAG]"),
        (2, [tmp_path / "junk.pb", "--cc-flags", "whatever"], "error[NEFF-FLAG]"),
    ):
        code, printed, err = neff("build", *words, "-o", out)
        assert (code, printed) == (expected, ""), words
        assert text in err and "  help: " in err, words
    assert not out.exists()


def test_flags_of_an_entry_are_checked(neff: Run, tmp_path: Path) -> None:
    module = hlo_tools.load(
        b"HloModule m\nENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] add(a, a) }"
    ).to_bytes()
    entry = write_bundle(tmp_path / "cache", module, ["--target=trn1"])
    foreign = shutil.copytree(entry, tmp_path / "vendor" / "MODULE_7+e30acd3a")
    out = tmp_path / "out.neff"
    assert neff("build", entry, "-o", out)[2] == ""
    for folder in (entry, foreign):
        (folder / "compile_flags.json").write_text('["--target=trn3"]')
    out.unlink()
    code, printed, err = neff("build", entry, "-o", out)
    assert (code, printed) == (3, "") and "error[HLO-ENTRY-CHANGED]" in err and not out.exists()
    code, printed, err = neff("build", foreign, "-o", out)
    assert code == 0 and "trn3" in printed and "warning[NEFF-FLAGS]" in err


def test_every_refusal_of_run_says_what_to_do(neff: Run, file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "several.npz", a=np.zeros(2))
    (tmp_path / "afile").touch()
    for words, text in (
        (["-i", "a"], "NEFF-INPUT"),
        (["-i", "c=x.npy"], "NEFF-INPUT"),
        (["-i", f"a={tmp_path / 'none.npy'}"], "NEFF-NPY"),
        (["-i", f"a={tmp_path / 'several.npz'}"], "NEFF-NPY"),
        (["--fill", "zeros", "-o", tmp_path / "afile"], "NEFF-WRITE"),
    ):
        code, printed, err = neff("run", file, *words)
        expected = 2 if text == "NEFF-INPUT" else 3
        assert (code, printed) == (expected, "") and f"error[{text}]" in err and "  help: " in err
    err = neff("run", file, "-i", "a")[2]
    assert "-i takes NAME=FILE.npy, not 'a'" in err and "write -i a=FILE.npy" in err


def test_time(neff: Run, file: Path) -> None:
    code, out, _ = neff("time", file)
    assert code == 0 and out.startswith("trn1, body: ") and "DMA" in out
    assert "% of it from measured costs (estimated)" in out
    document = json.loads(neff("time", file, "--json")[1])
    assert document["complete"] and document["cores"][0]["dma"]["transfers"] == 3
    assert document["low_us"] < document["total_us"] < document["high_us"]
    slow = ("time", file, "--json", "--set", "dma.static_start_ns=50000", "--dma", "static")
    assert json.loads(neff(*slow)[1])["total_us"] > 100
    for words, named in (
        (["--set", "dma.issue=5"], "did you mean dma.issue_ns"),
        (["--set", "issue_ns=5"], "did you mean dma.issue_ns?"),
        (["--set", "foo=5"], "names begin with "),
        (["--dma", "fast"], "NEFF-STATISTIC"),
        (["--statistic", "mean"], "NEFF-STATISTIC"),
    ):
        code, printed, err = neff("time", file, *words)
        assert (code, printed) == (2, "") and named in err and "  help: " in err


def test_diff(neff: Run, file: Path, tmp_path: Path) -> None:
    changed = tmp_path / "other.neff"
    write(addition(8, op="subtract"), changed)
    assert neff("diff", file, file) == (0, "", "1 equal\n")
    code, out, _ = neff("diff", file, changed)
    assert code == 1
    assert "\ncore 0 vector step 0 (of 1 and 1)\n  - tensor_tensor(" in out
    assert "op=add" in out and "op=subtract" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert neff("diff", file, changed, "--exit-zero")[0] == 0
    program = addition(16)
    program.target = "trn2"
    write(program, changed, name="x")
    code, out, _ = neff("diff", file, changed, "--json")
    (change,) = json.loads(out)["neffs"]
    rows = {row["what"]: row for row in change["differences"]}
    assert rows["header name"] == {"what": "header name", "one": "addition", "two": "x"}
    assert rows["target"]["two"] == "trn2"
    assert rows["variable a"]["two"] == "input float32[128, 16]"
    assert code == 1
    # Each figure is the one that another command reports.
    for side, path in (("before", file), ("after", changed)):
        message = change[side]
        info = json.loads(neff("info", path, "--json")[1])
        assert message["file_size_bytes"] == path.stat().st_size
        assert message["inputs_bytes"] == sum(row["bytes"] for row in info["inputs"])
        assert (
            message["estimated_time_us"] == json.loads(neff("time", path, "--json")[1])["total_us"]
        )
        assert message["instructions"] == sum(row["instructions"] for row in info["engines"])
    assert change["after"]["inputs_bytes"] == 2 * change["before"]["inputs_bytes"]


def test_diff_of_folders(neff: Run, tmp_path: Path) -> None:
    left, right = tmp_path / "one", tmp_path / "two"
    for folder in (left, right):
        folder.mkdir()
        write(addition(8), folder / "same.neff")
    write(addition(8), left / "edited.neff")
    write(addition(8, op="subtract"), right / "edited.neff")
    write(addition(16), left / "keyed-1111.neff")
    write(addition(16, op="subtract"), right / "keyed-2222.neff")
    write(addition(32), left / "gone.neff")
    write(addition(64), right / "came.neff")
    code, out, err = neff("diff", left, right)
    status = {row.split()[0]: row.split()[1] for row in out.splitlines()[1:6]}
    assert status == {
        "came.neff": "added",
        "edited.neff": "changed",
        "gone.neff": "removed",
        "keyed-2222.neff": "changed",  # the key of another content, the same program
        "same.neff": "equal",
    }
    assert (code, err) == (1, "1 equal, 2 changed, 1 added, 1 removed\n")
    code, out, _ = neff("diff", left, right, "--format", "markdown")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in out.splitlines()[:7]]
    assert {len(row) for row in rows} == {6} and rows[3][:2] == ["`edited.neff`", "changed"]
    assert out.count("<details>") == out.count("</details>") == 2
    assert code == 1 and "- 1 tensor" not in out and "op=subtract" in out
    code, _, err = neff("diff", left, right / "came.neff")
    assert code == 2 and "NEFF-USAGE" in err
    assert neff("diff", right, right)[0] == 0


def test_check(neff: Run, arrays: Any, tmp_path: Path) -> None:
    program = addition(8)
    load = program.subgraphs[0].engines[Engine.sync][0].instruction
    half = ((8, 128), (1, 4))
    for name in ("dst", "src"):
        load.operands[name] = load.operands[name]._replace(pattern=half)
    write(program, tmp_path / "half.neff")
    words = ["run", tmp_path / "half.neff", *inputs(tmp_path, "a", "b"), "-o", tmp_path]
    assert neff(*words)[0] == 0
    code, _, err = neff(*words, "--check")
    assert code == 3 and err.startswith("error[NEFF-EXEC-UNINITIALISED] add.py:9")


def test_usage(neff: Run) -> None:
    assert neff("frobnicate")[0] == 2
    assert neff("run")[0] == 2
    assert neff("info", "none.neff")[0] == 3
    code, out, _ = neff("--help")
    assert code == 0 and "Exit codes" in out
    assert neff("--version") == (0, "nki-neff 0.1.0\n", "")
    assert neff()[0] in (0, 2)


def test_help_imports_no_numpy(python_environment: dict[str, str]) -> None:
    code = (
        "import sys; from neff.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(9 if 'numpy' in sys.modules else 0)"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, env=python_environment).returncode == 0
