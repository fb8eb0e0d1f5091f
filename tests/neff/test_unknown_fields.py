"""NEFFs of newer versions: a key that this version does not know is refused in every member."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neff.cli.verify import findings
from neff.container import open_package, read, write
from neff.errors import NeffFileError
from nki_lang.base.unknown_fields import ALLOW_VARIABLE
from tests.neff.programs import with_constant
from tests.neff.test_container import repacked

CODE = "NEFF-UNKNOWN-FIELD"
OPEN = {
    "x-nki-hlo.json": ("metadata", "metadata.compiler"),
    "hlo_stats.json": ("",),
    "neff.json": (
        "metadata.signatures.default.inputs", "metadata.signatures.default.outputs",
    ),
    "sg00/def.json": ("dma_queue", "var"),
}  # fmt: skip
"""Member -> objects whose keys are names, or facts for people and tools."""
NOT_LOADED = tuple(f"sg00/{stem}.json" for stem in ("PE0", "DVE0", "Activation0", "Pool0", "SP0"))
"""Members that repeat what engines' programs say; ``verify`` checks them."""


def built(folder: Path) -> Path:
    path = folder / "m.neff"
    program = with_constant()
    program.metadata["devices"] = {"replicas": 1, "partitions": 1}
    program.variables["c"].bounds = (0, 1)
    write(program, path)
    return path


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every object in a document."""
    if isinstance(value, dict):
        yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from objects(inner, (*path, key))


def set_key(member: str, path: tuple[Any, ...]) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        document = target = json.loads(members[member])
        for key in path:
            target = target[key]
        target["x_newer"] = "x"
        members[member] = json.dumps(document).encode()

    return change


def test_a_key_at_every_level_of_every_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = open_package(built(tmp_path))
    members = [name for name in package.members if name.endswith(".json")]
    assert len(members) == 12
    refused = 0
    for member in members:
        for path in objects(json.loads(bytes(package.bytes(member)))):
            file = repacked(built(tmp_path), set_key(member, path))
            if ".".join(map(str, path)) in OPEN.get(member, ()):
                continue
            with pytest.raises(NeffFileError) as error:
                findings(file) if member in NOT_LOADED else read(file)
            assert error.value.code == CODE, (member, path)
            assert "'x_newer'" in error.value.message and "newer" in error.value.remedy
            assert error.value.place.endswith(f": {member}")
            refused += 1
            if len(path) < 2 and member not in NOT_LOADED:
                monkeypatch.setenv(ALLOW_VARIABLE, "1")
                with pytest.raises(NeffFileError, match="the header does not fit"):
                    read(file)  # `repacked` leaves the marks of the old payload in the header
                monkeypatch.delenv(ALLOW_VARIABLE)
    assert refused > 40


def test_the_place_is_named(tmp_path: Path) -> None:
    file = repacked(built(tmp_path), set_key("x-nki-hlo.json", ("variables", 1)))
    with pytest.raises(NeffFileError, match=r"'x_newer' at variables\[1\]"):
        read(file)


def test_open_objects_are_kept(tmp_path: Path) -> None:
    program = with_constant()
    program.metadata["x_newer"] = {"x": 1}
    write(program, tmp_path / "m.neff")
    assert read(tmp_path / "m.neff").metadata["x_newer"] == {"x": 1}
