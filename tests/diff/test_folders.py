"""Two folders of modules, compared pair by pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_tools import load
from hlo_tools.cli import main
from hlo_tools.diff.folders import fingerprint, pair_files

MODULE = """HloModule {name}
ENTRY e {{
  {x} = f32[8] parameter(0)
  ROOT r = f32[8] {opcode}({x}), metadata={{op_name="{name}"}}
}}
"""


def write(folder: Path, **opcodes: str) -> str:
    """A folder with a module for each opcode; ``__`` in a keyword is a dot."""
    folder.mkdir()
    for name, opcode in opcodes.items():
        text = MODULE.format(name=name, opcode=opcode, x=f"x.{len(folder.name)}")
        (folder / (name.replace("__", ".") + ".txt")).write_text(text)
    return str(folder)


def test_fingerprints_ignore_names_and_metadata() -> None:
    texts = [MODULE.format(name=name, x="x", opcode="tanh").encode() for name in ("f", "g")]
    assert fingerprint(load(texts[0])) == fingerprint(load(texts[1]))
    other_text = MODULE.format(name="f", x="x", opcode="sine").encode()
    assert fingerprint(load(texts[0])) != fingerprint(load(other_text))


def test_files_are_paired_by_path_then_name_then_fingerprint() -> None:
    def keyed(side: str, *paths: str) -> list[tuple[str, str]]:
        return [(path, f"{side}/{path}") for path in paths]

    left = keyed("a", "same.pb", "module_0001.f.txt", "module_0002.f.txt", "module_0003.g.txt")
    right = keyed("b", "same.pb", "module_0007.f.txt", "module_0008.f.txt", "module_0009.h.txt")
    prints = {
        "a/module_0001.f.txt": "1", "a/module_0002.f.txt": "2",
        "b/module_0007.f.txt": "2", "b/module_0008.f.txt": "3",
    }  # fmt: skip
    paired = pair_files(left, right, prints.__getitem__)
    assert paired.pairs == (
        ("a/same.pb", "b/same.pb"),
        ("a/module_0001.f.txt", "b/module_0008.f.txt"),
        ("a/module_0002.f.txt", "b/module_0007.f.txt"),
    )
    assert paired.removed == ("a/module_0003.g.txt",)
    assert paired.added == ("b/module_0009.h.txt",)


def test_keys_of_a_compile_cache_are_no_names() -> None:
    left, right = ("MODULE_12+ab/model.pb", "a"), ("MODULE_34+ab/model.pb", "b")
    assert pair_files([left], [right], str).pairs == (("a", "b"),)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = write(tmp_path / "before", module_1__f="tanh", module_2__g="sine", module_3__k="abs")
    after = write(tmp_path / "after", module_5__f="tanh", module_6__g="cosine", module_7__h="abs")
    assert main(["diff", before, after]) == 1
    text = capsys.readouterr().out
    assert "2 pairs, 1 equal; 1 only before, 1 only after" in text
    assert "module_1.f" not in text
    assert main(["diff", before, after, "--json", "--exit-zero"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["equal"] for row in document["modules"]] == [True, False]
    assert document["modules"][1]["right"].endswith("module_6.g.txt")
    assert [Path(name).name for name in document["removed_files"]] == ["module_3.k.txt"]
    assert main(["diff", before, before]) == 0
    assert "3 pairs, 3 equal" in capsys.readouterr().out


def test_what_cannot_be_read_or_shown_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = write(tmp_path / "before", module_1__f="tanh", module_2__g="sine")
    after = write(tmp_path / "after", module_1__f="tanh", module_2__g="tan(")
    assert main(["diff", before, after]) == 3
    captured = capsys.readouterr()
    assert "1 pair, 1 equal" in captured.out and "module_2.g.txt" in captured.err
    assert main(["diff", before, f"{before}/module_1.f.txt"]) == 2
    assert main(["diff", before, before, "--by", "source"]) == 2
    assert main(["diff", before, before, "--format", "html"]) == 2
