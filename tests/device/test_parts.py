"""The device's parts that need neither a framework nor the function table."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import threading
import tomllib
import weakref
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_tools.errors import HloFileError, HloUnsupportedError
from hlo_tools.frameworks.jax_versions import check_version
from hlo_tools.ir.module import KERNEL_TARGET
from neff.device import activation
from neff.device.executors.cpu import refusal
from neff.device.executors.rendezvous import Rendezvous
from neff.device.pjrt import entry, native_library
from neff.device.pjrt.errors import status_of
from neff.device.pjrt.handles import HandleTable
from neff.device.pjrt.status import Status, StatusError
from neff.device.pjrt.topology import device_count
from neff.device.programs import capture, message_bytes, rewrite
from neff.device.programs.program import CompileOptions
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import SourceLocation

# ------------------------------------------------------------------------------- handles


def test_handles_are_never_used_twice() -> None:
    table = HandleTable()
    first = table.add("a")
    table.drop(first)
    assert table.add("b") != first
    with pytest.raises(StatusError, match="is nothing, expected a str"):
        table.get(first, str)


def test_a_dropped_object_is_freed() -> None:
    class Thing:
        pass

    table, thing = HandleTable(), Thing()
    handle, watch = table.add(thing), weakref.ref(thing)
    table.drop(handle)
    del thing
    gc.collect()
    assert watch() is None


def test_handles_from_many_threads_are_distinct() -> None:
    table = HandleTable()
    handles: list[int] = []

    def work() -> None:
        handles.extend(table.add(object()) for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(handles)) == len(table) == 4000


# -------------------------------------------------------------------------------- errors


def test_errors_of_ours_keep_their_text_and_place() -> None:
    error = NkiValidationError(
        "300 partitions", code="NKI-PARTITION", location=SourceLocation("k.py", 7)
    )
    code, message = status_of(error)
    assert (code, message.splitlines()[0]) == (
        Status.INVALID_ARGUMENT,
        "k.py:7: [NKI-PARTITION] 300 partitions",
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HloUnsupportedError("x"), Status.UNIMPLEMENTED),
        (FileNotFoundError("x"), Status.NOT_FOUND),
        (ZeroDivisionError("x"), Status.INTERNAL),
        (StatusError(Status.DATA_LOSS, "x"), Status.DATA_LOSS),
        (HloFileError("x", code="HLO-CACHE-WRITE"), Status.FAILED_PRECONDITION),
    ],
)
def test_status_codes(error: BaseException, code: Status) -> None:
    assert status_of(error)[0] == code


def test_an_error_that_nobody_expected_says_where_it_was_raised() -> None:
    try:
        divmod(1, 0)
    except ZeroDivisionError as error:
        assert re.search(
            r"^ZeroDivisionError: .* \(raised at test_parts\.py:\d+\)$", status_of(error)[1]
        )


# ------------------------------------------------------------------------- message bytes


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_varints(value: int) -> None:
    (field,) = message_bytes.fields(message_bytes.varint_field(5, value))
    assert field.value == value % 2**64


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_rewriting_nothing_changes_nothing(values: list[bytes]) -> None:
    message = b"".join(
        message_bytes.bytes_field(number + 1, value) for number, value in enumerate(values)
    )
    assert message_bytes.rewritten(message, 3, lambda value: value) is message


def test_rewriting_one_field() -> None:
    message = (
        message_bytes.bytes_field(1, b"a")
        + message_bytes.bytes_field(2, b"b")
        + message_bytes.varint_field(3, 9)
    )
    changed = message_bytes.rewritten(message, 2, lambda value: value + b"c" * 200)
    assert [field.value for field in message_bytes.fields(changed)] == [b"a", b"b" + b"c" * 200, 9]


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0b", b"\x80"])
def test_damaged_messages(data: bytes) -> None:
    with pytest.raises(HloFileError, match="damaged at byte"):
        list(message_bytes.fields(data))


# ------------------------------------------------------------------------------- rewrite


def module_with(*instructions: bytes) -> bytes:
    body = b"".join(message_bytes.bytes_field(2, inst) for inst in instructions)
    return message_bytes.bytes_field(1, b"m") + message_bytes.bytes_field(3, body)


def kernel_call(config: bytes, version: int = 2, target: bytes = b"") -> bytes:
    return (
        message_bytes.bytes_field(28, target or KERNEL_TARGET.encode())
        + message_bytes.bytes_field(43, config)
        + message_bytes.varint_field(77, version)
        + message_bytes.varint_field(35, 11)
    )


def test_kernel_calls_become_typed_and_everything_else_stays() -> None:
    other_call = kernel_call(b"zzz", target=b"Other")
    module = module_with(kernel_call(b"abc"), other_call)
    typed = rewrite.to_typed_calls(module, lambda config: f"<{config}>")
    (computation,) = [f.value for f in message_bytes.fields(typed) if f.number == 3]
    first, second = [f.value for f in message_bytes.fields(computation) if f.number == 2]
    values = {f.number: f.value for f in message_bytes.fields(first)}
    assert (values[43], values[77], values[35]) == (b"<abc>", 4, 11)
    assert second == other_call


def test_configurations_of_a_module() -> None:
    module = module_with(kernel_call(b"one"), kernel_call(b"two", version=0))
    assert rewrite.kernel_configs(module) == ["one", "two"]


def test_a_module_without_kernels_is_the_same_object() -> None:
    module = module_with(message_bytes.bytes_field(2, b"add"))
    assert rewrite.to_typed_calls(module, str) is module


# ------------------------------------------------------------------------------- options


def test_compile_options_are_read() -> None:
    assignment = b"".join(
        message_bytes.bytes_field(3, message_bytes.bytes_field(1, bytes(ids)))
        for ids in ([0, 2], [1, 3])
    )
    build = (
        message_bytes.varint_field(4, 2)
        + message_bytes.varint_field(5, 2)
        + message_bytes.bytes_field(9, assignment)
    )
    options = CompileOptions.parse(
        message_bytes.bytes_field(3, build) + message_bytes.varint_field(4, 1)
    )
    assert (options.num_replicas, options.num_partitions) == (2, 2)
    assert options.device_ids == (0, 1, 2, 3)  # replica-major
    assert options.portable


def test_no_options_mean_one_device() -> None:
    options = CompileOptions.parse(b"")
    assert (options.num_replicas, options.num_partitions, options.device_ids) == (1, 1, (0,))


# ---------------------------------------------------------------------------- activation

ASKING = [
    {"NKI_HLO_DEVICE": "1"},
    {"NEURON_EXTRACT_GRAPHS_ONLY": "1"},
    {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1", "NEURON_COMPILE_CACHE_URL": "d"},
]
NOT_ASKING = [
    {},
    {"NKI_HLO_DEVICE": "0", "NEURON_EXTRACT_GRAPHS_ONLY": "1"},
    {"NEURON_EXTRACT_GRAPHS_ONLY": "0"},
    {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"},
    {"NEURON_COMPILE_CACHE_URL": "d"},
]


@pytest.mark.parametrize("environment", ASKING)
def test_what_asks_for_the_device(environment: dict[str, str]) -> None:
    assert activation.jax_is_asked(environment)
    assert activation.torch_is_asked(environment)


@pytest.mark.parametrize("environment", NOT_ASKING)
def test_what_does_not(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nki", raising=False)
    assert not activation.jax_is_asked(environment)
    assert not activation.torch_is_asked(environment)


def test_each_framework_has_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nki", raising=False)
    assert activation.jax_is_asked({"JAX_PLATFORMS": "cpu, neuron"})
    assert not activation.torch_is_asked({"JAX_PLATFORMS": "neuron"})
    assert activation.torch_is_asked({"PJRT_DEVICE": "NEURON"})
    assert not activation.jax_is_asked({"PJRT_DEVICE": "NEURON"})
    assert not activation.torch_is_asked({"PJRT_DEVICE": "CPU", "NKI_HLO_DEVICE": "1"})


def test_kernels_ask_for_a_device_of_torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nki", sys)
    assert activation.torch_is_asked({})
    assert not activation.torch_is_asked({"PJRT_DEVICE": "CPU"})
    assert not activation.torch_is_asked({"NKI_HLO_DEVICE": "0"})
    assert not activation.jax_is_asked({})


# -------------------------------------------------------------------------- device count


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, 2),
        ({"NEURON_RT_NUM_CORES": "4"}, 4),
        ({"NEURON_RT_VISIBLE_CORES": "0-3,6"}, 5),
        ({"NEURON_RT_VISIBLE_CORES": " 0 - 1, 1 ,3"}, 3),
        ({"NEURON_RT_VISIBLE_CORES": "1", "NEURON_RT_NUM_CORES": "4"}, 1),
    ],
)
def test_how_many_devices(environment: dict[str, str], count: int) -> None:
    assert device_count(environment) == count


def test_every_interface_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"):
        monkeypatch.delenv(name, raising=False)
    runtime = import_module("spike._spike").Spike
    assert runtime.get_visible_neuron_core_count() == device_count() == 2
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "5")
    assert runtime.get_visible_neuron_core_count() == device_count() == 5
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "many")
    with pytest.raises(ValueError, match="NEURON_RT_NUM_CORES='many'"):
        runtime.get_visible_neuron_core_count()


@pytest.mark.parametrize("text", ["0", "-1", "x", "129", "1.5"])
def test_a_number_of_cores_that_is_none(text: str) -> None:
    with pytest.raises(StatusError, match=r"NEFF-DEVICE-COUNT.*NEURON_RT_NUM_CORES"):
        device_count({"NEURON_RT_NUM_CORES": text})


@pytest.mark.parametrize("text", ["a", "3-", "0-999999999", "4-2", "4-2,6", ","])
def test_visible_cores_that_are_none(text: str) -> None:
    with pytest.raises(StatusError, match=r"NEFF-DEVICE-COUNT.*NEURON_RT_VISIBLE_CORES"):
        device_count({"NEURON_RT_VISIBLE_CORES": text})


def test_an_opcode_that_xla_cannot_be_given_has_a_code() -> None:
    error = ValueError("failed to legalize mhlo.unknown")
    refusal_error = refusal("m", ["add", "newest"], error)
    assert isinstance(refusal_error, StatusError)
    assert "[NEFF-DEVICE-OPCODE]" in str(refusal_error) and "'newest'" in str(refusal_error)
    memory_error = ValueError("out of memory")
    assert refusal("m", ["add", "newest"], memory_error) is memory_error


# ------------------------------------------------------------------------ capture, meetings


def test_callbacks_see_programs_until_they_are_removed() -> None:
    names: list[str] = []

    def callback(program: capture.Captured) -> None:
        names.append(program.name)

    program = capture.Captured("m", b"", 1, 1, "trn1")
    capture.add(callback)
    capture.add(callback)
    capture.notify(program)
    capture.remove(callback)
    capture.notify(program)
    assert names == ["m"]
    with pytest.raises(ValueError, match="not in list"):
        capture.remove(callback)


def run_meeting(work, size: int = 3, rounds: int = 5) -> list[list[object]]:
    meeting, outcomes = Rendezvous(patience=10), [[] for _ in range(size)]

    def participant(position: int) -> None:
        for iteration in range(rounds):
            try:
                outcomes[position].append(
                    meeting.meet("key", position, size, (position, iteration), work)
                )
            except ArithmeticError as error:
                outcomes[position].append(str(error))

    threads = [threading.Thread(target=participant, args=(position,)) for position in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_participants_meet_round_by_round() -> None:
    outcomes = run_meeting(
        lambda values: [(value, sorted({v[1] for v in values})) for value in values]
    )
    for position, results in enumerate(outcomes):
        assert results == [((position, iteration), [iteration]) for iteration in range(5)]


def test_a_failure_reaches_every_participant() -> None:
    def work(values: list[object]) -> list[object]:
        raise ArithmeticError("no")

    assert run_meeting(work, rounds=2) == [["no", "no"]] * 3


def test_a_participant_that_never_comes() -> None:
    with pytest.raises(
        StatusError, match=r"NEFF-DEVICE-LAUNCH.*for 2 devices was launched on \[1\] only"
    ):
        Rendezvous(patience=0.01).meet("key", 1, 2, None, lambda values: values)


# ----------------------------------------------------------------------------- entry library


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path))
    return tmp_path


def table_of(path) -> int | None:
    library = ctypes.CDLL(str(path))
    library.GetPjrtApi.restype = ctypes.c_void_p
    return library.GetPjrtApi()


def release(opened: entry.Entry, handle: int) -> int | None:
    slot = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(opened.release_function)
    arguments = (ctypes.c_uint64 * 3)(24, 0, handle)
    return slot(ctypes.addressof(arguments))


def test_the_library_hands_out_the_table(own_cache) -> None:
    path = native_library.library()
    assert table_of(path) is None
    opened = entry.Entry(path)
    opened.connect(0x1234_5678_9ABC)
    assert table_of(path) == 0x1234_5678_9ABC
    assert native_library.library() == path
    assert [path.name for path in path.parent.iterdir()] == [path.name]


def test_the_library_notes_what_is_released(own_cache) -> None:
    opened = entry.Entry(native_library.library())
    assert not opened.has_released
    assert [release(opened, handle) for handle in (0x1000, 0, 0x1010)] == [None] * 3
    assert opened.has_released
    assert opened.released() == [0x1000, 0, 0x1010]
    assert opened.released() == []
    assert not opened.has_released


def test_releases_from_many_threads_all_arrive(own_cache) -> None:
    opened = entry.Entry(native_library.library())
    handles: list[int] = []

    def work(first: int) -> None:
        for handle in range(first, first + 500):
            release(opened, handle)
            handles.extend(opened.released())

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handles.extend(opened.released())
    assert sorted(handles) == [1000 * n + i for n in range(8) for i in range(500)]


def test_more_releases_than_places_lose_the_oldest_only(own_cache) -> None:
    opened = entry.Entry(native_library.library())
    opened._count.value = entry.PLACES + 7  # as if so many had been released before
    opened._taken = 7
    for handle in (1, 2, 3):
        release(opened, handle)
    for position in range(entry.PLACES):
        opened._ring[position] = opened._ring[position] or 100
    handles = opened.released()
    assert len(handles) == entry.PLACES
    assert handles[-3:] == [1, 2, 3]


# ------------------------------------------------------------------------- versions of JAX


@pytest.mark.parametrize("version", ["0.6.0", "0.10.2", "0.10.3.dev20260901", "0.11.2", "0.12.0.1"])
def test_versions_of_jax_that_are_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["0.13.0", "0.99.1", "1.0.0"])
def test_newer_versions_of_jax_run_with_a_warning(version: str) -> None:
    with pytest.warns(RuntimeWarning, match=rf"HLO-JAX-VERSION\] JAX {version} is newer"):
        check_version(version)


@pytest.mark.parametrize("version", ["0.4.38", "0.5.3"])
def test_versions_of_jax_that_nobody_tested(version: str) -> None:
    with pytest.raises(HloUnsupportedError, match=rf"HLO-JAX-VERSION\] JAX {version}") as caught:
        check_version(version)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (bounds,) = project["optional-dependencies"]["jax"]
    assert caught.value.remedy == f"pip install '{bounds}'"
