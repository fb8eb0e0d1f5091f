"""Statistics: against XLA's own cost analysis, and by hand where XLA says nothing."""

from __future__ import annotations

import base64
import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from hlo_tools import HloError, HloFileError, Module, load
from hlo_tools.cli import main
from hlo_tools.rewrite.trip_counts import trip_count
from hlo_tools.stats import Statistics, statistics
from hlo_tools.text import parse
from tests.stats.cases import CASES, module_text


def of_text(text: str) -> Statistics:
    return statistics(text.encode())


@pytest.mark.xla_text
@pytest.mark.parametrize("name", CASES)
def test_counts_as_xla_does(name: str) -> None:
    import jax.extend.backend
    from jaxlib import _hlo, _jax  # pyright: ignore[reportAttributeAccessIssue]

    text = module_text(name)
    client = jax.extend.backend.get_backend("cpu")
    expected = _jax.hlo_module_cost_analysis(client, _hlo.hlo_module_from_text(text))
    # One turn of a loop is what XLA counts; ours would count known turns.
    stats = statistics(Module(parse(text)), trips={})
    assert stats.flops == expected.get("flops", 0)
    assert stats.transcendentals == expected.get("transcendentals", 0)
    assert stats.bytes == expected.get("bytes accessed", 0)


@pytest.mark.parametrize("name", CASES)
def test_what_it_holds_is_what_the_views_show(name: str) -> None:
    module = Module(parse(module_text(name)))
    stats = statistics(module.to_bytes())
    views = list(module.instructions)
    assert {o.opcode: o.count for o in stats.opcodes} == Counter(view.opcode for view in views)
    constants = [view.shape.byte_size for view in views if view.opcode == "constant"]
    assert (stats.constants, stats.constant_bytes) == (len(constants), sum(constants))
    assert stats.parameter_bytes == sum(view.shape.byte_size for view in module.entry.parameters)
    assert stats.result_bytes == module.entry.result_shape.byte_size
    assert [(c.name, c.instructions) for c in stats.computations] == [
        (computation.name, len(computation)) for computation in module.computations
    ]


LOOP = """
HloModule loop
%body { %p = (s32[], f32[8]) parameter(0)
 %n = s32[] get-tuple-element(%p), index=0
 %x = f32[8] get-tuple-element(%p), index=1
 %one = s32[] constant(1)
 %m = s32[] add(%n, %one)
 %y = f32[8] multiply(%x, %x)
 ROOT %t = (s32[], f32[8]) tuple(%m, %y) }
%condition { %p = (s32[], f32[8]) parameter(0)
 %n = s32[] get-tuple-element(%p), index=0
 %limit = s32[] LIMIT
 ROOT %r = pred[] compare(%n, %limit), direction=LT }
ENTRY %main { %x = f32[8] parameter(0)
 %zero = s32[] constant(0)
 %start = (s32[], f32[8]) tuple(%zero, %x)
 %w = (s32[], f32[8]) while(%start), condition=%condition, body=%body CONFIG
 ROOT %r = f32[8] get-tuple-element(%w), index=1 }
"""


def loop(limit: str = "constant(10)", config: str = "") -> str:
    return LOOP.replace("LIMIT", limit).replace("CONFIG", config)


def test_loops_count_as_often_as_they_run() -> None:
    stats = statistics(Module(parse(loop())))
    assert stats.flops == 10 * (1 + 8) + 10
    assert stats.unknown_loops == 0
    runs = {c.name: c.runs for c in stats.computations}
    assert runs == {"body": 10, "condition": 10, "main": 1}


def test_a_written_trip_count_is_believed() -> None:
    config = ', backend_config={"known_trip_count":{"n":"3"}}'
    assert of_text(loop(config=config)).flops == 3 * 9 + 3


@pytest.mark.parametrize("config", ['{"known_trip_count":3}', '{"known_trip_count"'])
def test_a_strange_trip_count_is_not_believed(config: str) -> None:
    module = Module(parse(loop('custom-call(), custom_call_target="x"')))
    view = module.entry.find("w")
    view.proto.backend_config = config.encode()
    assert statistics(module).unknown_loops == 1


def test_a_loop_of_unknown_length_counts_once() -> None:
    stats = of_text(loop('custom-call(), custom_call_target="x"'))
    assert (stats.flops, stats.unknown_loops) == (1 + 8 + 1, 1)


def test_damaged_loops_have_an_unknown_length() -> None:
    """Each instruction in turn loses its operands, or takes itself as its operand."""
    text = (
        loop()
        .replace("tuple(%zero, %x)", "tuple(%copied, %x)")
        .replace("%start =", "%copied = s32[] copy(%zero)\n %start =")
    )
    data = parse(text).SerializeToString()
    size = len(list(Module(parse(text)).instructions))
    for index, itself in itertools.product(range(size), (False, True)):
        module = load(data)
        view = list(module.instructions)[index]
        view.proto.operand_ids[:] = [view.id] if itself and view.operands else []
        damaged = module.proto.SerializeToString()
        assert all(trip_count(inst) in (10, None) for inst in load(damaged).instructions)


