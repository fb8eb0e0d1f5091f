"""The overview of a module equals what loading it shows."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools import HloError, Module, outline
from hlo_tools.converting import FORMATS, render
from hlo_tools.outline import load_outline, shape_of
from tests.hlo.hlo_examples import F32, example


def called() -> Module:
    module = Module(example())
    module.entry.add("custom-call", F32, custom_call_target="k", backend_config=b"config")
    return module


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_as_loaded(form: str) -> None:
    module = called()
    found = load_outline(render(module, form))
    assert found.name == "example" and found.instruction_count == 11
    assert found.opcodes() == dict(
        sorted(Counter(v.opcode for v in module.instructions).items(), key=lambda x: (-x[1], x[0]))
    )
    views = list(module.instructions)
    assert [i.name for i in found.instructions] == [view.name for view in views]
    assert [str(i.shape) for i in found.instructions] == [str(view.shape) for view in views]
    [call] = found.custom_calls("k")
    assert call.proto.backend_config == b"config"
    assert [c.name for c in found.computations] == ["region_0", "main"]
    assert [len(c) for c in found.computations] == [3, 8]
    assert [p.opcode for p in found.computations[0]] == ["parameter", "parameter", "add"]


def test_shapes_are_counted_by_their_bytes() -> None:
    shapes = load_outline(called().to_bytes()).shapes()
    counts = {(opcode, str(shape_of(data))): n for (opcode, data), n in shapes.items()}
    assert counts["parameter", "f32[]"] == 2 and counts["parameter", "f32[2,3]{1,0}"] == 2


def test_large_constants_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "_CUT_FROM", 100)
    monkeypatch.setattr(outline, "_CONSTANTS_OVER", 10)
    assert load_outline(called().to_bytes()).instruction_count == 11


def test_files_compressed_and_damaged(tmp_path: Path) -> None:
    data = called().to_bytes()
    (tmp_path / "m.gz").write_bytes(gzip.compress(data))
    assert load_outline(tmp_path / "m.gz").name == "example"
    (tmp_path / "cut.pb").write_bytes(data[: len(data) // 2])
    for path in ("cut.pb", "none.pb"):
        with pytest.raises(HloError) as caught:
            load_outline(tmp_path / path)
        assert str(tmp_path / path) in caught.value.place
    broken = bytearray(data)
    broken[data.index(b"product")] = 0xFF
    with pytest.raises(HloError, match="UTF-8"):
        load_outline(bytes(broken))


def test_bytes_that_are_no_shape() -> None:
    with pytest.raises(HloError) as caught:
        shape_of(b"\x1a\x05\x01")
    assert caught.value.code == "HLO-TRUNCATED"


def test_it_is_a_public_name() -> None:
    assert hlo_tools.load_outline is load_outline
