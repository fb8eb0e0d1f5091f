"""Metadata of both distributions, as a package index shows it."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tomllib
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {"nki-hlo": ROOT, "commands": ROOT / "scripts" / "packaging" / "vendor-commands"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module", params=list(PROJECTS))
def metadata(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("metadata")
    code = (
        "import hatchling.build as backend; "
        f"print(backend.prepare_metadata_for_build_editable({str(folder)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECTS[request.param], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return email.message_from_string(next(folder.glob("*/METADATA")).read_text())


def test_the_index_has_all_fields(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    labels = {value.split(", ")[0] for value in metadata.get_all("Project-URL", [])}
    assert labels == {"Repository", "Documentation", "Changelog", "Issues"}
    assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier", [])
    assert metadata["Description-Content-Type"].startswith("text/markdown")


def test_links_of_the_readme_are_absolute_and_name_files(metadata: Message) -> None:
    urls = dict(value.split(", ") for value in metadata.get_all("Project-URL", []))
    text = metadata.get_payload()
    assert isinstance(text, str) and text.startswith("# nki-hlo")
    for link in LINK.findall(text):
        page = re.sub(rf"^{urls['Repository']}/(blob|raw)/main/", "", link)
        assert page != link and (ROOT / page.split("#")[0]).is_file(), link
    assert all("/raw/" in link for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text))


def test_both_have_one_license_and_equal_addresses() -> None:
    projects = [
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in PROJECTS.values()
    ]
    assert projects[0]["urls"] == projects[1]["urls"]
    licenses = {(folder / "LICENSE").read_text() for folder in PROJECTS.values()}
    assert len(licenses) == 1


def test_sarif_names_the_same_repository() -> None:
    text = (ROOT / "hlo_tools" / "cli" / "shared" / "findings.py").read_text()
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert f'_REPOSITORY = "{urls["Repository"]}"' in text
