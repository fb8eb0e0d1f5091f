"""The vendor's commands: command lines as its pages and public logs print them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neff.cli import neuronx_cc, spike_run
from neff.container import open_package, read
from neff.runtime import load

BASE = "--framework XLA --target trn1"
ROOT = Path(__file__).resolve().parents[2]
DENSE = """HloModule dense
ENTRY main {
  x = f32[64,96]{1,0} parameter(0)
  w = f32[96,32]{1,0} parameter(1)
  ROOT y = f32[64,32]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
UNARY = "HloModule m\nENTRY main {{\n  x = {0}[8] parameter(0)\n  ROOT y = {0}[8] {1}(x)\n}}\n"


def main(words: str) -> int:
    return neuronx_cc.main(words.split())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dense.hlo").write_text(DENSE)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "target", "output"),
    [
        # The blog post on NEFFs from NKI kernels, step 3.
        ("compile --framework XLA --target trn1 dense.hlo -o out.neff", "trn1", "out.neff"),
        # The reference guide's example, dashes as its page prints them.
        (
            "compile dense.hlo \u2014-framework XLA -\u2014target trn1 \u2014-model-type transformer "
            "\u2014-output bert.neff",
            "trn1",
            "bert.neff",
        ),
        # nkipy.
        (
            "compile --framework XLA dense.hlo --pipeline compile SaveTemps --target trn2 "
            "--output=k.neff --lnc 1 --internal-tensorizer-opt-level=2",
            "trn2",
            "k.neff",
        ),
        # Options before the command: a log in aws-neuron-sdk issue 819.
        (
            "--target=trn1 compile --framework XLA dense.hlo --output early.neff "
            "--model-type=transformer --auto-cast=none --verbose=35",
            "trn1",
            "early.neff",
        ),
        (
            "--output compile --framework XLA --target trn2 compile dense.hlo "
            "--disable-internal-io-dge --layer-unroll-factor=1",
            "trn2",
            "compile",
        ),
        # torch_neuronx and optimum-neuron.
        (
            "compile --framework=XLA dense.hlo --output o.neff --target=trn1 "
            "--model-type=cnn-training -O1 --enable-saturate-infinity --verbose=35",
            "trn1",
            "o.neff",
        ),
        ("compile dense.hlo --framework XLA --target trn3 --auto-cast all", "trn3", "file.neff"),
    ],
)
def test_printed_command_lines(words: str, target: str, output: str) -> None:
    assert main(words) == 0
    assert read(Path(output)).target == target


def test_the_neff_is_the_one_of_nki_neff_build(folder: Path) -> None:
    from neff.cli import main as nki_neff

    assert main(f"compile dense.hlo {BASE} -o a.neff") == 0
    assert nki_neff(["build", "dense.hlo", "--target=trn1", "-o", "b.neff"]) == 0
    assert (folder / "a.neff").read_bytes() == (folder / "b.neff").read_bytes()


def test_temporary_files_stay_where_asked(folder: Path) -> None:
    words = f"compile dense.hlo {BASE} --output=k.neff --pipeline compile"
    assert main(words) == 0 and not (folder / "k.SaveTemps").exists()
    for _ in range(2):
        assert main(f"{words} SaveTemps") == 0
    assert "dot(" in (folder / "k.SaveTemps" / "module.hlo").read_text()
    temporary = {path.relative_to(folder / "k.SaveTemps").as_posix(): path.read_bytes()
            for path in (folder / "k.SaveTemps").rglob("*") if path.is_file()}  # fmt: skip
    members = open_package(folder / "k.neff").members
    assert temporary.keys() - members.keys() == {"module.hlo"}
    assert all(temporary[name] == bytes(data) for name, data in members.items())


def test_flags_reach_the_compiler(folder: Path) -> None:
    x = np.full((64, 96), 1 + 2**-12, np.float32)
    w = np.ones((96, 32), np.float32)
    results = []
    for cast in ("none", "all"):
        assert main(f"compile dense.hlo {BASE} --auto-cast {cast}") == 0
        results.append(load(folder / "file.neff").run({"input0": x, "input1": w})["output0"])
    assert np.allclose(results[0], x @ w, rtol=1e-6)
    assert (results[1] == 96).all()  # bfloat16 has no 2**-12 beside 1


def test_flags_without_effect_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = "compile dense.hlo --framework XLA --target trn1 --enable-dge --model-type=generic"
    assert main(words + " --enable-dge") == 0
    done = capsys.readouterr()
    assert done.err == "without effect here: --enable-dge, --model-type=generic\n"
    assert done.out.strip() == "Compiler status PASS"
    assert main(words + " --verbose=35") == 0
    assert capsys.readouterr().err == ""


