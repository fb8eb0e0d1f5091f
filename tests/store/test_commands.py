"""``nki-neff build --cache`` and ``nki-hlo cache``: results of one machine serve another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hlo_tools.cli import main as nki_hlo
from hlo_tools.extract import run_script
from hlo_tools.store import Action, Store, entries, open_place, open_store
from neff.builds import action_of, flags_of, sources_of
from neff.cli import main as nki_neff
from tests.store.s3 import KEYS, server

ADD = (
    "HloModule {0}\nENTRY e {{ p = f32[{1}]{{0}} parameter(0) ROOT r = f32[{1}]{{0}} add(p, p) }}\n"
)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tensor_add.py"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in (3, 5):
        (tmp_path / f"m{number}.hlo").write_text(ADD.format(f"m{number}", number))
    open_store.cache_clear()
    return tmp_path


def build(*words: str) -> int:
    return nki_neff(["build", *words, "--target", "trn2"])


def statuses(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [build["status"] for build in json.loads(capsys.readouterr().out)["builds"]]


def test_one_build_serves_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("m3.hlo", "-o", "a.neff", "--cache", "store") == 0
    shutil.copy("m3.hlo", "elsewhere.hlo")
    capsys.readouterr()
    assert build("elsewhere.hlo", "-o", "b.neff", "--cache", "store", "--json") == 0
    assert json.loads(capsys.readouterr().out)["fetched"] is True
    assert Path("a.neff").read_bytes() == Path("b.neff").read_bytes()
    assert build("m3.hlo", "-O", "1", "-o", "c.neff", "--cache", "store", "--json") == 0
    assert json.loads(capsys.readouterr().out)["fetched"] is False


def test_many_builds_in_processes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["m3.hlo", "m5.hlo", "--cache", "store", "--json", "-j", "2", "-o"]
    assert build(*words, "one/") == 0
    assert statuses(capsys) == ["built", "built"]
    assert build(*words, "two/") == 0
    assert statuses(capsys) == ["fetched", "fetched"]
    for name in ("m3.neff", "m5.neff"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    assert build(*words, "two/") == 0
    assert statuses(capsys) == ["unchanged", "unchanged"]


def test_what_is_unchanged_is_put_into_a_new_store(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["m3.hlo", "m5.hlo", "--json", "-j", "1", "-o", "out/"]
    assert build(*words) == 0
    assert statuses(capsys) == ["built", "built"]
    assert build(*words, "--cache", "store", "--cache-read-only") == 0
    assert statuses(capsys) == ["unchanged", "unchanged"]
    assert build(*words, "--cache", "store") == 0
    assert statuses(capsys) == ["built", "built"]
    assert len(entries(open_place("store"))) == 2
    assert build(*words, "--cache", "store") == 0
    assert statuses(capsys) == ["unchanged", "unchanged"]


def test_a_read_only_store_has_to_be_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build("m3.hlo", "--cache-read-only") == 2
    assert "needs a store" in capsys.readouterr().err


def test_the_setting_and_read_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NKI_HLO_BUILD_CACHE", "store")
    assert build("m3.hlo", "--cache-read-only") == 0
    assert not Path("store").exists()
    open_store.cache_clear()
    assert build("m3.hlo") == 0
    assert nki_hlo(["cache", "ls", "--json"]) == 0
    assert '"kind": "neff"' in capsys.readouterr().out
    assert len(entries(open_place("store"))) == 1


def test_the_same_script_in_two_checkouts_has_one_key(folder: Path) -> None:
    """No key depends on where the checkout is."""
    keys = set()
    for name in ("one", "two"):
        checkout = folder / name
        checkout.mkdir()
        shutil.copy(EXAMPLE, checkout)
        ran = run_script(checkout / EXAMPLE.name, platform="trn2", output=checkout / "modules")
        source = sources_of(Path(ran.modules[0].path))[0]
        action = action_of(source, flags_of(source.folder, [f"--output={checkout}/x.neff"]))
        assert str(folder) not in action.text
        keys.add(action.digest)
    assert len(keys) == 1


def test_a_warning_is_kept_without_the_folder(folder: Path) -> None:
    from neff.builds import make
    from neff.builds.stored import Made

    source = sources_of(Path("m3.hlo"))[0]
    flags = flags_of(source.folder, ["--target=trn2"])
    action, store = action_of(source, flags), Store(open_place("store"))
    store.put(
        action,
        {"module.neff": b"x", "report.json": b'{"target": "trn2", "warnings": ["{folder}: w"]}'},
    )
    product = make(source, flags, Path("a.neff"), action=action, store=store)
    assert product == Made("trn2", (f"{source.folder}: w",), True)


@pytest.mark.parametrize(
    "report",
    [
        b"", b"[]", b'{"target": 1}', b'{"warnings": 3, "target": "x"}',
        b'{"warnings": [], "target": "trn2", "x_newer": 1}',
    ],
)  # fmt: skip
def test_a_result_of_another_kind_is_built_again(folder: Path, report: bytes) -> None:
    from neff.builds import make

    source = sources_of(Path("m3.hlo"))[0]
    flags = flags_of(source.folder, ["--target=trn2"])
    action, store = action_of(source, flags), Store(open_place("store"))
    store.put(action, {"module.neff": b"x", "report.json": report})
    assert not make(source, flags, Path("a.neff"), action=action, store=store).fetched


def test_s3(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    import fsspec

    with server() as address:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        words = ["m3.hlo", "m5.hlo", "--cache", "s3://builds/team", "--json", "-j", "2", "-o"]
        assert build(*words, "one/") == 0
        assert statuses(capsys) == ["built", "built"]
        assert build(*words, "two/") == 0
        assert statuses(capsys) == ["fetched", "fetched"]
        assert nki_hlo(["cache", "verify", "s3://builds/team"]) == 0
        assert nki_hlo(["cache", "gc", "s3://builds/team", "--max-size", "1B"]) == 0
        assert "2 results removed" in capsys.readouterr().out


def test_a_server_that_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("s3fs")
    import fsspec

    for name, value in {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    assert build("m3.hlo", "-o", "a.neff", "--cache", "s3://builds/team") == 0
    assert "warning[HLO-STORE] s3://builds/team: " in capsys.readouterr().err
    assert Path("a.neff").exists()
    assert nki_hlo(["cache", "ls", "s3://builds/team"]) == 3
    assert "error[HLO-STORE]" in capsys.readouterr().err


# ------------------------------------------------------------------------------------ nki-hlo cache


@pytest.fixture
def filled(folder: Path) -> list[str]:
    store = Store(open_place("store"))
    actions = [Action("neff", {"target": "trn2", "input module": str(n) * 64}) for n in (1, 2)]
    for action in actions:
        store.put(action, {"module.neff": action.text.encode()})
    return [action.digest for action in actions]


def test_ls_and_explain(filled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert nki_hlo(["cache", "ls", "store"]) == 0
    listed = capsys.readouterr().out
    assert all(digest[:12] in listed for digest in filled)
    assert nki_hlo(["cache", "explain", filled[0][:10], "store"]) == 0
    out = capsys.readouterr().out
    assert "1" * 64 in out and f"{filled[1][:12]} differs in input module" in out


def test_explain_wants_one_key(filled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for key, text in (("", "2 results begin with ''"), ("xyz", "no result begins with 'xyz'")):
        assert nki_hlo(["cache", "explain", key, "store"]) == 3
        error = capsys.readouterr().err
        assert "error[HLO-STORE-KEY]" in error and text in error


def test_verify_and_remove(filled: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    damaged = next(Path("store/cas").rglob("*/*"))
    damaged.write_bytes(b"?")
    assert nki_hlo(["cache", "verify", "store"]) == 1
    assert damaged.name in capsys.readouterr().out
    assert nki_hlo(["cache", "verify", "store", "--remove"]) == 1
    assert nki_hlo(["cache", "verify", "store"]) == 0


def test_gc_by_settings(
    filled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nki_hlo(["cache", "gc", "store"]) == 0
    assert "0 results removed" in capsys.readouterr().out
    monkeypatch.setenv("NKI_HLO_BUILD_CACHE_SIZE", "200B")
    assert nki_hlo(["cache", "gc", "store"]) == 0
    assert "1 result removed" in capsys.readouterr().out
    assert nki_hlo(["cache", "gc", "store", "--max-age", "soon"]) == 2


def test_no_store_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nki_hlo(["cache", "ls"]) == 3
    assert "error[HLO-STORE-URL]" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["ls"], ["gc"], ["verify"]])
def test_a_file_is_no_store(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes.txt").write_text("kept")
    assert nki_hlo(["cache", *words, "notes.txt"]) == 3
    assert "error[HLO-STORE] notes.txt: this is a file" in capsys.readouterr().err
    assert Path("notes.txt").read_text() == "kept"


@pytest.mark.parametrize("verb", ["ls", "gc", "verify"])
def test_a_missing_folder_is_no_store(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nki_hlo(["cache", verb, "absent"]) == 3
    assert "error[HLO-STORE] absent: there is no such folder" in capsys.readouterr().err
    assert not Path("absent").exists()
