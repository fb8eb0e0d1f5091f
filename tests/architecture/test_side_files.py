"""Files beside a module, in a cache or a store that are no plain files, or very large: refused.

Each kind of file is a pipe, a link to a device and a file larger than its limit (of holes).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.cli.shared.configuration import read_configuration
from hlo_tools.errors import HloError
from hlo_tools.extract.bundle import (
    FLAGS_FILE,
    MODULE_FILE,
    check_unchanged,
    is_complete,
    write_bundle,
)
from hlo_tools.extract.record import read_records
from hlo_tools.extract.remote import publish
from hlo_tools.files.plain import MAX_RECORD_BYTES, MAX_RESULT_BYTES, MOST_BYTES
from hlo_tools.ir.external_constants import externalize
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.kernels.embedded import EMBEDDED, pack, unpack
from hlo_tools.lint.baseline import read_baseline
from hlo_tools.stats.buffer_assignment import MOST_DUMP, allocated_beside
from hlo_tools.store import Action, open_store
from neff.builds.flags import flags_of
from neff.builds.many import RECORD, _read_record, _unchanged
from neff.builds.provenance import SUFFIX, mismatches
from neff.builds.sources import Source
from neff.builds.works import Work
from neff.cli import main as neff
from neff.cli.program_report import _lines
from neff.container import write as write_neff
from neff.errors import NeffError
from neff.options import Flags
from neff.profile.budgets import budget_of
from neff.profile.page.write import _sources
from neff.timing.project import project_table
from nki_lang import klir
from nki_lang.base.errors import NkiError
from nki_lang.base.plain_files import MAX_SOURCE_BYTES, UnfitFileError, read_plain
from nki_lang.strict.modules import Modules
from tests.architecture.test_security import with_a_constant
from tests.neff.programs import addition

TEXT = b"HloModule m\nENTRY e { ROOT c = f32[4] constant({1, 2, 3, 4}) }"
FORMS = ("pipe", "device", "large")


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A test that waits for a pipe ends, with the system's own signal."""
    signal.alarm(60)
    yield
    signal.alarm(0)


def put(path: Path, form: str, most: int) -> None:
    """Something at ``path`` that must not be read."""
    path.unlink(missing_ok=True)
    if form == "pipe":
        os.mkfifo(path)
    elif form == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(most + 1)  # takes no room on disk


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises((HloError, NeffError, NkiError)) as caught:
        act()
    return caught.value.code


@pytest.fixture
def module(tmp_path: Path) -> Path:
    hlo_tools.load(TEXT).save(tmp_path / "m.pb")
    return tmp_path / "m.pb"


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "cache", hlo_tools.load(TEXT).module_bytes(), ["--target=trn1"])


@pytest.mark.parametrize("form", FORMS)
def test_flags_are_a_plain_file(
    form: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(module.with_name(FLAGS_FILE), form, MAX_RECORD_BYTES)
    assert main(["lint", str(module.parent)]) == 3
    assert "error[HLO-SIDE-FILE]" in capsys.readouterr().err
    assert code_of(lambda: flags_of(module.parent, [])) == "NEFF-FLAGS-FILE"
    assert neff(["build", str(module), "-o", str(module.with_suffix(".neff"))]) == 3
    assert "error[NEFF-FLAGS-FILE]" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMS)
def test_flags_of_an_entry(form: str, entry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(entry / FLAGS_FILE, form, MAX_RECORD_BYTES)
    assert not is_complete(entry)
    assert code_of(lambda: check_unchanged(entry)) == "HLO-SIDE-FILE"
    assert neff(["build", str(entry), "-o", str(entry / "o.neff")]) == 3
    assert "error[NEFF-FLAGS-FILE]" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMS)
def test_the_module_of_an_entry(form: str, entry: Path) -> None:
    put(entry / MODULE_FILE, form, MOST_BYTES)
    assert not is_complete(entry)


