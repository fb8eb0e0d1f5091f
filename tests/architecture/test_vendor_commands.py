"""The distribution ``nki-hlo-vendor-commands`` beside one of the vendor's that brings the same commands.

The vendor's is made here: its ``neuronx-cc`` prints a line of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.architecture.test_packaging import ROOT, Environment, build

COMMANDS = ROOT / "scripts" / "packaging" / "vendor-commands"
NAME = "nki-hlo-vendor-commands"
THEIRS = "the vendor's compiler"
pytestmark = pytest.mark.slow("four environments")


def build_commands(folder: Path) -> Path:
    code = f"import hatchling.build as backend; backend.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=COMMANDS)
    return next(folder.glob("*.whl"))


def write_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A wheel with these files, whose entry points are the text of ``entry_points.txt``."""
    stem = f"{name.replace('-', '_')}-0.1.0"
    about = f"{stem}.dist-info"
    files = {
        **{key: text for key, text in files.items() if key != "entry_points.txt"},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": files["entry_points.txt"],
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


def build_vendors(folder: Path) -> Path:
    """A wheel ``neuronx-cc`` with the package ``neuronxcc`` and its command."""
    files = {
        "neuronxcc/__init__.py": "",
        "neuronxcc/driver/__init__.py": "",
        "neuronxcc/driver/CommandDriver.py": f"def main():\n    print({THEIRS!r})\n",
        "entry_points.txt": (
            "[console_scripts]\nneuronx-cc = neuronxcc.driver.CommandDriver:main\n"
        ),
    }
    return write_wheel(folder, "neuronx-cc", files)


def build_former(folder: Path) -> Path:
    """Our commands under the distribution's former name, ``vendor-commands``."""
    entries = tomllib.loads((COMMANDS / "pyproject.toml").read_text())["project"]["scripts"]
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    files = {"entry_points.txt": f"[console_scripts]\n{lines}"}
    return write_wheel(folder, "vendor-commands", files)


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
    environment.pip("uninstall", "--yes", "--quiet", NAME)
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
    environment.pip("uninstall", "--yes", "--quiet", NAME)
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


@pytest.mark.parametrize("before", [(), ("former",), ("former", "ours"), ("ours", "former")])
def test_scripts_replace_the_former_name(
    environment: Environment, wheels: dict[str, Path], tmp_path: Path, before: tuple[str, ...]
) -> None:
    """``install_vendor_commands`` leaves one owner of the commands, and the commands."""
    for name in before:
        install(environment, build_former(tmp_path) if name == "former" else wheels[name])
    # This python runs pip on the environment, and takes the folder's wheel for the folder.
    python = tmp_path / "python"
    python.write_text(
        "#!/usr/bin/env bash\nwords=()\n"
        f'for word in "${{@:3}}"; do words+=("${{word/#.*vendor-commands/{wheels["ours"]}}}"); done\n'
        f'exec {sys.executable} -m pip --python {environment.python} "${{words[@]}}"\n'
    )
    python.chmod(0o755)
    script = f". scripts/environment.sh && install_vendor_commands {python}"
    variables = {**os.environ, "PIP_NO_INDEX": "1", "PIP_IGNORE_INSTALLED": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    owners = sorted(path.name for path in environment.site.glob("*vendor_commands*.dist-info"))
    assert owners == ["nki_hlo_vendor_commands-0.1.0.dist-info"]
    assert "nki-hlo" in says(environment, "neuronx-cc")
    assert "simulated NeuronCores" in says(environment, "spike-run")
