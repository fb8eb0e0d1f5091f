"""Collectives between devices, against jaxlib's CPU devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate_devices
from hlo_tools.evaluate.jaxlib_child import execute_devices
from tests.evaluate.test_evaluate import module_of

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def program(body: str) -> Any:
    return module_of(f"HloModule m\n{ADD}ENTRY e {{\np = f32[4,2] parameter(0)\n{body} }}")


def inputs(devices: int) -> list[list[np.ndarray[Any, Any]]]:
    random = np.random.default_rng(0)
    return [[random.standard_normal((4, 2)).astype(np.float32)] for _ in range(devices)]


def root(shape: str, call: str) -> str:
    return f"ROOT r = {shape} {call}"


REPLICAS = {
    "all": root("f32[4,2]", "all-reduce(p), replica_groups={}, to_apply=add"),
    "groups": root("f32[4,2]", "all-reduce(p), replica_groups={{2,0},{1,3}}, to_apply=add"),
    "gather": root("f32[8,2]", "all-gather(p), replica_groups={{3,0},{1,2}}, dimensions={0}"),
    "iota": root("f32[4,4]", "all-gather(p), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={1}"),
    "scatter": root("f32[1,2]", "reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=add"),
    "exchange": root("f32[4,2]", "all-to-all(p), replica_groups={{1,0},{2,3}}, dimensions={0}"),
    "permute": root("f32[4,2]", "collective-permute(p), source_target_pairs={{0,1},{1,3},{3,2}}"),
    "number": "i = u32[] replica-id()\nROOT r = f32[] convert(i)",
    "tuple": "q = f32[4,2] negate(p)\n"
    + root("(f32[4,2], f32[4,2])", "all-reduce(p, q), replica_groups={{0,1},{2,3}}, to_apply=add"),
}  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("name", REPLICAS)
def test_replicas_equal_jaxlib(name: str) -> None:
    module, arrays = program(REPLICAS[name]), inputs(4)
    import jax

    compare(evaluate_devices(module, arrays), execute_devices(module.to_bytes(), arrays, 1))
    assert not jax.config.jax_enable_x64, "what runs in this process later would have other types"


PARTITIONS = {
    "both": root("f32[4,2]", "all-reduce(p), channel_id=1, replica_groups={{0,1}}, to_apply=add"),
    "flat": root(
        "f32[8,2]",
        "all-gather(p), channel_id=1, replica_groups={{0,3},{2,1}}, use_global_device_ids=true,"
        " dimensions={0}",
    ),
    "replicas": root("f32[4,2]", "all-reduce(p), replica_groups={{1,0}}, to_apply=add"),
    "permute": root("f32[4,2]", "collective-permute(p), channel_id=1, source_target_pairs={{0,1}}"),
    "exchange": root("f32[4,2]", "all-to-all(p), channel_id=2, replica_groups={{1,0}}, dimensions={0}"),
    "number": "i = u32[] partition-id()\nROOT r = f32[] convert(i)",
}  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_equal_jaxlib(name: str) -> None:
    module, arrays = program(PARTITIONS[name]), inputs(4)
    ours = evaluate_devices(module, arrays, partitions=2)
    for row in module.entry.instructions:
        row.proto.sharding.type = schema.OpSharding.MANUAL
    compare(ours, execute_devices(module.module_bytes(), arrays, 2))


def compare(ours: list[list[Any]], reference: list[list[Any]]) -> None:
    assert [len(row) for row in ours] == [len(row) for row in reference]
    for result, peer in zip(ours, reference, strict=True):
        for a, b in zip(result, peer, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_first_of_a_group_is_heard_by_all() -> None:
    """XLA's CPU backend has no such operation."""
    body = root("f32[4,2]", "collective-broadcast(p), replica_groups={{2,0}}")
    arrays = inputs(3)
    results = [array for (array,) in evaluate_devices(program(body), arrays)]
    for result, reference in zip(
        results, (arrays[2][0], np.zeros((4, 2)), arrays[2][0]), strict=True
    ):
        np.testing.assert_array_equal(result, reference)


def test_the_root_has_the_sum_and_every_other_device_zeros() -> None:
    """StableHLO's interpreter test of ``collective_reduce`` states the zeros."""
    body = root("f32[4,2]", "collective-reduce(p), replica_groups={{2,0},{1}}, to_apply=add")
    arrays = inputs(4)
    result = [results[0] for results in evaluate_devices(program(body), arrays)]
    zeros = np.zeros((4, 2))
    np.testing.assert_array_equal(result[2], arrays[2][0] + arrays[0][0])
    np.testing.assert_array_equal(result[1], arrays[1][0])
    np.testing.assert_array_equal(result[0], zeros)
    np.testing.assert_array_equal(result[3], zeros)


_DYNAMIC = "p = f32[4,2] parameter(0)\nq = f32[4,2] negate(p)\ni = s32[2] parameter(1)\nROOT r = " \
    "(f32[4,2], f32[4,2]) {}, has_dynamic_root=true, replica_groups={{{{1,0}}}}"  # fmt: skip


def _with_roots(call: str, roots: list[list[int]]) -> list[list[Any]]:
    applied = ", to_apply=add" if "reduce" in call else ""
    module = module_of(f"HloModule m\n{ADD}ENTRY e {{\n{_DYNAMIC.format(call)}{applied} }}")
    arrays = [
        [array, np.array(numbers, np.int32)]
        for (array,), numbers in zip(inputs(2), roots, strict=True)
    ]
    return evaluate_devices(module, arrays)