def test_levels_and_log_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "compile dense.hlo --framework XLA --target trn1 --verbose info --logfile l.txt"
    assert main(words) == 0
    assert "compiling\n" in capsys.readouterr().out
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO \d+ \[neuronx-cc\]: compiling"
    assert re.search(line, (folder / "l.txt").read_text())
    assert not (folder / "log-neuron-cc.txt").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            UNARY.format("c64", "negate").replace("negate(x)", "atan2(x, x)"),
            "NCC_EVRF004",
        ),
        (UNARY.format("f64", "negate"), "NCC_ESPP004"),
        (DENSE.replace("f32[64,32]", "f32[64,31]"), "NCC_EVRF064"),
        (
            'HloModule m\nENTRY main {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] custom-call(x), '
            'custom_call_target="Unheard"\n}\n',
            "NCC_EVRF015",
        ),
    ],
)  # fmt: skip
def test_the_vendors_codes(
    text: str, code: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.hlo").write_text(text)
    assert main(f"compile bad.hlo {BASE}") == neuronx_cc.FAILED
    assert f"error[{code}]" in capsys.readouterr().err
    assert f"error[{code}]" in (folder / "log-neuron-cc.txt").read_text()
    assert not (folder / "file.neff").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("compile dense.hlo --framework XLA", "required: --target"),
        ("compile dense.hlo --target trn1", "required: --framework"),
        ("compile --framework XLA --target trn1", "given: none"),
        ("compile a.hlo b.hlo --framework XLA --target trn1", "given: a.hlo and b.hlo"),
        ("compile dense.hlo --framework XLA --target trn1 --fast", "--fast is not a flag"),
        ("compile dense.hlo --framework XLA --target trn1 --verbose loud", "cannot be 'loud'"),
        ("compile dense.hlo --framework XLA --target trn1 --logfile no/l", "cannot be written"),
        ("compile dense.hlo --framework TENSORFLOW --target trn1", "allowed are XLA"),
        ("dump", "'dump' is not a command"),
        ("--target=trn1 dump", "is not a command"),
        ("--target=trn1 compile --framework XLA", "given: none"),
        ("list-operators", "takes --framework XLA"),
    ],
)
def test_wrong_usage(words: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert text in error and "error[NCC_EARG002]" in error


def test_operators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("list-operators --framework XLA") == 0
    names = capsys.readouterr().out.split()
    assert names == sorted(set(names))
    # Names of the vendor's own list, and what its compiler lacks.
    assert {"Abs", "Add", "DotGeneral", "Rsqrt", "RngBitGenerator", "Tanh", "Cholesky"} <= set(
        names
    )
    assert not {"Copy", "Fusion", "RaggedAllToAll"} & set(names)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("--version") == 0 and "NeuronX Compiler version" in capsys.readouterr().out
    assert main("compile --help") == 0 and "--auto-cast-type" in capsys.readouterr().out
    assert main("") == 2


def test_the_entry_points(folder: Path) -> None:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join((str(ROOT), str(ROOT / "compat"))))
    code = (
        "import sys; from neuronxcc.driver.CommandDriver import main\n"
        "sys.argv = 'neuronx-cc compile dense.hlo --framework XLA --target trn1'.split()\n"
        "assert main() == 0"
    )
    for words in (["-c", code], ["-m", "neuronxcc", "list-operators", "--framework=XLA"]):
        subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True)
    assert (folder / "file.neff").exists()


# ----------------------------------------------------------------------------------- spike-run


@pytest.fixture
def arrays(folder: Path) -> dict[str, np.ndarray]:
    assert main(f"compile dense.hlo {BASE} -o d.neff") == 0
    random = np.random.default_rng(0)
    by_name = {"x": random.random((64, 96), np.float32)}
    by_name |= {f"w_{core}": random.random((96, 32), np.float32) for core in (0, 1)}
    for name, array in by_name.items():
        np.save(folder / f"{name}.npy", array)
    return by_name


def test_one_core(
    folder: Path, arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    words = "d.neff -i input0=x.npy -i input1=w_0.npy -o results -v --benchmark --iterations 3"
    assert spike_run.main(words.split()) == 0
    actual = np.load(folder / "results" / "output0.npy")
    assert np.allclose(actual, arrays["x"] @ arrays["w_0"], rtol=1e-5)
    assert "iterations=3" in capsys.readouterr().out


def test_several_cores(
    folder: Path, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEURON_RT_NUM_CORES", raising=False)
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-1")
    words = "d.neff -i input0=x.npy -i input1=w_{rank}.npy -o results --num-cores 2"
    assert spike_run.main(words.split()) == 0
    for core in (0, 1):
        actual = np.load(folder / "results" / f"core_{core}" / "output0.npy")
        assert np.allclose(actual, arrays["x"] @ arrays[f"w_{core}"], rtol=1e-5)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("none.neff", "Failed to open NEFF file"),
        ("d.neff -i input0=x.npy", "Missing input"),
        ("d.neff -i input0=none.npy", "No such file"),
        ("d.neff --num-cores 3", "--num-cores=3 conflicts with NEURON_RT_VISIBLE_CORES=0-1"),
        ("d.neff --num-cores 2 --collective", "Missing input"),
    ],
)
def test_what_does_not_run(
    words: str,
    text: str,
    arrays: dict[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-1")
    assert spike_run.main(words.split()) == 1
    assert text in capsys.readouterr().err
