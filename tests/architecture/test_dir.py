"""``dir`` and tab completion list the public names of packages that load them lazily."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    ".".join(file.parent.relative_to(ROOT).parts)
    for package in ("nki_lang", "hlo_tools", "neff")
    for file in sorted((ROOT / package).rglob("__init__.py"))
    if "__all__" in file.read_text()
]


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_every_public_name(package: str) -> None:
    module = import_module(package)
    assert set(getattr(module, "__all__", ())) <= set(dir(module))


@pytest.mark.parametrize("package", ["nki_lang", "hlo_tools", "neff"])
def test_the_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