def test_a_dynamic_root_is_a_position_in_the_group() -> None:
    """As XLA's ``CollectiveReduceThunk`` reads the last operand: one number for each of the others."""
    (first,), (second,) = inputs(2)
    results = _with_roots("collective-reduce(p, q, i)", [[0, 1], [0, 1]])
    zeros = np.zeros((4, 2))
    for result, expected in zip(results[0], (zeros, -(first + second)), strict=True):
        np.testing.assert_array_equal(result, expected)
    for result, expected in zip(results[1], (first + second, zeros), strict=True):
        np.testing.assert_array_equal(result, expected)
    for sent in _with_roots("collective-broadcast(p, q, i)", [[1, 0], [1, 0]]):
        for result, expected in zip(sent, (first, -second), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("roots", "message"), [([[0, 2], [0, 2]], "root 2"), ([[0, 1], [1, 1]], "different roots")]
)
@pytest.mark.parametrize("opcode", ["collective-reduce", "collective-broadcast"])
def test_roots_that_do_not_fit_are_refused(
    opcode: str, roots: list[list[int]], message: str
) -> None:
    with pytest.raises(HloError, match=message) as caught:
        _with_roots(f"{opcode}(p, q, i)", roots)
    assert caught.value.code == "HLO-COLLECTIVE"


def test_rows_of_different_numbers_are_exchanged() -> None:
    """Device 0 sends one row to itself and two to device 1, which sends three and none."""
    body = root(
        "f32[4,2]", "ragged-all-to-all(p, z, a, s, o, s), replica_groups={{0,1}}"
    )  # fmt: skip
    text = f"""HloModule m
ENTRY e {{ p = f32[4,2] parameter(0)
  a = s32[2] parameter(1)
  s = s32[2] parameter(2)
  o = s32[2] parameter(3)
  c = f32[] constant(-1)
  z = f32[4,2] broadcast(c), dimensions={{}}
  {body} }}"""
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    numbers = [np.array(row, np.int32) for row in ([0, 1], [1, 2], [0, 1])]
    second_numbers = [np.array(row, np.int32) for row in ([0, 3], [3, 0], [1, 0])]
    first, second = evaluate_devices(
        module_of(text), [[rows, *numbers], [rows + 10, *second_numbers]]
    )
    np.testing.assert_array_equal(first[0], np.concatenate([rows[:1], rows[:3] + 10]))
    np.testing.assert_array_equal(second[0], [[-1, -1], [2, 3], [4, 5], [-1, -1]])


def test_the_same_collective_meets_once_a_turn() -> None:
    text = f"""HloModule m
{ADD}
body {{ t = (s32[], f32[4,2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4,2] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,2] all-reduce(x), replica_groups={{}}, to_apply=add
  ROOT r = (s32[], f32[4,2]) tuple(j, y) }}
condition {{ t = (s32[], f32[4,2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ p = f32[4,2] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4,2]) tuple(z, p)
  ROOT w = (s32[], f32[4,2]) while(t), condition=condition, body=body }}"""
    arrays = inputs(3)
    total = sum(device_inputs[0].astype(np.float64) for device_inputs in arrays)
    for _, value in evaluate_devices(module_of(text), arrays):
        np.testing.assert_allclose(value, total * 3**4, rtol=1e-5)


def test_asynchronous_forms_give_what_the_others_give() -> None:
    text = """HloModule m
ENTRY e { p = f32[2] parameter(0)
  a = (f32[2], f32[4]) all-gather-start(p), replica_groups={}, dimensions={0}
  b = f32[4] all-gather-done(a)
  c = (f32[2], f32[2], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1},{1,0}}
  d = f32[2] collective-permute-done(c)
  ROOT r = (f32[4], f32[2]) tuple(b, d) }"""
    arrays = [[np.array([1, 2], np.float32)], [np.array([3, 4], np.float32)]]
    first, second = evaluate_devices(module_of(text), arrays)
    assert [array.tolist() for array in first] == [[1, 2, 3, 4], [3, 4]]
    assert [array.tolist() for array in second] == [[1, 2, 3, 4], [1, 2]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (REPLICAS["groups"], "%r: .*all-reduce communicates with other devices; this evaluates 3"),
        (REPLICAS["gather"].replace("{{3,0},{1,2}}", "{}"), "of another number of devices"),
        (root("f32[4,2]", "all-to-all(p), replica_groups={}, dimensions={0}"), "splits 4 among 3"),
    ],
)
def test_what_so_many_devices_cannot_do_is_told(body: str, message: str) -> None:
    with pytest.raises(HloError, match=message) as caught:
        evaluate_devices(program(body), inputs(3))
    assert caught.value.code == "HLO-COLLECTIVE"


def test_devices_that_part_do_not_hang() -> None:
    text = """HloModule m
yes { x = f32[2] parameter(0)
  ROOT y = f32[2] all-gather(x), replica_groups={}, dimensions={0} }
no { x = f32[2] parameter(0)
  ROOT y = f32[2] copy(x) }
ENTRY e { p = pred[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(p, x, x), true_computation=yes, false_computation=no }"""
    arrays = [[np.bool_(number), np.zeros(2, np.float32)] for number in range(2)]
    with pytest.raises(HloError, match="device 1 waits for others that never come") as caught:
        evaluate_devices(module_of(text), arrays)
    assert caught.value.code == "HLO-COLLECTIVE"


@pytest.mark.parametrize(("devices", "partitions"), [(0, 1), (3, 2), (65, 1)])
def test_numbers_of_devices_that_do_not_divide(devices: int, partitions: int) -> None:
    with pytest.raises(HloError, match="cannot be evaluated as replicas") as caught:
        evaluate_devices(program(REPLICAS["number"]), inputs(devices), partitions=partitions)
    assert caught.value.code == "HLO-INPUTS"
