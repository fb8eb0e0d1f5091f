"""``nki-hlo evaluate`` and ``nki-hlo bisect``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlo_tools.cli import main
from hlo_tools.ir.loading import load

TEXT = """
HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  y = (f32[3], s32[]) parameter(1)
  z = f32[3] get-tuple-element(y), index=0
  twice = f32[3] OPCODE(x, z)
  ROOT r = f32[3] negate(twice)
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT.replace("OPCODE", "add"))
    return path


def array_module(tmp_path: Path, opcode: str) -> str:
    path = tmp_path / f"{opcode}.hlo"
    path.write_text(
        f"HloModule m\nENTRY e {{ x = f32[3] parameter(0)\n s = f32[3] {opcode}(x, x)\n"
        " ROOT r = f32[3] negate(s) }"
    )
    return str(path)


def test_fills_parameters(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(module), "--fill", "zeros", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [3]


@pytest.mark.parametrize("limit", ["--memory", "--work"])
def test_limits_are_told(module: Path, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(module), "--fill", "zeros", limit, "10"]) == 3
    assert "error[HLO-EVALUATE-LIMIT]" in capsys.readouterr().err


def test_calls_of_calls_are_counted_before_they_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["f0 { p = f32[] parameter(0)\n ROOT r = f32[] negate(p) }"]
    for n in range(1, 40):  # every other level a conditional, whose branches are alike
        lines.append(
            f"f{n} {{ p = f32[] parameter(0)\n a = f32[] call(p), to_apply=f{n - 1}\n"
            f" i = s32[] constant(0)\n ROOT r = f32[] conditional(i, a, a), "
            f"branch_computations={{f{n - 1}, f{n - 1}}} }}"
        )
    entry = "ENTRY e { p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=f39 }"
    path = tmp_path / "m.hlo"
    path.write_text("\n".join(["HloModule m", *lines, entry]))
    assert main(["evaluate", str(path), "--fill", "zeros"]) == 3
    assert "execute more than 1,000,000 instructions" in capsys.readouterr().err
    small = path.read_text().replace("to_apply=f39", "to_apply=f5")
    path.write_text(small)
    assert main(["evaluate", str(path), "--fill", "zeros"]) == 0
    assert main(["evaluate", str(path), "--fill", "zeros", "--calls", "100"]) == 3


def test_a_missing_input_is_a_usage_error(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(module)]) == 2
    assert "no value for parameter 0" in capsys.readouterr().err


def test_reads_and_writes_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    words = [
        "evaluate",
        array_module(tmp_path, "add"),
        "-i",
        f"x={tmp_path / 'x.npy'}",
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "output0.npy"), [-2, -4, -6])


def test_wrong_inputs_have_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    assert main(["evaluate", array_module(tmp_path, "add"), "-i", str(tmp_path / "x.npy")]) == 3
    assert "HLO-INPUTS" in capsys.readouterr().err
    assert main(["evaluate", array_module(tmp_path, "add"), "-i", str(tmp_path / "none.npy")]) == 3
    assert "HLO-NPY" in capsys.readouterr().err


@pytest.mark.jax
def test_compare_with_jaxlib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["evaluate", array_module(tmp_path, "multiply"), "--fill", "random", "--compare"]) == 0
    )
    assert "difference from jaxlib" in capsys.readouterr().out