@pytest.mark.parametrize("form", FORMS)
def test_records_of_extractions(form: str, entry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = entry.parent.parent
    (cache / ".extractions").mkdir()
    put(cache / ".extractions" / "0.json", form, MAX_RECORD_BYTES)
    assert code_of(lambda: read_records(cache)) == "HLO-SIDE-FILE"
    assert main(["show", "-s", "--latest", str(cache)]) == 3
    assert neff(["build", str(cache), "-o", str(cache / "out")]) == 3
    assert capsys.readouterr().err.count("error[HLO-SIDE-FILE]") == 2


@pytest.mark.parametrize("form", FORMS)
def test_the_statement_of_a_neff(form: str, tmp_path: Path) -> None:
    put(tmp_path / f"k.neff{SUFFIX}", form, MAX_RECORD_BYTES)
    assert code_of(lambda: list(mismatches(tmp_path / "k.neff"))) == "NEFF-PROVENANCE"


@pytest.mark.parametrize("form", FORMS)
def test_records_of_builds(form: str, tmp_path: Path) -> None:
    put(tmp_path / RECORD, form, MAX_RECORD_BYTES)
    assert _read_record(tmp_path) == {}
    work = Work(Source(tmp_path / "m.pb", tmp_path), Flags(), tmp_path / "m.neff")
    put(work.output, form, MAX_RESULT_BYTES)
    assert _unchanged(work, {tmp_path: {"m.neff": ("inputs", "output")}}) == ""


@pytest.mark.parametrize("form", FORMS)
def test_sources_that_a_profile_shows(form: str, tmp_path: Path) -> None:
    put(tmp_path / "k.py", form, MAX_SOURCE_BYTES)
    assert _sources({"k.py"}, tmp_path) == {}
    assert _lines(tmp_path, "k.py") is None


@pytest.mark.parametrize("form", FORMS)
def test_settings(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "pyproject.toml", form, MAX_RECORD_BYTES)
    assert code_of(read_configuration) == "HLO-CONFIGURATION"
    assert code_of(lambda: project_table("timing", tmp_path, "NEFF-PARAMETER")) == "NEFF-PARAMETER"
    assert code_of(lambda: project_table("budgets", tmp_path, "NEFF-BUDGET")) == "NEFF-BUDGET"
    put(tmp_path / "nki-hlo.toml", form, MAX_RECORD_BYTES)
    assert code_of(read_configuration) == "HLO-CONFIGURATION"


@pytest.mark.parametrize("form", FORMS)
def test_baselines(form: str, tmp_path: Path) -> None:
    """Baselines of lint, which settings name, and of a budget."""
    put(tmp_path / "b.json", form, MAX_RECORD_BYTES)
    assert code_of(lambda: read_baseline(tmp_path / "b.json")) == "HLO-BASELINE"
    assert code_of(lambda: budget_of(baseline=tmp_path / "b.json")) == "NEFF-BASELINE"


@pytest.mark.parametrize("form", FORMS)
def test_the_dump_of_an_assignment(form: str, tmp_path: Path) -> None:
    put(tmp_path / "m-buffer-assignment.txt", form, MOST_DUMP)
    assert code_of(lambda: allocated_beside(tmp_path / "m.hlo")) == "HLO-SIDE-FILE"


@pytest.mark.parametrize("form", FORMS)
def test_sources_that_a_kernel_imports(form: str, tmp_path: Path) -> None:
    put(tmp_path / "k.py", form, MAX_SOURCE_BYTES)
    assert code_of(lambda: Modules().open(tmp_path / "k.py")) == "NKI-FILE"


@pytest.mark.parametrize("form", FORMS)
def test_what_a_store_holds(form: str, tmp_path: Path) -> None:
    """Refused with a note, as everything that a store has wrong."""
    store, action = open_store(str(tmp_path)), Action("neff", {"a": form})
    assert store.put(action, {"x": b"content"})
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        put(path, form, MAX_RESULT_BYTES)
        assert store.get(action) is None
        path.unlink()
        path.write_bytes(content)
        store._failures = 0
    assert store.get(action) == {"x": b"content"}
    assert all("HLO-STORE" in note for note in store.notes)


@pytest.mark.parametrize("form", FORMS)
def test_an_embedded_kernel_in_the_cache(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file in the place of the kernel is replaced."""
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path))
    config = BackendConfig(
        "k.klir", ["x"], ["y"], "k", extra_binary={EMBEDDED: pack({"k.klir": b"kernel"})}
    )
    kernel = unpack(config)
    put(kernel, form, MOST_BYTES)
    assert unpack(config).read_bytes() == b"kernel"


def test_an_entry_is_published_without_what_its_links_lead_to(entry: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (entry / "link").symlink_to(tmp_path / "secret")
    assert is_complete(entry)
    store = open_store(str(tmp_path / "store"))
    assert code_of(lambda: publish(store, entry)) == "HLO-KERNEL-PATH"


def test_a_file_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows"
    path.write_bytes(b"1234")
    real = os.fstat

    def grown(handle: int) -> os.stat_result:
        status = real(handle)
        path.write_bytes(b"12345678")
        return status

    monkeypatch.setattr(os, "fstat", grown)
    with pytest.raises(UnfitFileError, match="more than the 4 allowed"):
        read_plain(path, 4)
    assert read_plain(path, 4, truncate=True) == b"1234"


def test_moved_constants_stay_in_the_folder_whatever_the_module_is_called(tmp_path: Path) -> None:
    home = tmp_path / "home"
    module = hlo_tools.load(TEXT)
    module.proto.name = "../../a\0b"
    assert externalize(module, home, threshold=4) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert len(list(home.glob("*.constants/*.npy"))) == 1


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_paths_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    path, kernel = tmp_path / name, with_a_constant()
    acts: dict[str, tuple[str, Callable[[], object]]] = {
        "klir.read": ("NKI-FILE-READ", lambda: klir.read(path)),
        "klir.write": ("NKI-FILE-WRITE", lambda: klir.write(kernel, path)),
        "load": ("HLO-READ", lambda: hlo_tools.load(path)),
        "save": ("HLO-WRITE", lambda: hlo_tools.load(TEXT).save(path)),
        "bundle": (
            "HLO-CACHE-WRITE",
            lambda: write_bundle(path, hlo_tools.load(TEXT).module_bytes(), []),
        ),
        "externalize": (
            "HLO-WRITE",
            lambda: externalize(hlo_tools.load(TEXT), path, threshold=4),
        ),
        "neff.write": ("NEFF-WRITE", lambda: write_neff(addition(), path)),
    }
    codes = {what: code_of(act) for what, (_, act) in acts.items()}
    assert codes == {what: code for what, (code, _) in acts.items()}
