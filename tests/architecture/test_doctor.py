"""The doctor tells ours, the vendor's, placeholders and broken packages apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hlo_tools.doctor import NAMES, Provider, abilities, examine

ROOT = Path(__file__).resolve().parents[2]


def doctor(first: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a folder at the front of the import path."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (first, ROOT, ROOT / "compat")))
    command = [sys.executable, "-m", "hlo_tools.cli", "doctor", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def provider(done: subprocess.CompletedProcess[str], name: str) -> dict[str, str]:
    providers = json.loads(done.stdout)["providers"]
    return next(provider for provider in providers if provider["name"] == name)


def package(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)
    return folder


def test_ours(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json")
    assert done.returncode == 0
    assert provider(done, "nki")["kind"] == "ours"


def test_a_real_package_in_front_is_the_vendors(tmp_path: Path) -> None:
    package(tmp_path, "nki", "def jit(function): return function\n")
    entry = provider(doctor(tmp_path, "--json"), "nki")
    assert entry["kind"] == "vendor"
    assert entry["path"] == str(tmp_path / "nki" / "__init__.py")


def test_a_placeholder_is_named_with_the_remedy(tmp_path: Path) -> None:
    package(tmp_path, "nki", "raise ImportError('WRONG PACKAGE, see the documentation')\n")
    done = doctor(tmp_path, "--json")
    assert done.returncode == 1
    entry = provider(done, "nki")
    assert entry["kind"] == "placeholder"
    assert "pip uninstall nki" in entry["advice"]


def test_a_placeholder_is_known_by_its_version(tmp_path: Path) -> None:
    package(tmp_path, "nkipy", "pass\n")
    metadata = tmp_path / "nkipy-0.0.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: nkipy\nVersion: 0.0.2\n")
    (metadata / "top_level.txt").write_text("nkipy\n")
    (metadata / "RECORD").write_text("nkipy/__init__.py,,\n")
    assert provider(doctor(tmp_path, "--json"), "nkipy")["kind"] == "placeholder"


@pytest.mark.parametrize("name", ["nki", "jax", "torch", "spike"])
def test_the_table_has_a_line_for_each_name(tmp_path: Path, name: str) -> None:
    done = doctor(tmp_path)
    assert any(line.startswith(name) for line in done.stdout.splitlines())


def test_a_missing_ability_says_why(tmp_path: Path) -> None:
    package(tmp_path, "nki", "raise ImportError('WRONG PACKAGE')\n")
    abilities = json.loads(doctor(tmp_path, "--json").stdout)["abilities"]
    numpy = next(ability for ability in abilities if ability["what"] == "kernels with NumPy arrays")
    assert not numpy["works"]
    assert "placeholder" in numpy["reason"]


def test_each_ability_is_told_once_without_torch() -> None:
    providers_by_name = {
        name: Provider(name, "missing" if name == "torch" else "ours") for name in NAMES
    }
    providers_by_name["jax"] = Provider("jax", "framework", "jax", "0.10.0", "")
    providers = list(providers_by_name.values())
    messages = [ability.what for ability in abilities(providers)]
    assert len(messages) == len(set(messages))


def test_a_version_of_jax_that_nobody_tested() -> None:
    providers = {name: Provider(name, "ours") for name in NAMES}
    providers["jax"] = Provider("jax", "framework", "jax", "0.4.38", "")
    by_what = {ability.what: ability for ability in abilities(list(providers.values()))}
    assert not by_what["kernels in JAX scripts"].works
    assert "JAX 0.4.38" in by_what["kernels in JAX scripts"].reason
    assert "pip install 'jax>=0.6'" in by_what["kernels in JAX scripts"].reason


def test_a_version_of_jax_that_is_newer_than_the_tested_ones() -> None:
    providers = {name: Provider(name, "ours") for name in NAMES}
    providers["jax"] = Provider("jax", "framework", "jax", "0.99.0", "")
    messages = [
        ability for ability in abilities(list(providers.values())) if "0.99.0" in ability.what
    ]
    assert [ability.works for ability in messages] == [True]


@pytest.mark.parametrize("name", ["jax", "torch", "torch_xla"])
def test_a_missing_framework_names_an_extra_that_exists(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    extra = re.findall(r"'\.\[(.*)\]'", examine(name).advice)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = " ".join(project["optional-dependencies"][extra[0]])
    assert re.search(rf"\b{name}\b", packages), packages