NESTED = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  t = token[] after-all()
  c = bf16[2] constant({1, 2})
  n = f32[2] negate(p)
  u = () tuple()
  i = (bf16[2], (), f32[2]) tuple(c, u, p)
  ROOT r = (f32[2], token[], (bf16[2], (), f32[2])) tuple(n, t, i)
}
"""


@pytest.mark.jax
@pytest.mark.parametrize("mode", [["--compare"], ["--with", "jaxlib"]])
def test_results_in_nested_tuples_are_numbered_without_tokens(
    mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(NESTED)
    np.save(tmp_path / "x.npy", np.array([3, -4], np.float32))
    words = ["evaluate", str(tmp_path / "m.hlo"), "-i", str(tmp_path / "x.npy"), *mode]
    assert main([*words, "--json", "-o", str(tmp_path / "out")]) == 0
    rows = json.loads(capsys.readouterr().out)["outputs"]
    assert [(row["name"], row["dtype"]) for row in rows] == [
        ("output0", "float32"),
        ("output1", "bfloat16"),
        ("output2", "float32"),
    ]
    read = [np.load(tmp_path / "out" / f"output{number}.npy").tolist() for number in range(3)]
    assert read == [[-3, 4], [1, 2], [3, -4]]


@pytest.mark.parametrize("root", ["token[] after-all()", "() tuple()"])
def test_a_module_may_give_no_array(
    root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(f"HloModule m\nENTRY e {{ ROOT r = {root} }}")
    assert main(["evaluate", str(tmp_path / "m.hlo"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == []


def test_bisect_names_the_first_different_instruction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = array_module(tmp_path, "add"), array_module(tmp_path, "multiply")
    assert main(["bisect", first, second, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["instruction"] == "s"
    assert main(["bisect", first, first]) == 0


@pytest.mark.jax
def test_bisect_against_jaxlib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", array_module(tmp_path, "add")]) == 0
    assert "no difference" in capsys.readouterr().out


def test_a_damaged_module_is_refused_before_it_is_evaluated(
    tmp_path: Path, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = load(module)
    root = damaged.entry.root.proto
    root.operand_ids[0] = root.id + 1000
    damaged.save(tmp_path / "damaged.pb")
    assert main(["evaluate", str(tmp_path / "damaged.pb"), "--fill", "zeros"]) == 3
    err = capsys.readouterr().err
    assert "error[HLO-V" in err and "HLO-INTERNAL" not in err and "  help: " in err


def test_run_of_a_module_evaluates_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    file, array = array_module(tmp_path, "add"), str(tmp_path / "x.npy")
    for words in ([file, "-i", array], ["-i", array, file]):
        assert main(["run", *words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["command"] == "evaluate"


MANY = """HloModule m
ENTRY e {
  t = token[] parameter(0)
  x = f32[3] parameter(1)
  p = (f32[2], (s32[], bf16[3])) parameter(2)
  q = (s32[], bf16[3]) get-tuple-element(p), index=1
  h = bf16[3] get-tuple-element(q), index=1
  s = s4[2] parameter(3)
  ROOT r = (f32[3], bf16[3], s4[2], token[]) tuple(x, h, s, t)
}
"""


def test_arrays_of_all_kinds_go_in_and_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ml_dtypes

    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(MANY)
    x = np.array([1, 2, 3], np.float32)
    np.savez("xs.npz", x=x, s=np.array([-8, 7], np.int8))
    np.savez("p.npz", np.zeros(2, np.float32), np.int32(3), x.astype(ml_dtypes.bfloat16))
    assert main(["evaluate", "m.hlo", "-i", "xs.npz", "-i", "p=p.npz", "-o", "out"]) == 0
    read = [np.load(f"out/output{number}.npy") for number in range(3)]
    assert [array.dtype.name for array in read] == ["float32", "float32", "int8"]
    assert read[1].tolist() == [1, 2, 3] and read[2].tolist() == [-8, 7]
    np.savez("q.npz", np.zeros(2, np.float32), np.int32(3), read[1])
    capsys.readouterr()
    words = ["evaluate", "m.hlo", "-i", "x=out/output0.npy", "-i", "p=q.npz"]
    assert main([*words, "-i", "s=out/output2.npy"]) == 0


@pytest.mark.parametrize(
    "inputs, message",
    [
        (["x=wide.npy"], "is f32[3]{0}, the file contains float64[3]"),
        (["x=bits.npy"], "is f32[3]{0}, the file contains uint32[3]"),
        (["p=wide.npy"], "the file contains an array"),
        (["p=wide.npz"], "the file contains 1 array"),
        (["m.hlo"], "m.hlo: this is a module, not an array"),
        (["absent.npy"], "absent.npy: cannot be read: No such file"),
        (["objects.npy"], "it holds Python objects, which could run code"),
        (["cut.npy"], "cut.npy: it is damaged: "),
    ],
)
def test_what_a_file_holds_instead_is_told(
    inputs: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(MANY)
    np.save("wide.npy", np.zeros(3))
    np.save("bits.npy", np.zeros(3, np.uint32))
    np.savez("wide.npz", np.zeros(3))
    np.save("objects.npy", np.array([{}], dtype=object))
    Path("cut.npy").write_bytes(Path("wide.npy").read_bytes()[:100])
    assert main(["evaluate", "m.hlo", "--fill", "zeros", "-i", *inputs]) == 3
    err = capsys.readouterr().err
    assert message in err and "help:" in err


@pytest.mark.parametrize("tolerance", ["nan", "-1"])
def test_a_tolerance_is_a_number(
    tolerance: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("evaluate", "bisect"):
        words = [command, str(module), "--fill", "zeros", "--tolerance", tolerance]
        assert main(words) == 2
        assert "at least 0" in capsys.readouterr().err


@pytest.mark.jax
def test_jaxlib_gets_no_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text(MANY)
    assert main(["evaluate", str(tmp_path / "m.hlo"), "--fill", "random", "--compare"]) == 0
    assert capsys.readouterr().out.count("difference from jaxlib 0.0e+00") == 3


@pytest.mark.jax
def test_decompositions_run_with_jaxlib(tmp_path: Path) -> None:
    import jax

    lowered = jax.jit(jax.numpy.linalg.cholesky).lower(np.eye(3, dtype=np.float32))
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    (tmp_path / "m.pb").write_bytes(proto)
    matrix = np.array([[4, 2, 0], [2, 5, 1], [0, 1, 3]], np.float32)
    np.save(tmp_path / "x.npy", matrix)
    words = ["evaluate", str(tmp_path / "m.pb"), "-i", str(tmp_path / "x.npy")]
    assert main([*words, "--with", "jaxlib", "-o", str(tmp_path / "out")]) == 0
    actual = np.load(tmp_path / "out" / "output0.npy")
    np.testing.assert_allclose(actual, np.linalg.cholesky(matrix), rtol=1e-5)
