"""``nki-hlo`` as a process: exit codes, errors, JSON, pipes, speed."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools import Module, array_shape
from hlo_tools.cli import main
from hlo_tools.cli.commands import PROGRAM as NKI_HLO
from hlo_tools.errors import HloFileError
from hlo_tools.kernels.backend_config import BackendConfig, encode
from neff.cli import main as nki_neff
from neff.cli.commands import PROGRAM as NKI_NEFF

F32 = array_shape("f32", (4, 8))


def made(**config: object) -> Module:
    """main(a) = kernel call of ``double``, whose file is missing unless written."""
    module = Module.new("made")
    body = module.add_computation("main")
    a = body.add("parameter", F32, name="a")
    settings = {"binary": "double.klir", "input_names": ["a"], "output_names": ["out"]} | config
    call = body.add(
        "custom-call", F32, [a], custom_call_target="AwsNeuronCustomNativeKernel",
        backend_config=encode(BackendConfig(func_name="double", **settings)).encode(),  # pyright: ignore
    )  # fmt: skip
    call.proto.metadata.source_file, call.proto.metadata.source_line = "train.py", 12
    body.set_root(call)
    return module


@pytest.fixture
def file(tmp_path: Path) -> str:
    made().save(tmp_path / "m.pb")
    return str(tmp_path / "m.pb")


def process(
    environment: dict[str, str], *words: str, data: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "hlo_tools.cli", *words]
    return subprocess.run(command, capture_output=True, input=data, env=environment)


def test_show(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", file]) == 0
    out = capsys.readouterr().out
    assert "module        made" in out
    assert "entry         %main(a: f32[4,8]{1,0}) -> f32[4,8]{1,0}" in out
    assert "ROOT %custom-call" in out and "train.py:12" in out
    assert main(["show", file, "--opcode", "parameter"]) == 0
    assert "train.py" not in capsys.readouterr().out
    assert main(["show", file, "-s"]) == 0
    assert "ENTRY" not in capsys.readouterr().out


def test_show_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", file]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "nki-hlo/1" and document["command"] == "show"
    assert document["module"]["instructions"] == 2 and document["module"]["kernels"] == 1
    assert document["computations"][0]["instructions"][1]["source"] == "train.py:12"


def test_kernel_file_missing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", file]) == 3
    shown = capsys.readouterr()
    assert "kernel      double" in shown.out and "double.klir" in shown.out
    assert "error[HLO-KERNEL-MISSING]" in shown.err and "%custom-call" in shown.err
    assert "help:" in shown.err


def test_kernels_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "neuronxcc-0" / "MODULE_1+2"
    folder.mkdir(parents=True)
    made().save(folder / "model.hlo_module.pb")
    assert main(["kernels", "--json", str(tmp_path)]) == 3
    document = json.loads(capsys.readouterr().out)
    [call] = document["calls"]
    assert call["kernel"] == "double" and call["grid"] == []
    assert call["operands"] == [{"name": "a", "instruction": "a", "shape": "f32[4,8]{1,0}"}]
    assert call["error"]["code"] == "HLO-KERNEL-MISSING"
    assert call["binary"] == str(folder / "double.klir")
    assert main(["kernels", str(folder.parent / "none")]) == 3
    (tmp_path / "empty").mkdir()
    assert main(["kernels", str(tmp_path / "empty")]) == 3
    assert "error[HLO-NO-MODULE]" in capsys.readouterr().err


def test_a_configuration_that_does_not_decode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = made()
    module.find_custom_calls()[0].proto.backend_config = b"!!"
    module.touch()
    module.save(tmp_path / "m.pb")
    assert main(["kernels", str(tmp_path / "m.pb")]) == 3
    assert "error[HLO-CONFIG]" in capsys.readouterr().err


def test_each_program_names_the_commands_of_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = {command.name for command in NKI_HLO.commands}
    there = {command.name for command in NKI_NEFF.commands}
    assert set(NKI_HLO.elsewhere) == there - here
    assert set(NKI_NEFF.elsewhere) >= here - there
    assert nki_neff(["extract", "x.py"]) == 2
    assert "did you mean 'nki-hlo extract'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["shw"], 2, "did you mean 'show'"),
        (["build"], 2, "did you mean 'nki-neff build'?"),
        (["zzz"], 2, "zzz"),
        (["show"], 2, "Missing argument"),
        (["--color", "sometimes", "show", "x"], 2, "not one of auto, always, never"),
        (["show", "--no-such"], 2, "--no-such"),
        (["show", "/nowhere/m.pb"], 3, "error[HLO-READ] /nowhere/m.pb: cannot be read"),
    ],
)
def test_errors(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    shown = capsys.readouterr()
    assert message in shown.err and shown.out == ""
    assert "error[" in shown.err and "help:" in shown.err and "Traceback" not in shown.err


def test_truncated_module(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(file).read_bytes()
    Path(file).write_bytes(data[: len(data) // 2])
    assert main(["show", file]) == 3
    assert f"error[HLO-TRUNCATED] {file}:byte " in capsys.readouterr().err


def test_debug_shows_the_traceback_wherever_it_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--debug", "show", "/nowhere"], ["show", "/nowhere", "--debug"]):
        assert main(words) == 3
        assert "Traceback" in capsys.readouterr().err


def test_a_fault_of_ours_is_4_and_says_so(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hlo_tools.cli.show.open_module", lambda *_, **__: 1 // 0)
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    assert main(["show", file]) == 4
    printed = capsys.readouterr().err
    assert (
        "error[HLO-INTERNAL]: ZeroDivisionError" in printed
        and "this is a bug of nki-hlo" in printed
    )
    monkeypatch.setenv("NKI_HLO_UNGUARDED", "1")
    with pytest.raises(ZeroDivisionError):
        main(["show", file])


def test_no_words_is_help_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "Usage: nki-hlo" in shown.out + shown.err and "error" not in shown.err


def test_as_a_process_stdin_color_and_pipe(file: str, python_environment: dict[str, str]) -> None:
    done = process(python_environment, "show", "-", data=Path(file).read_bytes())
    assert done.returncode == 0 and b"made" in done.stdout
    assert b"\x1b[" not in done.stdout
    colored = process(python_environment, "--color", "always", "show", file)
    assert b"\x1b[1m" in colored.stdout
    quoted = f"{sys.executable} -m hlo_tools.cli show {file}"
    script = f"set -o pipefail; {{ {quoted}; echo $? >&2; }} | true"
    piped = subprocess.run(["bash", "-c", script], capture_output=True, env=python_environment)
    assert piped.stderr == b"0\n"


def test_help_imports_no_command_and_no_numpy(python_environment: dict[str, str]) -> None:
    code = (
        "import sys; from hlo_tools.cli import main; main(['--help']);"
        "loaded = {'numpy', 'google.protobuf', 'hlo_tools.cli.show'} & set(sys.modules);"
        "sys.exit(9 if loaded else 0)"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, env=python_environment).returncode == 0


# -------------------------------------------- what a person gives by mistake, or for short


def entry_of(folder: Path, name: str = "entry") -> Path:
    """A folder as an extraction writes it: the module and the kernel that it calls."""
    import nki_lang.isa as nisa
    import nki_lang.language as nl
    from nki_lang import klir, trace

    def double(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        tile = nl.load(a)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(out, tile)
        return out

    kernel = trace(double, (np.zeros((4, 8), np.float32),))
    entry = folder / name
    entry.mkdir()
    klir.write(kernel, entry / "double.klir")
    module = made(output_names=[tensor.name for tensor in kernel.outputs])
    module.save(entry / "model.hlo_module.pb")
    return entry


def test_a_folder_with_one_module_is_that_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_of(tmp_path)
    assert main(["show", str(entry)]) == 0
    assert "module        made" in capsys.readouterr().out
    assert main(["evaluate", str(entry), "--fill", "zeros"]) == 0
    assert "output0" in capsys.readouterr().out
    entry_of(tmp_path, "other")
    assert main(["graph", str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert f"error[HLO-MODULES] {tmp_path}: the folder contains 2 modules" in err
    assert f"name the file, for instance {entry / 'model.hlo_module.pb'}" in err


def test_a_kernel_file_is_no_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(entry_of(tmp_path) / "double.klir")]) == 3
    err = capsys.readouterr().err
    assert "error[HLO-NOT-HLO]" in err and "double.klir: this is a kernel file" in err
    assert "nki-hlo kernels" in err


def test_verify_looks_at_the_kernel_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_of(tmp_path)
    assert main(["verify", str(tmp_path)]) == 0
    kernel = entry / "double.klir"
    kernel.write_bytes(kernel.read_bytes()[:-9])
    capsys.readouterr()
    assert main(["verify", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "error[HLO-KERNEL-DAMAGED] %main/%custom-call" in out
    assert out.count(str(kernel)) == 1 and "(train.py:12)" in out
    assert "help: copy the module's folder again" in out + err
    kernel.unlink()
    assert main(["verify", str(tmp_path), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["computation"]) == ("HLO-KERNEL-MISSING", "main")
    assert finding["remedy"]


def test_verify_of_standard_input_has_no_folder_for_kernels(tmp_path: Path) -> None:
    data = (entry_of(tmp_path) / "model.hlo_module.pb").read_bytes()
    assert process(dict(os.environ), "verify", "-", data=data).returncode == 0


def test_what_the_system_refuses_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "afile").touch()
    entry = str(entry_of(tmp_path))
    assert main(["evaluate", entry, "--fill", "zeros", "-o", str(tmp_path / "afile")]) == 3
    err = capsys.readouterr().err
    assert f"error[HLO-IO] {tmp_path / 'afile'}: File exists\n  help: " in err


def test_a_neff_is_not_taken_for_a_damaged_module(tmp_path: Path) -> None:
    file = tmp_path / "x.neff"
    file.write_bytes(struct.pack("<QQ", 1, 1024) + bytes(1100))
    with pytest.raises(HloFileError, match="this is a NEFF, not a module") as failure:
        hlo_tools.load(file)
    assert "nki-neff info" in str(failure.value)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["slice", "FILE", "-i", "custom-cal"], 3, "did you mean %custom-call?"),
        (["show", "FILE", "-c", "mian"], 3, "did you mean %main? it has %main"),
        (["show", "FILE", "--opcode", "paramter"], 2, "did you mean parameter"),
        (
            ["opt", "FILE", "-p", "outlining{instructions=custom-cal}"],
            3,
            "did you mean %custom-call?",
        ),
        (["lint", "FILE", "--select", "NCC_EVFR004"], 2, "did you mean NCC_EVRF004"),
        (["opt", "--list", "-p", "scedule"], 2, "did you mean schedule?"),
    ],
)
def test_names_that_were_misspelled(
    file: str, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file if word == "FILE" else word for word in words]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "verify", "lint", "stats", "opt"])
@pytest.mark.parametrize("content", [b"", b"hello", b"{}{", b"\x0a\xff"])
def test_what_is_wrong_with_an_input_names_it(
    tmp_path: Path, command: str, content: bytes, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "x.pb").write_bytes(content)
    more = ["-p", "dce"] if command == "opt" else []
    assert main([command, str(tmp_path / "x.pb"), *more]) == 3
    err = capsys.readouterr().err
    assert f"] {tmp_path / 'x.pb'}:" in err and "help:" in err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main([command, "-", *more]) == 3
    assert "] <stdin>:" in capsys.readouterr().err


def test_opt_takes_a_folder_with_one_module(file: str, tmp_path: Path) -> None:
    assert main(["opt", str(tmp_path), "-p", "dce", "-o", str(tmp_path / "out.hlo")]) == 0
    assert (tmp_path / "out.hlo").read_text().startswith("HloModule made")


def test_the_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("nki-hlo ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_closed_streams_are_no_traceback(
    closed: str, file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    command = f"{sys.executable} -m hlo_tools.cli show {file} {closed}"
    assert subprocess.run(command, shell=True).returncode == 0
    assert "Traceback" not in capfd.readouterr().err
