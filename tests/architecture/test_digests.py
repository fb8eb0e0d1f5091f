"""Extracted modules and built NEFFs keep every byte, unless a change means them to differ.

``golden/digests.json`` holds their SHA-256. A change that moves bytes on purpose renews it with
``pytest tests/architecture/test_digests.py --update`` and says why in its commit.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import hlo_tools
import neff
from hlo_tools.extract import run_script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
DIGESTS = GOLDEN / "digests.json"
TEXTS = sorted(GOLDEN.glob("*.hlo"))
TARGETS = ["trn1", "trn2", "trn3"]

Digests = dict[str, str]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def neff_digests(module: Path, folder: Path) -> Digests:
    """Target -> digest of the NEFF. Without compression: its bytes depend on zlib's version."""
    digests: Digests = {}
    for target in TARGETS:
        program = neff.compile(hlo_tools.load(module), target=target, root=module.parent)
        file = folder / f"{target}.neff"
        neff.write(program, file, compressed=False)
        digests[f"{target}.neff"] = digest(file)
    return digests


def of_text(text: Path, folder: Path) -> Digests:
    module = folder / "module.pb"
    hlo_tools.load(text).save(module)
    return {module.name: digest(module), **neff_digests(text, folder)}


def of_script(script: Path, folder: Path, target: str) -> Digests:
    """Digests of what a script extracts for a target, files under their names in the cache."""
    cache = folder / "cache"
    run = run_script(script, platform=target, output=cache)
    assert run.exit_code == 0
    # Records of extractions name the script's folder, so they differ from machine to machine.
    files = sorted(path for path in cache.glob("[!.]*/**/*") if path.is_file())
    (module,) = (path for path in files if path.suffix == ".pb")
    extracted = {path.relative_to(cache).as_posix(): digest(path) for path in files}
    return {**extracted, **neff_digests(module, folder)}


def check(name: str, digests: Digests, update: bool) -> None:
    golden: dict[str, Digests] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    if update:
        golden[name] = digests
        DIGESTS.write_text(json.dumps(golden, indent=2, sort_keys=True) + "\n")
    assert digests == golden[name]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_modules_and_neffs_of_texts(text: Path, tmp_path: Path, update_golden: bool) -> None:
    check(text.name, of_text(text, tmp_path), update_golden)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_script_extracts(target: str, tmp_path: Path, update_golden: bool) -> None:
    digests = of_script(ROOT / "examples" / "tensor_add.py", tmp_path, target)
    check(f"tensor_add.py for {target}", digests, update_golden)


def test_no_digest_is_left_over() -> None:
    names = {text.name for text in TEXTS} | {f"tensor_add.py for {target}" for target in TARGETS}
    assert set(json.loads(DIGESTS.read_text())) == names
