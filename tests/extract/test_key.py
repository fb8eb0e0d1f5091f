"""Flags, keys and entries of the compile cache."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from hlo_tools.errors import HloFileError, HloUnsupportedError
from hlo_tools.extract import (
    cache_folder,
    cache_key,
    complete_entries,
    explain_key,
    flags_from_environment,
    flags_hash,
    write_bundle,
)
from hlo_tools.extract.flags import remote_cache
from hlo_tools.ir.loading import load
from tests.extract.modules import add_module, kernel_module

FLAGS = ["--target=trn1"]

# --------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("flags", "digits"),
    [
        # Recorded names of the vendor's cache entries (facts on the compile cache, section 5).
        (["--target=trn1"], "e30acd3a"),
        (["--target=trn1", "--model-type=transformer"], "3cc9a3cb"),
        (
            ["--model-type=transformer", "--auto-cast=none", "--execute-repetition=1"],
            "39f12043",
        ),
        (
            [
                "--target=trn1",
                "--model-type",
                "transformer",
                "--enable-mixed-precision-accumulation",
            ],
            "4eb52b03",
        ),
    ],
)
def test_the_short_hash_of_flags(flags: list[str], digits: str) -> None:
    assert flags_hash(flags) == digits


def test_flags_of_an_environment() -> None:
    flag_text = (
        "--cache_dir=/x --model-type transformer --verbose 3 --framework XLA --target trn2 -O1"
    )
    assert flags_from_environment("trn1", {"NEURON_CC_FLAGS": flag_text}) == [
        "--target=trn1",
        "--model-type",
        "transformer",
        "-O1",
    ]
    assert flags_from_environment("trn3", {}) == ["--target=trn3"]


def test_flags_with_an_open_quote() -> None:
    with pytest.raises(HloFileError, match="NEURON_CC_FLAGS") as failure:
        flags_from_environment("trn1", {"NEURON_CC_FLAGS": "--a 'b"})
    assert failure.value.code == "HLO-FLAGS"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, None),
        ({"NEURON_EXTRACT_GRAPHS_ONLY": "1"}, Path("/var/tmp/neuron-compile-cache")),
        ({"NEURON_COMPILE_CACHE_URL": "a/b"}, Path("a/b")),
        ({"NEURON_COMPILE_CACHE_URL": "file:///a%20b"}, Path("/a b")),
        ({"NEURON_COMPILE_CACHE_URL": "a", "NEURON_CC_FLAGS": "--cache_dir=c"}, Path("c")),
        ({"NEURON_CC_FLAGS": "--cache_dir c"}, Path("c")),
        ({"NEURON_COMPILE_CACHE_URL": "a", "NEURON_CC_FLAGS": "--cache_dir=c --cache_dir="}, None),
    ],
)
def test_the_cache_that_an_environment_names(environment, folder) -> None:
    assert cache_folder(environment) == folder


def test_a_cache_on_another_machine() -> None:
    with pytest.raises(HloUnsupportedError, match="ftp://") as failure:
        cache_folder({"NEURON_COMPILE_CACHE_URL": "ftp://host/x"})
    assert failure.value.code == "HLO-CACHE-URL"
    mirrors = {cache_folder({"NEURON_COMPILE_CACHE_URL": f"s3://bucket/{x}"}) for x in "xyx"}
    assert len(mirrors) == 2
    assert remote_cache({"NEURON_CC_FLAGS": "--cache_dir=gs://b/x"}) == "gs://b/x"
    assert remote_cache({"NEURON_COMPILE_CACHE_URL": "file:///tmp/x"}) == ""


# ----------------------------------------------------------------------------------- key


def test_a_key_is_a_decimal_number_of_64_bits() -> None:
    key = cache_key(add_module())
    assert key == str(int(key))
    assert 0 <= int(key) < 2**64


def test_names_ids_and_source_places_have_no_part_in_the_key() -> None:
    key = cache_key(add_module())
    assert cache_key(add_module(name="other", prefix="x")) == key
    assert cache_key(add_module(first_id=1000)) == key
    assert cache_key(add_module(source="/home/me/a.py")) == key


@pytest.mark.parametrize(
    "changes", [{"opcode": "subtract"}, {"extent": 5}, {"swap": True}, {"frontend": "x"}]
)
def test_what_a_program_computes_makes_the_key(changes) -> None:
    assert cache_key(add_module(**changes)) != cache_key(add_module())


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"opcode": "subtract"}, "instruction 2 (subtract) of computation 0"),
        ({"extent": 5}, "the module's signature"),
        ({"frontend": "x"}, "the module's signature or attributes"),
    ],
)
def test_why_two_keys_differ(changes, what) -> None:
    assert what in explain_key(add_module(**changes)).difference(explain_key(add_module()))
    assert explain_key(add_module()).difference(explain_key(add_module(name="z"))) == ""


def test_a_kernel_counts_with_its_content_and_not_with_its_path(tmp_path: Path) -> None:
    keys = []
    for folder, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        path = tmp_path / folder / "k.klir"
        path.parent.mkdir()
        path.write_bytes(content)
        keys.append(explain_key(kernel_module(path)))
    assert keys[0].key == keys[1].key != keys[2].key
    assert keys[0].difference(keys[2]) == "the content of kernel k"


def test_bytes_that_are_no_module() -> None:
    with pytest.raises(HloFileError) as failure:
        cache_key(b"\xff\xff")
    assert failure.value.code == "HLO-DAMAGED"


# ------------------------------------------------------------------------------- entries


def kernel_at(folder: Path, name: str = "k.klir", content: bytes = b"kernel abc.npy") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    path.with_name(name + ".json").write_text("{}")
    constants = folder / "shared_constants"
    constants.mkdir(exist_ok=True)
    (constants / "abc.npy").write_bytes(b"constant")
    (constants / "unused.npy").write_bytes(b"other kernel's")
    return path


def files_of(entry: Path) -> list[str]:
    return sorted(str(p.relative_to(entry)) for p in entry.rglob("*") if p.is_file())


def test_an_entry_has_the_documented_layout(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path / "cache", add_module(), FLAGS)
    assert entry.parent.parent == tmp_path / "cache"
    assert entry.parent.name.startswith("neuronxcc-")
    assert entry.name == f"MODULE_{cache_key(add_module())}+e30acd3a"
    assert files_of(entry) == ["compile_flags.json", "model.hlo_module.pb"]
    assert (entry / "model.hlo_module.pb").read_bytes() == add_module()
    assert json.loads((entry / "compile_flags.json").read_text()) == FLAGS
    assert sorted(path.name for path in entry.parent.iterdir()) == [entry.name]


def test_an_entry_holds_its_kernels(tmp_path: Path) -> None:
    path = kernel_at(tmp_path / "somewhere")
    entry = write_bundle(tmp_path / "cache", kernel_module(path, path), FLAGS)
    assert files_of(entry) == [
        "compile_flags.json",
        "k.klir",
        "k.klir.json",
        "model.hlo_module.pb",
        "shared_constants/abc.npy",
    ]
    for call in load(entry / "model.hlo_module.pb").find_custom_calls():
        config = json.loads(base64.b64decode(call.backend_config))
        assert config["klir_binary"]["binary"] == "k.klir"
        assert config["func_name"] == "k"


def test_kernels_of_one_name_and_different_content(tmp_path: Path) -> None:
    first = kernel_at(tmp_path / "one", content=b"1")
    second = kernel_at(tmp_path / "two", content=b"2")
    entry = write_bundle(tmp_path / "cache", kernel_module(first, second), FLAGS)
    names = [name for name in files_of(entry) if name.endswith(".klir")]
    assert len(names) == 2
    assert {(entry / name).read_bytes() for name in names} == {b"1", b"2"}


def test_a_copied_entry_is_as_good(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path / "cache", kernel_module(kernel_at(tmp_path / "k")), FLAGS)
    moved = tmp_path / "elsewhere"
    entry.rename(moved)
    module = (moved / "model.hlo_module.pb").read_bytes()
    assert cache_key(module, moved) == entry.name.removeprefix("MODULE_").partition("+")[0]
    again = write_bundle(tmp_path / "second", module, FLAGS, root=moved)
    assert again.name == entry.name


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, add_module(), FLAGS)
    before = (entry / "model.hlo_module.pb").stat().st_mtime_ns
    assert write_bundle(tmp_path, add_module(name="other"), FLAGS) == entry
    assert (entry / "model.hlo_module.pb").stat().st_mtime_ns == before


def test_an_entry_that_lost_a_file_is_made_again(tmp_path: Path) -> None:
    module = kernel_module(kernel_at(tmp_path / "k"))
    entry = write_bundle(tmp_path / "cache", module, FLAGS)
    (entry / "k.klir").unlink()
    assert list(complete_entries(tmp_path / "cache")) == []
    assert write_bundle(tmp_path / "cache", module, FLAGS) == entry
    assert list(complete_entries(tmp_path / "cache")) == [entry]


def test_entries_have_the_rights_that_the_umask_gives(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        entry = write_bundle(tmp_path, add_module(), FLAGS)
    finally:
        os.umask(old)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o750
    assert stat.S_IMODE((entry / "compile_flags.json").stat().st_mode) == 0o640


def test_a_kernel_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(HloFileError, match=r"gone\.klir") as failure:
        write_bundle(tmp_path, kernel_module(tmp_path / "gone.klir"), FLAGS)
    assert failure.value.code == "HLO-KERNEL-MISSING"
    assert list(tmp_path.iterdir()) == []


def test_a_relative_kernel_path_that_leads_out(tmp_path: Path) -> None:
    kernel_at(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(HloFileError) as failure:
        write_bundle(tmp_path / "c", kernel_module(Path("../k.klir")), FLAGS, root=inner)
    assert failure.value.code == "HLO-KERNEL-PATH"


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HloFileError, match="name another one") as failure:
        write_bundle(tmp_path / "file", add_module(), FLAGS)
    assert failure.value.code == "HLO-CACHE-WRITE"
