"""Our import-compatible names stand at the end of the import path, whatever is installed when."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REAL = "ORIGIN = 'the real one'\n"


class Environment:
    """A throw-away virtual environment, filled by this interpreter's pip without a network."""

    def __init__(self, folder: Path) -> None:
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        self.python = folder / "bin" / "python"
        self.site = Path(self.run("import sysconfig; print(sysconfig.get_path('purelib'))"))

    def run(self, code: str) -> str:
        done = subprocess.run(
            [self.python, "-I", "-c", code], capture_output=True, text=True, cwd=self.python.parent
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def pip(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def origin(self, name: str) -> Path:
        """The file that ``import name`` would load."""
        code = f"import importlib.util; print(importlib.util.find_spec({name!r}).origin)"
        return Path(self.run(code))

    def add_real_nki(self) -> Path:
        package = self.site / "nki"
        package.mkdir()
        (package / "__init__.py").write_text(REAL)
        return package / "__init__.py"


def build(kind: str, folder: Path) -> Path:
    """A wheel made by the build backend itself: ``build_wheel`` or ``build_editable``."""
    code = f"import hatchling.build as backend; backend.build_{kind}({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind)) for kind in ("wheel", "editable")}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def install(environment: Environment, wheels: dict[str, Path], how: str) -> None:
    environment.pip("install", "--no-deps", "--no-index", "--quiet", str(wheels[how]))


HOW = pytest.mark.parametrize("how", ["wheel", "editable"])


def test_wheel_owns_no_foreign_top_level_name(wheels: dict[str, Path]) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheels["wheel"]).namelist()}
    ours = {"nki_lang", "hlo_tools", "neff", "nki_hlo_compat", "nki_hlo_compat.pth"}
    assert {name for name in names if not name.endswith(".dist-info")} == ours


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_wheel_brings_the_native_library(wheels: dict[str, Path]) -> None:
    library = "neff/device/pjrt/libnkihlo_pjrt.so"
    assert library in zipfile.ZipFile(wheels["wheel"]).namelist()
    assert "-py3-none-linux" in wheels["wheel"].name
    assert library not in zipfile.ZipFile(wheels["editable"]).namelist()


@HOW
def test_ours_serves_when_nothing_else_does(
    environment: Environment, wheels: dict[str, Path], how: str
) -> None:
    install(environment, wheels, how)
    assert environment.origin("nki").parts[-3:] in (
        ("nki_hlo_compat", "nki", "__init__.py"),
        ("compat", "nki", "__init__.py"),
    )


@HOW
def test_compat_is_the_last_entry_of_the_path(
    environment: Environment, wheels: dict[str, Path], how: str
) -> None:
    install(environment, wheels, how)
    last = environment.run("import sys; print(sys.path[-1])")
    assert Path(last).name in ("nki_hlo_compat", "compat")


@HOW
def test_real_nki_installed_before_wins(
    environment: Environment, wheels: dict[str, Path], how: str
) -> None:
    real = environment.add_real_nki()
    install(environment, wheels, how)
    assert environment.origin("nki") == real


@HOW
def test_real_nki_installed_after_wins(
    environment: Environment, wheels: dict[str, Path], how: str
) -> None:
    install(environment, wheels, how)
    real = environment.add_real_nki()
    assert environment.origin("nki") == real


@HOW
def test_uninstalling_ours_leaves_the_real_one_whole(
    environment: Environment, wheels: dict[str, Path], how: str
) -> None:
    install(environment, wheels, how)
    real = environment.add_real_nki()
    environment.pip("uninstall", "--yes", "--quiet", "nki-hlo")
    assert real.read_text() == REAL
    assert environment.run("import nki; print(nki.ORIGIN)") == "the real one"
