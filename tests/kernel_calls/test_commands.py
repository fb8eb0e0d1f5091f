"""``nki-hlo kernel embed``, ``swap``, ``replace``, ``expand`` and what ``kernels`` tells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.kernel_calls import describe, embed, prove_equal, swap, take_out
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels.backend_config import decode
from hlo_tools.lint import lint, selected
from tests.kernel_calls.test_kernel_calls import PATTERN

pytestmark = pytest.mark.usefixtures("folder")


def replaced() -> None:
    words = "kernel replace plain.hlo -p pattern.hlo -k scaled_add.klir -o called.hlo"
    assert main(words.split()) == 0


def binaries(path: str) -> set[str]:
    calls = hlo_tools.load(path).find_custom_calls()
    return {decode(call.backend_config).binary for call in calls}


def test_replace_proves_and_names_the_file_relative(capsys: pytest.CaptureFixture[str]) -> None:
    replaced()
    err = capsys.readouterr().err
    assert "2 sub-graphs replaced" in err and "equal on 3 random inputs" in err
    assert binaries("called.hlo") == {"scaled_add.klir"}


def test_replace_by_something_else_is_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    words = "kernel replace plain.hlo -p pattern.hlo -k difference.klir -o no.hlo"
    assert main(words.split()) == 1
    assert "HLO-DIFFERENT" in capsys.readouterr().err and not Path("no.hlo").exists()
    assert main([*words.split(), "--no-prove"]) == 0


def test_pattern_that_is_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.hlo").write_text(PATTERN.replace("constant(2)", "constant(9)"))
    words = "kernel replace plain.hlo -p other.hlo -k scaled_add.klir -o no.hlo"
    assert main(words.split()) == 3
    assert "HLO-NO-MATCH" in capsys.readouterr().err


def test_python_finds_kernels_beside_the_module() -> None:
    replaced()
    module, before = hlo_tools.load("called.hlo"), hlo_tools.load("called.hlo")
    assert describe(module.find_custom_calls()[0]).kernel == "scaled_add"
    assert lint(module, target="trn2", rules=selected(["HLO-L", "NCC_EVRF059"])) == []
    assert len(swap(module, "scaled_add", "scaled_add_again.klir")) == 2
    assert prove_equal(before, module).difference < 1e-6
    assert embed(before) == 2
    assert len(take_out(before, "taken")) == 1
    assert prove_equal(before, module).difference < 1e-6


def test_kernels_tells_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    replaced()
    capsys.readouterr()
    assert main(["kernels", "called.hlo", "--json", "--no-cost"]) == 0
    (call, _) = json.loads(capsys.readouterr().out)["calls"]
    assert call["work"] == {
        "macs": 0, "bytes_read": 65536, "bytes_written": 32768, "instructions": 5,
    }  # fmt: skip
    assert call["target"] == "trn2" and call["embedded"] is False
    assert main(["kernels", "called.hlo", "--no-cost"]) == 0
    assert "65,536 read, 32,768 written" in capsys.readouterr().out


def test_stats_count_the_work_of_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    replaced()
    capsys.readouterr()
    assert main(["stats", "called.hlo", "--json"]) == 0
    (module,) = json.loads(capsys.readouterr().out)["modules"]
    (kernel,) = module["kernels"]
    assert (kernel["name"], kernel["calls"], kernel["macs"]) == ("scaled_add", 2, 0)


def test_embed_and_take_out(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    replaced()
    assert main(["kernel", "embed", "called.hlo", "-o", "whole.hlo"]) == 0
    for path in folder.glob("*.klir*"):
        path.unlink()
    kernels.clear_cache()
    capsys.readouterr()
    assert main(["evaluate", "whole.hlo", "--fill", "random", "--json"]) == 0
    assert main(["kernels", "whole.hlo", "--no-cost"]) == 0
    assert "(embedded)" in capsys.readouterr().out
    assert main(["kernel", "embed", "whole.hlo", "--take-out", "kernels", "-o", "apart.hlo"]) == 0
    (binary,) = binaries("apart.hlo")
    assert (folder / binary).is_file() and binary.startswith("kernels/")
    assert main(["lint", "apart.hlo", "--target", "trn2", "--select", "HLO-L,NCC_EVRF059"]) == 0


def test_swap(capsys: pytest.CaptureFixture[str]) -> None:
    replaced()
    assert (
        main(
            ["kernel", "swap", "called.hlo", "scaled_add", "scaled_add_again.klir", "-o", "new.hlo"]
        )
        == 0
    )
    assert binaries("new.hlo") == {"scaled_add_again.klir"}
    assert (
        main(["kernel", "swap", "called.hlo", "scaled_add", "difference.klir", "-o", "no.hlo"]) == 1
    )
    assert main(["kernel", "swap", "called.hlo", "none", "difference.klir", "-o", "no.hlo"]) == 3
    assert "HLO-NO-KERNEL" in capsys.readouterr().err
    assert main(["kernel", "swap", "called.hlo", "%none", "difference.klir", "-o", "no.hlo"]) == 3
    assert "no kernel call %none\n  help: it has %scaled_add" in capsys.readouterr().err


def test_a_module_takes_its_kernels_along(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into another folder: what it named, and a new version from anywhere."""
    replaced()
    (folder / "versions").mkdir()
    for file in folder.glob("scaled_add_again.klir*"):
        file.rename(folder / "versions" / file.name)
    for name in ("one", "two"):
        (folder / name).mkdir()
    swap = ["kernel", "swap", "called.hlo", "%scaled_add", "versions/scaled_add_again.klir"]
    assert main([*swap, "-o", "one/new.hlo"]) == 0
    assert main(["opt", "called.hlo", "-p", "dce", "-o", "two/new.hlo"]) == 0
    assert not any(os.path.isabs(name) for name in binaries("one/new.hlo"))
    assert len(binaries("one/new.hlo")) == 2
    for name in ("one", "two"):
        (folder / name).rename(folder / f"moved_{name}")
        kernels.clear_cache()
        monkeypatch.setattr("hlo_tools.kernels.location._allowed", set())
        file = f"moved_{name}/new.hlo"
        assert main(["evaluate", file, "--fill", "random", "--json"]) == 0, name
    (folder / "three").mkdir()
    (folder / "three" / "scaled_add.klir").write_bytes(b"another kernel")
    capsys.readouterr()
    assert main(["opt", "called.hlo", "-p", "dce", "-o", "three/new.hlo"]) == 3
    assert "HLO-WRITE" in capsys.readouterr().err
    assert not (folder / "three" / "new.hlo").exists()


def test_expand(capsys: pytest.CaptureFixture[str]) -> None:
    replaced()
    assert (
        main(["kernel", "expand", "called.hlo", "-r", "scaled_add=pattern.hlo", "-o", "back.hlo"])
        == 0
    )
    assert "2 calls expanded" in capsys.readouterr().err
    assert hlo_tools.load("back.hlo").find_custom_calls() == []
    assert main(["kernel", "expand", "called.hlo", "-r", "scaled_add", "-o", "no.hlo"]) == 2
    assert main(["kernel", "expand", "called.hlo", "-r", "other=pattern.hlo", "-o", "no.hlo"]) == 3
