"""``nki-hlo check``: scripts, single kernels, the strict subset."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools.cli import main

SCRIPT = """
import sys
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def clean(a, factor=2.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=x)
    return out

@nki.jit
def wasteful(a):
    lost = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    for i in [j for j in range(2)]:
        nisa.memset(dst=lost, value=0)
    return clean(a)

@nki.jit
def broken(a):
    nisa.memset(dst=nl.ndarray((129, 1), dtype=a.dtype, buffer=nl.sbuf), value=0)
    return a

if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(globals()[name](np.ones((4, 8), np.float32)).sum())
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "checked_script.py"
    path.write_text(SCRIPT)
    return str(path)


def checked(environment: dict[str, str], *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "hlo_tools.cli", "check", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_script(file: str, python_environment: dict[str, str]) -> None:
    code, out, err = checked(python_environment, file, "--", "clean")
    assert (code, out) == (0, "64.0\n")
    assert "1 kernel, 0 findings" in err
    code, out, _ = checked(python_environment, file, "--", "clean", "wasteful")
    assert code == 1
    assert out.count("[NKI-UNUSED]") == 1
    assert f"{file}:19: [NKI-UNUSED]" in out


def test_script_that_ends_with_a_fault(file: str, python_environment: dict[str, str]) -> None:
    code, out, _ = checked(python_environment, file, "--json", "--", "wasteful", "broken")
    assert code == 1
    document = json.loads(out)
    assert document["kernels"] == ["wasteful", "broken"]
    assert [finding["check"] for finding in document["findings"]] == ["unused", "fault"]
    assert document["findings"][1]["line"] == 24


def test_scripts_that_run_no_kernel(file: str, python_environment: dict[str, str]) -> None:
    code, _, err = checked(python_environment, file)
    assert code == 3
    assert "error[HLO-NO-KERNEL-RUN]" in err
    code, _, err = checked(python_environment, file, "--", "missing")
    assert code == 3
    assert "KeyError" in err and "ended with exit code 1" in err


def test_one_kernel(file: str, python_environment: dict[str, str]) -> None:
    tensor = "a=float32[4,8]"
    code, out, _ = checked(python_environment, file, "-k", "clean", "-a", tensor)
    assert (code, out) == (0, "")
    words = ("-k", "clean", "-a", "a=bfloat16[4, 8]", "-a", "factor=0.1", "--checks", "all")
    code, out, err = checked(python_environment, file, *words)
    assert code == 0 and "NKI-PRECISION" in out and "0 findings" in err
    code, out, _ = checked(python_environment, file, "-k", "wasteful", "-a", tensor, "--json")
    assert code == 1
    (finding,) = json.loads(out)["findings"]
    assert (finding["code"], finding["kernel"]) == ("NKI-UNUSED", "wasteful")
    code, out, _ = checked(python_environment, file, "-k", "broken", "-a", tensor)
    assert code == 1
    assert "129" in out and "(check:" not in out


def test_one_kernel_on_two_cores(tmp_path: Path, python_environment: dict[str, str]) -> None:
    path = tmp_path / "race.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl\n"
        "@nki.jit\ndef race(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\n"
        "    nisa.memset(dst=x, value=nl.program_id(0))\n"
        "    nisa.dma_copy(dst=out, src=x)\n"
        "    return out\n"
    )
    words = (str(path), "-k", "race", "-a", "a=int32[4,8]", "--platform", "trn2")
    assert checked(python_environment, *words)[0] == 0
    code, out, _ = checked(python_environment, *words, "--cores", "2")
    assert code == 1 and f"{path}:7: [NKI-RACE]" in out


def test_a_kernel_without_result_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lost.py"
    body = SCRIPT.replace("    return out\n", "")
    path.write_text(body)
    words = ["check", str(path), "--kernel", "clean", "--arg", "a=float32[4,8]"]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "lost.py:6: [NKI-NO-RESULT] kernel 'clean' returns no tensor and writes no" in printed
    assert main([*words, "--checks", "races"]) == 0


def test_a_kernel_that_writes_an_argument_needs_no_result(tmp_path: Path) -> None:
    path = tmp_path / "kept.py"
    path.write_text(SCRIPT.replace("    return out\n", "    nisa.dma_copy(dst=a, src=x)\n"))
    words = ["check", str(path), "--kernel", "clean", "--arg", "a=float32[4,8]"]
    assert main(words) == 0


def test_a_script_that_fails_by_itself(tmp_path: Path, python_environment: dict[str, str]) -> None:
    path = tmp_path / "fails.py"
    path.write_text("raise SystemExit(7)\n")
    code, _, err = checked(python_environment, str(path))
    assert code == 3
    assert f"error[HLO-SCRIPT] {path}: the script ended with exit code 7" in err


@pytest.mark.parametrize("form", ["junit", "sarif", "github"])
def test_documents_for_ci_have_the_script_that_failed(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An empty document is a test that passes."""
    path = tmp_path / "early.py"
    path.write_text("raise SystemExit(7)\n")
    assert main(["check", str(path), "--format", form]) == 3
    assert "HLO-SCRIPT" in capfd.readouterr().out


def test_strict(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", file, "--strict", "--nki", "0.6"]) == 1
    assert f"{file}:18:14: error[NKI-STRICT-COMPREHENSION]" in capsys.readouterr().out
    assert main(["check", file, "--strict", "--kernel", "clean"]) == 0
    assert main(["check", file, "--nki", "0.6", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["strict"] and document["findings"][0]["line"] == 18


def test_warnings_of_strict_are_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "same.py"
    path.write_text("import nki\n@nki.jit\ndef same(a):\n    return a if a is True else a\n")
    assert main(["check", str(path), "--strict", "--nki", "0.6"]) == 0
    printed = capsys.readouterr()
    assert "warning[NKI-STRICT-IDENTITY]" in printed.out
    assert "0 errors, 1 warning" in printed.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["absent.py"], 3, "HLO-NO-FILE"),
        (["absent.py", "--strict"], 3, "NKI-FILE"),
        (["absent.py", "--kernel", "f"], 3, "HLO-NO-FILE"),
        (["FILE", "--checks", "magic"], 2, "checks are overlap"),
        (["FILE", "--checks", ""], 2, "checks are overlap"),
        (["FILE", "--arg", "a=1"], 2, "--arg is for --kernel"),
        (["FILE", "--platform", "trn9"], 2, "trn9"),
        (["FILE", "-k", "clean", "-a", "nonsense"], 2, "NAME=VALUE"),
        (["FILE", "-k", "clean", "-a", "a=float99[4]"], 2, "float99"),
        (["FILE", "-k", "clean"], 2, "missing a required argument: 'a'"),
        (["FILE", "-k", "clear"], 3, "its kernels are clean, wasteful, broken"),
        (["FILE", "--strict", "-k", "clear"], 3, "no function 'clear'"),
    ],
)
def test_usage(
    file: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, text: str
) -> None:
    assert main(["check", *(file if word == "FILE" else word for word in words)]) == code
    assert text in capsys.readouterr().err
