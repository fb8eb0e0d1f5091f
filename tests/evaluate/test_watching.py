"""Values of instructions during an evaluation: shown, written, and the first bad one found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.evaluate import Evaluator
from hlo_tools.evaluate.watching import Stopped, ValueWatch, reference_values

TEXT = """HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  st = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(st), index=0
  v = f32[3] get-tuple-element(st), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[3] broadcast(half), dimensions={}
  less = f32[3] subtract(v, halves), metadata={op_name="jit(f)/while/body/sub" source_file="model.py" source_line=12}
  root = f32[3] sqrt(less), metadata={op_name="jit(f)/while/body/sqrt" source_file="model.py" source_line=13}
  ROOT t = (s32[], f32[3]) tuple(next, root)
}
condition {
  st = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(st), index=0
  end = s32[] constant(4)
  ROOT c = pred[] compare(i, end), direction=LT
}
ENTRY main {
  x = f32[3] parameter(0)
  z = s32[] constant(0)
  start = (s32[], f32[3]) tuple(z, x)
  loop = (s32[], f32[3]) while(start), condition=condition, body=body
  result = f32[3] get-tuple-element(loop), index=1
  zero = f32[] constant(0)
  total = f32[] reduce(result, zero), dimensions={0}, to_apply=sum
  ROOT b16 = bf16[3] convert(result)
}
"""
X = np.array([3.0, 40.0, 0.8], np.float32)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    Path("m.hlo").write_text(TEXT)
    return "m.hlo"


def expected_values(x: np.ndarray) -> list[np.ndarray]:
    """The value of ``less`` in each run, until one is negative."""
    values: list[np.ndarray] = []
    while len(values) < 4:
        values.append(x - np.float32(0.5))
        if (values[-1] < 0).any():
            break
        x = np.sqrt(values[-1])
    return values


@pytest.mark.parametrize("x", [X, np.array([9.0, 0.6, 2.0], np.float32)])
def test_the_first_nan_is_found_in_its_run_with_its_line(x: np.ndarray) -> None:
    module = hlo_tools.load(TEXT.encode())
    watch = ValueWatch(module, stop_at="nan", patterns=["body/less"])
    with pytest.raises(Stopped) as caught:
        Evaluator(module, watch=watch).run([x])
    runs = expected_values(x)
    stop = caught.value
    assert (stop.value.computation, stop.value.instruction) == ("body", "root")
    assert stop.value.run == len(runs) and stop.value.source == "model.py:13"
    assert stop.value.nan == int((runs[-1] < 0).sum())
    (operand,) = stop.operands
    assert operand.instruction == "less" and operand.low == float(runs[-1].min())
    for value, wanted_value in zip(watch.values, runs, strict=True):
        np.testing.assert_array_equal(value.array, wanted_value)


def test_infinities_and_references(path: str) -> None:
    module = hlo_tools.load(path)
    twos = np.full(3, 2.0, np.float32)
    with pytest.raises(Stopped) as caught:
        Evaluator(module, watch=ValueWatch(module, stop_at="inf")).run([twos * np.inf])
    assert caught.value.value.instruction == "x"
    reference = {"less": [twos - 0.5, twos * 0]}
    watch = ValueWatch(module, reference=reference)
    with pytest.raises(Stopped, match="differs by") as caught:
        Evaluator(module, watch=watch).run([twos])
    assert caught.value.value.run == 2 and watch.compared == 2


def test_statistics_of_watched_values() -> None:
    module = hlo_tools.load(TEXT.encode())
    watch = ValueWatch(module, patterns=["%b16", "main/total", "loop"])
    Evaluator(module, watch=watch).run([X * 0 + 1])
    loop, array, total, half = watch.values
    assert [loop.tuple_index, array.tuple_index, total.tuple_index, half.dtype] == [
        0,
        1,
        -1,
        "bf16",
    ]
    assert array.nan == 3 and array.low is None and array.shape == (3,)
    assert loop.low == loop.high == loop.mean == 4.0 and loop.dtype == "s32"


def test_reducers_are_left_out() -> None:
    module = hlo_tools.load(TEXT.encode())
    for arguments in ({"patterns": ["sum/s"]}, {"reference": {"sum/s": [X]}}):
        with pytest.raises(HloError, match="HLO-NO-INSTRUCTION"):
            ValueWatch(module, **arguments)  # pyright: ignore[reportArgumentType]


def test_the_command_shows_and_writes_values(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", path, "-i", "x.npy"]
    assert main([*words, "--watch", "less", "--stop-at", "nan"]) == 1
    out = capsys.readouterr().out
    assert "%body/%less  f32[3]  [ 2.5, 39.5," in out
    assert "stopped at %body/%root  f32[3], run 3" in out and "model.py:13" in out
    assert "1 of 3 elements are nan" in out and "operand %body/%less" in out
    assert main([*words, "--stop-at", "nan", "--json"]) == 1
    stopped = json.loads(capsys.readouterr().out)["stopped"]
    assert (stopped["instruction"], stopped["run"], stopped["nan"]) == ("root", 3, 1)
    assert main([*words, "--dump", "values"]) == 0
    rows = json.loads(Path("values/index.json").read_text())["values"]
    runs = [row["run"] for row in rows if row["instruction"] == "less"]
    assert runs == [1, 2, 3, 4]
    files = {row["file"]: row for row in rows if row["instruction"] == "b16"}
    ((file, row),) = files.items()
    assert row["dtype"] == "bf16" and np.load(f"values/{file}").dtype == np.float32
    values = reference_values(Path("values"))
    np.testing.assert_array_equal(values["body/less"][0], X - np.float32(0.5))


def test_a_dump_is_a_reference(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", path, "-i", "x.npy", "--dump", "values"]) == 0
    assert main(["evaluate", path, "-i", "x.npy", "--stop-at", "values"]) == 0
    assert "compared with the reference" in capsys.readouterr().err
    Path("other.hlo").write_text(TEXT.replace("constant(0.5)", "constant(0.25)"))
    assert main(["evaluate", "other.hlo", "-i", "x.npy", "--stop-at", "values"]) == 1
    out = capsys.readouterr().out
    assert "stopped at %body/%half" in out and "differs by" in out


WRONG = {
    "no such pattern": (["--watch", "nothing*"], 3, "matches 'nothing*'"),
    "no reference": (["--stop-at", "missing.npz"], 3, "HLO-NPY"),
    "not an archive": (["--stop-at", "m.hlo"], 3, "HLO-NPY"),
    "two devices": (["--stop-at", "nan", "--devices", "2"], 2, "NumPy on one device"),
    "jaxlib": (["--watch", "x", "--with", "jaxlib"], 2, "NumPy on one device"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_refused(
    name: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, code, message = WRONG[name]
    assert main(["evaluate", path, "-i", "x.npy", *words]) == code
    assert message in capsys.readouterr().err