def test_constants_parameters_and_results() -> None:
    stats = of_text(
        "HloModule m\nENTRY e { x = f32[3] parameter(0)\n c = f32[3] constant({1,2,3})\n"
        " s = bf16[] constant(1)\n ROOT r = (f32[3], bf16[]) tuple(c, s) }"
    )
    assert (stats.constants, stats.constant_bytes) == (2, 14)
    assert (stats.parameter_bytes, stats.result_bytes) == (12, 14)
    assert stats.intensity == 0.0


def kernel_call(record: object) -> str:
    config = base64.b64encode(json.dumps(record).encode()).decode()
    return (
        "HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] custom-call(x), "
        f'custom_call_target="AwsNeuronCustomNativeKernel", backend_config="{config}" }}'
    )


def test_kernels_are_named() -> None:
    stats = of_text(kernel_call({"func_name": "scale", "grid": [2, 4], "mac_count": 7}))
    (kernel,) = stats.kernels
    assert (kernel.name, kernel.grid, kernel.calls) == ("scale", (2, 4), 1)
    assert (kernel.bytes, kernel.macs) == (32, 7)


@pytest.mark.parametrize("record", [[], {"func_name": 3, "grid": 4}, {}])
def test_a_strange_kernel_configuration_is_no_error(record: object) -> None:
    assert len(of_text(kernel_call(record)).kernels) == 1


def test_a_module_that_refers_to_nothing_is_refused() -> None:
    module = Module(parse(module_text("call")))
    module.entry.root.proto.called_computation_ids[:] = [77]
    with pytest.raises(HloFileError) as caught:
        statistics(module.proto.SerializeToString())
    assert caught.value.code == "HLO-REFERENCE"


def test_operands_that_are_missing_are_no_error() -> None:
    for name in ("dot", "convolution", "reduce", "scatter", "gather", "triangular-solve"):
        module = Module(parse(module_text(name)))
        del module.entry.root.proto.operand_ids[:]
        assert statistics(module.proto.SerializeToString()).flops == 0


def test_sizes_that_no_machine_has_are_counted() -> None:
    """A size of a damaged file may be beyond 64 bits."""
    assert statistics(sized(1 << 62, 1 << 20)).bytes > 1 << 80


def sized(*dimensions: int) -> bytes:
    module = Module(parse(module_text("add")))
    for row in module.entry.proto.instructions:
        row.shape.dimensions[:] = dimensions
    return module.proto.SerializeToString()


@pytest.mark.parametrize(
    ("size", "code", "message"),
    [(-5, "HLO-DAMAGED", "a negative extent"), (-(1 << 63), "HLO-UNBOUNDED", "without a bound")],
)
def test_sizes_that_nothing_has_are_refused(
    size: int, code: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "m.pb").write_bytes(sized(size, 4))
    with pytest.raises(HloError, match=message) as caught:
        statistics(tmp_path / "m.pb")
    assert caught.value.code == code and caught.value.place.endswith("m.pb")


# The command


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    names = ("dot", "add")
    for name in names:
        (tmp_path / f"{name}.hlo").write_text(module_text(name))
    return str(tmp_path / "dot.hlo"), str(tmp_path / "add.hlo")


def test_prints_one(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", files[0], "--computations"]) == 0
    out = capsys.readouterr().out
    assert "FLOPs            1,024" in out
    assert "%main" in out


def test_prints_two_side_by_side(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", *files]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["FLOPs", "1,024", "32", "-96.9%"] in rows


def test_a_change_beyond_percents_is_told_by_its_value(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damaged modules have FLOPs beyond floats."""
    proto = parse(Path(files[1]).read_text())
    proto.computations[-1].instructions[-1].shape.dimensions[:] = [1 << 62] * 20  # past 1e308
    Module(proto).save(tmp_path / "huge.pb")
    assert main(["stats", files[0], str(tmp_path / "huge.pb")]) == 0
    assert f"+{(1 << 62) ** 20:,}" in capsys.readouterr().out.replace("\n", "")


def test_json_has_everything(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", files[0], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["modules"]
    assert (document["schema"], row["flops"], row["bytes"]) == ("nki-hlo/1", 1024, 896)
    assert row["intensity"] == pytest.approx(1024 / 896)


def test_a_loop_in_a_file_is_counted_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop.hlo").write_text(loop())
    assert main(["stats", str(tmp_path / "loop.hlo"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["modules"][0]["flops"] == 100
