"""The distribution ``vendor-commands`` beside one of the vendor's that brings the same commands.

The vendor's is made here: its ``neuronx-cc`` prints a line of its own.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.test_packaging import ROOT, Environment, build

COMMANDS = ROOT / "scripts" / "packaging" / "vendor-commands"
THEIRS = "the vendor's compiler"
pytestmark = pytest.mark.slow("four environments")


def build_commands(folder: Path) -> Path:
    code = f"import hatchling.build as backend; backend.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=COMMANDS)
    return next(folder.glob("*.whl"))


def build_vendors(folder: Path) -> Path:
    """A wheel ``neuronx-cc`` with the package ``neuronxcc`` and its command."""
    path = folder / "neuronx_cc-2.22.0-py3-none-any.whl"
    about = "neuronx_cc-2.22.0.dist-info"
    files = {
        "neuronxcc/__init__.py": "",
        "neuronxcc/driver/__init__.py": "",
        "neuronxcc/driver/CommandDriver.py": f"def main():\n    print({THEIRS!r})\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: neuronx-cc\nVersion: 2.22.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": (
            "[console_scripts]\nneuronx-cc = neuronxcc.driver.CommandDriver:main\n"
        ),
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return {
        "nki-hlo": build("wheel", folder),
        "ours": build_commands(tmp_path_factory.mktemp("commands")),
        "theirs": build_vendors(tmp_path_factory.mktemp("vendors")),
    }


@pytest.fixture
def environment(tmp_path: Path, wheels: dict[str, Path]) -> Environment:
    venv = Environment(tmp_path / "environment")
    install(venv, wheels["nki-hlo"])
    # What nki-hlo depends on comes from this environment.
    depends = {str(Path(module.__file__).parents[1]) for module in _dependencies()}
    (venv.site / "dependencies.pth").write_text("\n".join(sorted(depends)))
    return venv


def _dependencies() -> list:
    import google.protobuf
    import ml_dtypes
    import numpy
    import typer

    class _Protobuf:
        __file__ = str(Path(google.protobuf.__file__).parent)

    return [ml_dtypes, numpy, typer, _Protobuf]


def install(environment: Environment, wheel: Path) -> None:
    """A distribution that this environment has too is installed all the same."""
    environment.pip(
        "install", "--ignore-installed", "--no-deps", "--no-index", "--quiet", str(wheel)
    )


def says(environment: Environment, command: str) -> str:
    path = environment.python.parent / command
    if not path.exists():
        return "no such command"
    words = [path, "--version"] if command == "neuronx-cc" else [path, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_alone(environment: Environment, wheels: dict[str, Path]) -> None:
    assert says(environment, "neuronx-cc") == "no such command"
    install(environment, wheels["ours"])
    assert "nki-hlo" in says(environment, "neuronx-cc")
    assert "simulated NeuronCores" in says(environment, "spike-run")
    environment.pip("uninstall", "--yes", "--quiet", "vendor-commands")
    assert says(environment, "neuronx-cc") == "no such command"


@pytest.mark.parametrize("order", [("ours", "theirs"), ("theirs", "ours")])
def test_the_vendors_wins_in_both_orders(
    environment: Environment, wheels: dict[str, Path], order: tuple[str, str]
) -> None:
    for name in order:
        install(environment, wheels[name])
    assert THEIRS in says(environment, "neuronx-cc")
    assert "simulated NeuronCores" in says(environment, "spike-run")
    # pip removes the command with either; what stays is a package whose command is missing.
    environment.pip("uninstall", "--yes", "--quiet", "vendor-commands")
    assert says(environment, "neuronx-cc") == "no such command"
    environment.pip(
        "install", "--no-deps", "--no-index", "--quiet", "--force-reinstall", str(wheels["theirs"])
    )
    assert THEIRS in says(environment, "neuronx-cc")


def test_uninstalling_the_vendors(environment: Environment, wheels: dict[str, Path]) -> None:
    install(environment, wheels["theirs"])
    install(environment, wheels["ours"])
    environment.pip("uninstall", "--yes", "--quiet", "neuronx-cc")
    assert says(environment, "neuronx-cc") == "no such command"
    environment.pip(
        "install", "--no-deps", "--no-index", "--quiet", "--force-reinstall", str(wheels["ours"])
    )
    assert "nki-hlo" in says(environment, "neuronx-cc")
