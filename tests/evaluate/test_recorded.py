"""Snapshots replayed, and several devices, by ``nki-hlo evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hlo_tools import literal_of, schema
from hlo_tools.cli import main
from hlo_tools.ir.loading import load

TEXT = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  y = s32[2] parameter(1)
  a = f32[3] add(x, x)
  b = s32[2] negate(y)
  ROOT r = (f32[3], s32[2]) tuple(a, b)
}
"""


def snapshot(tmp_path: Path, result: list[float]) -> str:
    message = schema.HloSnapshot()
    message.hlo.hlo_module.CopyFrom(load(TEXT.encode()).proto)
    for array in (np.array([1, 2, 3], np.float32), np.array([4, 5], np.int32)):
        message.arguments.append(literal_of(array).proto)
    parts = [literal_of(np.array(result, np.float32)), literal_of(np.array([-4, -5], np.int32))]
    message.result.shape.CopyFrom(load(TEXT.encode()).entry.result_shape.proto)
    message.result.tuple_literals.extend(piece.proto for piece in parts)
    path = tmp_path / "snapshot.pb"
    path.write_bytes(message.SerializeToString())
    return str(path)


def test_a_snapshot_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", snapshot(tmp_path, [2, 4, 6])]) == 0
    assert (
        "2 of 2 outputs agree with the recorded results within 0.0001\n" in capsys.readouterr().out
    )
    assert main(["evaluate", snapshot(tmp_path, [2, 4, 8])]) == 1
    text = capsys.readouterr().out
    assert "1 of 2 outputs agree" in text and "largest difference 2.5e-01, of output0" in text
    assert main(["evaluate", snapshot(tmp_path, [2, 4, 8]), "--json"]) == 1
    outputs = json.loads(capsys.readouterr().out)["outputs"]
    assert [row["difference"] for row in outputs] == [0.25, 0.0]


def test_given_inputs_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", snapshot(tmp_path, [2, 4, 8]), "--fill", "zeros"]) == 0
    assert "recorded" not in capsys.readouterr().out


def test_the_recorded_run_of_each_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = schema.HloUnoptimizedSnapshot()
    message.hlo_module.CopyFrom(load(SUM.encode()).proto)
    for number in (1, 10):
        partition = message.partitions.add()
        partition.arguments.append(literal_of(np.array([number, 0], np.float32)).proto)
    path = tmp_path / "snapshot.pb"
    path.write_bytes(message.SerializeToString())
    assert main(["evaluate", str(path), "-o", str(tmp_path / "out")]) == 0
    for device in (0, 1):
        actual = np.load(tmp_path / "out" / f"device{device}" / "output0.npy")
        np.testing.assert_array_equal(actual, [11, 0])


SUM = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={GROUPS}, to_apply=add
}
"""
SUM = SUM.replace("GROUPS", "{0,1}")


@pytest.mark.parametrize(
    ("groups", "attributes", "words", "expected"),
    [
        ("{0,1}", "", [], [3, 3]),
        ("{0,1,2,3}", "", [], [10, 10, 10, 10]),
        ("{0,2},{1,3}", ", channel_id=1, use_global_device_ids=true", [], [4, 6, 4, 6]),
        ("{0,1}", "", ["--partitions", "2"], [4, 6, 4, 6]),
    ],
)
def test_devices(
    groups: str, attributes: str, words: list[str], expected: list[float], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "m.hlo"
    path.write_text(SUM.replace("{{0,1}}", f"{{{groups}}}{attributes}"))
    for number in range(len(expected)):
        np.save(tmp_path / f"x{number}.npy", np.full(2, number + 1, np.float32))
    count = ["--devices", str(len(expected)), *words]
    inputs = ["-i", str(tmp_path / "x{}.npy"), "-o", str(tmp_path / "out")]
    assert main(["evaluate", str(path), *count, *inputs]) == 0
    assert capsys.readouterr().out.count("device ") == len(expected)
    outputs = [
        np.load(tmp_path / "out" / f"device{n}" / "output0.npy")[0] for n in range(len(expected))
    ]
    assert outputs == expected
    assert main(["evaluate", str(path), *count, "--fill", "random", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["devices"]) == len(expected)


def test_devices_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(SUM)
    words = ["evaluate", str(path), "--fill", "zeros", "--devices"]
    assert main([*words, "3", "--partitions", "2"]) == 3
    assert "HLO-INPUTS" in capsys.readouterr().err
    assert main([*words, "2", "--compare"]) == 2
