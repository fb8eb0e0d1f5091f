"""Stores in a folder, in fsspec's memory, and on an S3 server: the same promises everywhere."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hlo_tools.errors import HloError
from hlo_tools.store import Action, Limits, Store, collect, entries, open_place, verify
from hlo_tools.store.places import Place, Remote
from nki_lang.base.unknown_fields import ALLOW_VARIABLE
from tests.store.s3 import KEYS, proxy, server

ONE = Action("neff", {"version": "1", "flags": "-O1"})
TWO = Action("neff", {"version": "1", "flags": "-O2"})
FILES = {"a.neff": b"some bytes", "empty": b""}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with server() as address:
        yield address


@pytest.fixture(params=["folder", "file", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    unique = uuid.uuid4().hex
    if request.param != "folder":
        pytest.importorskip("fsspec")
    if request.param == "s3":
        return at(request.getfixturevalue("s3"), monkeypatch, unique)
    urls = {
        "folder": str(tmp_path / "a store"),
        "file": f"file://{tmp_path}/a%20store",
        "memory": f"memory://{unique}",
    }
    return open_place(urls[request.param])


def at(address: str, monkeypatch: pytest.MonkeyPatch, prefix: str) -> Place:
    import fsspec

    for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    return open_place(f"s3://builds/{prefix}")


def names(place: Place) -> list[str]:
    return [item.name for item in place.items("")]


def test_what_is_put_is_got(place: Place) -> None:
    store = Store(place)
    assert store.get(ONE) is None
    assert store.put(ONE, FILES) and store.put(ONE, FILES)
    assert Store(place).get(ONE) == FILES
    assert store.get(TWO) is None
    assert store.notes == []
    assert verify(place) == []


def test_equal_content_is_kept_once(place: Place) -> None:
    store = Store(place)
    store.put(ONE, FILES)
    store.put(TWO, FILES)
    assert sum(name.startswith("cas/") for name in names(place)) == 1
    assert sum(name.startswith("ac/") for name in names(place)) == 2


def test_read_only(place: Place) -> None:
    assert not Store(place, read_only=True).put(ONE, FILES)
    assert names(place) == []
    Store(place).put(ONE, FILES)
    before = names(place)
    assert Store(place, read_only=True).get(ONE) == FILES
    assert names(place) == before  # not even a mark of use


@pytest.mark.parametrize("folder", ["ac", "cas"])
@pytest.mark.parametrize("damage", [b"", b"other text", b"\xff\x00"])
def test_damage_is_found_and_mended(place: Place, folder: str, damage: bytes) -> None:
    Store(place).put(ONE, FILES)
    name = next(name for name in names(place) if name.startswith(folder))
    place.write(name, damage)
    assert name in {fault.name for fault in verify(place)}
    store = Store(place)
    assert store.get(ONE) is None
    assert store.put(ONE, FILES)
    assert Store(place).get(ONE) == FILES
    assert verify(place) == []


def test_a_missing_content_is_made_again(place: Place) -> None:
    Store(place).put(ONE, FILES)
    place.remove(next(name for name in names(place) if name.startswith("cas")))
    store = Store(place)
    assert store.get(ONE) is None
    store.put(ONE, {"a.neff": b"made otherwise"})
    assert Store(place).get(ONE) == {"a.neff": b"made otherwise"}


def test_a_record_of_another_action_is_refused(place: Place) -> None:
    store = Store(place)
    store.put(ONE, FILES)
    record = place.read(f"ac/{ONE.digest[:2]}/{ONE.digest}", 10_000)
    assert record is not None
    place.write(f"ac/{TWO.digest[:2]}/{TWO.digest}", record)
    assert store.get(TWO) is None
    assert len(verify(place, remove=True)) == 1
    assert verify(place) == [] and store.get(ONE) == FILES


def test_create_is_for_the_first_writer_only(place: Place) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        if place.create("ac/aa/x", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
        if isinstance(place, Remote):
            # The server of the tests checks and writes in two steps; S3 does both in one.
            thread.join()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert place.read("ac/aa/x", 10) == b"%d" % won[0]


def test_least_recently_used_goes_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(place)
    for number in range(4):
        store.put(Action("neff", {"n": str(number)}), {"f": b"x" * 90 + b"%d" % number})
    order = [Action("neff", {"n": str(number)}).digest for number in (2, 0, 3, 1)]
    items = place.items

    def dated(folder: str) -> list[object]:
        import dataclasses

        return [
            dataclasses.replace(item, written=1e6 + order.index(item.name.rpartition("/")[2]) * 100)
            if item.name.startswith("ac/")
            else item
            for item in items(folder)
        ]

    monkeypatch.setattr(place, "items", dated)
    gone = collect(place, Limits(size=200), now=1e6 + 300)
    assert [entry.digest for entry in gone] == order[:2]
    assert len(entries(place)) == 2
    gone = collect(place, Limits(age=50), now=1e6 + 300)
    assert [entry.digest for entry in gone] == order[2:3]
    assert sum(name.startswith("cas/") for name in names(place)) == 1


def test_use_counts(place: Place) -> None:
    store = Store(place)
    store.put(ONE, FILES)
    mark = f"use/{ONE.digest[:2]}/{ONE.digest}"
    assert mark not in names(place)
    store.get(ONE)
    assert mark in names(place)
    collect(place, Limits(size=0))
    assert names(place) == []


def test_contents_that_nothing_names_go_after_a_while(place: Place) -> None:
    Store(place).put(ONE, FILES)
    place.remove(f"ac/{ONE.digest[:2]}/{ONE.digest}")
    collect(place, Limits())
    assert len(names(place)) == 1  # its writer may be about to write the record
    collect(place, Limits(), now=time.time() + 4000)
    assert names(place) == []


def test_an_action_is_known_by_its_parts_alone() -> None:
    again = Action("neff", dict(reversed(ONE.parts.items())))
    assert again.digest == ONE.digest != TWO.digest
    assert Action("module", ONE.parts).digest != ONE.digest


@pytest.mark.parametrize("url", ["nosuch://x/y", "s4://bucket"])
def test_unknown_places(url: str) -> None:
    with pytest.raises(HloError) as caught:
        open_place(url)
    assert caught.value.code == "HLO-STORE-URL"


# --------------------------------------------------------------------------- servers that misbehave


def test_a_server_that_refuses(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def refuse(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        requests.append(path)
        return 403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"

    with proxy(s3, refuse) as address:
        store = Store(at(address, monkeypatch, "refused"))
        for number in range(10):
            action = Action("neff", {"n": str(number)})
            assert store.get(action) is None and not store.put(action, FILES)
    assert "not used any more after 3 failures" in store.notes[-1]
    assert len(requests) < 20


def test_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    store = Store(at("http://127.0.0.1:9", monkeypatch, "gone"))
    assert store.get(ONE) is None
    assert not store.put(ONE, FILES)
    assert "127.0.0.1:9" in store.notes[0]


def test_a_server_that_lies(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(at(s3, monkeypatch, "lies")).put(ONE, FILES)

    def lie(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        return status, b"other byte" if "/cas/" in path and method == "GET" else body

    with proxy(s3, lie) as address:
        store = Store(at(address, monkeypatch, "lies"))
        assert store.get(ONE) is None
        assert "is damaged" in store.notes[0]
    assert Store(at(s3, monkeypatch, "lies")).get(ONE) == FILES


def test_a_server_that_cuts_short(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(at(s3, monkeypatch, "cut")).put(ONE, FILES)

    def cut(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        return status, body[: len(body) // 2] if method == "GET" else body

    with proxy(s3, cut) as address:
        store = Store(at(address, monkeypatch, "cut"))
        assert store.get(ONE) is None
        assert "is damaged" in store.notes[0]


def test_a_server_that_is_slow(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = threading.Event()

    def stall(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        wait.wait(30)
        return status, body

    monkeypatch.setattr("hlo_tools.store.places._SECONDS", 0.2)
    with proxy(s3, stall) as address:
        store = Store(at(address, monkeypatch, "slow"))
        started = time.monotonic()
        for _ in range(10):
            assert store.get(ONE) is None
        assert time.monotonic() - started < 20  # three requests, not ten
        wait.set()
    assert "not used any more" in store.notes[-1]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_that_can_only_be_read_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Refused writes are no failures of the store: after them it still serves what it has."""
    assert Store(open_place(str(tmp_path))).put(ONE, FILES)
    before = names(open_place(str(tmp_path)))

    def refuse(self: Path, content: bytes) -> None:
        raise OSError(number, os.strerror(number), str(self))

    opened = os.open

    def open_to_read(path: str, flags: int, *arguments: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(str(tmp_path)):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, flags, *arguments)

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(os, "open", open_to_read)
    store = Store(open_place(str(tmp_path)))
    assert store.get(ONE) == FILES and not store.notes and store.read_only
    store = Store(open_place(str(tmp_path)))
    for iteration in range(5):
        assert not store.put(TWO, {"b.neff": b"%d" % iteration})
    assert store.get(ONE) == FILES
    assert store.notes == [
        f"warning[HLO-STORE] {tmp_path}: can only be read: {os.strerror(number)}"
    ]
    monkeypatch.undo()
    assert names(open_place(str(tmp_path))) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(schema="nki-store/2"),
        lambda record: record.update(x_newer=1),
        lambda record: record["action"].update(x_newer=1),
        lambda record: record["files"]["a.neff"].update(x_newer=1),
    ],
    ids=["schema", "record", "action", "file"],
)
def test_a_record_of_a_newer_version_counts_as_not_there(
    change: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(open_place(str(tmp_path / "store")))
    store.put(ONE, FILES)
    (path,) = (path for path in (tmp_path / "store" / "ac").rglob("*") if path.is_file())
    record = json.loads(path.read_bytes())
    change(record)
    path.write_text(json.dumps(record))
    assert store.get(ONE) is None
    assert "newer version" in store.notes[-1]
    store.put(ONE, FILES)
    assert json.loads(path.read_bytes()) == record  # it is not written over
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    assert store.get(ONE) == FILES
