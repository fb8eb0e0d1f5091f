"""Scripts run and extracted: by function, by command, and by environment variables alone."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.extract import complete_entries, is_complete, run_script
from hlo_tools.ir.loading import load

ROOT = Path(__file__).resolve().parents[2]

ADD_KERNEL = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def add(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=c, src=x)
    return c
"""

JAX_SCRIPT = (
    ADD_KERNEL
    + """
import sys, jax, jax.numpy as jnp
x = jnp.ones((4, 8), jnp.float32)
print("result", float(jax.jit(lambda a: add(a, a) * 2)(x).sum()))
if "fail" in sys.argv:
    raise SystemExit(int(sys.argv[-1])) if sys.argv[-1].isdigit() else ValueError("on purpose")
"""
)

LIGHT_SCRIPT = """
import sys, pathlib
print(sys.argv, __name__, sys.path[0], pathlib.Path(__file__).is_absolute(), __spec__ is None)
import beside
if "exit" in sys.argv: sys.exit(7)
if "text" in sys.argv: sys.exit("said at the end")
if "raise" in sys.argv: beside.fail()
if "kill" in sys.argv:
    import os, signal
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture
def light(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("def fail():\n    raise KeyError('on purpose')\n")
    script = tmp_path / "script.py"
    script.write_text(LIGHT_SCRIPT)
    return script


def command(*words: str, cwd: Path | None = None, **variables: str):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), **variables)
    return subprocess.run(
        [sys.executable, "-m", "hlo_tools.cli", *words],
        capture_output=True, text=True, env=environment, cwd=cwd, timeout=600,
    )  # fmt: skip


# ------------------------------------------------------------------------ what a script sees


def test_a_script_runs_as_python_runs_it(light: Path) -> None:
    done = command("run", "script.py", "--", "a", "--debug", "-x", cwd=light.parent)
    assert done.returncode == 0, done.stderr
    words = "['script.py', 'a', '--debug', '-x']"
    assert done.stdout == f"{words} __main__ {light.parent} True True\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("word", "code", "text"),
    [("exit", 7, ""), ("text", 1, "said at the end\n"), ("kill", 128 + 15, "")],
)
def test_the_exit_code_is_the_scripts_own(light: Path, word: str, code: int, text: str) -> None:
    done = command("run", str(light), "--", word)
    assert (done.returncode, done.stderr) == (code, text)


def test_a_traceback_is_the_scripts_own(light: Path) -> None:
    done = command("run", str(light), "--", "raise")
    plain = subprocess.run(
        [sys.executable, str(light), "raise"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == plain.returncode == 1
    assert done.stderr == plain.stderr


def test_a_syntax_error_is_the_scripts_own(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("x = = 1\n")
    done = command("run", str(script))
    assert done.returncode == 1
    assert f'File "{script}", line 1' in done.stderr
    assert "launcher" not in done.stderr


# ------------------------------------------------------------------------------ wrong usage


@pytest.mark.parametrize(
    "words",
    [
        ["hlo_tools.cli", "extract", "FILE"],
        ["hlo_tools.cli", "check", "FILE"],
        ["hlo_tools.cli", "check", "FILE", "--kernel", "f"],
        ["hlo_tools.cli", "profile", "FILE"],
        ["neff.cli", "build", "FILE"],
    ],
)
def test_a_file_that_python_cannot_parse(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text("import sys\nif True:\n    x = = 1\n")
    program, *arguments = words
    main = importlib.import_module(program).main
    assert main([word.replace("FILE", str(tmp_path / "wrong.py")) for word in arguments]) == 3
    printed = capsys.readouterr().err.splitlines()
    location = f"{tmp_path / 'wrong.py'}:3:9"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    message = f"Python {version} cannot parse the file: invalid syntax"
    assert printed[0] == f"error[HLO-SYNTAX] {location}: {message}"
    assert printed[1:3] == ["    x = = 1", "        ^"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["hlo_tools.cli", "extract", "idle.py"], "HLO-NO-PROGRAM"),
        (["hlo_tools.cli", "profile", "idle.py"], "HLO-NO-PROGRAM"),
        (["hlo_tools.cli", "check", "idle.py"], "HLO-NO-KERNEL-RUN"),
        (["neff.cli", "build", "idle.py"], "NEFF-SCRIPT"),
    ],
)
def test_a_script_without_a_program(words: list[str], code: str, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print(1)\n")
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.returncode == 3
    assert f"error[{code}] idle.py: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["idle.py"]


def test_a_function_of_a_file_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("")
    with pytest.raises(HloFileError, match=r"pass .*kernels\.py; check, grade and tune"):
        run_script(f"{tmp_path / 'kernels.py'}:softmax")


@pytest.mark.parametrize("verb", ["extract", "run"])
def test_no_such_script(verb: str, tmp_path: Path) -> None:
    done = command(verb, "nowhere.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error[HLO-NO-FILE] nowhere.py: there is no such script\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(HloFileError, match="this is a folder, not a Python script"):
        run_script(tmp_path)


@pytest.mark.parametrize(
    "words", [["--platform", "trn9"], ["--executor", "gpu"], ["--no-such-option"]]
)
def test_usage_errors(light: Path, words: list[str]) -> None:
    done = command("run", str(light), *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error[HLO-USAGE]")
    assert "Traceback" not in done.stderr


def test_an_output_that_cannot_be_written(light: Path) -> None:
    done = command("extract", str(light), "-o", "/dev/null/x")
    assert done.returncode == 3
    assert "error[HLO-CACHE-WRITE] /dev/null/x: the output folder cannot be written" in done.stderr
    assert done.stdout == ""


def test_the_functions_own_errors(light: Path) -> None:
    with pytest.raises(HloError, match="trn9") as failure:
        run_script(light, platform="trn9")
    assert failure.value.code == "HLO-PLATFORM"
    with pytest.raises(HloError) as failure:
        run_script(light, executor="gpu")
    assert failure.value.code == "HLO-EXECUTOR"


def test_a_script_that_compiles_nothing(light: Path) -> None:
    done = command("extract", str(light), "-o", str(light.parent / "out"))
    assert done.returncode == 3
    assert "compiled no program on the neuron device" in done.stderr
    assert not (light.parent / "out").exists()


def test_a_folder_that_was_there_stays(light: Path) -> None:
    there = light.parent / "there"
    there.mkdir()
    assert run_script(light, output=there / "deep" / "er").exit_code == 0
    assert there.is_dir() and not list(there.iterdir())
    run_script(light, output=there)
    assert there.is_dir()


# ------------------------------------------------------------------------------- with JAX


@pytest.fixture(scope="module")
def jax_script(tmp_path_factory) -> Path:
    script = tmp_path_factory.mktemp("scripts") / "uses_jax.py"
    script.write_text(JAX_SCRIPT)
    return script


def kernel_entry(cache: Path) -> Path:
    (entry,) = [path for path in complete_entries(cache) if (path / "add.klir").exists()]
    return entry


@pytest.mark.jax
def test_extract_prints_a_table_and_writes_whole_entries(jax_script: Path, tmp_path: Path) -> None:
    done = command("extract", str(jax_script), "--platform", "trn1", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f" for trn1 in {tmp_path}" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "result 128.0"
    assert lines[1].split() == ["module", "instructions", "kernels", "bytes", "ms", "entry"]
    assert any(line.split()[2] == "add" for line in lines[2:])
    entry = kernel_entry(tmp_path)
    assert entry.name.endswith("+e30acd3a")
    (call,) = load(entry / "model.hlo_module.pb").find_custom_calls()
    assert call.proto.custom_call_api_version == 2
    shown = command("kernels", str(entry), "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["calls"][0]["binary"] == str(entry / "add.klir")


@pytest.mark.jax
def test_json_is_one_document_and_a_failing_scripts_modules_stay(
    jax_script: Path, tmp_path: Path
) -> None:
    words = ("extract", str(jax_script), "-p", "trn1", "-o", str(tmp_path), "--json")
    done = command(*words, "--", "fail")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["schema"], document["exit_code"]) == ("nki-hlo/1", 1)
    assert any(module["kernels"] == ["add"] for module in document["modules"])
    assert all(is_complete(Path(module["path"])) for module in document["modules"])
    assert "result 128.0" in done.stderr
    assert "ValueError: on purpose" in done.stderr.splitlines()
    assert command(*words, "--", "fail", "42").returncode == 42


@pytest.mark.jax
def test_no_run_captures_the_same_modules(jax_script: Path, tmp_path: Path) -> None:
    ran, not_run = tmp_path / "ran", tmp_path / "not-run"
    first = run_script(jax_script, platform="trn1", output=ran, stdout_to_stderr=True)
    second = run_script(
        jax_script, platform="trn1", output=not_run, execute=False, stdout_to_stderr=True
    )
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert [Path(m.path).name for m in first.modules] == [Path(m.path).name for m in second.modules]
    done = command("extract", str(jax_script), "--no-run", "-o", str(not_run))
    assert "result 0.0" in done.stdout


@pytest.mark.jax
def test_keys_do_not_depend_on_folder_hash_seed_or_run(jax_script: Path, tmp_path: Path) -> None:
    names = []
    for iteration in range(2):
        folder = tmp_path / f"copy{iteration}" / ("deep" * iteration or "x")
        folder.mkdir(parents=True)
        copy = folder / jax_script.name
        copy.write_text(jax_script.read_text())
        run = run_script(
            copy,
            platform="trn1",
            output=folder / "out",
            stdout_to_stderr=True,
            environment=dict(
                os.environ, PYTHONHASHSEED=str(iteration), NKI_HLO_CACHE=str(folder / "kernels")
            ),
        )
        assert run.exit_code == 0
        names.append(sorted(Path(module.path).name for module in run.modules))
    assert names[0] == names[1]


@pytest.mark.jax
def test_environment_variables_alone_extract(jax_script: Path, tmp_path: Path) -> None:
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "compat")]),
        NEURON_PLATFORM_TARGET_OVERRIDE="trn1",
        NEURON_EXTRACT_GRAPHS_ONLY="1",
        NEURON_COMPILE_CACHE_URL=str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, str(jax_script)],
        capture_output=True, text=True, env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "result 0.0" in done.stdout
    assert kernel_entry(tmp_path).parent.name.startswith("neuronxcc-")


@pytest.mark.jax
def test_a_cache_that_becomes_unwritable_fails_the_program(
    jax_script: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "compat")]),
        JAX_PLATFORMS="neuron",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "file"),
    )
    done = subprocess.run(
        [sys.executable, str(jax_script)],
        capture_output=True, text=True, env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert "[HLO-CACHE-WRITE]" in done.stderr


@pytest.mark.jax
def test_both_executors_agree(jax_script: Path) -> None:
    outputs = [command("run", str(jax_script), "-e", name).stdout for name in ("cpu", "neff")]
    assert outputs == ["result 128.0\n"] * 2
